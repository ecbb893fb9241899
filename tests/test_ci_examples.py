"""The GitHub action and the GitLab job: their scripts, run as CI would run them, on runs with a known truth."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.recorded_runs import write_run

ROOT = Path(__file__).parents[1]
BASH = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c"]
"""How GitHub runs `shell: bash`."""


STUB = """#!{python}
import json, re, sys
from pathlib import Path

arguments, comments = sys.argv[1:], Path({comments!r})
if {fails}:
    sys.exit("401 Unauthorized")
known = json.loads(comments.read_text())
assert arguments.pop(0) == "api"
place = next(word for word in arguments if word.startswith("repos/"))
body = next((Path(word.removeprefix("body=@")).read_text() for word in arguments if word.startswith("body=@")), None)
if "PATCH" in arguments:
    known[place.rpartition("/")[2]]["body"] = body
elif "POST" in arguments:
    assert place == "repos/shop/shop/issues/7/comments"
    known[str(len(known) + 1)] = {{"login": "github-actions[bot]", "body": body}}
else:
    query = arguments[arguments.index("--jq") + 1]
    login, mark = re.search(r'login == "(.+?)".*startswith."(.+?)"', query).groups()
    for name, comment in known.items():
        if comment["login"] == login and comment["body"].startswith(mark):
            print(name)
comments.write_text(json.dumps(known))
"""
"""The parts of `gh api` that the action uses, on comments in a file."""


def stub(folder: Path, name: str, text: str) -> None:
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)


def post(folder: Path, fails: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the step of the action that posts the verdict."""
    stub(folder, "gh", STUB.format(python=sys.executable, comments=str(folder / "comments.json"), fails=fails))
    step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][-1]
    given = {"GH_TOKEN": "token", "REPOSITORY": "shop/shop", "NUMBER": "7", "NAME": "runs"} | variables
    assert set(step["env"]) == {"GH_TOKEN", "REPOSITORY", "NUMBER", "NAME"}
    workflow = {"GITHUB_WORKFLOW": "ci", "GITHUB_JOB": "judge"}
    path = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        [*BASH, step["run"]],
        env=environ(folder) | workflow | given | path,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def comments(folder: Path) -> list[str]:
    return [comment["body"] for comment in json.loads((folder / "comments.json").read_text()).values()]


def verdict(folder: Path, text: str) -> None:
    (folder / "perf_pipeline").mkdir(exist_ok=True)
    (folder / "perf_pipeline" / "verdict.md").write_text(text)


def test_each_use_of_the_action_keeps_a_comment_of_its_own_up_to_date(tmp_path: Path) -> None:
    others = {"1": {"login": "github-actions[bot]", "body": "coverage 93 %"}}
    (tmp_path / "comments.json").write_text(json.dumps(others))
    for text, name in (("first", "runs"), ("second", "other --> runs"), ("third", "runs")):
        verdict(tmp_path, text)
        done = post(tmp_path, NAME=name)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    coverage, mine, second = comments(tmp_path)
    assert coverage == "coverage 93 %", "the last comment of the same user, but not ours"
    assert mine == "<!-- perf_pipeline: ci/judge/runs -->\nthird"
    assert second == "<!-- perf_pipeline: ci/judge/other_runs -->\nsecond"


def test_a_comment_with_our_mark_from_somebody_else_is_left_alone(tmp_path: Path) -> None:
    forged = {"1": {"login": "somebody", "body": "<!-- perf_pipeline: ci/judge/runs -->\nmine"}}
    (tmp_path / "comments.json").write_text(json.dumps(forged))
    verdict(tmp_path, "verdict")
    assert post(tmp_path).returncode == 0
    assert comments(tmp_path)[0].endswith("mine") and len(comments(tmp_path)) == 2


@pytest.mark.parametrize("judged", [True, False])
def test_a_comment_that_cannot_be_posted_changes_no_exit_code(tmp_path: Path, judged: bool) -> None:
    (tmp_path / "comments.json").write_text("{}")
    if judged:
        verdict(tmp_path, "verdict")
    done = post(tmp_path, fails=judged)
    assert done.returncode == 0
    assert ("::warning::The comment could not be posted" if judged else "::warning::There is no verdict") in done.stdout
    assert comments(tmp_path) == []


def measured(folder: Path, slower: float) -> Path:
    for number, version in enumerate(("1.0.0", "1.1.0")):
        for repeat in range(1, 4):
            factor = slower if version == "1.1.0" else 1.0
            write_run(folder / "runs", f"{version}-browse-r{repeat:02d}", seed=10 * number + repeat, slower=factor)
    return folder / "runs"


def environ(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}  # fmt: skip


def run_action(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "judge")
    given = {
        "RUNS": "runs",
        "BASELINE": "1.0.0",
        "CANDIDATE": "1.1.0",
        "POLICY": "default",
        "REQUIRE_EVIDENCE": "false",
    }
    assert set(step["env"]) == set(given)
    return subprocess.run(
        [*BASH, step["run"]],
        env=environ(folder) | given | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("slower", "code"), [(1.5, 1), (1.0, 0)])
def test_the_action_shows_the_verdict_and_ends_with_its_code(tmp_path: Path, slower: float, code: int) -> None:
    measured(tmp_path, slower)
    done = run_action(tmp_path)
    assert done.returncode == code, done.stderr
    summary = (tmp_path / "summary.md").read_text()
    assert ("regression" in summary) == (code == 1)
    assert f"exit-code={code}\n" in (tmp_path / "output").read_text()
    assert (tmp_path / "perf_pipeline" / "report.html").stat().st_size > 1000
    assert (tmp_path / "perf_pipeline" / "junit.xml").read_text().startswith("<?xml")


def test_the_action_says_what_was_wrong_with_the_input(tmp_path: Path) -> None:
    done = run_action(tmp_path, CANDIDATE="$(touch owned)")
    assert done.returncode == 2
    assert "**No verdict.**" in (tmp_path / "summary.md").read_text()
    assert "runs" in (tmp_path / "summary.md").read_text()
    assert not (tmp_path / "owned").exists()


def test_inputs_never_stand_in_a_script() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), "a name would become part of a command"
    assert {"runs", "baseline", "candidate", "policy", "require-evidence"} <= set(action["inputs"])


def run_gitlab(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    job = yaml.safe_load((ROOT / "examples" / "ci" / "gitlab-ci.yml").read_text())["judge"]
    script = "\n".join(line for line in job["script"] if "pip install" not in line)
    return subprocess.run(
        ["bash", "-e", "-c", script],
        env=environ(folder) | job["variables"] | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("slower", "code"), [(1.5, 1), (1.0, 3)])
def test_the_gitlab_job_ends_with_the_code_of_the_verdict(tmp_path: Path, slower: float, code: int) -> None:
    measured(tmp_path, slower)
    done = run_gitlab(tmp_path)
    assert done.returncode == code, done.stderr
    job = yaml.safe_load((ROOT / "examples" / "ci" / "gitlab-ci.yml").read_text())["judge"]
    for name in [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]:
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.parametrize("fails", [True, False])
def test_a_note_that_cannot_be_posted_changes_no_exit_code(tmp_path: Path, fails: bool) -> None:
    measured(tmp_path, 1.5)
    stub(tmp_path, "curl", f'#!/bin/sh\necho "$*" >>{tmp_path}/posted\nexit {22 if fails else 0}\n')
    merge_request = {
        "CI_MERGE_REQUEST_IID": "7",
        "CI_PROJECT_ID": "1",
        "CI_API_V4_URL": "https://gitlab.example/api/v4",
        "PERF_BOT_TOKEN": "expired",
        "PATH": f"{tmp_path / 'bin'}:{environ(tmp_path)['PATH']}",
    }
    done = run_gitlab(tmp_path, **merge_request)
    assert done.returncode == 1, done.stderr
    assert ("the note could not be posted" in done.stderr) is fails
    assert (
        "body@verdict.md https://gitlab.example/api/v4/projects/1/merge_requests/7/notes"
        in (tmp_path / "posted").read_text()
    )

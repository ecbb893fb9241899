"""The GitHub action and the GitLab job: their scripts, run as CI would run them, on runs with a known truth."""

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


@pytest.mark.parametrize(("slower", "code"), [(1.5, 1), (1.0, 3)])
def test_the_gitlab_job_ends_with_the_code_of_the_verdict(tmp_path: Path, slower: float, code: int) -> None:
    measured(tmp_path, slower)
    job = yaml.safe_load((ROOT / "examples" / "ci" / "gitlab-ci.yml").read_text())["judge"]
    script = "\n".join(line for line in job["script"] if "pip install" not in line)
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env=environ(tmp_path) | job["variables"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    for name in [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]:
        assert (tmp_path / name).stat().st_size > 0

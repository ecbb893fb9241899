"""The command line: answers on stdout, exit codes that mean something, one message and no traceback for bad input."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from perf_pipeline.cli import main
from perf_pipeline.files import project_file
from perf_pipeline.replay.k6 import K6
from tests.recorded_runs import write_run
from tests.test_plan import MINIMAL


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def change_record(run: Path, **fields: object) -> None:
    record = json.loads((run / "run.json").read_text()) | fields
    (run / "run.json").write_text(json.dumps(record))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five repeats of three versions: 2.0.0 is 40 % slower than 1.0.0, and 1.0.1 is the same."""
    folder = tmp_path_factory.mktemp("campaign")
    for number, (version, slower) in enumerate((("1.0.0", 1.0), ("1.0.1", 1.0), ("2.0.0", 1.4))):
        for repeat in range(1, 6):
            seed = 100 * number + repeat
            write_run(folder, f"{version}-browse-r{repeat:02d}", seed=seed, hold_s=6, rate_per_s=60, slower=slower)
    return folder


def test_a_regression_is_found_and_said_by_the_exit_code(campaign: Path) -> None:
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0")
    assert result.exit_code == 1
    assert "regression" in result.output.lower()


def test_the_json_answer_is_valid_against_its_schema(campaign: Path) -> None:
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0", "--json")
    answer = json.loads(result.output)
    jsonschema.validate(answer, json.loads(Path("docs/judgement.schema.json").read_text()))
    assert answer["decision"]["answer"] == "regression"
    assert {"baseline": "1.0.0", "candidate": "2.0.0"}.items() <= answer["comparison"].items()
    worse = {verdict["metric"] for verdict in answer["verdicts"] if verdict["verdict"] == "regression"}
    assert "client_latency" in worse and "upstream_latency" not in worse


def test_versions_that_are_the_same_are_never_called_a_regression(campaign: Path) -> None:
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "1.0.1", "--json")
    assert result.exit_code == 0
    assert json.loads(result.output)["decision"]["answer"] != "regression"


def test_missing_evidence_can_be_made_to_fail(tmp_path: Path) -> None:
    for version in ("1.0.0", "2.0.0"):
        write_run(tmp_path, f"{version}-browse-r01")
    arguments = ("judge", tmp_path, "--baseline", "1.0.0", "--candidate", "2.0.0")
    assert run(*arguments).exit_code == 0
    result = run(*arguments, "--require-evidence")
    assert result.exit_code == 3
    assert "not enough evidence" in result.output.lower()


def test_the_html_report_stands_alone(campaign: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0", "--html", page)
    assert str(page) in result.output.replace("\n", "")
    text = page.read_text()
    assert "2.0.0" in text and "http" + "s://" not in text


@pytest.mark.parametrize("place", ["folder", "file/x.html", "file/x/y.html"])
def test_a_report_that_cannot_be_written_costs_no_judgement(campaign: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    arguments = ("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0", "--json")
    result = run(*arguments, "--html", tmp_path / place)
    assert result.exit_code == 2, "1 would be an answer"
    assert json.loads(result.stdout)["decision"]["answer"] == "regression"
    assert str(tmp_path / place.split("/")[0]) in result.stderr and "->" in result.stderr


def test_one_answer_has_one_form_and_a_folder_has_a_name(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0", "--json", "--markdown")
    assert result.exit_code == 2 and "--json --markdown" in result.output
    monkeypatch.chdir(campaign)
    result = run("judge", ".", "--baseline", "1.0.0", "--candidate", "2.0.0")
    assert f"{campaign.name}: candidate 2.0.0" in result.output


def test_the_command_that_judges_again_can_be_copied(campaign: Path, tmp_path: Path) -> None:
    folder = tmp_path / ("with a space " + "and long " * 10)
    shutil.copytree(campaign, folder)
    result = run("judge", folder, "--baseline", "1.0.0", "--candidate", "2.0.0")
    (line,) = [line for line in result.output.splitlines() if line.startswith("Judge it again: ")]
    words = shlex.split(line.removeprefix("Judge it again: "))
    assert words[1:3] == ["judge", str(folder)] and Path(words[0]).name == "perf-pipeline"


def compared(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> tuple[Result, list[str]]:
    """The result of a `compare` that stops where Dagster would begin, and the flags that it hands on."""
    flags: list[str] = []

    def become(settings: object, comparison: str, given: list[str]) -> None:
        flags.extend(given)

    monkeypatch.setattr("perf_pipeline.orchestration.become_comparison_job", become)
    monkeypatch.setattr("perf_pipeline.replay.k6.find_k6", lambda: K6(Path("/k6"), (1, 1, 0), "a stub"))
    return run("compare", *arguments), flags


def test_compare_can_print_json_and_insist_on_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path))
    monkeypatch.delenv("PERF_PIPELINE_TOKEN_KEY", raising=False)
    (tmp_path / "plan.yaml").write_text(MINIMAL)
    result, flags = compared(monkeypatch, tmp_path / "plan.yaml", "--json", "--require-evidence")
    assert result.exit_code == 0, result.output
    assert flags == ["--json", "--require-evidence", "--exit-by-verdict"]
    assert "k6 v1.1.0, a stub" in result.stderr
    assert (tmp_path / "token_signing_key.pem").exists()


def test_a_key_is_made_only_where_the_environment_names_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path))
    (tmp_path / "plan.yaml").write_text(MINIMAL)
    monkeypatch.setenv("PERF_PIPELINE_TOKEN_KEY_FILE", str(tmp_path / "typo.pem"))
    result, _ = compared(monkeypatch, tmp_path / "plan.yaml")
    assert result.exit_code == 2 and "typo.pem" in result.output
    monkeypatch.setenv("PERF_PIPELINE_TOKEN_KEY", "no key")
    result, _ = compared(monkeypatch, tmp_path / "plan.yaml")
    assert result.exit_code == 2 and "is no Ed25519 private key" in result.output
    assert not list(tmp_path.glob("*.pem"))


@pytest.mark.parametrize("command", ["compare", "demo"])
def test_a_policy_that_cannot_judge_is_refused_before_anything_is_made_or_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def become(*_: object) -> None:
        pytest.fail("it was handed on to be measured")

    monkeypatch.setattr("perf_pipeline.orchestration.become_comparison_job", become)
    monkeypatch.setattr("perf_pipeline.replay.k6.find_k6", lambda: K6(Path("/k6"), (1, 1, 0), "a stub"))
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PERF_PIPELINE_TOKEN_KEY", raising=False)
    policy = project_file("perf_pipeline/gates/policies/default.yaml").read_text() + "surprise: 1\n"
    (tmp_path / "mine.yaml").write_text(policy)
    (tmp_path / "plan.yaml").write_text(MINIMAL + "policy: mine.yaml\n")
    if command == "demo":
        monkeypatch.setenv("PERF_PIPELINE_POLICY", str(tmp_path / "mine.yaml"))
    result = run(command, *([tmp_path / "plan.yaml"] if command == "compare" else []))
    assert result.exit_code == 2
    assert "mine.yaml" in result.output and "surprise: is not a known field" in result.output
    assert not (tmp_path / "home").exists()


def test_a_port_that_is_none_is_refused() -> None:
    result = run("ui", "--port", "99999")
    assert result.exit_code == 2 and "99999 is not in the range" in result.output


def test_the_warehouse_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path))
    (tmp_path / "warehouse.duckdb").write_text("no DuckDB file")
    result = run("warehouse", "rebuild")
    assert result.exit_code == 0 and "warehouse.duckdb: 0 comparisons" in result.output
    assert (tmp_path / "warehouse.duckdb").read_bytes() != b"no DuckDB file"


def test_a_demo_without_its_service_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("demo")
    assert result.exit_code == 2 and "perf-pipeline[demo]" in result.output


def test_a_defect_of_ours_is_no_regression(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("one line")

    monkeypatch.setattr("perf_pipeline.judge.judge_folder", broken)
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0")
    assert result.exit_code == 70
    assert "ZeroDivisionError: one line" in result.output and "Traceback" not in result.output


def test_a_terminal_that_knows_only_ascii_gets_its_answer(campaign: Path) -> None:
    arguments = ["judge", str(campaign), "--baseline", "1.0.0", "--candidate", "2.0.0"]
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", "from perf_pipeline.cli import main; main()", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=ascii_only)
    assert result.returncode == 1, result.stderr
    assert "regression" in result.stdout.lower()


def test_markdown_fits_a_pull_request(campaign: Path) -> None:
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0", "--markdown")
    assert "| client" in result.output or "client" in result.output
    assert result.output.lstrip().startswith("#")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / "k6.csv.gz").unlink(), "k6.csv"),
        (lambda run: (run / "k6.csv.gz").write_bytes((run / "k6.csv.gz").read_bytes()[:-300]), "k6.csv.gz"),
        (lambda run: (run / "run.json").write_text("{"), "run.json"),
        (lambda run: (run / "run.json").write_text("[" * 100_000), "run.json: is not JSON"),
        (lambda run: (run / "run.json").write_text("[]"), "run.json: is not an object"),
        (lambda run: [(run / "run.json").unlink(), (run / "run.json").mkdir()], "run.json: cannot be read"),
        (lambda run: change_record(run, repeat=10**12), "run.json: repeat"),
        (lambda run: change_record(run, hold={"start": 0, "end": 1.8e9}), "a hold is at most a week"),
        (lambda run: change_record(run, version=None), "run.json: version"),
        (lambda run: shutil.copytree(run, run.parent / "copy"), "run_id"),
    ],
    ids=[
        "no k6.csv",
        "truncated gzip",
        "broken record",
        "nested",
        "a list",
        "a folder",
        "repeat",
        "hold",
        "no version",
        "two runs with one id",
    ],
)
def test_a_damaged_run_is_named_with_a_remedy(campaign: Path, tmp_path: Path, damage: object, message: str) -> None:
    folder = shutil.copytree(campaign, tmp_path / "runs")
    damage(folder / "1.0.0-browse-r02")
    result = run("judge", folder, "--baseline", "1.0.0", "--candidate", "2.0.0")
    assert result.exit_code == 2
    assert message in result.output and "1.0.0-browse-r02" in result.output and "->" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("baseline", "candidate", "message"),
    [("1.0.0", "3", "no run is of version 3"), ("1.0.0", "1.0.0", "is also the baseline")],
)
def test_a_question_that_cannot_be_asked_is_refused(
    campaign: Path, baseline: str, candidate: str, message: str
) -> None:
    result = run("judge", campaign, "--baseline", baseline, "--candidate", candidate)
    assert result.exit_code == 2
    assert message in result.output


def test_a_policy_with_an_unknown_key_is_refused(campaign: Path, tmp_path: Path) -> None:
    default = Path("perf_pipeline/gates/policies/default.yaml").read_text()
    policy = tmp_path / "mine.yaml"
    policy.write_text(default + "surprise: 1\n")
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0", "--policy", policy)
    assert result.exit_code == 2
    assert "mine.yaml" in result.output and "surprise: is not a known field" in result.output


def test_an_unknown_policy_names_those_that_there_are(campaign: Path) -> None:
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0", "--policy", "none")
    assert result.exit_code == 2
    assert "built in: default, v2.18" in result.output


def test_a_plan_with_three_errors_shows_all_three(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(MINIMAL.replace("repeats: 5", "repeats: 1").replace("hold_s: 5", "hold: 5"))
    result = run("plan", "check", path)
    assert result.exit_code == 2
    assert result.output.count("plan.yaml:") == 3
    assert "schedule.repeats" in result.output and "load.hold_s: is missing" in result.output


def test_a_plan_and_its_policy_are_checked_together(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    path = tmp_path / "plan.yaml"
    path.write_text(MINIMAL.replace("repeats: 5", "repeats: 1") + "policy: mine.yaml\n")
    result = run("plan", "check", path)
    assert result.exit_code == 2
    assert "schedule.repeats" in result.output and "mine.yaml:1: version: is missing" in result.output
    path.write_text(MINIMAL + "policy: unknown\n")
    assert "policy unknown: is neither a built-in policy" in run("plan", "check", path).output
    path.write_text(MINIMAL)
    assert "70 seconds of load" in run("plan", "check", path).output


def test_an_empty_policy_is_not_sent_to_the_demo_plan(campaign: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    result = run("judge", campaign, "--baseline", "1.0.0", "--candidate", "2.0.0", "--policy", tmp_path / "empty.yaml")
    assert result.exit_code == 2 and "start from a copy of a built-in policy" in result.output


def test_the_demo_plan_is_without_errors() -> None:
    result = run("plan", "check", project_file("examples/demo/plan.yaml"))
    assert result.exit_code == 0, result.output
    assert "no errors" in result.output


def test_the_versions_of_a_plan_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path / "home"))
    plan, source = tmp_path / "plan.yaml", tmp_path / "versions.yaml"
    plan.write_text(MINIMAL + "version_source: {kind: manifest, path: versions.yaml}\n")
    result = run("plan", "versions", plan)
    assert result.exit_code == 2 and "the manifest of versions cannot be read" in result.output
    source.write_text('release: "1.0.0"\nbuilds: ["1.0.1", "1.1.0"]\n')
    assert run("plan", "versions", plan).output == "release 1.0.0; builds 1.0.1, 1.1.0\nto compare: 1.0.0__1.1.0\n"
    source.write_text('release: "1.1.0"\nbuilds: ["1.1.0"]\n')
    assert "no build is newer than the release" in run("plan", "versions", plan).output


def test_the_schema_accepts_the_demo_plan() -> None:
    import yaml

    schema = json.loads(run("plan", "schema").output)
    jsonschema.validate(yaml.safe_load(project_file("examples/demo/plan.yaml").read_text()), schema)


@pytest.mark.parametrize("arguments", [["--candidate", "9.9.9"], ["--candidate", "1.0.0"]])
def test_the_demo_refuses_versions_that_it_cannot_compare(arguments: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", *arguments], env={"PERF_PIPELINE_HOME": str(tmp_path)})
    assert result.exit_code == 2
    assert "->" in result.output


def test_k6_that_is_not_there_is_explained(tmp_path: Path) -> None:
    """In a process of its own, with nothing on PATH and no programs in its Python environment."""
    code = (
        "import sysconfig, perf_pipeline.cli as cli\nsysconfig.get_path = lambda name: '/nowhere'\ncli.main(['demo'])"
    )
    environ = {"PATH": str(tmp_path), "PERF_PIPELINE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert result.returncode == 2, result.stderr
    assert "k6: is neither on PATH" in result.stderr and "->" in result.stderr
    assert "Traceback" not in result.stderr


def test_judging_imports_neither_dagster_nor_kafka(campaign: Path) -> None:
    code = (
        "import sys\nfrom perf_pipeline.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'dagster', 'assets', 'kafka', 'boto3', 'kubernetes'}\n"
        "print('LOADED', sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    arguments = ["judge", str(campaign), "--baseline", "1.0.0", "--candidate", "2.0.0", "--json"]
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=os.environ, check=True
    )
    assert result.stdout.endswith("LOADED []\n")

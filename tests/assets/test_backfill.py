"""Backfills from the command line: ranges, one failure that stops no other, judging again from stored metrics alone."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import comparisons_between, in_order_of_making
from perf_pipeline.errors import InputError
from perf_pipeline.metrics.extract import extract_runs
from perf_pipeline.warehouse import Warehouse
from tests.recorded_runs import write_run
from tests.test_plan import MINIMAL

KEYS = ["1.0.0__1.1.0", "1.1.0__1.2.0", "1.2.0__1.3.0"]
COMMAND = [str(Path(sys.executable).with_name("perf-pipeline")), "backfill"]


@pytest.mark.parametrize(
    ("first", "last", "chosen"), [(None, None, KEYS), (KEYS[1], None, KEYS[1:]), (None, KEYS[0], KEYS[:1])]
)
def test_a_range_includes_its_ends(first: str | None, last: str | None, chosen: list[str]) -> None:
    assert comparisons_between(KEYS, first, last) == chosen


def test_ends_that_are_not_there_are_named_both() -> None:
    with pytest.raises(InputError) as raised:
        comparisons_between(KEYS, "0.1__0.2", "0.2__0.3")
    assert [problem.where for problem in raised.value.problems] == ["--from", "--to"]


def test_stored_comparisons_stand_in_the_order_of_their_making() -> None:
    made = ["1.9.0__1.10.0", "1.10.0__1.11.0", "1.11.0__1.12.0"]
    stored = sorted(["1.10.0__1.11.0", "1.9.0__1.10.0", "0.1__0.2"])
    assert in_order_of_making(stored, made) == ["1.9.0__1.10.0", "1.10.0__1.11.0", "0.1__0.2"]


def measured(home: Path, key: str, slower: float) -> None:
    for number, version in enumerate(key.split("__")):
        for repeat in range(1, 4):
            write_run(
                home / "objects" / "runs" / key,
                f"{version}-browse-r{repeat:02d}",
                seed=10 * number + repeat,
                slower=slower if number else 1.0,
                version=version,
            )


def answer(home: Path, key: str) -> tuple[str, str]:
    judgement = json.loads((home / "objects" / "reports" / key / "judgement.json").read_text())
    return judgement["decision"]["answer"], judgement["policy"]["name"]


@pytest.mark.integration
def test_judging_again_needs_no_run_and_one_failure_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, plan = tmp_path / "home", tmp_path / "plan.yaml"
    plan.write_text(MINIMAL)
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(home))
    measured(home, KEYS[0], slower=1.5)
    measured(home, KEYS[2], slower=1.0)
    script = (
        "import sys, dagster as dg; from assets.materialize import execute;"
        "i = dg.DagsterInstance.get(); i.add_dynamic_partitions('comparison', sys.argv[1:]);"
        "[execute('judge_measured', key, i) for key in sys.argv[1:]]"
    )
    environ = {"PERF_PIPELINE_PLAN": str(plan), "DAGSTER_HOME": str(home / "dagster")}
    (home / "dagster").mkdir(parents=True)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    subprocess.run([sys.executable, "-c", script, KEYS[0], KEYS[2]], check=True, timeout=120)
    assert answer(home, KEYS[0]) == ("regression", "default")
    shutil.rmtree(home / "objects" / "runs")
    store = home / "objects" / "metrics" / KEYS[1]
    store.mkdir()
    (store / "run.parquet").write_bytes(b"PAR1 this is none")

    done = subprocess.run(
        [*COMMAND, str(plan), "--judge-only", "--policy", "v2.18"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stderr
    assert answer(home, KEYS[0]) == ("regression", "v2.18")
    assert answer(home, KEYS[2])[1] == "v2.18"
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    answers = {line[0]: line[1] for line in lines if line[0] in KEYS}
    assert (answers[KEYS[0]], answers[KEYS[1]]) == ("regression", "failed")
    assert "3 of 3  " in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert re.search(r"run.parquet: is damaged: .*\n    -> materialise run_metrics of", done.stderr), "with its remedy"
    assert "client latency" in done.stdout and "client_latency" not in done.stdout
    assert "reports/index.html" in done.stderr

    named = subprocess.run(
        [*COMMAND, str(plan), "--judge-only", "8.0__9.0"], capture_output=True, text=True, timeout=120
    )
    assert named.returncode == 2
    assert "comparison 8.0__9.0: was never measured\n    -> measure it" in named.stderr
    assert "8.0__9.0" not in dg.DagsterInstance.get().get_dynamic_partitions("comparison")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1.0"], "is not <baseline>__<candidate>"),
        (["--policy", "none-such"], "policy none-such"),
        (["--judge-only"], "there is no comparison yet"),
    ],
)
def test_a_wrong_question_ends_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path / "home"))
    plan = tmp_path / "plan.yaml"
    plan.write_text(MINIMAL)
    done = subprocess.run([*COMMAND, str(plan), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.integration
def test_a_store_that_is_away_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, plan = tmp_path / "home", tmp_path / "plan.yaml"
    plan.write_text(MINIMAL)
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(home))
    run = write_run(tmp_path / "runs", "1.0.0-browse-r01", seed=1)
    Warehouse(home / "warehouse.duckdb").replace_comparison(KEYS[0], {"run": extract_runs([run]).run})
    done = subprocess.run([*COMMAND, str(plan), *KEYS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.count("bring the store back") == 1

"""The process that materialises: what it says and how it exits when a comparison cannot be answered."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from assets import materialize, runs
from assets.definitions import defs
from assets.partitions import COMPARISON_PARTITIONS
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.files import project_file
from perf_pipeline.lab import campaign as campaign_module
from perf_pipeline.lab import lock
from perf_pipeline.lab.run import Campaign
from perf_pipeline.lab.run_directory import RunRecord, read_record
from perf_pipeline.replay.k6 import K6
from perf_pipeline.replay.schedule import PlannedRun
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import PLAN, captured, small_plan, store_hour
from tests.recorded_runs import write_run

KEY = "1.0__1.1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a captured hour and the small plan, in which nothing is measured yet."""
    small_plan(tmp_path)
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    monkeypatch.setenv("PERF_PIPELINE_TOKEN_KEY", pem.decode())
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path))
    monkeypatch.setenv("PERF_PIPELINE_PLAN", str(tmp_path / "plan.yaml"))
    for name in ("PERF_PIPELINE_STORE", "PERF_PIPELINE_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(campaign_module, "find_k6", lambda: K6(Path("/k6"), (1, 1, 0), "a stub"))
    monkeypatch.setattr(lock.tempfile, "gettempdir", lambda: str(tmp_path))
    store_hour(LocalObjectStore(tmp_path / "objects"), captured(10))
    (tmp_path / "dagster").mkdir()
    with dg.instance_for_test(temp_dir=str(tmp_path / "dagster")):
        yield tmp_path


def main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["materialize", KEY, *arguments])
    return materialize.main()


def test_a_version_that_never_finishes_a_run_is_named_with_its_failures(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_once(campaign: Campaign, planned: PlannedRun, folder: Path) -> RunRecord:
        failure = "the service ended with 139" if planned.version == "1.1" else None
        shutil.copytree(write_run(home / "recorded", planned.run_id), folder, dirs_exist_ok=True)
        record = read_record(folder).model_copy(
            update={
                "version": planned.version, "scenario": planned.scenario, "plan": campaign.plan.hash,
                "workload": campaign.workload.hash, "status": "failed" if failure else "complete", "failure": failure,
            }
        )  # fmt: skip
        (folder / "run.json").write_text(record.model_dump_json())
        return record

    monkeypatch.setattr(campaign_module, "run_once", run_once)
    assert main(monkeypatch) == 2, "1 would say that it regressed"
    said = capsys.readouterr().err
    assert "no complete run of 1.1 in scenario all; its failures: the service ended with 139 (2 times)" in said
    assert "--fresh" in said and "Traceback" not in said


def test_fresh_leaves_it_to_the_campaign_to_remove_what_was_measured(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalObjectStore(home / "objects")
    store.put(f"runs/{KEY}/r/run.json", b"{}")
    asked: list[object] = []

    def run_campaign(*arguments: object, **_: object) -> None:
        asked.append(arguments[-1])
        raise InputError(Problem("lab", "this machine is measuring", "wait"))

    monkeypatch.setattr(runs, "run_campaign", run_campaign)
    assert [main(monkeypatch, "--fresh"), main(monkeypatch)] == [2, 2]
    assert asked == [True, False]
    assert store.exists(f"runs/{KEY}/r/run.json")


def with_a_policy_that_cannot_judge(home: Path) -> None:
    policy = project_file("perf_pipeline/gates/policies/default.yaml").read_text()
    (home / "mine.yaml").write_text(policy + "surprise: 1\n")
    (home / "plan.yaml").write_text(yaml.safe_dump(PLAN | {"policy": "mine.yaml"}))


def test_a_policy_that_cannot_judge_is_refused_before_the_capture(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_a_policy_that_cannot_judge(home)
    monkeypatch.setattr(materialize, "execute", lambda *_: pytest.fail("a job was started"))
    assert main(monkeypatch) == 2
    assert "surprise: is not a known field" in capsys.readouterr().err


@pytest.mark.parametrize("asset", ["workload", "test_runs"])
def test_a_policy_that_cannot_judge_is_refused_by_each_asset_that_leads_to_a_measurement(
    home: Path, monkeypatch: pytest.MonkeyPatch, asset: str
) -> None:
    with_a_policy_that_cannot_judge(home)
    started: list[object] = []
    monkeypatch.setattr(runs, "freeze_workload", lambda *arguments: started.append(arguments))
    monkeypatch.setattr(runs, "run_campaign", lambda *arguments, **_: started.append(arguments))
    instance = dg.DagsterInstance.get()
    instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [KEY])
    job = defs.resolve_job_def("compare_versions")
    with pytest.raises(InputError, match="surprise: is not a known field"):
        job.execute_in_process(
            instance=instance, partition_key=KEY, asset_selection=[dg.AssetKey(asset)],
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )  # fmt: skip
    assert started == []


@pytest.mark.parametrize("hour", ["2019-12-31-23:00", "2999-01-01-00:00"])
def test_an_hour_that_cannot_be_captured_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hour: str
) -> None:
    (home / "plan.yaml").write_text(yaml.safe_dump(PLAN | {"workload": {"hours": [hour]}}))
    assert main(monkeypatch) == 2
    said = capsys.readouterr().err
    assert f"{hour} is no hour that can be captured" in said and "name hours from 2020-01-01-00:00 to" in said


def test_what_nobody_expected_is_no_answer(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(materialize, "hours_to_capture", broken)
    assert main(monkeypatch) == 70
    assert "ZeroDivisionError: odd" in capsys.readouterr().err


def test_the_answer_can_be_json_and_silence_can_be_made_to_fail(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run_once(campaign: Campaign, planned: PlannedRun, folder: Path) -> RunRecord:
        recorded = write_run(home / "recorded", planned.run_id, seed=planned.position)
        shutil.copytree(recorded, folder, dirs_exist_ok=True)
        record = read_record(folder).model_copy(
            update={
                "version": planned.version, "scenario": planned.scenario, "plan": campaign.plan.hash,
                "workload": campaign.workload.hash,
                "service_digest": campaign.environment.service_digest(planned.version, campaign.plan.scenarios[0]),
            }
        )  # fmt: skip
        (folder / "run.json").write_text(record.model_dump_json())
        return record

    monkeypatch.setattr(campaign_module, "run_once", run_once)
    assert main(monkeypatch, "--exit-by-verdict", "--json", "--require-evidence") == 3
    printed = capfd.readouterr()
    assert json.loads(printed.out)["decision"]["answer"] == "not enough evidence"
    assert "Measuring: 1 of 4 1.0-all-r01" in printed.err or "Measuring: 1 of 4 1.1-all-r01" in printed.err
    assert main(monkeypatch, "--exit-by-verdict") == 0
    printed = capfd.readouterr()
    assert f" compare {home}/plan.yaml --baseline 1.0 --candidate 1.1\n" in printed.out, "on one line, to be copied"
    report = (home / "objects/reports" / KEY / "report.md").read_text()
    assert f" compare {home}/plan.yaml --baseline 1.0 --candidate 1.1\n" in report


def test_a_warehouse_that_cannot_be_written_is_found_before_anything_is_measured(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "folder.duckdb").mkdir()
    monkeypatch.setenv("PERF_PIPELINE_WAREHOUSE", str(home / "folder.duckdb"))
    assert main(monkeypatch) == 2
    said = capsys.readouterr().err
    assert "folder.duckdb: cannot be opened or made" in said and "PERF_PIPELINE_WAREHOUSE" in said
    assert not (home / "objects" / "runs").exists()


def test_an_interruption_while_everything_is_imported_ends_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-P", "-m", "assets", KEY]
    environ = os.environ | {"PERF_PIPELINE_HOME": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr
        next(line for line in process.stderr if "dagster" in line)
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == -signal.SIGINT

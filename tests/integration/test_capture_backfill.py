"""A backfill of hours under a real Dagster daemon: a process for each hour, as a pod would be, and a bound on them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from perf_pipeline.lab.programs import Programs, programs
from tests.access_log_lines import line, plan

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

DAY, DAY_START_S = "2026-11-29", 1_795_910_400
HOURS = int(os.environ.get("PERF_PIPELINE_BACKFILL_HOURS", "5"))
LINES = int(os.environ.get("PERF_PIPELINE_BACKFILL_LINES", "2000"))
AT_ONCE = 2
WAIT_S = 240


@pytest.fixture
def started() -> Iterator[Programs]:
    with programs() as started:
        yield started


def deployment(folder: Path) -> dict[str, str]:
    """The environment of a deployment with a captured day, and bounds on what runs at once."""
    with (folder / "access.log").open("wb") as log:
        for number in range(HOURS * LINES):
            hour, within = divmod(number, LINES)
            written_s = DAY_START_S + 3600 * hour + 60 + within * 3000 // LINES
            log.write(line(rid=f"{number:032x}", msec=f"{written_s}.000", uri=f"/products/{number}") + b"\n")
    captured = plan(topic="access").model_dump(mode="json")
    captured["capture"]["log"] = "access.log"
    (folder / "plan.yaml").write_text(yaml.safe_dump(captured))
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(key)
    home = folder / "dagster"
    home.mkdir()
    limits = {"max_concurrent_runs": 4, "tag_concurrency_limits": [{"key": "dagster/backfill", "limit": AT_ONCE}]}
    (home / "dagster.yaml").write_text(
        yaml.safe_dump({"telemetry": {"enabled": False}, "concurrency": {"runs": limits}})
    )
    return os.environ | {
        "DAGSTER_HOME": str(home),
        "PERF_PIPELINE_HOME": str(folder),
        "PERF_PIPELINE_PLAN": str(folder / "plan.yaml"),
        "PERF_PIPELINE_STORE": str(folder / "objects"),
        "PERF_PIPELINE_TOKEN_KEY_FILE": str(folder / "key.pem"),
    }


def ended(instance: dg.DagsterInstance) -> list[dg.RunRecord]:
    """The records of the runs of all hours, once all have ended."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        records = instance.get_run_records()
        if len(records) == HOURS and all(record.dagster_run.is_finished for record in records):
            return records
        time.sleep(1)
    raise AssertionError([record.dagster_run.status for record in instance.get_run_records()])


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """How many spans of time overlap, at most; one that ends when another begins does not."""
    moments = [(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans]
    running, most = 0, 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most


def test_hours_run_beside_each_other_but_never_more_than_the_bound(started: Programs, tmp_path: Path) -> None:
    environ = deployment(tmp_path)
    arguments = ["-m", "assets.definitions", "-d", str(Path(__file__).parents[2])]
    daemon = [sys.executable, "-m", "dagster._daemon", "run", *arguments]
    with dg.DagsterInstance.from_config(environ["DAGSTER_HOME"]) as instance:
        # Two processes must not make the tables of SQLite at the same time.
        instance.get_run_records()
        instance.all_instigator_state()
        instance.fetch_materializations(dg.AssetKey("replay_requests"), limit=1)
    started.start("daemon", daemon, environ, tmp_path / "daemon.log", tmp_path)
    backfill = ["dagster", "job", "backfill", *arguments, "-j", "capture_traffic", "--noprompt"]
    hours = ["--from", f"{DAY}-00:00", "--to", f"{DAY}-{HOURS - 1:02d}:00"]
    done = subprocess.run(
        [sys.executable, "-m", *backfill, *hours], env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with dg.DagsterInstance.from_config(environ["DAGSTER_HOME"]) as instance:
        records = ended(instance)
        # A run takes its place in the bound when its process is launched.
        stats = [instance.get_run_stats(record.dagster_run.run_id) for record in records]
        spans = [(each.launch_time or 0.0, each.end_time or 0.0) for each in stats]
    assert {record.dagster_run.status for record in records} == {dg.DagsterRunStatus.SUCCESS}
    assert most_at_once(spans) == AT_ONCE
    objects = tmp_path / "objects"
    read = [
        pq.read_metadata(path).num_rows for path in sorted(objects.glob(f"requests/dt={DAY}/hour=*/requests.parquet"))
    ]
    assert read == [LINES] * HOURS
    if os.environ.get("PERF_PIPELINE_BACKFILL_HOURS"):
        spent = [round(end - start, 1) for start, end in spans]
        whole = max(end for _, end in spans) - min(start for start, _ in spans)
        sys.stderr.write(f"\n{HOURS} hours of {LINES} lines, {AT_ONCE} at once: {whole:.0f} s, each {spent}\n")

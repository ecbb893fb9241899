"""Faults of a night, each by doing it: nothing lost, nothing half-written, nothing left running, and a message.

Faults of single parts are in the tests of those parts; a killed `compare` and its going on are in `test_walk`.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.lab import lock
from perf_pipeline.lab.campaign import run_campaign
from perf_pipeline.lab.run_directory import find_runs, read_record
from perf_pipeline.replay.workload import freeze_workload
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import USERS, captured, small_plan, store_hour
from tests.integration.demo_lab import gone
from tests.integration.deployment import Deployment, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

FIRST, SECOND = "1.0.0__1.0.1", "1.0.1__1.1.0"
TOKENS = {user: f"token-{user}" for user in USERS}
COMMAND = str(Path(sys.executable).with_name("perf-pipeline"))


def test_two_deploys_a_cancelled_run_a_killed_one_and_a_daemon_that_is_restarted(deployment: Deployment) -> None:
    deployment.start()
    for number, version in enumerate(["1.0.1", "1.1.0"]):
        deployment.store.put(f"deploys/{number}.json", json.dumps({"version": version}).encode())
    deployment.start_sensor()

    # Both are launched at once, and one of them has the lab.
    until(lambda: len(deployment.runs()) == 2, "a comparison for each deploy")
    assert {run["tags"]["dagster/partition"] for run in deployment.runs()} == {FIRST, SECOND}
    until(lambda: any(map(deployment.records, (FIRST, SECOND))) and deployment.holding(), "the hold of a second run")
    cancelled, other = sorted((FIRST, SECOND), key=lambda key: not deployment.records(key))
    assert not deployment.records(other)
    assert "still under way" in deployment.nightly(time.time())["skipReason"]

    # Cancelled from the UI: nothing of it runs on, what it measured is whole, and the other one has the lab.
    worker = deployment.worker()
    started = {worker.pid, *(child.pid for child in worker.children(recursive=True))}
    deployment.cancel(deployment.run_of(cancelled)["runId"])
    until(lambda: deployment.run_of(cancelled)["status"] == "CANCELED", "the end of the cancelled run")
    assert gone(started)
    kept = deployment.records(cancelled)
    assert 1 <= len(kept) < 4 and len(find_runs(deployment.store.root / "runs" / cancelled)) == len(kept)

    # Killed in a hold: its programs end with it, and Dagster starts it again, which measures what is missing.
    until(lambda: deployment.records(other) and deployment.holding(), "the hold of the other comparison")
    killed, worker = deployment.run_of(other)["runId"], deployment.worker()
    assert worker.pid not in started
    started = {worker.pid, *(child.pid for child in worker.children(recursive=True))}
    worker.kill()
    assert gone(started)
    measured = deployment.records(other)
    until(lambda: deployment.run_of(other)["runId"] != killed, "another try")
    until(lambda: deployment.run_of(other)["status"] in ("SUCCESS", "FAILURE"), "the end of the other try")
    assert deployment.run_of(other)["status"] == "SUCCESS"
    records = deployment.records(other)
    assert len(records) == 4 and measured.items() <= records.items()
    assert deployment.records(cancelled) == kept
    assert deployment.store.exists(f"reports/{other}/report.html")
    assert not list(deployment.home.rglob("objects/**/.partial-*"))
    holds = sorted(
        (record.hold.start, record.hold.end) for record in map(read_record, [p.parent for p in [*records, *kept]])
    )
    assert all(before[1] <= after[0] for before, after in pairwise(holds)), "never two at once"

    # After a restart the sensor looks again and asks for nothing twice.
    ended_s, asked = time.time(), len(deployment.runs())
    deployment.stop()
    deployment.start()
    until(lambda: any(tick["timestamp"] > ended_s for tick in deployment.ticks()), "a tick after the restart")
    assert len(deployment.runs()) == asked == 3
    # The plan's newest version was not compared with its release: that is the night's affair.
    assert [request["runKey"] for request in deployment.nightly(1_796_000_400.0)["runRequests"]] == [
        "1.0.0__1.1.0 2026-11-30"
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a file system of its own cannot be mounted here")
    try:
        yield disk
    finally:
        # Lazily: whatever still has a file open there ends by itself.
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_full_in_a_hold_costs_that_run_and_says_so(tmp_path: Path, small_disk: Path) -> None:
    """Everything is on that disk: the runs, the warehouse and Dagster's own events."""
    made = Deployment(small_disk)
    command = subprocess.Popen(
        [COMMAND, "compare", str(made.plan.path), "--candidate", "1.0.1"], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PERF_PIPELINE_HOME": str(made.home), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    filler = small_disk / "filler"
    try:
        until(
            lambda: command.poll() is not None or (made.records(FIRST) and made.holding()), "the hold of a second run"
        )
        assert command.poll() is None, command.communicate()
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while file.write(bytes(2**16)) == 2**16:
                pass
            file.write(b"0")
        _, said = command.communicate(timeout=240)
    finally:
        command.kill()
        command.wait()
    assert command.returncode == 2, said
    assert "the run could not be written: No space left on device" in said
    assert "make room there" in said and "Traceback" not in said
    runs = find_runs(made.store.root / "runs" / FIRST)
    assert len(runs) == len(made.records(FIRST)) < 4
    assert not list(made.home.rglob(".partial-*"))
    filler.unlink()
    assert all(read_record(run).status == "complete" for run in runs)


@pytest.fixture
def campaign_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalObjectStore:
    """A store with captured requests, and a lab that no other on this machine waits for."""
    monkeypatch.setattr(lock.tempfile, "tempdir", str(tmp_path))
    store = LocalObjectStore(tmp_path / "store")
    store_hour(store, captured(40))
    return store


def other_k6(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put a k6 on PATH that tells its version and does nothing else as it should."""
    (folder / "bin").mkdir()
    program = folder / "bin/k6"
    program.write_text(f'#!/bin/sh\n[ "$1" = version ] && echo k6 v1.1.0 && exit 0\n{body}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def test_a_k6_whose_script_throws_stops_the_campaign_after_three_runs(
    tmp_path: Path, campaign_lab: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_k6(tmp_path, monkeypatch, "echo 'ReferenceError: x is not defined'; exit 107")
    plan = small_plan(tmp_path / "plan")
    with pytest.raises(InputError) as caught:
        run_campaign(campaign_lab, plan, "1.0", "1.1", freeze_workload(campaign_lab, plan), TOKENS, "KEY")
    (problem,) = caught.value.problems
    assert "3 runs in a row failed" in problem.what
    assert "exit code 107: the script threw an exception" in problem.what and "ReferenceError" in problem.what
    assert "read the logs in" in problem.remedy
    records = [read_record(run) for run in find_runs(campaign_lab.root / "runs/1.0__1.1")]
    assert [(record.status, record.k6_exit_code) for record in records] == [("failed", 107)] * 3


def test_a_port_that_is_in_use_is_said_before_anything_runs(tmp_path: Path, campaign_lab: LocalObjectStore) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        service = {"command": ["{python}", "{plan_dir}/serve.py", str(port)], "port": port}
        plan = small_plan(tmp_path / "plan", environment={"service": service})
        workload = freeze_workload(campaign_lab, plan)
        with pytest.raises(InputError, match=f"port {port} is in use\\n    -> stop what listens on port {port}"):
            run_campaign(campaign_lab, plan, "1.0", "1.1", workload, TOKENS, "KEY")
    assert not list(campaign_lab.root.rglob("run.json")) and not list(campaign_lab.root.rglob(".partial-*"))

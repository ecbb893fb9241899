"""The lab with real programs: one short run, a campaign that is ended in every way, and one that goes on."""

import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from perf_pipeline.lab import lock
from perf_pipeline.lab.campaign import run_campaign
from perf_pipeline.lab.local import LocalEnvironment
from perf_pipeline.lab.run import Campaign, run_once
from perf_pipeline.lab.run_directory import find_runs, read_record
from perf_pipeline.metrics.extract import evidence, extract_runs
from perf_pipeline.replay.k6 import find_k6
from perf_pipeline.replay.schedule import schedule_runs
from perf_pipeline.replay.workload import freeze_workload
from perf_pipeline.storage import LocalObjectStore
from tests.integration.demo_lab import demo_store, gone, short_demo_plan, token_source

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PREFIX = "runs/1.0.0__1.0.1"


def demo_campaign(tmp_path: Path) -> tuple[Campaign, list[str]]:
    plan = short_demo_plan(tmp_path / "plan")
    tokens, public_key, issued = token_source(plan)
    workload = freeze_workload(demo_store(tmp_path / "store"), plan)
    environment = LocalEnvironment(plan, public_key)
    return Campaign("1.0.0__1.0.1", plan, workload, environment, find_k6(), tokens), issued


def test_a_run_measures_what_the_plan_names_and_keeps_no_token(tmp_path: Path) -> None:
    campaign, issued = demo_campaign(tmp_path)
    planned = schedule_runs(campaign.plan, "1.0.0", "1.0.1")[0]
    folder = tmp_path / "runs" / planned.run_id
    folder.mkdir(parents=True)
    record = run_once(campaign, planned, folder)
    assert record.status == "complete", record.failure
    assert (folder / "logs/service.log").read_text() == ""

    assert issued
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        assert not any(token.encode() in data or token.split(".")[2].encode() in data for token in issued)

    (found,) = evidence(extract_runs(find_runs(tmp_path / "runs")))
    assert found.failure is None
    # Of a machine that is busy: nothing is lost, and what was not started is told.
    requests = found.metrics["client_latency"].requests
    assert requests + found.dropped_iterations == pytest.approx(240, abs=4)
    assert found.achieved_rate_per_s == pytest.approx(requests / 4, rel=0.02)
    assert requests > 120
    absent = {name for name, sample in found.metrics.items() if getattr(sample, "absent", False)}
    assert absent == {"graphql_error_rate"}
    assert found.metrics["http_error_rate"].errors == 0
    # Between its first and its last scrape the hold is covered but for its edges, and a scrape that came late.
    assert 0.5 * requests < found.metrics["service_latency"].requests <= requests + 70
    assert found.metrics["service_memory"].value > 1e7
    assert min(found.series_density.values()) > 0.5
    assert found.clock_offset is not None and found.clock_offset.low_s < 1 and found.clock_offset.high_s > -1
    assert "k6" in found.environment


def test_a_service_that_is_killed_in_the_hold_leaves_a_failed_run(tmp_path: Path) -> None:
    campaign, _ = demo_campaign(tmp_path)
    planned = schedule_runs(campaign.plan, "1.0.0", "1.0.1")[0]
    folder = tmp_path / "run"
    folder.mkdir()
    log = folder / "logs/k6.log"
    before = {process.pid for process in psutil.Process().children(recursive=True)}  # servers of other tests

    def kill() -> None:
        while not (log.exists() and "hold_start" in log.read_text()):
            time.sleep(0.02)
        for process in psutil.Process().children(recursive=True):
            if any(word.endswith("shop.py") for word in process.cmdline()):
                process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    record = run_once(campaign, planned, folder)
    killer.join()
    # What the service last printed follows where it printed something, such as a scrape that was cut off.
    reason = str(record.failure).partition("; its last lines")[0]
    assert (record.status, reason) == ("failed", "the service ended by signal 9")
    assert record.k6_exit_code == 105, "k6 was stopped from outside and wrote its samples"
    assert gone({process.pid for process in psutil.Process().children(recursive=True)} - before)
    (found,) = evidence(extract_runs([folder]))
    assert found.failure == record.failure


def start_campaign(folder: Path, *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.integration.campaign_process", str(folder), *flags], cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip


def wait_for_holds(campaign: subprocess.Popen[str], folder: Path, runs: int = 1) -> set[int]:
    """Wait until the last of so many runs is in its hold; the pids of all that the campaign has started."""
    while campaign.poll() is None:
        finished = len(list((folder / "store").glob("runs/*/*/run.json")))
        holding = False
        with contextlib.suppress(FileNotFoundError):  # a run that has ended is moved away
            holding = any("hold_start" in log.read_text() for log in (folder / "store").glob(".partial-*/logs/k6.log"))
        if holding and finished == runs - 1:
            return {process.pid for process in psutil.Process(campaign.pid).children(recursive=True)}
        time.sleep(0.05)
    raise AssertionError(campaign.communicate()[1])


def leftovers(folder: Path) -> list[Path]:
    return [*folder.glob("perf_pipeline-replay-*"), *(folder / "store").glob(".partial-*")]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_campaign_that_is_told_to_stop_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    demo_store(tmp_path / "store")
    with start_campaign(tmp_path) as campaign:
        pids = wait_for_holds(campaign, tmp_path)
        assert len(pids) == 4, "service, upstream, k6 and the dead man's switch"
        campaign.send_signal(number)
        # Impatience must not cut the teardown in half.
        time.sleep(0.01)
        campaign.send_signal(number)
        assert campaign.wait(timeout=90) == code
    assert gone(pids)
    assert not leftovers(tmp_path)
    assert not list((tmp_path / "store/runs").rglob("run.json"))


def test_a_campaign_that_is_killed_leaves_no_process_and_no_token(tmp_path: Path) -> None:
    demo_store(tmp_path / "store")
    with start_campaign(tmp_path) as campaign:
        pids = wait_for_holds(campaign, tmp_path)
        assert list(tmp_path.glob("perf_pipeline-replay-*"))
        campaign.kill()
    assert gone(pids)
    assert not list(tmp_path.glob("perf_pipeline-replay-*"))
    assert not list((tmp_path / "store/runs").rglob("run.json"))


def test_a_campaign_in_a_thread_ends_with_the_main_thread(tmp_path: Path) -> None:
    demo_store(tmp_path / "store")
    with start_campaign(tmp_path, "thread") as campaign:
        pids = wait_for_holds(campaign, tmp_path)
        assert campaign.wait(timeout=90) == 0
    assert gone(pids)
    assert not leftovers(tmp_path)


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = demo_store(tmp_path / "store")
    with start_campaign(tmp_path) as campaign:
        wait_for_holds(campaign, tmp_path, runs=2)
        campaign.terminate()
    plan = short_demo_plan(tmp_path / "plan")
    order = [run.run_id for run in schedule_runs(plan, "1.0.0", "1.0.1")]
    folder = store.root / PREFIX
    assert [path.parent.name for path in folder.rglob("run.json")] == order[:1]
    before = (folder / order[0] / "run.json").read_bytes()
    forge_all_but_the_last(store, order)

    monkeypatch.setattr(lock.tempfile, "tempdir", str(tmp_path))
    affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    tokens, public_key, _ = token_source(plan)
    report = run_campaign(store, plan, "1.0.0", "1.0.1", freeze_workload(store, plan), tokens, public_key)
    assert (report.measured, report.found) == (tuple(order[3:]), tuple(order[:3]))
    assert report.failed == {}
    assert (folder / order[0] / "run.json").read_bytes() == before
    assert len(find_runs(folder)) == 4
    if affinity is not None:
        assert os.sched_getaffinity(0) == affinity


def forge_all_but_the_last(store: LocalObjectStore, order: list[str]) -> None:
    """Copies of the first run under the names of others, because measuring takes its time."""
    folder = store.root / PREFIX
    plan = short_demo_plan(store.root.parent / "plan")
    environment = LocalEnvironment(plan, "any key")
    for run_id in order[1:3]:
        shutil.copytree(folder / order[0], folder / run_id)
        record = read_record(folder / run_id).model_dump(mode="json")
        version = run_id.split("-")[0]
        record |= {"run_id": run_id, "version": version}
        record["service_digest"] = environment.service_digest(version, plan.scenarios[0])
        (folder / run_id / "run.json").write_text(json.dumps(record))

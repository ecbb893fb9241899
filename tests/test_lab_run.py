"""The life of a run against a stub k6 that misbehaves: each fault is a failed run with its reason, or an error."""

import csv
import gzip
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.lab import run as run_module
from perf_pipeline.lab.clock import ClockWatch
from perf_pipeline.lab.local import LocalEnvironment
from perf_pipeline.lab.placement import Placement
from perf_pipeline.lab.run import Campaign, _Announcement, run_once
from perf_pipeline.lab.run_directory import RunRecord, find_runs, read_record
from perf_pipeline.metrics.series import load_end, read_series
from perf_pipeline.plan import Plan
from perf_pipeline.plan_metrics import HistogramSource
from perf_pipeline.replay.k6 import K6
from perf_pipeline.replay.schedule import PlannedRun
from perf_pipeline.replay.workload import freeze_workload
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import USERS, captured, small_plan, store_hour

PLANNED = PlannedRun("1.0-all-r01", "1.0", "all", 1, 1, 1, 77)
TOKENS = {user: f"secret-token-{user}" for user in USERS}
STUB = """\
#!{python}
import os, signal, sys, time
csv = os.environ["K6_CSV_FILENAME"]
start = time.time()
lines = ["metric_name,timestamp,metric_value,scenario", f"hold_start,{{start * 1e6:.0f}},{{start * 1e3:.6f}},hold"]
{body}
"""
WRITE = "open(csv, 'w').write('\\n'.join(lines) + '\\n'); print(f'msg=\"hold_start={start * 1e3:.0f}\"', flush=True)\n"


def campaign(tmp_path: Path, body: str, plan: Plan | None = None) -> Campaign:
    """A campaign whose k6 is a Python script with this body."""
    plan = plan or small_plan(tmp_path / "plan")
    store = LocalObjectStore(tmp_path / "store")
    store_hour(store, captured(40))
    stub = tmp_path / "k6"
    stub.write_text(STUB.format(python=sys.executable, body=body))
    stub.chmod(0o755)
    environment = LocalEnvironment(plan, "PUBLIC KEY", Placement())
    k6 = K6(stub, (1, 1, 0), "a stub")
    return Campaign("1.0__1.1", plan, freeze_workload(store, plan), environment, k6, lambda _users, _until_s: TOKENS)


def measure(tmp_path: Path, body: str) -> RunRecord:
    folder = tmp_path / "run"
    folder.mkdir()
    record = run_once(campaign(tmp_path, body), PLANNED, folder)
    assert read_record(folder) == record
    assert find_runs(tmp_path / "run") == [folder]
    return record


def private_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("perf_pipeline-replay-*"))


@pytest.fixture(autouse=True)
def _temporary_files_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another lab on this machine has private folders too."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def test_a_run_directory_says_all_about_the_run(tmp_path: Path) -> None:
    before = private_folders()
    record = measure(tmp_path, WRITE + "time.sleep(0.3)")
    assert record.status == "complete"
    assert record.failure is None
    assert record.k6_exit_code == 0
    assert (record.run_id, record.version, record.scenario, record.repeat) == ("1.0-all-r01", "1.0", "all", 1)
    assert (record.block, record.position, record.seed, record.target_rate_per_s) == (1, 1, 77, 20)
    assert record.hold.seconds == pytest.approx(4)
    assert abs(record.hold.start - time.time()) < 30
    assert record.environment["k6"] == "v1.1.0"
    assert record.comparison == "1.0__1.1"
    assert record.plan and record.workload and record.service_digest
    folder = tmp_path / "run"
    assert {path.name for path in folder.iterdir()} == {"run.json", "k6.csv.gz", "series.csv.gz", "logs"}
    assert {path.name for path in (folder / "logs").iterdir()} == {"k6.log", "service.log"}
    with gzip.open(folder / "series.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert {json.loads(row["labels"])["job"] for row in rows} == {"service", "load"}
    answered = [float(row["value"]) for row in rows if row["name"] == "answered_total"]
    assert answered == sorted(answered)
    assert len(answered) >= 2
    assert private_folders() == before


LOADING = """\
print(f'msg="hold_start={start * 1e3:.0f}"', flush=True)
import json, urllib.request
target = json.load(open(os.environ['REPLAY_CONFIG']))['target']
while time.time() < start + 4:
    urllib.request.urlopen(target + '/b/1').read()
    time.sleep(0.005)
open(csv, 'w').write('\\n'.join(lines) + '\\n')
"""


def last_scrape(run: Path) -> tuple[float, str]:
    """When the service was last scraped, and whether it answered."""
    with gzip.open(run / "series.csv.gz", "rt") as file:
        up = [(float(row["timestamp"]), row["value"]) for row in csv.DictReader(file) if row["name"] == "up"]
    return up[-1]


def test_the_last_scrape_is_so_long_after_the_load_that_its_end_is_seen(tmp_path: Path) -> None:
    plan, ended = small_plan(tmp_path / "plan"), tmp_path / "ended"
    served = (plan.folder / "serve.py").read_text()
    counting = served.replace("TYPE answered counter", "TYPE answered histogram").replace("_total", "_count")
    (plan.folder / "serve.py").write_text(counting)
    folder = tmp_path / "run"
    folder.mkdir()
    note = f"open({str(ended)!r}, 'w').write(str(time.time()))"
    record = run_once(campaign(tmp_path, LOADING + note, plan), PLANNED, folder)
    assert record.status == "complete"
    ended_s, (last_s, up) = float(ended.read_text()), last_scrape(folder)
    assert up == "1.0"
    assert last_s - ended_s >= run_module.AFTER_LOAD_S
    series = read_series(folder / "series.csv.gz", set(), record.hold, {"answered_count"})
    found = load_end(series, HistogramSource(histogram="answered"), record.hold)
    assert isinstance(found, tuple), found
    assert found[0] <= ended_s


def test_a_service_that_ends_after_the_load_takes_nothing_from_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend = run_module._attend

    def attend_and_kill(started: Any, *rest: Any) -> Any:
        answer = attend(started, *rest)
        psutil.Process(started.service.pid).kill()
        return answer

    monkeypatch.setattr(run_module, "_attend", attend_and_kill)
    plan = small_plan(tmp_path / "plan")
    (tmp_path / "run").mkdir()
    record = run_once(campaign(tmp_path, WRITE + "time.sleep(0.3)", plan), PLANNED, tmp_path / "run")
    assert (record.status, last_scrape(tmp_path / "run")[1]) == ("complete", "0.0")


def test_a_run_that_failed_is_not_scraped_any_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "AFTER_LOAD_S", 3600)
    assert measure(tmp_path, WRITE + "sys.exit(109)").status == "failed"


def test_no_token_is_in_anything_that_stays(tmp_path: Path) -> None:
    body = WRITE + "import json\nprint(open(os.environ['REPLAY_CONFIG']).read()[:20], sorted(os.environ))"
    measure(tmp_path, body)
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            assert b"secret-token" not in data


def test_tokens_are_asked_for_the_users_of_the_run_until_its_end(tmp_path: Path) -> None:
    asked: list[Any] = []

    def tokens(users: Any, until_s: float) -> dict[str, str]:
        asked.append((list(users), until_s - time.time()))
        return TOKENS

    made = campaign(tmp_path, WRITE)
    folder = tmp_path / "run"
    folder.mkdir()
    run_once(Campaign(made.comparison, made.plan, made.workload, made.environment, made.k6, tokens), PLANNED, folder)
    ((users, for_s),) = asked
    assert users == sorted(USERS)
    assert 1 + 4 + 5 < for_s < 90


@pytest.mark.parametrize(
    ("body", "code", "failure"),
    [
        (
            "print('cannot'); sys.exit(107)",
            107,
            "exit code 107: the script threw an exception; its last lines:\ncannot",
        ),
        (WRITE + "sys.exit(109)", 109, "k6 ended with exit code 109: k6 itself crashed"),
        (WRITE + "os.kill(os.getpid(), signal.SIGKILL)", -9, "k6 was ended by SIGKILL"),
        ("pass", 0, "k6 ended before the hold began"),
        ("open(csv, 'w').write(lines[0] + '\\n' + lines[1][:12])", 0, "k6 ended before the hold began"),
        ("open(csv, 'w')", 0, "k6 ended before the hold began"),
    ],
)
def test_a_k6_that_fails_makes_a_failed_run_with_its_reason(tmp_path: Path, body: str, code: int, failure: str) -> None:
    record = measure(tmp_path, body)
    assert record.status == "failed"
    assert record.k6_exit_code == code
    assert failure in str(record.failure)
    assert record.hold.end >= record.hold.start


def test_a_k6_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_longest_s", lambda _plan: 0.4)
    record = measure(tmp_path, WRITE + "time.sleep(60)")
    assert "k6 was still running" in str(record.failure)
    assert record.k6_exit_code == -signal.SIGTERM


def test_a_service_that_dies_in_the_hold_makes_a_failed_run(tmp_path: Path) -> None:
    kill = (
        WRITE + "import json, re, urllib.request\n"
        "target = json.load(open(os.environ['REPLAY_CONFIG']))['target']\n"
        "import psutil\n"
        "port = int(target.rpartition(':')[2])\n"
        "victim = next(p for p in psutil.process_iter() if str(port) in p.cmdline() and p.pid != os.getpid())\n"
        "victim.kill()\n"
        "time.sleep(60)"
    )
    began = time.monotonic()
    record = measure(tmp_path, kill)
    # What the service last printed follows where it printed something, such as a scrape that was cut off.
    assert str(record.failure).partition("; its last lines")[0] == "the service ended by signal 9"
    assert record.k6_exit_code == -signal.SIGTERM
    assert time.monotonic() - began < 50


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_whatever_is_raised_in_a_run_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    before = private_folders()
    pids: list[int] = []

    def fail(started: Any, load: Any, *_rest: Any) -> None:
        pids.extend([started.service.pid, load.pid])
        raise error

    monkeypatch.setattr(run_module, "_attend", fail)
    (tmp_path / "run").mkdir()
    with pytest.raises(error):
        run_once(campaign(tmp_path, "time.sleep(60)"), PLANNED, tmp_path / "run")
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert private_folders() == before


def test_a_user_without_a_token_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    before = private_folders()
    made = campaign(tmp_path, WRITE)
    without = Campaign(made.comparison, made.plan, made.workload, made.environment, made.k6, lambda *_: {})
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError, match="2 of the users to replay have none"):
        run_once(without, PLANNED, tmp_path / "run")
    assert private_folders() == before


def service_answering(tmp_path: Path, status: str) -> Plan:
    """A service whose answer to what was captured is this expression; it writes down what it was asked."""
    plan = small_plan(tmp_path / "plan")
    text = (plan.folder / "serve.py").read_text()
    answer = f"send_response(200 if self.path in ('/health', '/metrics') else {status})"
    noted = f"open({str(tmp_path / 'asked')!r}, 'a').write(self.path + '\\n'); "
    text = text.replace("Handler.answered += 1", f"{noted}Handler.answered += 1").replace("send_response(200)", answer)
    (plan.folder / "serve.py").write_text(text)
    return plan


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("401", r"plan.yaml: tokens: the service answers 401 to /b/\d+.*401 \(20 of 20\)\n    -> tokens.issuer"),
        ("302", r"plan.yaml: tokens: the service answers 302 to /b/\d+.*sends to a login.*302 \(20 of 20\)\n"),
        (
            "500",
            r"plan.yaml: environment.service: the service answers 500 to .*500 \(20 of 20\)\n    -> give it the data",
        ),
        (
            "[204, 404][self.answered % 2]",
            r"answers to different requests: (204|404) \(10 of 20\), (204|404) \(10 of 20\)",
        ),
        ("[404, 404, 200][self.answered % 3]", r"404 \(1[34] of 20\), 200 \([67] of 20\)"),
    ],
)
def test_a_service_that_does_not_answer_as_when_it_was_captured_is_an_error_and_no_run(
    tmp_path: Path, status: str, message: str
) -> None:
    plan = service_answering(tmp_path, status)
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError, match=message):
        run_once(campaign(tmp_path, WRITE, plan), PLANNED, tmp_path / "run")
    assert not (tmp_path / "run/run.json").exists()
    asked = [path for path in (tmp_path / "asked").read_text().splitlines() if path.startswith("/b/")]
    assert len(asked) == len(set(asked)) == 20


@pytest.mark.parametrize("status", ["304", "[200, 500, 200][self.answered % 3]"])
def test_a_service_that_answers_most_requests_as_before_is_measured(tmp_path: Path, status: str) -> None:
    (tmp_path / "run").mkdir()
    plan = service_answering(tmp_path, status)
    assert run_once(campaign(tmp_path, WRITE, plan), PLANNED, tmp_path / "run").status == "complete"


def test_requests_of_nobody_need_no_token(tmp_path: Path) -> None:
    made = campaign(tmp_path, WRITE)
    store = LocalObjectStore(tmp_path / "anonymous")
    store_hour(store, captured(20, user=None))
    workload = freeze_workload(store, made.plan)
    (tmp_path / "run").mkdir()
    anonymous = Campaign(made.comparison, made.plan, workload, made.environment, made.k6, lambda *_: {})
    assert run_once(anonymous, PLANNED, tmp_path / "run").status == "complete"


def test_the_announcement_is_read_once_when_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "k6.log"
    announced = _Announcement(log)
    assert announced.read() is None
    log.write_text('time="x" level=info msg="hold_sta')
    assert announced.read() is None
    with log.open("a") as file:
        file.write("rt=17960195")
    assert announced.read() is None
    with log.open("a") as file:
        file.write('68252" source=console\n')
    assert announced.read() == 1796019568.252
    assert announced.read() is None


@pytest.mark.parametrize(
    "body",
    [
        WRITE + "print('level=error msg=\"CSV: Error writing to file\" output=csv', flush=True)",
        WRITE + "open(csv, 'a').write('http_reqs,17960')",
    ],
    ids=["k6 says so", "the last sample is cut off"],
)
def test_samples_that_k6_could_not_write_are_no_run(tmp_path: Path, body: str) -> None:
    """k6 goes on without them when the disk is full, and ends with exit code 0."""
    (tmp_path / "run").mkdir()
    with pytest.raises(OSError, match="No space left") as caught:
        run_once(campaign(tmp_path, body), PLANNED, tmp_path / "run")
    assert caught.value.filename == str(tmp_path / "run/k6.csv")
    assert not (tmp_path / "run/run.json").exists()


def test_a_disk_that_is_full_after_the_load_makes_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    (tmp_path / "run").mkdir()
    with pytest.raises(OSError, match="No space left"):
        run_once(campaign(tmp_path, "sys.exit(255)"), PLANNED, tmp_path / "run")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_scrapes_that_cannot_be_put_aside_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = run_module.collecting

    def on_a_full_disk(folder: Path) -> Any:
        folder.mkdir(parents=True)
        (folder / "service.scrapes").symlink_to("/dev/full")
        return collect(folder)

    monkeypatch.setattr(run_module, "collecting", on_a_full_disk)
    (tmp_path / "run").mkdir()
    with pytest.raises(OSError, match="No space left"):
        run_once(campaign(tmp_path, WRITE + "time.sleep(60)"), PLANNED, tmp_path / "run")


def once_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> str:
    """The body of a stub that begins once the clock is watched, however long the lab takes to get there."""
    watched = tmp_path / "watched"

    def watch() -> ClockWatch:
        clock = ClockWatch()
        watched.touch()
        return clock

    monkeypatch.setattr(run_module, "ClockWatch", watch)
    return f"while not os.path.exists({str(watched)!r}): time.sleep(0.01)\n" + body


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_clock_that_is_set_in_the_hold_makes_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    clock, log = time.time, tmp_path / "run/logs/k6.log"
    monkeypatch.setattr(time, "time", lambda: clock() + (step_s if log.exists() and log.stat().st_size else 0))
    record = measure(tmp_path, once_watched(tmp_path, monkeypatch, WRITE + "time.sleep(60)"))
    assert record.status == "failed"
    assert str(record.failure).startswith(f"the clock of this machine was set by {step_s:+.0f}")
    assert record.k6_exit_code == -signal.SIGTERM


def test_a_clock_that_is_set_back_before_the_hold_leaves_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, log = time.time, tmp_path / "run/logs/k6.log"
    monkeypatch.setattr(time, "time", lambda: clock() - (3600 if log.exists() and log.stat().st_size else 0))
    record = measure(tmp_path, once_watched(tmp_path, monkeypatch, "print('warming up', flush=True); time.sleep(60)"))
    assert "the clock of this machine was set by -3600" in str(record.failure)

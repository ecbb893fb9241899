"""The life of one run: start everything fresh, warm up, hold, measure, take everything down, write the run directory.

What belongs here: the order of these steps and how a run can fail. A run that was disturbed is recorded as failed with
the reason, so that it is neither measured nor silently repeated; a question that was wrong (a service that never
becomes ready, no k6) raises InputError, and a run that was interrupted leaves nothing.
"""

import errno
import gzip
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import requests

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.lab.clock import ClockWatch
from perf_pipeline.lab.collectors import INTERVAL_S, Collectors, collecting, write_series
from perf_pipeline.lab.environment import Environment, Load, Started
from perf_pipeline.lab.interruption import raise_if_abandoned
from perf_pipeline.lab.run_directory import RECORD_NAME, Design, Hold, RunRecord
from perf_pipeline.plan import LOAD_MARGIN_S, Plan
from perf_pipeline.replay.chunks import replay_folder, write_replay
from perf_pipeline.replay.k6 import (
    HOLD_START,
    K6,
    WRITE_ERROR,
    explain_exit,
    k6_command,
    k6_environment,
    read_hold_start,
)
from perf_pipeline.replay.order import request_order
from perf_pipeline.replay.schedule import PlannedRun, derived_seed
from perf_pipeline.replay.workload import Workload

AFTER_LOAD_S = 0.5
"""Seconds from the end of the load to the last scrapes: without load in between they could not tell when it ended."""
_POLL_S = 0.02
_SENT_BEFORE = 20
"""Requests that are sent one after the other before the load."""
_LEAST_FREE_BYTES = 2**20
"""With less space left after the load, whatever was written during it may be cut off."""

TokenSource: TypeAlias = Callable[[Sequence[str], float], Mapping[str, str]]
"""Gives users tokens that outlive a unix time; called before each run, so that none lives longer than it must."""


@dataclass(frozen=True)
class Campaign:
    """What all runs of a comparison have in common."""

    comparison: str
    plan: Plan
    workload: Workload
    environment: Environment
    k6: K6
    tokens: TokenSource


def run_once(campaign: Campaign, planned: PlannedRun, folder: Path) -> RunRecord:
    """Measure one run into an empty folder, which is a run directory afterwards.

    Raises InputError when the run cannot be started as the plan says, and OSError when not all of it could be written.
    Whatever is raised, nothing is left running.
    """
    plan = campaign.plan
    scenario = plan.scenario(planned.scenario)
    logs, csv, scrapes = folder / "logs", folder / "k6.csv", folder / "scrapes"
    captured = campaign.workload.table(scenario.routes)
    set_seed = derived_seed(plan.schedule.seed, scenario.name)
    order = request_order(captured.num_rows, scenario, plan.load, set_seed, planned.seed)
    digest = campaign.environment.service_digest(planned.version, scenario)
    with campaign.environment.started(planned.version, scenario, logs) as started, replay_folder() as private:
        started.remove_if_abandoned(private)
        sent = captured.take(pa.array(order.rows))
        tokens = _tokens(campaign, sent, _longest_s(plan))
        graphql = plan.metrics.graphql_error_rate is not None
        files = write_replay(private, captured, order, tokens, started.service.url, scenario, plan.load, graphql)
        _check_that_requests_are_answered(started.service.url, sent, tokens, plan)
        with collecting(scrapes) as collectors:
            collectors.watch(started.service)
            if started.upstream:
                collectors.watch(started.upstream)
            began_s, began_monotonic_s = time.time(), time.monotonic()
            load = started.start_load(
                k6_command(campaign.k6), k6_environment(files.config, csv, started.load_cpus), logs / "k6.log"
            )
            collectors.watch_load(load.pid)
            code, failure = _attend(started, load, logs / "k6.log", collectors, plan)
            if failure is None:
                time.sleep(AFTER_LOAD_S)
                raise_if_abandoned()
    hold_start_s = read_hold_start(csv)
    _check_that_all_is_written(folder, csv, logs / "k6.log", ended=failure is None and hold_start_s is not None)
    if hold_start_s is None:
        failure = failure or "k6 ended before the hold began"
        hold = Hold(start=began_s, end=began_s + (time.monotonic() - began_monotonic_s))
    else:
        hold = Hold(start=hold_start_s, end=hold_start_s + plan.load.hold_s)
    write_series(scrapes, folder / "series.csv.gz")
    shutil.rmtree(scrapes)
    _compress(csv)
    record = RunRecord(
        run_id=planned.run_id,
        version=planned.version,
        scenario=planned.scenario,
        repeat=planned.repeat,
        target_rate_per_s=scenario.rate_per_s,
        hold=hold,
        comparison=campaign.comparison,
        block=planned.block,
        position=planned.position,
        arm=planned.arm,
        design=Design(looks=plan.schedule.looks, paired=plan.schedule.paired),
        environment=campaign.environment.identity() | {"k6": campaign.k6.version_text},
        service_digest=digest,
        workload=campaign.workload.hash,
        plan=plan.hash,
        seed=planned.seed,
        scrape_interval_s=INTERVAL_S,
        metrics=plan.metrics,
        status="failed" if failure else "complete",
        failure=failure,
        k6_exit_code=code,
    )
    (folder / RECORD_NAME).write_text(record.model_dump_json(indent=2) + "\n")
    return record


def _attend(
    started: Started, load: Load, log: Path, collectors: Collectors, plan: Plan
) -> tuple[int | None, str | None]:
    """Wait for k6, and end it early when there is nothing to measure any more: its exit code, and what went wrong."""
    deadline = time.monotonic() + _longest_s(plan)
    announced, clock = _Announcement(log), ClockWatch()
    while (code := load.exit_code()) is None:
        raise_if_abandoned()
        collectors.raise_if_failed()
        failure = started.failure()
        if failure is None and (step_s := clock.step_s()) is not None:
            failure = f"the clock of this machine was set by {step_s:+.1f} s during the run, or the machine slept"
        if failure is None and time.monotonic() > deadline:
            failure = f"k6 was still running {LOAD_MARGIN_S:g} s after its last request should have ended"
        if failure is not None:
            started.end_load(load)
            return load.exit_code(), failure
        if (hold_start_s := announced.read()) is not None:
            collectors.align(hold_start_s, plan.load.hold_s)
        time.sleep(_POLL_S)
    failure = explain_exit(code)
    if failure is not None:
        failure += f"; its last lines:\n{load.last_lines(5)}"
    return code, started.failure() or failure


class _Announcement:
    """The start of the hold, which the script announces in k6's log at once; its samples come a second later."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read_bytes = 0
        self._text = b""
        self._found = False

    def read(self) -> float | None:
        """The unix time, once; None before and afterwards."""
        if self._found or not self._log.exists() or self._log.stat().st_size == self._read_bytes:
            return None
        with self._log.open("rb") as file:
            file.seek(self._read_bytes)
            self._text = self._text[-64:] + file.read()
            self._read_bytes = file.tell()
        _, marker, rest = self._text.partition(f"{HOLD_START}=".encode())
        digits = rest[: len(rest) - len(rest.lstrip(b"0123456789"))]
        if not marker or len(digits) == len(rest):
            return None
        self._found = True
        return int(digits) / 1000


def _longest_s(plan: Plan) -> float:
    """Seconds within which k6 has certainly ended, unless it hangs."""
    return plan.load.longest_s


def _tokens(campaign: Campaign, sent: pa.Table, for_s: float) -> Mapping[str, str]:
    """A token for each user of the requests that outlives the run."""
    users = sorted(user for user in sent["user"].unique().to_pylist() if user)
    return campaign.tokens(users, time.time() + for_s)


def _check_that_requests_are_answered(url: str, sent: pa.Table, tokens: Mapping[str, str], plan: Plan) -> None:
    """Send some different requests of the run before the load.

    Each was answered with 200 or 304 when it was captured. Raises InputError, naming what came now, unless most are
    again: else both versions would refuse everything, and be found to be equally fast at it.
    """
    rows = {row["uri"]: row for row in sent.select(["uri", "user"]).slice(0, 1000).to_pylist()}
    answers: list[tuple[int, str]] = []
    deadline = time.monotonic() + plan.load.request_timeout_s
    with requests.Session() as session:
        session.trust_env = False
        for uri, row in list(rows.items())[:_SENT_BEFORE]:
            raise_if_abandoned()
            headers = {"X-Load-Test": "perf_pipeline"}
            if row["user"]:
                headers["Authorization"] = f"Bearer {tokens[row['user']]}"
            try:
                with session.get(url + uri, headers=headers, timeout=plan.load.request_timeout_s, stream=True,
                                 allow_redirects=False) as answer:  # fmt: skip
                    answers.append((answer.status_code, uri))
            except requests.RequestException:
                # Whatever is wrong, the run will tell.
                break
            session.cookies.clear()
            if time.monotonic() > deadline:
                break
    others = [(status, uri) for status, uri in answers if status not in (200, 304)]
    if 2 * len(others) < max(1, len(answers)):
        return
    counts = Counter(status for status, _ in answers)
    seen = ", ".join(f"{status} ({count} of {len(answers)})" for status, count in counts.most_common())
    first_status, first_uri = others[0]
    what = f"the service answers {first_status} to {first_uri}, which was answered with 200 or 304 when it was captured"
    if first_status in (401, 403) or 300 <= first_status < 400:
        where, what = "tokens", f"{what}: it does not accept the tokens of the replay, or sends to a login"
        remedy = "tokens.issuer, tokens.audience and the key that the service verifies with have to agree"
    else:
        where, remedy = "environment.service", "give it the data and settings that it had when these were captured"
    raise InputError(Problem(f"{plan.path}: {where}", f"{what}; answers to different requests: {seen}", remedy))


def _check_that_all_is_written(folder: Path, csv: Path, log: Path, ended: bool) -> None:
    """Raise OSError when the disk was full during the load. k6 then leaves out what it cannot write, and ends with 0.

    `ended`: k6 held the load and came to its end, so that its last sample has to be whole too.
    """
    full = shutil.disk_usage(folder).free < _LEAST_FREE_BYTES
    refused = log.exists() and WRITE_ERROR in log.read_bytes()
    if full or refused or (ended and not _ends_with_a_line(csv)):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(csv))


def _ends_with_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1))
        return file.read() in (b"", b"\n")


def _compress(csv: Path) -> None:
    """Compress k6's samples to a fifteenth, for a second per 100 MB, now that nothing is measured any more."""
    if csv.exists():
        with csv.open("rb") as plain, gzip.open(f"{csv}.gz", "wb", compresslevel=1) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
        csv.unlink()

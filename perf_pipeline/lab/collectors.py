"""What is recorded beside k6's own samples: scrapes of the service and its upstream, CPU time, CPU throttling.

What belongs here: scraping on a schedule and, after the run, turning what was scraped into `series.csv.gz`. During the
run a scrape is only put aside as it came; parsing it takes more CPU than fetching it, and nothing may disturb the hold.

Scrapes come every second. Once the hold has started they are moved to its first moment, and one more is made in its
last, so that the growth of a histogram between the first and the last scrape inside the hold covers nearly all of it.
"""

import contextlib
import csv
import errno
import gzip
import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import psutil
import requests
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from perf_pipeline.lab.environment import Endpoint
from perf_pipeline.lab.throttling import find_cpu_stat, read_cpu_stat

INTERVAL_S = 1.0
TIMEOUT_S = 1.0
"""Seconds that a page may take to begin, and then to end."""
PAGE_BYTES = 32 * 2**20
"""A page that is longer, unpacked, counts as none."""
PATIENCE_S = 5.0
"""Seconds that the last scrapes may take, all together, before they are left to themselves."""
EDGE_S = 0.02
"""How far inside the hold its first and its last scrape are."""
CPU_SECONDS = "lab_process_cpu_seconds_total"
PERIODS = "container_cpu_cfs_periods_total"
THROTTLED_PERIODS = "container_cpu_cfs_throttled_periods_total"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Target:
    """What one collector watches."""

    job: str
    metrics_url: str | None
    pid: int | None
    throttling: bool


class Collectors:
    """The collectors of one run, each with a thread of its own, so that a slow page delays no other."""

    def __init__(self, folder: Path) -> None:
        """Put scrapes aside in a folder."""
        self._folder = folder
        self._schedule = _Schedule(time.time())
        self._threads: list[threading.Thread] = []
        self._errors: list[OSError] = []

    def watch(self, endpoint: Endpoint) -> None:
        """Watch a program of the environment from now on."""
        self._start(_Target(endpoint.name, endpoint.metrics_url, endpoint.pid, endpoint.name == "service"))

    def watch_load(self, pid: int | None) -> None:
        """Watch the CPU time of the load generator from now on."""
        if pid is not None:
            self._start(_Target("load", None, pid, throttling=False))

    def align(self, hold_start_s: float, hold_s: float) -> None:
        """Move the scrapes to the hold, which started at this unix time and lasts this many seconds.

        A few more stand close to its end: between them lies the end of the load, which tells the clocks apart.
        """
        end_s = hold_start_s + hold_s
        self._schedule.align(hold_start_s + EDGE_S, [end_s - EDGE_S, end_s + 3 * EDGE_S, end_s + 5 * EDGE_S])

    def finish(self) -> None:
        """Make one last scrape of each, and stop. One that does not end is not waited for: it ends with its program."""
        self._schedule.finish()
        deadline = time.monotonic() + PATIENCE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                _log.warning("%s: its last scrape did not end within %g s", thread.name, PATIENCE_S)

    def raise_if_failed(self) -> None:
        """Raise OSError when a scrape could not be put aside, such as on a full disk."""
        if self._errors:
            raise self._errors[0]

    def _start(self, target: _Target) -> None:
        thread = threading.Thread(target=self._collect, args=(target,), name=f"collector-{target.job}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _collect(self, target: _Target) -> None:
        try:
            _collect(target, self._folder, self._schedule)
        except OSError as error:
            self._errors.append(error)


@contextmanager
def collecting(folder: Path) -> Iterator[Collectors]:
    """Collectors that put their scrapes aside in a folder, and have stopped when the block is left."""
    folder.mkdir(parents=True, exist_ok=True)
    collectors = Collectors(folder)
    try:
        yield collectors
    finally:
        collectors.finish()


def write_series(folder: Path, path: Path) -> int:
    """Write everything that was put aside in the folder as `series.csv.gz`, by time within each job; returns the rows.

    A page that cannot be parsed counts as a scrape that failed (`up` 0): its numbers are not known.
    """
    rows = 0
    with gzip.open(path, "wt", compresslevel=6, newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["timestamp", "name", "labels", "value"])
        for source in sorted(folder.glob("*.scrapes")):
            labels = _LabelTexts(source.stem)
            for time_s, name, sample_labels, value in _samples(source):
                writer.writerow([f"{time_s:.6f}", name, labels.text(sample_labels), repr(value)])
                rows += 1
    return rows


class _Schedule:
    """When to scrape next, shared by all collectors of a run."""

    def __init__(self, anchor_s: float) -> None:
        self._anchor_s = anchor_s
        self._extra_s: Sequence[float] = ()
        self._finished = False
        self._changed = threading.Condition()

    def align(self, anchor_s: float, extra_s: Sequence[float]) -> None:
        with self._changed:
            self._anchor_s, self._extra_s = anchor_s, extra_s
            self._changed.notify_all()

    def finish(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def times(self) -> Iterator[float]:
        """Yield the unix time whenever a scrape is due: at once, then as scheduled, and once more at the end."""
        now_s = time.time()
        yield now_s
        while self._wait(now_s):
            now_s = time.time()
            yield now_s
        yield time.time()

    def next_after(self, time_s: float) -> float:
        """The unix time of the first scrape after a time."""
        ticks = (time_s - self._anchor_s) // INTERVAL_S + 1
        return min([self._anchor_s + ticks * INTERVAL_S, *(extra_s for extra_s in self._extra_s if extra_s > time_s)])

    def _wait(self, last_s: float) -> bool:
        """Wait for the next scrape after the one at `last_s`; False when there are no more."""
        with self._changed:
            while not self._finished:
                remaining = self.next_after(last_s) - time.time()
                if remaining <= 0:
                    return True
                self._changed.wait(remaining)
            return False


def _collect(target: _Target, folder: Path, schedule: _Schedule) -> None:
    """Scrape a target until the schedule ends, and once more then."""
    process = None
    if target.pid is not None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(target.pid)
    cpu_stat = find_cpu_stat(target.pid) if target.throttling and target.pid else None
    # Unbuffered: what a scrape that does not end has put aside before is there to be read, record by record.
    with (folder / f"{target.job}.scrapes").open("wb", buffering=0) as file, requests.Session() as session:
        session.trust_env = False
        for time_s in schedule.times():
            values: dict[str, float] = {}
            if process is not None:
                with contextlib.suppress(psutil.Error):
                    used = process.cpu_times()
                    values[CPU_SECONDS] = used.user + used.system
            if cpu_stat is not None and (counted := read_cpu_stat(cpu_stat)) is not None:
                values[PERIODS], values[THROTTLED_PERIODS] = counted
            page = _fetch(session, target.metrics_url) if target.metrics_url else None
            if target.metrics_url:
                values["up"] = float(page is not None)
            _put_aside(file, time_s, values, page or b"")


def _fetch(session: requests.Session, url: str) -> bytes | None:
    """A page; None when it does not come whole, in time and with status 200."""
    page = bytearray()
    try:
        with session.get(url, timeout=TIMEOUT_S, allow_redirects=False, stream=True) as answer:
            if answer.status_code != 200:
                return None
            # A timeout alone is one of each read: a page that trickles would never end.
            deadline = time.monotonic() + TIMEOUT_S
            while part := answer.raw.read1(1 << 16, decode_content=True):
                page += part
                if len(page) > PAGE_BYTES or time.monotonic() > deadline:
                    return None
    except (requests.RequestException, urllib3.exceptions.HTTPError):
        return None
    return bytes(page)


def _put_aside(file: BinaryIO | FileIO, time_s: float, values: Mapping[str, float], page: bytes) -> None:
    """Append a scrape: a line that says when, what else was read and how long the page is, then the page."""
    record = json.dumps({"time_s": time_s, "values": values, "bytes": len(page)}).encode() + b"\n" + page
    if file.write(record) < len(record):  # as much as a full disk takes, without an error
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _samples(source: Path) -> Iterator[tuple[float, str, Mapping[str, str], float]]:
    """Time, name, labels and value of every sample that was put aside in a file."""
    with source.open("rb") as file:
        for line in file:
            head = json.loads(line)
            page = file.read(head["bytes"])
            values = dict(head["values"])
            samples = []
            try:
                for family in text_string_to_metric_families(page.decode("utf-8")):
                    samples += [(sample.name, sample.labels, float(sample.value)) for sample in family.samples]
            # The parser looks for the end of a label where there is none, and does not call all of it a ValueError.
            except (ValueError, IndexError, KeyError) as error:
                _log.warning("%s: a page that is no Prometheus text was left out: %s", source.stem, error)
                values["up"], samples = 0.0, []
            for name, value in values.items():
                yield head["time_s"], name, {}, value
            for name, labels, value in samples:
                yield head["time_s"], name, labels, value


class _LabelTexts:
    """Labels as JSON text with the job among them, each made once."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._texts: dict[tuple[tuple[str, str], ...], str] = {}

    def text(self, labels: Mapping[str, str]) -> str:
        key = tuple(labels.items())
        if key not in self._texts:
            self._texts[key] = json.dumps({**labels, "job": self._job}, sort_keys=True)
        return self._texts[key]

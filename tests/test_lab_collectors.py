"""Scrapes: on time, put aside as they came, and every one accounted for."""

import contextlib
import csv
import gzip
import http.server
import io
import itertools
import json
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.lab import collectors
from perf_pipeline.lab.collectors import EDGE_S, INTERVAL_S, Collectors, _put_aside, _Schedule, collecting, write_series
from perf_pipeline.lab.environment import Endpoint

PAGE = b"""\
# HELP latency_seconds Latency.
# TYPE latency_seconds histogram
latency_seconds_bucket{le="0.1"} 3.0
latency_seconds_bucket{le="+Inf"} 4.0
latency_seconds_count 4.0
latency_seconds_sum 1.5
# TYPE memory_bytes gauge
memory_bytes{kind="a\\"b"} NaN
"""


def rows(path: Path) -> list[tuple[float, str, dict[str, str], str]]:
    with gzip.open(path, "rt") as file:
        return [
            (float(row["timestamp"]), row["name"], json.loads(row["labels"]), row["value"])
            for row in csv.DictReader(file)
        ]


def scraped(path: Path) -> int:
    return path.read_bytes().count(b'"time_s"')


@pytest.fixture
def page() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = self.path == "/metrics"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(PAGE) if found else 0))
            self.end_headers()
            self.wfile.write(PAGE if found else b"")

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_is_recorded_as_it_was_scraped(tmp_path: Path) -> None:
    folder = tmp_path / "scrapes"
    folder.mkdir()
    with (folder / "service.scrapes").open("wb") as file:
        _put_aside(file, 1000.25, {"up": 1.0}, PAGE)
        _put_aside(file, 1001.25, {"up": 0.0}, b"")
        _put_aside(file, 1002.25, {"up": 1.0}, PAGE)
    assert write_series(folder, tmp_path / "series.csv.gz") == 13
    found = rows(tmp_path / "series.csv.gz")
    first = [row for row in found if row[0] == 1000.25]
    assert first == [
        (1000.25, "up", {"job": "service"}, "1.0"),
        (1000.25, "latency_seconds_bucket", {"job": "service", "le": "0.1"}, "3.0"),
        (1000.25, "latency_seconds_bucket", {"job": "service", "le": "+Inf"}, "4.0"),
        (1000.25, "latency_seconds_count", {"job": "service"}, "4.0"),
        (1000.25, "latency_seconds_sum", {"job": "service"}, "1.5"),
        (1000.25, "memory_bytes", {"job": "service", "kind": 'a"b'}, "nan"),
    ]
    assert [row for row in found if row[0] == 1001.25] == [(1001.25, "up", {"job": "service"}, "0.0")]
    assert len([row for row in found if row[0] == 1002.25]) == len(first)


@pytest.mark.parametrize(
    "text", [b"not a metric page {", b"ok 1\nlatency{ 5\n", b"caf\xe9 1\n", b'a_bucket{le="1", ="y"} 3\n']
)
def test_a_page_that_cannot_be_read_is_a_failed_scrape(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "scrapes"
    folder.mkdir()
    with (folder / "upstream.scrapes").open("wb") as file:
        _put_aside(file, 5.0, {"up": 1.0}, text)
    write_series(folder, tmp_path / "series.csv.gz")
    assert rows(tmp_path / "series.csv.gz") == [(5.0, "up", {"job": "upstream"}, "0.0")]
    assert "no Prometheus text" in caplog.text


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, len(PAGE)), st.integers(0, 3), st.sampled_from('{}",=# \n\\1e+'))))
def test_whatever_a_page_holds_it_is_read_or_a_failed_scrape(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int, str]]
) -> None:
    text = PAGE.decode()
    for place, removed, added in changes:
        text = text[:place] + added + text[place + removed :]
    folder = tmp_path_factory.mktemp("scrapes")
    with (folder / "service.scrapes").open("wb") as file:
        _put_aside(file, 5.0, {"up": 1.0}, text.encode())
    assert write_series(folder, folder / "series.csv.gz") >= 1


class Slow(socketserver.StreamRequestHandler):
    """Sends what its server was told to, with a pause after each piece, until nobody listens."""

    def handle(self) -> None:
        self.rfile.readline()
        with contextlib.suppress(OSError):
            for piece, pause_s in self.server.pieces():
                self.wfile.write(piece)
                time.sleep(pause_s)


@contextlib.contextmanager
def answering(pieces: Callable[[], Iterable[tuple[bytes, float]]]) -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Slow) as server:
        server.pieces, server.daemon_threads, server.block_on_close = pieces, True, False
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        finally:
            server.shutdown()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n"
WAYS = {
    "trickles": lambda: [(HEAD + LENGTH % 10_000, 0), *[(b"a 1\n", 0.1)] * 600],
    "trickles in chunks": lambda: [
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", 0),
        *[(b"4\r\na 1\n\r\n", 0.1)] * 600,
    ],
    "is too long": lambda: [(HEAD + LENGTH % 2**40, 0), *[(b"a 1\n" * 4096, 0)] * 6000],
    "is cut": lambda: [(HEAD + LENGTH % 100, 0), (b"a 1\n", 0)],
    "is no answer": lambda: [(b"\0\0\0", 0)],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_page_that_does_not_come_whole_and_in_time_is_none(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(collectors, "TIMEOUT_S", 30.0 if way == "is too long" else 1.0)
    monkeypatch.setattr(collectors, "PAGE_BYTES", 2**20)
    with answering(WAYS[way]) as url, requests.Session() as session:
        began = time.monotonic()
        assert collectors._fetch(session, url) is None
        assert time.monotonic() - began < 25, "the page itself would take 60 s"


def test_a_page_that_never_ends_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Headers come in pieces that no timeout of ours sees; what was scraped before is there all the same."""
    monkeypatch.setattr(collectors, "PATIENCE_S", 0.2)
    asked = threading.Event()
    scrapes = itertools.count()

    def pieces() -> Iterator[tuple[bytes, float]]:
        if next(scrapes):
            asked.set()
            return iter([(HEAD, 0), *[(b"X-Header: 1\r\n", 0.5)] * 90])
        return iter([(HEAD + b"Connection: close\r\n" + LENGTH % len(PAGE) + PAGE, 0)])

    with answering(pieces) as url:
        with collecting(tmp_path / "scrapes") as watched:
            watched.watch(Endpoint("service", url, url, None))
            assert asked.wait(30)
            began = time.monotonic()
        assert time.monotonic() - began < 20, "the headers take 45 s"
        write_series(tmp_path / "scrapes", tmp_path / "series.csv.gz")
    assert "collector-service: its last scrape did not end within 0.2 s" in caplog.text
    found = rows(tmp_path / "series.csv.gz")
    assert [value for _, name, _, value in found if name == "up"] == ["1.0"]
    assert len(found) == 6


@settings(deadline=None)
@given(
    start=st.floats(1000, 1010),
    hold_s=st.integers(4, 60),
    begun=st.floats(0, 0.99),
)
def test_scrapes_stand_at_both_ends_of_the_hold_and_every_second_between(
    start: float, hold_s: int, begun: float
) -> None:
    watching, schedule = Collectors(Path("none")), _Schedule(990 + begun)
    watching._schedule = schedule
    watching.align(start, hold_s)
    last, times = start, []
    while last < start + hold_s + 1:
        last = schedule.next_after(last) + 1e-4  # a scrape begins a little after it is due
        times.append(last)
    inside = [time for time in times if start <= time <= start + hold_s]
    assert inside[0] - start < 2 * EDGE_S
    assert start + hold_s - inside[-1] < 2 * EDGE_S
    assert max(later - earlier for earlier, later in pairwise(times)) <= INTERVAL_S + 1e-3
    assert len(inside) == hold_s + 1
    after = [time for time in times if start + hold_s < time < start + hold_s + 0.15]
    assert len(after) == 3, "between them lies the end of the load, to within a tenth of a second"


def test_a_program_is_watched_from_start_to_end(tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectors, "INTERVAL_S", 0.1)
    monkeypatch.setattr(collectors, "TIMEOUT_S", 30.0)
    stat = tmp_path / "cpu.stat"
    stat.write_text("nr_periods 8\nnr_throttled 2\n")
    monkeypatch.setattr(collectors, "find_cpu_stat", lambda _pid: stat)
    began = time.time()
    with collecting(tmp_path / "scrapes") as watched:
        watched.watch(Endpoint("service", page, f"{page}/metrics", None))
        watched.watch(Endpoint("upstream", page, f"{page}/other", None))
        watched.watch_load(None)
        watched.watch_load(os.getpid())
        deadline = time.monotonic() + 30
        while len(list(tmp_path.glob("scrapes/*"))) < 3 or scraped(tmp_path / "scrapes/service.scrapes") < 4:
            assert time.monotonic() < deadline, "four scrapes of a page that is there"
            time.sleep(0.02)
    write_series(tmp_path / "scrapes", tmp_path / "series.csv.gz")
    found = rows(tmp_path / "series.csv.gz")
    up = {job: [value for _, name, labels, value in found if name == "up" and labels["job"] == job]
          for job in ("service", "upstream")}  # fmt: skip
    assert len(up["service"]) >= 4
    assert set(up["service"]) == {"1.0"}
    assert set(up["upstream"]) == {"0.0"}
    assert {name for _, name, labels, _ in found if labels["job"] == "load"} == {"lab_process_cpu_seconds_total"}
    assert all(began - 1 < row[0] < time.time() + 1 for row in found)
    names = {name for _, name, labels, _ in found if labels["job"] == "service"}
    assert not any(name.startswith("container_cpu") for name in names), "without a process there is no control group"


def test_throttling_is_recorded_where_a_quota_tells_it(
    tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "cpu.stat"
    stat.write_text("nr_periods 8\nnr_throttled 2\n")
    pid = os.getpid()
    for name, quota in (("with", stat), ("without", None)):
        monkeypatch.setattr(collectors, "find_cpu_stat", lambda _pid, quota=quota: quota)
        with collecting(tmp_path / name) as watched:
            watched.watch(Endpoint("service", page, f"{page}/metrics", pid))
            watched.watch(Endpoint("upstream", page, None, pid))
        write_series(tmp_path / name, tmp_path / f"{name}.csv.gz")
        found = {
            (row[1], row[2]["job"]): row[3]
            for row in rows(tmp_path / f"{name}.csv.gz")
            if row[1].startswith("container")
        }
        expected = {
            ("container_cpu_cfs_periods_total", "service"): "8",
            ("container_cpu_cfs_throttled_periods_total", "service"): "2",
        }
        assert found == (expected if quota else {})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_scrape_that_cannot_be_put_aside_is_told(tmp_path: Path) -> None:
    (tmp_path / "load.scrapes").symlink_to("/dev/full")
    with collecting(tmp_path) as collecting_now:
        collecting_now.raise_if_failed()
        collecting_now.watch_load(os.getpid())
    with pytest.raises(OSError, match="No space left"):
        collecting_now.raise_if_failed()


def test_half_a_scrape_is_none() -> None:
    class NearlyFull(io.BytesIO):
        def write(self, record: Any) -> int:
            return len(record) - 1

    with pytest.raises(OSError, match="No space left"):
        _put_aside(NearlyFull(), 1.0, {"up": 1.0}, b"page")

"""Scrapes: on time, put aside as they came, and every one accounted for."""

import csv
import gzip
import http.server
import json
import os
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.lab import collectors
from perf_pipeline.lab.collectors import EDGE_S, INTERVAL_S, _put_aside, _Schedule, collecting, write_series
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


@pytest.mark.parametrize("text", [b"not a metric page {", b"ok 1\nlatency{ 5\n", b"caf\xe9 1\n"])
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


@settings(deadline=None)
@given(
    start=st.floats(1000, 1010),
    hold_s=st.integers(4, 60),
    begun=st.floats(0, 0.99),
)
def test_scrapes_stand_at_both_ends_of_the_hold_and_every_second_between(
    start: float, hold_s: int, begun: float
) -> None:
    schedule = _Schedule(990 + begun)
    last = start
    schedule.align(start + EDGE_S, start + hold_s - EDGE_S)
    times = []
    while last < start + hold_s + 1:
        last = schedule.next_after(last) + 1e-4  # a scrape begins a little after it is due
        times.append(last)
    inside = [time for time in times if start <= time <= start + hold_s]
    assert inside[0] - start < 2 * EDGE_S
    assert start + hold_s - inside[-1] < 2 * EDGE_S
    assert max(later - earlier for earlier, later in pairwise(times)) <= INTERVAL_S + 1e-3
    assert len(inside) == hold_s + 1


def test_a_program_is_watched_from_start_to_end(tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectors, "INTERVAL_S", 0.1)
    stat = tmp_path / "cpu.stat"
    stat.write_text("nr_periods 8\nnr_throttled 2\n")
    monkeypatch.setattr(collectors, "find_cpu_stat", lambda _pid: stat)
    began = time.time()
    with collecting(tmp_path / "scrapes") as watched:
        watched.watch(Endpoint("service", page, f"{page}/metrics", None))
        watched.watch(Endpoint("upstream", page, f"{page}/other", None))
        watched.watch_load(None)
        watched.watch_load(os.getpid())
        time.sleep(1.5)
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

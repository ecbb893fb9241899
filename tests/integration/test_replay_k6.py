"""Real k6 with replay.js: what reaches the service is what was captured, in order, once, with its user's token."""

import csv
import gzip
import http.server
import json
import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from perf_pipeline.plan import LoadSection, ScenarioSection
from perf_pipeline.replay import chunks
from perf_pipeline.replay import k6 as k6_module
from perf_pipeline.replay.chunks import replay_folder, write_replay
from perf_pipeline.replay.k6 import find_k6, k6_command, k6_environment, read_hold_start
from perf_pipeline.replay.order import request_order

pytestmark = pytest.mark.integration

# Virtual users enough for a machine that is held up, and no more than the warm-up gives a connection to.
LOAD = LoadSection(warmup_s=1, hold_s=4, max_latency_s=0.5)
MORE = 3
"""Iterations that k6 starts beyond those of its duration when its clock is a hair early."""
TOKENS = {f"user-{number}": f"token-of-{number}-" + "x" * 300 for number in range(5)}
GRAPHQL_BODIES = {
    0: '{"data": {"a": 1}}',
    1: '{"data": {"errors": ["a field of that name"]}}',
    2: '{"data": null, "errors": [{"message": "no"}]}',
    3: '--graphql\r\nContent-Type: application/json\r\n\r\n{"data": {}, "hasNext": true}\r\n--graphql\r\n'
    'Content-Type: application/json\r\n\r\n{"incremental": [{"errors": [{"message": "late"}]}]}\r\n--graphql--\r\n',
    4: '{"errors": []}',
    5: 'not JSON, with "errors" in it',
}


class Recorder(http.server.ThreadingHTTPServer):
    """Answers everything and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[str, str, dict[str, str]]] = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def answer(self) -> None:
        self.server.received.append(
            (self.command, self.path, {name.lower(): text for name, text in self.headers.items()})
        )
        number = int(self.path.rpartition("=")[2])
        body = GRAPHQL_BODIES[number % len(GRAPHQL_BODIES)].encode()
        packed = number % 4 == 2 and "gzip" in self.headers.get("accept-encoding", "")
        body = gzip.compress(body) if packed else body
        self.send_response(302 if number % 10 == 9 else 200)
        if number % 10 == 9:
            self.send_header("Location", "/elsewhere?x=1")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Set-Cookie", "session=1; Path=/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_HEAD = do_OPTIONS = answer  # noqa: N815

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    server = Recorder()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def requests(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "uri": [f"/things/{number}%20b?q='\"\\&x={number}" for number in numbers],
            "user": [f"user-{number % 6}" if number % 6 < 5 else None for number in numbers],
            "route": ["/things/{id}" if number % 2 else "/other" for number in numbers],
            "accept_encoding": [None if number % 7 == 6 else "gzip, br" for number in numbers],
        }
    )


def replay(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, rate: int, graphql: bool
) -> list[dict[str, str]]:
    """Run k6 and return its samples; what the order says must have been sent, each as often as it says."""
    table = requests(count)
    scenario = ScenarioSection(name="all", rate_per_s=rate)
    order = request_order(count, scenario, LOAD, 3, 4)
    k6 = find_k6()
    # Places with characters that mean something to k6, to a shell or in a URL.
    odd = tmp_path / "dt=2026-11-30, a b#c%41'd"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    script = odd / "replay.js"
    shutil.copy(k6_module.SCRIPT, script)
    monkeypatch.setattr(k6_module, "SCRIPT", script)
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 130)  # so that requests come from several chunks
    csv_path = odd / "k6.csv"
    with replay_folder() as folder:
        target = f"http://127.0.0.1:{recorder.server_port}"
        files = write_replay(folder, table, order, TOKENS, target, scenario, LOAD, graphql)
        done = subprocess.run(
            k6_command(k6), env=k6_environment(files.config, csv_path, 1), capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    hold_start = read_hold_start(csv_path)
    assert hold_start is not None
    assert f"hold_start={round(hold_start * 1000)}" in printed
    text = csv_path.read_text()
    assert "token-of" not in printed + text
    in_warmup, in_hold = rate * LOAD.warmup_s, rate * LOAD.hold_s
    planned = [order.rows[(order.warmup_from + number) % len(order.rows)] for number in range(in_warmup + MORE)]
    planned += [order.rows[number % len(order.rows)] for number in range(in_hold + MORE)]
    # A machine that is held up starts requests late, out of order or not at all, but never others.
    assert len(recorder.received) >= 0.8 * (in_warmup + in_hold)
    wanted = {row["uri"]: row for row in table.to_pylist()}
    uris = [table["uri"][int(row)].as_py() for row in planned]
    assert not Counter(path for _, path, _ in recorder.received) - Counter(uris)
    assert {path for _, path, _ in recorder.received[:5]} <= set(uris[: in_warmup // 2])
    for method, path, headers in recorder.received:
        assert method == "GET"
        user = wanted[path]["user"]
        assert headers.get("authorization") == (f"Bearer {TOKENS[user]}" if user else None)
        assert headers.get("accept-encoding") == wanted[path]["accept_encoding"]
        assert headers["x-load-test"] == "perf_pipeline"
        assert "cookie" not in headers
        assert headers["host"] == f"127.0.0.1:{recorder.server_port}"
    return list(csv.DictReader(text.splitlines()))


def sequence(recorder: Recorder) -> list[str]:
    return [path.rpartition("&")[2] for _, path, _ in recorder.received]


def test_requests_are_sent_as_captured(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = replay(recorder, tmp_path, monkeypatch, count=400, rate=40, graphql=False)
    durations = [row for row in samples if row["metric_name"] == "http_req_duration"]
    assert {row["name"] for row in durations} == {"/things/{id}", "/other"}
    assert {row["status"] for row in durations} == {"200", "302"}
    per_scenario = Counter(row["scenario"] for row in durations)
    assert 32 <= per_scenario["warmup"] <= 40 + MORE
    assert 130 <= per_scenario["hold"] <= 160 + MORE
    assert "url" not in samples[0]
    names = {row["metric_name"] for row in samples}
    assert {"http_reqs", "http_req_duration", "http_req_failed", "iterations", "hold_start"} <= names
    assert "graphql_errors" not in names
    # The hold works with the connections of the warm-up: none of its own is a part of what is measured.
    connecting = [float(row["metric_value"]) for row in samples
                  if row["metric_name"] == "http_req_connecting" and row["scenario"] == "hold"]  # fmt: skip
    assert sum(value > 0 for value in connecting) <= 10
    micros = int(durations[0]["timestamp"])
    assert micros > 10**15
    vus = {row["metric_value"] for row in samples if row["metric_name"] == "vus_max"}
    assert vus == {"30.000000"}, "both scenarios share the virtual users that were made beforehand"


def test_the_workload_starts_over_and_graphql_errors_are_counted_by_body(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = replay(recorder, tmp_path, monkeypatch, count=30, rate=20, graphql=True)
    rates = [float(row["metric_value"]) for row in samples if row["metric_name"] == "graphql_errors"]
    assert 65 <= len(rates) <= 80 + MORE
    sent = sequence(recorder)[-len(rates) :]
    expected = sum(int(text.removeprefix("x=")) % len(GRAPHQL_BODIES) in (2, 3) for text in sent)
    assert sum(rates) == expected > 0
    assert json.loads(GRAPHQL_BODIES[1])["data"]["errors"], "a field that is called errors is no error"

"""What replaying costs k6: requests/s with replay.js against a one-line script, and against the usual SharedArray.

    .venv/bin/python bench/replay_overhead.py [--rows 200000] [--seconds 4] [--rounds 7]

Each script runs as fast as it can (20 virtual users, no pauses) against the same nginx on loopback, with the CSV output
that every run has. nginx has a CPU of its own where there are two. The ratio is the median of the ratios of each round,
so that a slow moment of the machine meets both sides; CPU time per request is printed beside.

The column compares all with `k6 run` on one line as it comes, which is what a user would start instead. The bound holds
replay.js to 0.85 of it with k6's usual settings on both sides. The lab starts k6 with GOGC=400, because a garbage
collection of the load generator is a pause in what it measures; that helps one line more than it helps replay.js, whose
memory is larger and collected less often, and the ratio with these settings on both sides is printed too.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from perf_pipeline.lab.placement import Cpus, divide_cpus, pinned, usable_cores
from perf_pipeline.plan import LoadSection, ScenarioSection
from perf_pipeline.replay.chunks import write_replay
from perf_pipeline.replay.k6 import SCRIPT, find_k6, k6_command, k6_environment
from perf_pipeline.replay.order import RequestOrder

VUS = 20
USERS = 5_000
URL_PATH = "/products/1234?ref=0123456789abcdef"
BOUND = 0.85
ONE_LINE_NAME, REPLAY_NAME = "one line", "replay.js, as the lab starts it"
USUAL_REPLAY_NAME = "replay.js, with usual settings"
TUNED_ONE_LINE_NAME = "one line, with the lab's settings"

NGINX = """\
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log stderr;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello\\n"; }} }}
}}
"""
OPTIONS = "vus: {vus}, duration: '{seconds}s'"
ONE_LINE = """\
import http from 'k6/http';
export const options = {{ {options} }};
export default () => http.get('{target}{path}');
"""
REPLAY = """\
import {{ hold, options as replayOptions }} from '{script}';
const {{ scenarios, ...kept }} = replayOptions;
export const options = {{ ...kept, {options} }};
export default hold;
"""
SHARED_ARRAY = """\
import http from 'k6/http';
import exec from 'k6/execution';
import {{ SharedArray }} from 'k6/data';
const rows = new SharedArray('rows', () => JSON.parse(open('{rows}')));
export const options = {{ discardResponseBodies: true, maxRedirects: 0, {options} }};
export default function () {{
  const row = rows[exec.scenario.iterationInTest % rows.length];
  const headers = {{ Authorization: row.token, 'Accept-Encoding': row.encoding, 'X-Load-Test': '1' }};
  http.get('{target}' + row.uri, {{ headers, tags: {{ name: row.route }}, timeout: 5000 }});
}}
"""


@dataclass(frozen=True)
class Measured:
    """One execution of k6."""

    requests_per_s: float
    cpu_us: float
    """CPU time of k6 per request, in microseconds."""
    memory_mb: float


def main() -> int:
    """Measure and print; 1 when replaying stays below its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="captured requests (default 200,000)")
    parser.add_argument("--seconds", type=int, default=4, help="seconds of each execution (default 4)")
    parser.add_argument("--rounds", type=int, default=7, help="executions of each script (default 7)")
    arguments = parser.parse_args()
    placement = divide_cpus(usable_cores())
    with tempfile.TemporaryDirectory(prefix="replay-overhead-") as name, nginx(Path(name), placement.service) as target:
        scripts = write_scripts(Path(name), target, arguments.rows, arguments.seconds)
        measured: dict[str, list[Measured]] = {script: [] for script in scripts}
        for number in range(arguments.rounds):
            # The two that are compared run next to each other, and take turns at being first.
            for script in sorted(scripts, reverse=bool(number % 2), key=list(scripts).index):
                path, settings = scripts[script]
                measured[script].append(execute(Path(name), path, placement.load, settings))
    return show(measured, arguments.rows)


@contextmanager
def nginx(folder: Path, cpus: Cpus) -> Iterator[str]:
    """An nginx that answers everything with five bytes; its base URL."""
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        sys.exit("nginx is not installed, and a slower server would measure itself: apt-get install nginx-light")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    with pinned(cpus):
        server = subprocess.Popen([program, "-p", str(folder), "-c", "nginx.conf"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def write_scripts(folder: Path, target: str, rows: int, seconds: int) -> dict[str, tuple[Path, dict[str, str]]]:
    """The scripts and the variables each is started with; requests are as long as the one-line script's."""
    chance = np.random.default_rng(1)
    uris = [f"/products/{number:04d}?ref={mark:016x}" for number, mark in
            zip(chance.integers(0, 9999, rows), chance.integers(0, 2**62, rows), strict=True)]  # fmt: skip
    users = [f"user-{number}" for number in chance.integers(0, USERS, rows)]
    routes = [("/products/{id}", "/products", "/cart")[number] for number in chance.integers(0, 3, rows)]
    tokens = {f"user-{number}": f"{number:05d}" + "x" * 330 for number in range(USERS)}
    table = pa.table({"uri": uris, "user": users, "route": routes, "accept_encoding": ["gzip"] * rows})
    order = RequestOrder(chance.permutation(rows), 0)
    scenario, load = ScenarioSection(name="bench", rate_per_s=1), LoadSection(warmup_s=1, hold_s=4)
    write_replay(folder, table, order, tokens, target, scenario, load)
    (folder / "rows.json").write_text(
        json.dumps(
            [
                {"uri": uri, "token": f"Bearer {tokens[user]}", "route": route, "encoding": "gzip"}
                for uri, user, route in zip(uris, users, routes, strict=True)
            ]
        )
    )
    options = OPTIONS.format(vus=VUS, seconds=seconds)
    texts = {
        "one_line.js": ONE_LINE.format(options=options, target=target, path=URL_PATH),
        "replay.js": REPLAY.format(options=options, script=SCRIPT),
        "shared_array.js": SHARED_ARRAY.format(options=options, target=target, rows=folder / "rows.json"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    as_usual, as_the_lab = {"GOGC": "100"}, dict[str, str]()
    return {
        ONE_LINE_NAME: (folder / "one_line.js", as_usual),
        REPLAY_NAME: (folder / "replay.js", as_the_lab),
        TUNED_ONE_LINE_NAME: (folder / "one_line.js", as_the_lab),
        USUAL_REPLAY_NAME: (folder / "replay.js", as_usual),
        "SharedArray of objects": (folder / "shared_array.js", as_usual),
    }


def execute(folder: Path, script: Path, cpus: Cpus, settings: dict[str, str]) -> Measured:
    """Run k6 once with the script; rates are those from half a second after the first request to the last one."""
    csv = folder / "k6.csv"
    command = [*k6_command(find_k6())[:-1], str(script)]
    variables = k6_environment(folder / "replay.json", csv, len(cpus) if cpus else None) | settings
    log = folder / "k6.log"
    with log.open("wb") as output, pinned(cpus):
        process = psutil.Popen(command, env=variables, stdout=output, stderr=subprocess.STDOUT)
    samples: list[tuple[float, float, int]] = []
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            used = process.cpu_times()
            samples.append((time.time(), used.user + used.system, process.memory_info().rss))
        time.sleep(0.05)
    if process.returncode:
        sys.exit(log.read_text())
    times_s = np.array(re.findall(rb"^http_reqs,(\d+)", csv.read_bytes(), re.MULTILINE), dtype=float) / 1e6
    csv.unlink()
    inside = [sample for sample in samples if times_s.min() + 0.5 <= sample[0] <= times_s.max()]
    (start_s, start_cpu_s, _), (end_s, end_cpu_s, _) = inside[0], inside[-1]
    requests = int(((times_s >= start_s) & (times_s < end_s)).sum())
    return Measured(
        requests_per_s=requests / (end_s - start_s),
        cpu_us=(end_cpu_s - start_cpu_s) / requests * 1e6,
        memory_mb=max(memory for _, _, memory in samples) / 1e6,
    )


def show(measured: dict[str, list[Measured]], rows: int) -> int:
    """Print a line for each script; 1 when the replay is slower than its bound allows."""
    print(f"{rows:,} captured requests, {VUS} virtual users, medians of {len(measured[ONE_LINE_NAME])} rounds")
    print(f"{'script':34} {'requests/s':>10} {'of one line':>12} {'CPU µs/request':>15} {'peak memory MB':>15}")
    base = measured[ONE_LINE_NAME]
    ratios = {}
    for script, found in measured.items():
        rate = statistics.median(one.requests_per_s for one in found)
        pairs = zip(found, base, strict=True)
        ratios[script] = statistics.median(one.requests_per_s / other.requests_per_s for one, other in pairs)
        cpu = statistics.median(one.cpu_us for one in found)
        memory = max(one.memory_mb for one in found)
        print(f"{script:34} {rate:10,.0f} {ratios[script]:12.2f} {cpu:15.0f} {memory:15.0f}")
    pairs = zip(measured[REPLAY_NAME], measured[TUNED_ONE_LINE_NAME], strict=True)
    tuned = statistics.median(one.requests_per_s / other.requests_per_s for one, other in pairs)
    print(f"with the lab's settings on both sides replay.js reaches {tuned:.2f} of the one-line script")
    print(f"with k6's usual settings on both sides {ratios[USUAL_REPLAY_NAME]:.2f}; the bound is {BOUND}")
    return int(ratios[USUAL_REPLAY_NAME] < BOUND)


if __name__ == "__main__":
    sys.exit(main())

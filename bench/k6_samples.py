"""k6 CSV into histograms, against DuckDB reading the same file only to count its rows.

    .venv/bin/python bench/k6_samples.py            # about a minute

Each figure is taken in a process of its own, on one thread: CPU seconds (the best of several, because other work on the
machine only ever adds), rows a second, and peak memory. Targets: at least half of DuckDB's rows a second, and memory
that does not grow with the rows.
"""

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

from perf_pipeline.lab.run_directory import Hold
from perf_pipeline.metrics.k6_samples import read_k6_samples

HEADER = (
    "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,"
    "service,status,subproto,tls_version,url,extra_tags,metadata\n"
)
ROUTES = ("/products", "/products/{id}", "/products/{id}/reviews", "/search", "/cart")
START_S = 1_796_000_000.0
HOLD_S, WARM_UP_S = 120, 30
READERS = ("histograms", "count")


def write_k6_csv(path: Path, rows: int, seed: int = 1, slower: float = 1.0) -> int:
    """Write about so many rows as k6 does, nine a request in order of their end; return how many."""
    rng = np.random.default_rng(seed)
    requests = rows // 9
    start_s = START_S - WARM_UP_S + np.arange(requests) * (WARM_UP_S + HOLD_S) / requests
    latency_ms = slower * rng.lognormal(1.2, 0.6, requests)
    stamp_us = ((start_s + latency_ms / 1000) * 1e6).astype(np.int64)
    failed = rng.random(requests) < 0.005
    route = rng.integers(0, len(ROUTES), requests)
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        for n in range(requests):
            name, ms, bad = ROUTES[route[n]], latency_ms[n], failed[n]
            scenario, status = "hold" if start_s[n] >= START_S else "warmup", "503" if bad else "200"
            tail = f",,,,{'false' if bad else 'true'},,GET,{name},HTTP/1.1,{scenario},,{status},,,{name},,\n"
            parts = (
                ("http_reqs", 1), ("http_req_duration", ms), ("http_req_blocked", 0.002), ("http_req_connecting", 0),
                ("http_req_tls_handshaking", 0), ("http_req_sending", 0.03), ("http_req_waiting", ms - 0.09),
                ("http_req_receiving", 0.06), ("http_req_failed", bad),
            )  # fmt: skip
            file.write("".join(f"{metric},{stamp_us[n]},{value:f}{tail}" for metric, value in parts))
    return requests * 9


def measure(reader: str, path: Path, repeats: int) -> dict[str, float]:
    """CPU seconds and peak memory of one reader of one file, in this process."""
    best_s = np.inf
    for _ in range(repeats):
        began = time.process_time()
        if reader == "histograms":
            read_k6_samples(path, Hold(start=START_S, end=START_S + HOLD_S), 10.0, HOLD_S // 10)
        else:
            with duckdb.connect(config={"threads": 1}) as database:
                database.execute("SELECT count(*) FROM read_csv($path)", {"path": str(path)}).fetchall()
        best_s = min(best_s, time.process_time() - began)
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return {"cpu_s": best_s, "peak_mb": peak_kb / 1024}


def measure_apart(reader: str, path: Path, repeats: int) -> dict[str, float]:
    """The same in a process of its own, whose memory holds nothing else."""
    command = [sys.executable, __file__, "--measure", reader, str(path), "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Make the files, measure both readers on each, print the figures side by side."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "--rows", type=int, default=4_000_000, help="rows of the large file; the small one has a quarter"
    )
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--measure", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure[0], Path(chosen.measure[1]), chosen.repeats)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'file':>10} {'rows':>10} {'MB':>5}   {'histograms':>26}   {'DuckDB read_csv + count':>26}   ratio")
        for rows in (chosen.rows // 4, chosen.rows):
            plain = Path(folder) / "k6.csv"
            rows = write_k6_csv(plain, rows)
            packed = Path(folder) / "k6.csv.gz"
            with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as target:
                while block := source.read(1 << 20):
                    target.write(block)
            for path in (plain, packed):
                ours, theirs = (measure_apart(reader, path, chosen.repeats) for reader in READERS)
                figures = "   ".join(
                    f"{rows / found['cpu_s'] / 1e6:5.2f} M rows/s {found['peak_mb']:5.0f} MB"
                    for found in (ours, theirs)
                )
                size_mb = path.stat().st_size / 1e6
                print(
                    f"{path.name:>10} {rows:>10,} {size_mb:>5.0f}   {figures}   {theirs['cpu_s'] / ours['cpu_s']:5.2f}"
                )


if __name__ == "__main__":
    main()

"""Access-log lines per second on one core, memory, cost of tokens: `build_requests` beside what else one could use.

    .venv/bin/python bench/capture_requests.py [--lines 500000] [--rounds 5]
    .venv/bin/python bench/capture_requests.py --memory 1000000 10000000

All read the same raw objects (zstd, 50,000 lines each) and write Parquet. DuckDB copies the columns that are in the
log. The plain loop (`plain_loop.py`) is what a person would write first. `build_requests` also cleans and redacts URIs
in all their encodings, matches routes, drops duplicates, sorts by arrival, adds a token per user, and writes the
quarantine. The log is made here from a seed: 2,000 users and 5,000 products, both skewed; 95 % answered GETs; 1 % of
the lines are not plain ASCII. Times are processor seconds, the smallest of the rounds (of two for the loop).
With --memory each count of lines is built in a process of its own, whose peak is printed. Mapped files are the sorted
runs of an hour: the kernel drops their pages when memory is short.
"""

import argparse
import functools
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import duckdb
import plain_loop
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture import arrival_order, requests, sieve
from perf_pipeline.capture.hours import hour_folder
from perf_pipeline.capture.landing import land_file
from perf_pipeline.capture.raw_objects import landed_objects
from perf_pipeline.capture.tokens import SignedTokens
from perf_pipeline.plan import Plan
from perf_pipeline.storage import LocalObjectStore

HOUR = "2026-11-30-04:00"
HOUR_START_S = 1_796_011_200
TOPIC = "bench"
USERS = 2_000
PRODUCTS = 5_000
WORDS = ("phone", "desk", "lamp", "chair", "red", "blue", "oak", "mini", "pro", "usb")
ROUTES = [
    "/products", "/products/{id}", "/products/{id}/reviews", "/orders/{id}", "/recommendations", "/cart",
    "/categories/{name}",
]  # fmt: skip

OF_DUCKDB, OF_LOOP = 0.6, 8.0
SIGNING = "sign tokens"

Result = TypeVar("Result")

COPY = """
COPY (
  SELECT make_timestamp(CAST((msec - rt) * 1e6 AS BIGINT)) AS arrival, rid AS request_id, "user", uri, st AS status,
         rate AS sampling_rate, ae AS accept_encoding
  FROM read_json(?, format = 'newline_delimited', ignore_errors = true, columns = {
    'v': 'VARCHAR', 'msec': 'DOUBLE', 'rt': 'DOUBLE', 'rid': 'VARCHAR', 'user': 'VARCHAR', 'm': 'VARCHAR',
    'uri': 'VARCHAR', 'proto': 'VARCHAR', 'st': 'SMALLINT', 'ae': 'VARCHAR', 'ok': 'VARCHAR', 'rate': 'DOUBLE'})
) TO '{target}' (FORMAT parquet)
"""


def log_lines(count: int, seed: int = 7) -> Iterator[str]:
    """Lines of an hour of traffic."""
    rnd = random.Random(seed)
    users = [str(uuid.UUID(int=rnd.getrandbits(128), version=4)) for _ in range(USERS)]
    user_weights = list(itertools.accumulate(1 / rank**1.1 for rank in range(1, USERS + 1)))
    product_weights = list(itertools.accumulate(1 / rank**1.05 for rank in range(1, PRODUCTS + 1)))
    products = range(1, PRODUCTS + 1)
    for number in range(count):
        (user,) = rnd.choices(users, cum_weights=user_weights)
        (product,) = rnd.choices(products, cum_weights=product_weights)
        method, status, share = "GET", 200, rnd.random()
        if share < 0.30:
            uri = f"/products/{product}"
        elif share < 0.50:
            words = f"{rnd.choice(WORDS)}+{rnd.choice(WORDS)}"
            uri = f"/products?q={words}&page={product % 20 + 1}&sort={rnd.choice(('price', 'name', 'new'))}"
        elif share < 0.60:
            uri = f"/products/{product}/reviews"
        elif share < 0.70:
            uri = f"/categories/{rnd.choice(WORDS)}"
        elif share < 0.80:
            uri = "/recommendations"
        elif share < 0.88:
            uri = "/cart"
        elif share < 0.93:
            uri = f"/orders/{rnd.randrange(10**6)}"
        elif share < 0.94:
            uri = f"/products?q={rnd.choice(WORDS)}&email=u{rnd.randrange(9999)}%40example.test"
        elif share < 0.95:
            uri = rnd.choice(("/logout", "/export/orders?format=csv", "/health"))
        elif share < 0.98:
            uri, method, status = "/cart", "POST", 201
        else:
            uri, status = f"/products/{rnd.randrange(10**6)}", rnd.choice((404, 500, 304, 401))
        if number % 200 == 0:
            uri = "/products?q=caf\u00e9"  # not ASCII
        elif number % 200 == 1:
            uri = '/products?q=\\"desk\\"'  # escaped
        written = HOUR_START_S + 3600 * (number + rnd.random()) / count
        yield (
            f'{{"v":"1","msec":"{written:.3f}","rt":"{min(rnd.lognormvariate(-4, 1), 9):.3f}",'
            f'"rid":"{rnd.getrandbits(128):032x}","user":"{user}","m":"{method}","uri":"{uri}","host":"shop.example.test",'
            f'"proto":"HTTP/1.1","st":"{status}","ust":"{status}","len":"{rnd.randrange(300, 900)}",'
            f'"ae":"gzip, deflate, br","ok":"OK","rate":"1"}}\n'
        )


class Stopwatch:
    """Processor seconds spent in named functions, without what other named functions took inside them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inside: list[float] = []

    def watch(self, owner: object, function: str, step: str) -> None:
        """Count the time in `owner.function` as a step."""
        original = getattr(owner, function)

        @functools.wraps(original)
        def timed(*args: object, **kwargs: object) -> object:
            start = time.process_time()
            self._inside.append(0.0)
            try:
                return original(*args, **kwargs)
            finally:
                spent = time.process_time() - start
                self.seconds[step] = self.seconds.get(step, 0.0) + spent - self._inside.pop()
                if self._inside:
                    self._inside[-1] += spent

        setattr(owner, function, timed)


def main() -> None:
    """Compare speeds, or measure the memory of builds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, nargs="+", metavar="LINES")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory(prefix="bench-capture-") as folder:
        for lines in options.memory or []:
            measure_memory(Path(folder), lines)
        if not options.memory:
            sys.exit(0 if compare(Path(folder), options.lines, options.rounds) else 1)


def compare(folder: Path, lines: int, rounds: int) -> bool:
    """Print speeds, steps and the cost of tokens; whether the promises are kept."""
    store, landing_s = landed(folder, lines)
    objects = [store.uri(key) for key in landed_objects(store, TOPIC, HOUR)]
    plan = _plan()
    key = Ed25519PrivateKey.generate()
    issuer = SignedTokens(key, plan.tokens)
    stopwatch = Stopwatch()
    stopwatch.watch(requests, "build_requests", "the rest")
    stopwatch.watch(requests, "read_object", "decompress")
    stopwatch.watch(sieve, "Lines", "find lines")
    stopwatch.watch(sieve, "split_plain_lines", "split plain lines")
    stopwatch.watch(sieve, "clean_column", "clean and redact URIs, match routes")
    stopwatch.watch(sieve.Sieve, "_sift_others", "other lines, one by one")
    stopwatch.watch(sieve.Sieve, "sift", "field rules, columns")
    stopwatch.watch(arrival_order.ArrivalOrder, "merge", "sort, drop duplicates")
    stopwatch.watch(requests, "_write_rejected", "write quarantine")
    stopwatch.watch(SignedTokens, "issue", SIGNING)
    stopwatch.watch(requests, "_write_requests", "write requests")
    best_copy = best_build = float("inf")
    steps: dict[str, float] = {}
    loop_s = min(
        seconds(lambda: plain_loop.write_requests(objects, ROUTES, folder / "loop.parquet", issuer, time.time()))[0]
        for _ in range(2)
    )
    for _ in range(rounds):
        copy_s, _ = seconds(lambda: duckdb_copy(objects, folder / "copy.parquet"))
        best_copy = min(best_copy, copy_s)
        stopwatch.seconds.clear()
        build_s, report = seconds(lambda: requests.build_requests(store, plan, HOUR, issuer))
        if build_s < best_build:
            best_build, steps = build_s, dict(stopwatch.seconds)

    print(f"{lines:,} lines, {report.accepted:,} accepted, {report.users:,} users")
    print(f"  DuckDB read_json -> Parquet copy   {best_copy:6.2f} s  {lines / best_copy:12,.0f} lines/s")
    print(f"  plain Python json loop             {loop_s:6.2f} s  {lines / loop_s:12,.0f} lines/s")
    print(f"  build_requests                     {best_build:6.2f} s  {lines / best_build:12,.0f} lines/s")
    print(f"  build / DuckDB                     {best_copy / best_build:6.2f}    (promised: at least {OF_DUCKDB})")
    print(f"  build / loop                       {loop_s / best_build:6.2f}    (promised: at least {OF_LOOP})")
    print("build_requests by step")
    for step, spent_s in sorted(steps.items(), key=lambda item: -item[1]):
        print(f"  {step:<36} {spent_s:6.3f} s  {spent_s / best_build:5.0%}")
    print(f"landing before it (land_file)        {landing_s:6.2f} s  {lines / landing_s:12,.0f} lines/s")
    print_tokens(store, key, report.accepted)
    return best_copy / best_build >= OF_DUCKDB and loop_s / best_build >= OF_LOOP


def print_tokens(store: LocalObjectStore, key: Ed25519PrivateKey, rows: int) -> None:
    """Signatures per second by algorithm, and what a row takes in Parquet."""
    users = [str(uuid.UUID(int=number)) for number in range(1, 2001)]
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    print("tokens")
    for name, each in (("EdDSA", key), ("RS256, 2048 bits", rsa_key)):
        spent_s, _ = seconds(lambda each=each: SignedTokens(each, _plan().tokens).issue(users, time.time()))
        print(f"  {name:<18} {len(users) / spent_s:10,.0f} signatures/s")
    path = store.root / f"requests/{hour_folder(HOUR)}/requests.parquet"
    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        columns: dict[str, int] = {}
        for group in groups:
            for number in range(group.num_columns):
                column = group.column(number)
                columns[column.path_in_schema] = columns.get(column.path_in_schema, 0) + column.total_compressed_size
    print(f"requests.parquet: {path.stat().st_size / rows:.1f} bytes a row, of which")
    for name, size in sorted(columns.items(), key=lambda item: -item[1]):
        print(f"  {name:<18} {size / rows:6.2f}")


def measure_memory(folder: Path, lines: int) -> None:
    """Build an hour of so many lines in a process of its own and print its peak of resident memory."""
    place = folder / str(lines)
    place.mkdir()
    store, _ = landed(place, lines)
    command = [sys.executable, "-c", BUILD, str(store.root)]
    here = Path(__file__).parent
    environ = os.environ | {"PYTHONPATH": f"{here.parent}{os.pathsep}{here}"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    peak_mib, own_mib, before_mib, spent_s = map(float, done.stdout.split())
    print(
        f"{lines:>12,} lines: peak {own_mib:6,.0f} MiB of its own, {peak_mib:,.0f} MiB with files that are mapped "
        f"({before_mib:,.0f} MiB before the build); {lines / spent_s:,.0f} lines/s",
        flush=True,
    )
    shutil.rmtree(place)


BUILD = """
import resource, sys, threading, time
from pathlib import Path
import pyarrow as pa
import capture_requests as bench
pa.set_cpu_count(1); pa.set_io_thread_count(1)
store, plan = bench.LocalObjectStore(Path(sys.argv[1])), bench._plan()
issuer = bench.SignedTokens(bench.Ed25519PrivateKey.generate(), plan.tokens)
before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
own_kib, ended = [0], threading.Event()
def watch():
    while not ended.wait(0.02):
        lines = Path("/proc/self/status").read_text().splitlines()
        own_kib.append(int(next(line for line in lines if line.startswith("RssAnon")).split()[1]))
thread = threading.Thread(target=watch)
if Path("/proc/self/status").exists():
    thread.start()
began_s = time.process_time()
bench.requests.build_requests(store, plan, bench.HOUR, issuer)
spent_s = time.process_time() - began_s
ended.set()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, max(own_kib) / 1024, before_kib / 1024, spent_s)
"""


def landed(folder: Path, lines: int) -> tuple[LocalObjectStore, float]:
    """A store with the raw objects of a log of so many lines, and the processor seconds of landing it."""
    log = folder / "access.json"
    with log.open("w", encoding="utf-8") as file:
        file.writelines(log_lines(lines))
    store = LocalObjectStore(folder / "store")
    landing_s, _ = seconds(lambda: land_file(store, log, TOPIC, HOUR))
    log.unlink()
    return store, landing_s


def duckdb_copy(objects: list[str], target: Path) -> None:
    """DuckDB's own way from the raw objects to Parquet, on one thread."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(COPY.replace("{target}", str(target)), [objects])


def seconds(work: Callable[[], Result]) -> tuple[float, Result]:
    """Processor seconds that some work takes, and what it returns."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _plan() -> Plan:
    process = {"command": ["true"]}
    return Plan.model_validate(
        {
            "name": "bench", "service": "bench", "versions": ["1", "2"], "baseline": "1", "candidate": "2",
            "capture": {"topic": TOPIC, "routes": ROUTES},
            "tokens": {"issuer": "bench", "audience": "bench"},
            "workload": {"hours": [HOUR]},
            "environment": {"service": process},
            "scenarios": [{"name": "all", "rate_per_s": 1}],
            "load": {"warmup_s": 1, "hold_s": 10},
            "schedule": {}, "metrics": {},
        }
    )  # fmt: skip


if __name__ == "__main__":
    main()

"""Access-log lines per second on one core: `build_requests` against DuckDB's own JSON-to-Parquet copy.

    .venv/bin/python bench/capture_requests.py [--lines 500000] [--rounds 5]

Both read the same raw objects (zstd, 50,000 lines each) and write Parquet. DuckDB copies the columns that are in the
log. `build_requests` also filters, cleans and redacts URIs, matches routes, drops duplicates, sorts by arrival, adds
a token per user, and writes the quarantine. The log is made here from a seed: 2,000 users and 5,000 products, both
skewed; 95 % answered GETs; 1 % of the lines are not plain ASCII. Times are processor seconds, the smallest of the
rounds, in which both take turns.
"""

import argparse
import functools
import itertools
import os
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture import arrival_order, requests, sieve
from perf_pipeline.capture.landing import land_file
from perf_pipeline.capture.raw_objects import landed_objects
from perf_pipeline.capture.tokens import SignedTokens
from perf_pipeline.plan import Plan, TokenSection
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
    """Make the log, land it, and let both take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)

    with tempfile.TemporaryDirectory(prefix="bench-capture-") as folder:
        log = Path(folder, "access.json")
        with log.open("w", encoding="utf-8") as file:
            file.writelines(log_lines(options.lines))
        store = LocalObjectStore(Path(folder, "store"))
        start = time.process_time()
        land_file(store, log, TOPIC, HOUR)
        landing_s = time.process_time() - start
        objects = [store.uri(key) for key in landed_objects(store, TOPIC, HOUR)]
        plan = _plan()
        issuer = SignedTokens(Ed25519PrivateKey.generate(), TokenSection(issuer="bench", audience="bench"))

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
        stopwatch.watch(SignedTokens, "issue", "sign tokens")
        stopwatch.watch(requests, "_write_requests", "write requests")
        best_copy = best_build = float("inf")
        steps: dict[str, float] = {}
        for _ in range(options.rounds):
            start = time.process_time()
            with duckdb.connect(config={"threads": 1}) as connection:
                connection.execute(COPY.replace("{target}", str(Path(folder, "copy.parquet"))), [objects])
            best_copy = min(best_copy, time.process_time() - start)
            stopwatch.seconds.clear()
            start = time.process_time()
            report = requests.build_requests(store, plan, HOUR, issuer)
            spent = time.process_time() - start
            if spent < best_build:
                best_build, steps = spent, dict(stopwatch.seconds)

    print(f"{options.lines:,} lines, {report.accepted:,} accepted, {report.users:,} users")
    print(f"  DuckDB read_json -> Parquet copy   {best_copy:6.2f} s  {options.lines / best_copy:12,.0f} lines/s")
    print(f"  build_requests                     {best_build:6.2f} s  {options.lines / best_build:12,.0f} lines/s")
    print(f"  ratio                              {best_copy / best_build:6.2f}    (promised: at least 0.5)")
    print("build_requests by step")
    for step, seconds in sorted(steps.items(), key=lambda item: -item[1]):
        print(f"  {step:<36} {seconds:6.3f} s  {seconds / best_build:5.0%}")
    print(f"landing before it (land_file)        {landing_s:6.2f} s  {options.lines / landing_s:12,.0f} lines/s")
    sys.exit(0 if best_copy / best_build >= 0.5 else 1)


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

"""A real nginx writes the log that capture reads: the demo's configuration, traffic and service, on a small scale."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture.access_log import NEEDED_KEYS, RATE_KEY
from perf_pipeline.capture.landing import hours_of_log, land_file
from perf_pipeline.capture.lines import Lines
from perf_pipeline.capture.log_file import read_log
from perf_pipeline.capture.plain_lines import split_plain_lines
from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.requests import RequestsReport, build_requests
from perf_pipeline.capture.tokens import SignedTokens
from perf_pipeline.storage import LocalObjectStore
from tests.access_log_lines import ROUTES, plan

pytestmark = pytest.mark.integration

SHOP_ROUTES = [*(route for route in ROUTES if route != "/"), "/recommendations"]
DEMO = Path(__file__).parents[2] / "examples/demo/capture"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of 500 requests and of the odd ones."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not on PATH: the log of a real nginx was NOT tested (apt-get install nginx-light)")
    path = tmp_path_factory.mktemp("demo") / "access.log.zst"
    command = [sys.executable, DEMO / "make_log.py", "--requests", "500", "--seed", "3", "--out", path]
    made = subprocess.run(command, capture_output=True, text=True, timeout=270, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return path


@pytest.fixture(scope="module")
def lines(log: Path) -> list[bytes]:
    return [each.line for each in read_log(log)]


def test_every_line_that_is_whole_has_our_fields(lines: list[bytes]) -> None:
    read = []
    for line in lines:
        try:
            read.append(json.loads(line.decode("utf-8", "surrogateescape")))
        except ValueError:
            continue
    assert len(read) == len(lines) - 4, "torn, behind a hole, empty, cut off"
    for record in read:
        assert {*NEEDED_KEYS, RATE_KEY} <= set(record)
        assert all(isinstance(value, str) for value in record.values())


def test_nearly_all_lines_take_the_fast_path(lines: list[bytes]) -> None:
    plain = split_plain_lines(Lines(pa.py_buffer(b"".join(line + b"\n" for line in lines))))
    assert sum(len(batch.numbers) for batch in plain) > 0.95 * len(lines)


def test_the_user_comes_from_the_token_and_a_replay_is_not_logged(lines: list[bytes]) -> None:
    records = [
        json.loads(line) for line in lines if line.startswith(b'{"v"') and line.isascii() and line.endswith(b"}")
    ]
    answered = [record for record in records if record["st"] == "200" and record["uri"] != "/health"]
    assert len(answered) > 400
    assert all(len(record["user"]) == 36 for record in answered)
    assert all(record["user"] == "" for record in records if record["uri"] == "/health")
    uris = [record["uri"] for record in records]
    assert {"/products/18", "/products/19"} <= set(uris), "two requests in one"
    assert not any("Authorization" in line.decode("utf-8", "replace") for line in lines)


def test_what_real_traffic_becomes(log: Path, tmp_path: Path, lines: list[bytes]) -> None:
    store = LocalObjectStore(tmp_path / "store")
    issuer = SignedTokens(Ed25519PrivateKey.generate(), plan().tokens)
    reports: list[RequestsReport] = []
    uris: list[str] = []
    for hour in hours_of_log(log):
        land_file(store, log, "access", hour)
        reports.append(build_requests(store, plan(routes=SHOP_ROUTES), hour, issuer))
        day, clock = hour[:10], hour[11:13]
        folder = store.local_folder(f"requests/dt={day}/hour={clock}")
        uris += pq.read_table(folder / "requests.parquet")["uri"].to_pylist()
    assert sum(report.read for report in reports) == len(lines)
    assert sum(report.accepted for report in reports) == len(uris) > 380
    reasons = {reason for report in reports for reason in report.rejected}
    assert reasons >= {
        Reason.NOT_JSON, Reason.MALFORMED, Reason.NOT_GET, Reason.STATUS, Reason.NO_USER, Reason.SIDE_EFFECT,
        Reason.CREDENTIAL, Reason.DUPLICATE, Reason.PROTOCOL, Reason.AMBIGUOUS_PATH,
    }  # fmt: skip
    assert {route for report in reports for route in report.routes} <= set(SHOP_ROUTES)
    assert not any(mark in uri for uri in uris for mark in ("@", "%40", "fake", "eyJ", "logout", "export", "evil", "#"))
    assert "/products?q=%22lamp%22%5Cb'c" in uris
    assert "/products?q=%7Blamp%7D%7C%5E%60" in uris


def test_the_committed_log_is_what_its_readme_says(tmp_path: Path) -> None:
    log = DEMO / "access.log.zst"
    store = LocalObjectStore(tmp_path)
    (hour,) = hours_of_log(log)
    assert land_file(store, log, "access", hour).lines == 24_406
    issuer = SignedTokens(Ed25519PrivateKey.generate(), plan().tokens)
    report = build_requests(store, plan(routes=SHOP_ROUTES), hour, issuer)
    readme = (DEMO / "README.md").read_text()
    assert f"`{hour}`" in readme
    counts = {"read": report.read, f"accepted, of {report.users:,} users on seven routes": report.accepted} | {
        reason: count for reason, count in report.rejected.items() if count > 1
    }
    for what, count in counts.items():
        assert f"| {count:,} | {what} |" in readme
    assert len(report.routes) == 7

import json
import random
import socket
import stat
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture import landing, requests
from perf_pipeline.capture.arrival_order import ArrivalOrder
from perf_pipeline.capture.landing import land_file
from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.requests import RequestsReport, build_requests
from perf_pipeline.capture.tokens import SignedTokens, Token
from perf_pipeline.errors import InputError
from perf_pipeline.storage import LocalObjectStore
from tests.access_log_lines import HOUR, HOUR_START_S, USER, line, numbered, plan

SAMPLES = Path(__file__).parents[1] / "../shared/data"
SAMPLE_LOGS = sorted(
    path
    for folder in (
        "nginx-odd-requests",
        "access-logs/elastic-examples-apache",
        "access-logs/filebeat-nginx",
        "access-logs/lnav",
    )
    for path in (SAMPLES / folder).glob("*log*")
    if path.name != "NOTE.md"
)
NOW_S = 1_796_100_000.0
FOLDER = "dt=2026-11-30/hour=04"
PART = f"raw/access/{FOLDER}/part=0"


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "store")


@pytest.fixture(scope="module")
def issuer() -> SignedTokens:
    return SignedTokens(Ed25519PrivateKey.generate(), plan().tokens)


def put_object(store: LocalObjectStore, lines: list[bytes], offset: int = 0, part: int = 0) -> None:
    """An object as any lander leaves it, without a manifest."""
    data = b"".join(each + b"\n" for each in lines)
    key = f"raw/access/{FOLDER}/part={part}/{offset:020d}.ndjson.zst"
    store.put(key, zstandard.ZstdCompressor().compress(data))


def requests_of(store: LocalObjectStore) -> pa.Table:
    return pq.read_table(store.local_folder(f"requests/{FOLDER}") / "requests.parquet")


def quarantine_of(store: LocalObjectStore) -> list[dict]:
    return pq.read_table(store.local_folder(f"quarantine/{FOLDER}") / "quarantine.parquet").to_pylist()


def test_tokens_that_a_killed_capture_left_are_removed(store: LocalObjectStore, issuer: SignedTokens) -> None:
    put_object(store, [line()])
    left = store.root / f".partial-{2**22 + 1}-1-{socket.gethostname()}-requests"
    left.mkdir()
    (left / "requests.parquet").write_bytes(b"tokens")
    build_requests(store, plan(), HOUR, issuer, NOW_S)
    assert not left.exists()


def test_an_accepted_line_becomes_a_row(store: LocalObjectStore, issuer: SignedTokens) -> None:
    put_object(store, [line(user=USER.upper(), rate="5%", st="304")])
    report = build_requests(store, plan(), HOUR, issuer, NOW_S)
    table = requests_of(store)
    assert {field.name: str(field.type) for field in table.schema} == {
        "arrival": "timestamp[us, tz=UTC]", "request_id": "string", "user": "string", "uri": "string",
        "route": "string", "status": "int16", "sampling_rate": "double", "accept_encoding": "string", "token": "string",
    }  # fmt: skip
    assert table.to_pylist() == [
        {
            "arrival": datetime.fromtimestamp(HOUR_START_S + 60.208, UTC),
            "request_id": "a7b48bfa45ee36f7c7241dcc22728c59",
            "user": USER,
            "uri": "/products/17?page=2",
            "route": "/products/{id}",
            "status": 304,
            "sampling_rate": 0.05,
            "accept_encoding": "gzip, br",
            "token": issuer.issue([USER], NOW_S)[USER].text,
        }
    ]
    assert report == RequestsReport(
        hour=HOUR, read=1, accepted=1, rejected={}, users=1, routes={"/products/{id}": 1}, first=report.first,
        last=report.first, sampling_rates=(0.05,), tokens_expire=datetime.fromtimestamp(NOW_S + 600, UTC),
    )  # fmt: skip
    assert report.first == datetime.fromtimestamp(HOUR_START_S + 60.208, UTC)
    manifest = json.loads(store.get(f"requests/{FOLDER}/manifest.json"))
    assert manifest["accepted"] == 1
    assert manifest["first"] == "2026-11-30T04:01:00.208000+00:00"


def test_each_rejected_line_is_in_quarantine_with_its_reason(store: LocalObjectStore, issuer: SignedTokens) -> None:
    lines = [
        numbered(1),
        b"torn \xff line",
        numbered(2, m="POST"),
        numbered(1, uri="/cart"),
        numbered(3, uri="/logout"),
        numbered(4, uri="/products?token=x"),
    ]
    put_object(store, lines[:3], offset=0)
    put_object(store, lines[3:], offset=3)
    report = build_requests(store, plan(), HOUR, issuer, NOW_S)
    assert (report.read, report.accepted) == (6, 1)
    assert report.rejected == dict.fromkeys(
        sorted([Reason.NOT_JSON, Reason.NOT_GET, Reason.DUPLICATE, Reason.SIDE_EFFECT, Reason.CREDENTIAL]), 1
    )
    first, second = f"{PART}/{0:020d}.ndjson.zst", f"{PART}/{3:020d}.ndjson.zst"
    assert quarantine_of(store) == [
        {"object": first, "line": 1, "reason": "not a JSON object", "raw": lines[1]},
        {"object": first, "line": 2, "reason": "not a GET", "raw": lines[2]},
        {"object": second, "line": 1, "reason": "GET with side effects", "raw": lines[4]},
        {"object": second, "line": 2, "reason": "secret in the URI", "raw": lines[5]},
        {"object": second, "line": 0, "reason": "duplicate request id", "raw": lines[3]},
    ]


def test_rows_stand_in_order_of_arrival_not_of_completion(store: LocalObjectStore, issuer: SignedTokens) -> None:
    put_object(store, [numbered(10, rt="9.000"), numbered(3, rt="0.000")])
    put_object(store, [numbered(2, rt="0.000")], part=1)
    build_requests(store, plan(), HOUR, issuer, NOW_S)
    assert requests_of(store)["uri"].to_pylist() == ["/products/10", "/products/2", "/products/3"]


def many_lines() -> list[bytes]:
    rnd = random.Random(5)
    users = [USER[:-1] + digit for digit in "0123456789abcdef"]
    return [
        numbered(
            number,
            msec=f"{HOUR_START_S + number // 40}.{rnd.randrange(1000):03d}",
            user=rnd.choice(users),
            m=rnd.choice(["GET"] * 9 + ["POST"]),
            uri=rnd.choice(
                [f"/products/{rnd.randrange(50)}", "/cart", "/products?q=caf\u00e9", "/nowhere", "/products?q=1:2"]
            ),
        )
        for number in range(3000)
    ]


def test_doubled_and_shuffled_lines_give_the_same_requests(
    store: LocalObjectStore, tmp_path: Path, issuer: SignedTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = many_lines()
    put_object(store, lines)
    report = build_requests(store, plan(), HOUR, issuer, NOW_S)

    again = LocalObjectStore(tmp_path / "again")
    shuffled = [*lines, *lines]
    random.Random(6).shuffle(shuffled)
    for part, start in enumerate(range(0, len(shuffled), 700)):
        put_object(again, shuffled[start : start + 700], offset=start, part=part % 3)
    monkeypatch.setattr(requests, "ArrivalOrder", lambda folder: ArrivalOrder(folder, run_rows=1000))
    monkeypatch.setattr(requests, "ROW_GROUP_ROWS", 500)
    doubled = build_requests(again, plan(), HOUR, issuer, NOW_S)

    assert requests_of(again).equals(requests_of(store))
    assert requests_of(store).num_rows > 1000
    assert (doubled.read, doubled.accepted) == (2 * report.read, report.accepted)
    assert doubled.rejected == {
        **{reason: 2 * count for reason, count in report.rejected.items()},
        Reason.DUPLICATE: report.accepted,
    }
    assert Counter(row["reason"] for row in quarantine_of(again)) == doubled.rejected


def test_building_again_gives_the_same_bytes(store: LocalObjectStore, issuer: SignedTokens) -> None:
    put_object(store, many_lines())
    build_requests(store, plan(), HOUR, issuer, NOW_S)
    keys = [key for key in store.keys("") if not key.startswith("raw/")]
    before = {key: store.get(key) for key in keys}
    build_requests(store, plan(), HOUR, issuer, NOW_S)
    assert {key: store.get(key) for key in keys} == before
    assert sorted(Path(key).name for key in keys) == ["manifest.json", "quarantine.parquet", "requests.parquet"]


def test_an_hour_without_an_acceptable_line_gives_an_empty_table(store: LocalObjectStore, issuer: SignedTokens) -> None:
    put_object(store, [b"x", numbered(1, m="POST")])
    report = build_requests(store, plan(), HOUR, issuer, NOW_S)
    assert (report.accepted, report.users, report.first, report.sampling_rates) == (0, 0, None, ())
    assert requests_of(store).num_rows == 0
    assert requests_of(store).schema.names == requests.REQUESTS.names


def test_an_empty_object_is_no_line(store: LocalObjectStore, issuer: SignedTokens) -> None:
    put_object(store, [])
    assert build_requests(store, plan(), HOUR, issuer, NOW_S).read == 0
    assert quarantine_of(store) == []


def test_an_hour_that_was_not_landed_or_is_damaged_leaves_what_was_there(
    store: LocalObjectStore, issuer: SignedTokens
) -> None:
    with pytest.raises(InputError, match="raw_access_log"):
        build_requests(store, plan(), HOUR, issuer)
    put_object(store, [numbered(1)])
    build_requests(store, plan(), HOUR, issuer, NOW_S)
    before = requests_of(store)
    put_object(store, [numbered(2)], offset=1)
    store.put(f"{PART}/{2:020d}.ndjson.zst", b"not zstd")
    with pytest.raises(InputError, match="is damaged"):
        build_requests(store, plan(), HOUR, issuer, NOW_S)
    assert requests_of(store).equals(before)
    assert [path.name for path in store.root.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("log", SAMPLE_LOGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_line_of_every_sample_log_is_accounted_for(
    log: Path, store: LocalObjectStore, issuer: SignedTokens
) -> None:
    lines = log.read_bytes().splitlines()
    put_object(store, lines)
    report = build_requests(store, plan(), HOUR, issuer, NOW_S)
    assert report.read == len(lines) > 0
    assert report.accepted + sum(report.rejected.values()) == report.read
    assert sorted(row["line"] for row in quarantine_of(store)) == list(range(len(lines))), "none has our keys"
    assert all(row["raw"] == lines[row["line"]] for row in quarantine_of(store))
    try:
        landed = sum(land_file(store, log, "access", hour).lines for hour in landing.hours_of_log(log))
    except InputError as error:
        assert "log_format" in str(error)
        assert not log.name.startswith("access_json.")
    else:
        assert landed == len(lines)


def test_there_are_sample_logs() -> None:
    if not SAMPLES.is_dir():
        pytest.skip("../shared/data is not there: the sample logs were not read")
    assert len(SAMPLE_LOGS) >= 12


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="../shared/data is not there: the odd requests were not read")
def test_the_odd_requests_are_judged_as_the_table_of_the_reference_says(
    store: LocalObjectStore, issuer: SignedTokens
) -> None:
    """The 88 odd requests, under the keys of our log format."""
    renamed = {
        "msec": "msec", "request_time": "rt", "request_id": "rid", "method": "m", "request_uri": "uri", "host": "host",
        "server_protocol": "proto", "status": "st", "upstream_status": "ust", "request_length": "len",
        "accept_encoding": "ae", "completion": "ok",
    }  # fmt: skip
    lines = []
    for made in (SAMPLES / "nginx-odd-requests/access_json.log").read_bytes().splitlines():
        record = json.loads(made.decode("utf-8", "surrogateescape"))
        fields = {"v": "1", "user": USER, **{ours: record[theirs] for theirs, ours in renamed.items()}}
        lines.append(json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape"))
    put_object(store, lines)
    anywhere = ["/{a}", "/{a}/{b}", "/{a}/{b}/{c}"]
    report = build_requests(store, plan(routes=anywhere), HOUR, issuer, NOW_S)
    assert report.read == 88
    assert report.rejected == {
        Reason.MALFORMED: 15,
        Reason.NOT_GET: 4,
        Reason.STATUS: 4,  # with the bad escape, of which only the method is left, and the request without a host
        Reason.AMBIGUOUS_PATH: 3,  # double slash, encoded dots, overlong slash
        Reason.SIDE_EFFECT: 2,
        Reason.NOT_COMPLETED: 1,
        Reason.PROTOCOL: 1,
        Reason.ROUTE: 1,
        Reason.CREDENTIAL: 1,
    }
    uris = set(requests_of(store)["uri"].to_pylist())
    assert {"/caf%E9", "/search?q=%FF%FE%80abc", "/h", "/v10", "/abs/path?x=1", "/p1", "/p2", "/v6?x=1"} <= uris
    assert all(uri.isascii() and uri.startswith("/") and not uri.startswith("//") for uri in uris)


class WatchedIssuer(SignedTokens):
    """An issuer that remembers what it gave out."""

    def __init__(self) -> None:
        super().__init__(Ed25519PrivateKey.generate(), plan().tokens)
        self.issued: list[str] = []

    def issue(self, users: Iterable[str], now_s: float) -> dict[str, Token]:
        tokens = super().issue(users, now_s)
        self.issued.extend(token.text for token in tokens.values())
        return tokens


def test_tokens_stand_in_one_column_of_one_file_and_nowhere_else(
    store: LocalObjectStore, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    issuer = WatchedIssuer()
    put_object(store, many_lines())
    with caplog.at_level("DEBUG"):
        report = build_requests(store, plan(), HOUR, issuer)
    assert len(issuer.issued) == report.users == 16
    table = requests_of(store)
    assert set(table["token"].to_pylist()) == set(issuer.issued)
    signatures = {token.rpartition(".")[2].encode() for token in issuer.issued}
    for column in set(table.schema.names) - {"token"}:
        assert not any(b"eyJ" in str(value).encode() for value in table[column].to_pylist())
    path = store.root / f"requests/{FOLDER}/requests.parquet"
    for other in store.root.rglob("*"):
        if other.is_file() and other != path:
            assert not any(signature in other.read_bytes() for signature in signatures), other
    said = repr(report) + repr(issuer) + caplog.text + "".join(capfd.readouterr())
    assert not any(signature.decode() in said for signature in signatures)
    for name in ("requests", "quarantine"):
        (file,) = (store.root / name).rglob("*.parquet")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_tokens_do_not_get_into_exceptions_or_stay_behind(
    store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = WatchedIssuer()
    put_object(store, many_lines())

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "close", full)
    with pytest.raises(OSError, match="no space") as caught:
        build_requests(store, plan(), HOUR, issuer)
    assert not any(token in str(caught.value) + repr(caught.value.__dict__) for token in issuer.issued)
    assert [key for key in store.keys("") if not key.startswith("raw/")] == []
    assert {path.name for path in store.root.iterdir()} == {"raw"}

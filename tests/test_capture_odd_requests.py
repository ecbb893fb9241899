"""Requests that a real nginx logged and that should not be, or not as they came: each row of the reference's table.

And, for any bytes at all: what is replayed goes to the fixed host.
"""

import json
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import requests
import urllib3.util
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.sieve import AcceptedLine, Sieve
from perf_pipeline.capture.uri import UriRules
from perf_pipeline.capture.uri_column import clean_column
from perf_pipeline.replay.workload import _SENDABLE_URI
from tests.access_log_lines import USER, capture_section, line
from tests.test_capture_uri import ANY_URI

SAMPLE = Path(__file__).parents[1] / "../shared/data/nginx-odd-requests/access_json.log"
THEIRS = {
    "msec": "msec", "rt": "request_time", "rid": "request_id", "m": "method", "uri": "request_uri", "host": "host",
    "proto": "server_protocol", "st": "status", "ust": "upstream_status", "len": "request_length",
    "ae": "accept_encoding", "ok": "completion",
}  # fmt: skip
ANYWHERE = ["/{a}", "/{a}/{b}", "/{a}/{b}/{c}"]

TABLE: list[tuple[str, Reason | str]] = [
    # TLS hello, RDP cookie, `batman`, CONNECT, OPTIONS *, `get`, HTTP/0.9 POST
    ("\x16\x03\x01", Reason.MALFORMED),
    ("\x03\x00\x00/*", Reason.MALFORMED),
    ("batman", Reason.MALFORMED),
    ("CONNECT example.test:443", Reason.MALFORMED),
    ("OPTIONS *", Reason.MALFORMED),
    ("get /lower", Reason.MALFORMED),
    ("POST /v09", Reason.MALFORMED),
    # space, control byte, DEL or NUL in the URI
    ("GET /sp ace", Reason.MALFORMED),
    ("GET /ctl", Reason.MALFORMED),
    ("GET /tab", Reason.MALFORMED),
    ("GET /del", Reason.MALFORMED),
    ("GET /nul", Reason.MALFORMED),
    # HTTP/9.9; bad percent escape; HTTP/1.1 without Host; cut off; HTTP/0.9 GET; HTTP/1.0 without Host
    ("GET /ver HTTP/9.9", Reason.MALFORMED),
    ("GET /p%zz", Reason.STATUS),
    ("GET /nohost", Reason.STATUS),
    ("GET /partial", Reason.NOT_COMPLETED),
    ("GET /v09", Reason.PROTOCOL),
    ("GET /v10", "/v10"),
    # absolute form: the host is the client's and is never used
    ("GET http://other.example.test:8443/abs/path?x=1", "/abs/path?x=1"),
    ("GET http://other.example.test HTTP", Reason.ROUTE),
    # paths that can be read in two ways
    ("GET //a///b/../c", Reason.AMBIGUOUS_PATH),
    ("GET /a/%2e%2e/b%2Fc%20d", Reason.AMBIGUOUS_PATH),
    ("GET /a/\udcc0\udcafb", Reason.AMBIGUOUS_PATH),
    # raw UTF-8, 0xFF, Latin-1
    ("GET /search?q=\u0420\u0443\u0441", "/search?q=%D0%A0%D1%83%D1%81"),
    ("GET /search?q=\udcff\udcfe\udc80abc", "/search?q=%FF%FE%80abc"),
    ("GET /caf\udce9", "/caf%E9"),
    # fragment, quotes, backslash
    ("GET /h#frag?x=1", "/h"),
    ('GET /q?x="a"\\b\'c', "/q?x=%22a%22%5Cb'c"),
    # other methods
    ("GETX /m", Reason.NOT_GET),
    ("HEAD /head", Reason.NOT_GET),
    ("OPTIONS /o", Reason.NOT_GET),
    ("POST /order", Reason.NOT_GET),
    # IPv6; two pipelined requests are two rows
    ("GET /v6?x=1", "/v6?x=1"),
    ("GET /p1", "/p1"),
    ("GET /p2", "/p2"),
    # side effects, secrets, answers that are none
    ("GET /logout", Reason.SIDE_EFFECT),
    ("GET /email/unsubscribe", Reason.SIDE_EFFECT),
    ("GET /cb?code=", Reason.CREDENTIAL),
    ("GET /redir", Reason.STATUS),
    ("GET /err", Reason.STATUS),
]


@pytest.fixture(scope="module")
def logged() -> list[dict[str, str]]:
    if not SAMPLE.is_file():
        pytest.skip("../shared/data is not there: the odd requests were not read")
    return [json.loads(each.decode("utf-8", "surrogateescape")) for each in SAMPLE.read_bytes().splitlines()]


@pytest.mark.parametrize(("request_line", "expected"), TABLE, ids=[ascii(start)[1:30] for start, _ in TABLE])
def test_each_odd_request_is_judged_as_the_table_says(
    logged: list[dict[str, str]], request_line: str, expected: Reason | str
) -> None:
    (record,) = [record for record in logged if record["request"].startswith(request_line)][:1]
    fields = {"user": USER, **{ours: record[theirs] for ours, theirs in THEIRS.items()}}
    judged = Sieve(capture_section(routes=ANYWHERE)).sift_line(line("rate", **fields))
    assert (judged.uri if isinstance(judged, AcceptedLine) else judged) == expected


def test_a_uri_of_9_kb_was_refused_and_has_no_uri(logged: list[dict[str, str]]) -> None:
    (record,) = [record for record in logged if record["status"] == "414"]
    fields = {"user": USER, **{ours: record[theirs] for ours, theirs in THEIRS.items()}}
    assert Sieve(capture_section(routes=ANYWHERE)).sift_line(line("rate", **fields)) is Reason.MALFORMED


@pytest.mark.parametrize("uri", ["//evil.test/x", "http://evil.test/x", "/\\evil.test", "/%2f%2fevil.test", "?x=1"])
def test_what_names_another_host_is_never_a_path(uri: str) -> None:
    judged = Sieve(capture_section(routes=["/", *ANYWHERE])).sift_line(line(uri=uri))
    assert isinstance(judged, Reason) or judged.uri == "/?x=1"


TARGET = "http://127.0.0.1:18080"


@settings(max_examples=800, deadline=None)
@given(ANY_URI)
def test_arbitrary_bytes_never_change_the_host_whoever_reads_the_address(uri: bytes) -> None:
    """For the standard library, urllib3, requests, and a browser that resolves the URI against a page."""
    clean = UriRules(capture_section(routes=["/", *ANYWHERE])).clean(uri)
    if isinstance(clean, Reason):
        return
    address = TARGET + clean.uri
    assert urlsplit(address).netloc == "127.0.0.1:18080"
    parsed = urllib3.util.parse_url(address)
    assert (parsed.scheme, parsed.auth, parsed.host, parsed.port) == ("http", None, "127.0.0.1", 18080)
    prepared = requests.Request("GET", address).prepare().url or ""
    assert prepared.startswith(TARGET + "/")
    assert urlsplit(urljoin(TARGET + "/page", clean.uri)).netloc == "127.0.0.1:18080"


@settings(max_examples=200, deadline=None)
@given(st.lists(ANY_URI, max_size=20), st.lists(st.integers(0, 10**6), max_size=5))
def test_a_column_is_judged_as_its_uris_one_by_one(uris: list[bytes], numbers: list[int]) -> None:
    rules = UriRules(capture_section())
    texts = [uri.decode() for uri in uris if uri.isascii() and not any(byte < 32 for byte in uri)]
    texts += [f"/products/{number}" for number in numbers] + [f"/orders/{number}?page={number}" for number in numbers]
    column = clean_column(pa.array(texts, pa.string()), rules)
    sendable = pc.match_substring_regex(column.uri.dictionary_decode(), _SENDABLE_URI).to_pylist()
    for text, code, uri, route, can_be_sent in zip(
        texts, column.codes.tolist(), column.uri.to_pylist(), column.route.to_pylist(), sendable, strict=True
    ):
        one = UriRules(capture_section()).clean(text.encode())
        assert (code == 0) is not isinstance(one, Reason), text
        if not isinstance(one, Reason):
            assert (uri, route) == one
            assert can_be_sent, "the second wall, at the freezing of the workload, agrees"


def test_a_number_that_is_a_literal_segment_is_its_own_route() -> None:
    rules = UriRules(capture_section(routes=["/products/{id}", "/products/17"]))
    column = clean_column(pa.array(["/products/17", "/products/18"]), rules)
    assert column.route.to_pylist() == ["/products/17", "/products/{id}"]
    denied = UriRules(capture_section(routes=["/products/{id}"], deny=["/products/1[0-9]$"]))
    assert clean_column(pa.array(["/products/17", "/products/27"]), denied).codes.tolist()[1] == 0
    assert clean_column(pa.array(["/products/17", "/products/27"]), denied).codes.tolist()[0] != 0
    listed = UriRules(capture_section(routes=["/logout/{id}", "/products/{id}"]))
    assert (clean_column(pa.array(["/logout/17", "/products/" + "1" * 20_000]), listed).codes > 0).all()

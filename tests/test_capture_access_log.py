import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.capture.access_log import (
    read_accept_encoding,
    read_fields,
    read_sampling_rate,
    read_values,
    time_of_line_s,
)
from perf_pipeline.capture.reasons import Reason
from tests.access_log_lines import GOOD, HOUR_START_S, LOG_LINE, USER, line


def reason_for(**changed: str) -> Reason | None:
    fields = read_fields(line(**changed))
    assert isinstance(fields, dict)
    values = read_values(fields)
    return values if isinstance(values, Reason) else None


def test_a_good_line_is_read_and_keeps_every_rule() -> None:
    fields = read_fields(line())
    assert isinstance(fields, dict)
    assert fields["uri"] == GOOD["uri"]
    assert read_values(fields) == {
        "v": "1", "msec": (HOUR_START_S + 60) * 1000 + 250, "rt": 42, "m": "GET", "proto": "HTTP/1.1", "ok": "OK",
        "st": 200, "rid": bytes.fromhex(GOOD["rid"]), "user": USER, "rate": 1.0, "ae": "gzip, br",
    }  # fmt: skip


@pytest.mark.parametrize(
    "made",
    [b"", b"batman", b"[]", b"null", b'{"v":"1"', b'{"v":NaN}', b"[" * 5000, b"\xff[" * 2000, b'{"v":"\xff\\ud800"}',
     b'{"v":"1"}{"v":"1"}', b"\0\0\0", b"\xef\xbb\xbf{}", b'{"a":"\xff","b":NaN}'],
)  # fmt: skip
def test_what_is_no_json_object(made: bytes) -> None:
    assert read_fields(made) is Reason.NOT_JSON


@pytest.mark.parametrize("key", [key for key in GOOD if key not in ("host", "ust", "len", "rate")])
def test_each_needed_field_must_be_there_as_a_text(key: str) -> None:
    assert read_fields(line(key)) is Reason.FIELD_MISSING
    for value in (1, None, ["x"], {}):
        assert read_fields(json.dumps({**GOOD, key: value}).encode()) is Reason.FIELD_MISSING


def test_fields_that_are_not_read_may_be_anything() -> None:
    assert isinstance(read_fields(line("host", "ust", "len")), dict)
    assert isinstance(read_fields(json.dumps({**GOOD, "ust": 200, "more": []}).encode()), dict)


def test_the_sampling_rate_may_be_absent_but_not_unreadable() -> None:
    assert isinstance(read_fields(line("rate")), dict)
    assert read_fields(json.dumps({**GOOD, "rate": 0.5}).encode()) is Reason.FIELD_MISSING
    assert reason_for(rate="often") is Reason.SAMPLING_RATE


def test_bytes_that_are_not_utf8_come_through_unchanged() -> None:
    made = line(uri="/products?q=X").replace(b"X", b"\xff\xc0\xaf\xe9")
    fields = read_fields(made)
    assert isinstance(fields, dict)
    assert fields["uri"].encode("utf-8", "surrogateescape") == b"/products?q=\xff\xc0\xaf\xe9"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"v": "2"}, Reason.UNKNOWN_FORMAT),
        ({"msec": "1796012912"}, Reason.TIME),
        ({"msec": "\u0661796012912.006"}, Reason.TIME),
        ({"rt": "0.1, 0.2"}, Reason.TIME),
        ({"m": "", "uri": "", "st": "400"}, Reason.MALFORMED),
        ({"m": "get"}, Reason.NOT_GET),
        ({"m": "GETX"}, Reason.NOT_GET),
        ({"m": "GET "}, Reason.NOT_GET),
        ({"m": "HEAD"}, Reason.NOT_GET),
        ({"m": "POST"}, Reason.NOT_GET),
        ({"proto": ""}, Reason.PROTOCOL),
        ({"proto": "HTTP/0.9"}, Reason.PROTOCOL),
        ({"ok": ""}, Reason.NOT_COMPLETED),
        ({"st": "201"}, Reason.STATUS),
        ({"st": "404"}, Reason.STATUS),
        ({"st": "0200"}, Reason.STATUS),
        ({"st": ""}, Reason.STATUS),
        ({"rid": ""}, Reason.REQUEST_ID),
        ({"rid": "A" * 32}, Reason.REQUEST_ID),
        ({"rid": "a" * 31}, Reason.REQUEST_ID),
        ({"user": ""}, Reason.NO_USER),
        ({"user": "-"}, Reason.NO_USER),
        ({"user": "00000000-0000-0000-0000-000000000000"}, Reason.NO_USER),
        ({"user": "user-1"}, Reason.USER_NOT_UUID),
        ({"user": USER + "\n"}, Reason.USER_NOT_UUID),
        ({"rate": "0"}, Reason.SAMPLING_RATE),
        ({"rate": "1.5"}, Reason.SAMPLING_RATE),
        ({"proto": "HTTP/1.0"}, None),
        ({"proto": "HTTP/2.0"}, None),
        ({"st": "304"}, None),
        ({"host": ""}, None),
    ],
)
def test_field_rules(changed: dict[str, str], reason: Reason | None) -> None:
    assert reason_for(**changed) == reason


@pytest.mark.parametrize(
    ("text", "share"),
    [("1", 1.0), ("0.01", 0.01), ("1%", 0.01), ("12.5%", 0.125), ("100%", 1.0), ("0", None), ("2", None), ("", None),
     ("1e-2", None), ("-1", None), ("nan", None)],
)  # fmt: skip
def test_sampling_rates(text: str, share: float | None) -> None:
    assert read_sampling_rate(text) == (Reason.SAMPLING_RATE if share is None else share)


@pytest.mark.parametrize("text", ["gzip, deflate, br", "gzip;q=1.0, identity;q=0", "*", "br,zstd", "GZIP"])
def test_accept_encoding_of_known_codings_is_kept(text: str) -> None:
    assert read_accept_encoding(text) == text


@pytest.mark.parametrize(
    "text", ["", "gzip\r\nAuthorization: x", "gzip, \udcff", "secret", "gzip;q=2", "br, " * 99, "gzip\n"]
)
def test_any_other_accept_encoding_is_left_out(text: str) -> None:
    assert read_accept_encoding(text) == ""


def test_the_time_is_read_also_from_lines_that_are_torn_or_spaced() -> None:
    assert time_of_line_s(line()) == HOUR_START_S + 60
    assert time_of_line_s(line()[:60]) == HOUR_START_S + 60
    assert time_of_line_s(json.dumps(GOOD).encode()) == HOUR_START_S + 60
    assert time_of_line_s(b'{"uri":"\\"msec\\":\\"1111111111.000\\""}') is None
    assert time_of_line_s(b'{"msec":1796012912.006}') is None


@given(st.one_of(LOG_LINE, st.binary(max_size=60)))
def test_any_line_has_fields_or_a_reason(made: bytes) -> None:
    fields = read_fields(made)
    assert isinstance(fields, dict | Reason)
    time_of_line_s(made)
    if isinstance(fields, dict):
        read_values(fields)
        for value in fields.values():
            value.encode("utf-8", "surrogateescape")

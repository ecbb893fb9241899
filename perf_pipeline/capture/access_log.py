"""One line of the JSON access log: from any bytes to its fields, or to the reason why it is not replayed.

What belongs here: the log format and the rules on single fields. The format is nginx's `escape=json` with every value
quoted (keys v msec rt rid user m uri host proto st ust len ae ok, and `rate` where the log is sampled); further keys
are ignored. What a URI asks for is judged in `uri` and `query`. These functions are the definition of what a line says;
the fast path (`plain_lines`, `sieve`) calls them on the distinct values of a column.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import orjson

from perf_pipeline.capture.reasons import Reason

NEEDED_KEYS = ("v", "msec", "rt", "rid", "user", "m", "uri", "proto", "st", "ae", "ok")
"""Keys that every line must have, each with a text. `host`, `ust` and `len` are logged for people and not read."""

RATE_KEY = "rate"
"""Sampling rate, such as `0.01` or `1%`; a log without it took every request."""

LOG_FORMAT_REMEDY = (
    "log with the format of examples/demo/capture/nginx.conf: log_format ... escape=json, every value quoted"
)

READ_KEYS = (*NEEDED_KEYS, RATE_KEY)

Reader: TypeAlias = tuple[str, Callable[[str], Any]]
"""A key, and what reads its text."""

_ANONYMOUS = ("", "-", "anonymous", "00000000-0000-0000-0000-000000000000")
_PROTOCOLS = ("HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/3.0")
_STATUSES = {"200": 200, "304": 304}
_TIME = re.compile(r"[0-9]{10}\.[0-9]{3}")
_MSEC = re.compile(rb'"msec":"([0-9]{10})\.[0-9]{3}"')
_DURATION = re.compile(r"[0-9]{1,7}\.[0-9]{3}")
_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_RATE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,12})?)(%?)")
_CODINGS = re.compile(
    r"(?:gzip|x-gzip|deflate|br|zstd|compress|identity|\*)(?:;q=[01](?:\.[0-9]{1,3})?)?", re.IGNORECASE | re.ASCII
)


def read_fields(line: bytes) -> dict[str, str] | Reason:
    """The needed fields of a line, and the sampling rate where it is logged; or the reason why they cannot be read.

    A line that is not UTF-8 is read all the same: nginx passes bytes from 0x80 on as they came, and they stand in the
    texts as surrogate escapes, so that `encode("utf-8", "surrogateescape")` gives them back.
    """
    record = read_record(line)
    if record is None:
        return Reason.NOT_JSON
    fields = {key: value for key in READ_KEYS if isinstance(value := record.get(key), str)}
    optional = RATE_KEY not in fields and RATE_KEY not in record
    return fields if len(fields) == len(READ_KEYS) - optional else Reason.FIELD_MISSING


def read_record(line: bytes) -> dict[str, object] | None:
    """The JSON object on a line, of any keys; None when the line holds none."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        record = _read_bytes(line)
    return record if isinstance(record, dict) else None


def _read_bytes(line: bytes) -> object:
    """The JSON value of a line that is not UTF-8; None for any other line, which the strict parser has refused."""
    try:
        line.decode()
    except UnicodeDecodeError:
        try:
            record = json.loads(line.decode("utf-8", "surrogateescape"), parse_constant=_refuse)
            # An escaped lone surrogate is no text, and no byte of the line either.
            json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogateescape")
        except (ValueError, RecursionError):
            return None
        return record
    return None


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def read_version(text: str) -> str | Reason:
    """The version of the log format."""
    return text if text == "1" else Reason.UNKNOWN_FORMAT


def read_time_ms(text: str) -> int | Reason:
    """Unix time in ms of an nginx `$msec` such as `1796012912.006`."""
    return int(text[:-4] + text[-3:]) if _TIME.fullmatch(text) else Reason.TIME


def read_duration_ms(text: str) -> int | Reason:
    """Milliseconds of an nginx `$request_time` such as `0.042`."""
    return int(text[:-4] + text[-3:]) if _DURATION.fullmatch(text) else Reason.TIME


def read_method(text: str) -> str | Reason:
    """The method, which can only be GET; it is empty where nginx could not read the request."""
    return text if text == "GET" else Reason.NOT_GET if text else Reason.MALFORMED


def read_protocol(text: str) -> str | Reason:
    """The protocol. HTTP/0.9 is not among those that are replayed: it has no headers, so no token."""
    return text if text in _PROTOCOLS else Reason.PROTOCOL


def read_completion(text: str) -> str | Reason:
    """Whether the request was completed."""
    return text if text == "OK" else Reason.NOT_COMPLETED


def read_status(text: str) -> int | Reason:
    """A status of an answer that may be asked for again: 200 or 304."""
    return _STATUSES.get(text, Reason.STATUS)


def read_request_id(text: str) -> bytes | Reason:
    """The 16 bytes of an nginx `$request_id`."""
    return bytes.fromhex(text) if _REQUEST_ID.fullmatch(text) else Reason.REQUEST_ID


def read_user(text: str) -> str | Reason:
    """The user id as it stands in tokens and tables: a UUID in lower case (RFC 9562, section 4)."""
    if text in _ANONYMOUS:
        return Reason.NO_USER
    return text.lower() if _UUID.fullmatch(text) else Reason.USER_NOT_UUID


@lru_cache(maxsize=256)
def read_sampling_rate(text: str) -> float | Reason:
    """Share of requests that were logged, 0 < share <= 1, written `0.01` or `1%`."""
    match = _RATE.fullmatch(text)
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    return share if 0 < share <= 1 else Reason.SAMPLING_RATE


@lru_cache(maxsize=256)
def read_accept_encoding(text: str) -> str:
    """The header value to replay: as logged when it names known codings only, else empty.

    The client wrote it, so nothing else is carried on: it could hold a line break or a secret.
    """
    known = len(text) <= 200 and all(_CODINGS.fullmatch(part.strip(" \t")) for part in text.split(","))
    return text if known else ""


READERS: tuple[Reader, ...] = (
    ("v", read_version),
    ("msec", read_time_ms),
    ("rt", read_duration_ms),
    ("m", read_method),
    ("proto", read_protocol),
    ("ok", read_completion),
    ("st", read_status),
    ("rid", read_request_id),
    ("user", read_user),
    (RATE_KEY, read_sampling_rate),
    ("ae", read_accept_encoding),
)
"""What reads each field but the URI: its value, or the reason why the line is not replayed. The first reason, in this
order, is that of the line. Source: the reference's table of odd requests."""


def read_values(fields: dict[str, str], readers: Iterable[Reader] = READERS) -> dict[str, Any] | Reason:
    """The values of a line's fields by their keys, or the reason why the line is not replayed.

    A line without a sampling rate has none among its values. `readers` may be such that remember their answers.
    """
    values: dict[str, Any] = {}
    for key, reader in readers:
        if key in fields:
            value = reader(fields[key])
            if isinstance(value, Reason):
                return value
            values[key] = value
    return values


def time_of_line_s(line: bytes) -> int | None:
    """Unix time in whole seconds at which nginx wrote a line, for landing; None when it cannot be read.

    It is read from lines that are cut off too, as long as the time is there.
    """
    # In JSON a quote inside a text is escaped, so these bytes can only be the key.
    if match := _MSEC.search(line):
        return int(match[1])
    written = (read_record(line) or {}).get("msec")
    time_ms = read_time_ms(written) if isinstance(written, str) else Reason.TIME
    return None if isinstance(time_ms, Reason) else time_ms // 1000

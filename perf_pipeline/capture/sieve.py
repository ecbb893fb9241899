"""Which lines of the access log are replayed: the accepted as rows, the others with their reason.

What belongs here: applying the rules of `access_log` and `uri` to one line (`sift_line`, the definition) and to all
lines of an object (`sift`, the same answer at speed). `sift` splits plain lines into columns and asks each rule once
per distinct value, by the same functions; lines that are not plain go through `sift_line` one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.typing import NDArray

from perf_pipeline.capture.access_log import (
    FIELD_RULES,
    RATE_KEY,
    judge_fields,
    read_accept_encoding,
    read_duration_ms,
    read_fields,
    read_sampling_rate,
    read_status,
    read_time_ms,
    read_user,
)
from perf_pipeline.capture.lines import Lines, Positions
from perf_pipeline.capture.plain_lines import PlainLines, split_plain_lines
from perf_pipeline.capture.reasons import REASONS, Reason, reason_code
from perf_pipeline.capture.uri import UriRules
from perf_pipeline.capture.uri_column import clean_column
from perf_pipeline.plan import CaptureSection

_TEXTS = pa.dictionary(pa.int32(), pa.string())

ACCEPTED = pa.schema(
    [
        pa.field("line", pa.int32(), nullable=False),
        pa.field("arrival_ms", pa.int64(), nullable=False),
        pa.field("request_id", pa.binary(16), nullable=False),
        pa.field("user", _TEXTS, nullable=False),
        pa.field("uri", _TEXTS, nullable=False),
        pa.field("route", _TEXTS, nullable=False),
        pa.field("status", pa.int16(), nullable=False),
        pa.field("sampling_rate", pa.float64(), nullable=False),
        pa.field("accept_encoding", _TEXTS, nullable=False),
    ]
)
"""Accepted lines: number of the line in its object (from 0), arrival in unix ms (line written minus request time),
request id as 16 bytes, user, clean URI, route template, status, share of requests logged, Accept-Encoding."""

REJECTED = pa.schema(
    [
        pa.field("line", pa.int32(), nullable=False),
        pa.field("reason", _TEXTS, nullable=False),
        pa.field("raw", pa.large_binary(), nullable=False),
    ]
)
"""Rejected lines: number of the line in its object (from 0), reason, and the line as it came, without its newline."""

_POWERS_OF_TEN = 10 ** np.arange(12, -1, -1, dtype=np.int64)


class AcceptedLine(NamedTuple):
    """One accepted line: the columns of `ACCEPTED` but the line number."""

    arrival_ms: int
    request_id: bytes
    user: str
    uri: str
    route: str
    status: int
    sampling_rate: float
    accept_encoding: str


@dataclass(frozen=True)
class Sifted:
    """The lines of one object: `accepted` with schema `ACCEPTED`, `rejected` with schema `REJECTED`."""

    read: int
    accepted: pa.Table
    rejected: pa.Table


class Sieve:
    """The rules of a plan on access-log lines."""

    def __init__(self, capture: CaptureSection) -> None:
        """Take the rules from the plan's capture section."""
        self._uris = UriRules(capture)

    def sift_line(self, line: bytes) -> AcceptedLine | Reason:
        """What becomes of one line, any bytes without a newline. Never raises. This is what `sift` must say too."""
        fields = read_fields(line)
        if isinstance(fields, Reason):
            return fields
        if reason := judge_fields(fields):
            return reason
        uri = self._uris.clean(fields["uri"].encode("utf-8", "surrogateescape"))
        if isinstance(uri, Reason):
            return uri
        time_ms, duration_ms = read_time_ms(fields["msec"]), read_duration_ms(fields["rt"])
        status = read_status(fields["st"])
        sampling_rate = read_sampling_rate(fields[RATE_KEY]) if RATE_KEY in fields else 1.0
        if time_ms is None or duration_ms is None or status is None or sampling_rate is None:
            raise AssertionError("a field rule let through what it should not")
        return AcceptedLine(
            arrival_ms=time_ms - duration_ms,
            request_id=bytes.fromhex(fields["rid"]),
            user=read_user(fields["user"]),
            uri=uri.uri,
            route=uri.route,
            status=status,
            sampling_rate=sampling_rate,
            accept_encoding=read_accept_encoding(fields["ae"]),
        )

    def sift(self, data: bytes) -> Sifted:
        """What becomes of each line of a text in which each line ends with a newline."""
        lines = Lines(data)
        codes = np.zeros(len(lines), np.uint8)
        accepted: list[pa.Table] = []
        others = np.ones(len(lines), np.bool_)
        for plain in split_plain_lines(lines):
            others[plain.numbers] = False
            table, codes[plain.numbers] = self._sift_plain(plain)
            accepted.append(table)
        if others.any():
            accepted.append(self._sift_others(lines, np.flatnonzero(others), codes))
        rejected = np.flatnonzero(codes)
        reasons = pa.array(map(str, REASONS), pa.string())
        return Sifted(
            read=len(lines),
            accepted=pa.concat_tables(accepted).unify_dictionaries() if accepted else ACCEPTED.empty_table(),
            rejected=pa.table(
                [
                    pa.array(rejected, pa.int32()),
                    pa.DictionaryArray.from_arrays(pa.array(codes[rejected] - 1, pa.int32()), reasons),
                    lines.take(rejected),
                ],
                schema=REJECTED,
            ),
        )

    def _sift_others(self, lines: Lines, numbers: Positions, codes: NDArray[np.uint8]) -> pa.Table:
        """Sift the numbered lines one by one; their reasons go into `codes`."""
        rows: list[tuple[int, AcceptedLine]] = []
        for number, line in zip(numbers.tolist(), lines.take(numbers).to_pylist(), strict=True):
            row = self.sift_line(line)
            if isinstance(row, Reason):
                codes[number] = reason_code(row)
            else:
                rows.append((number, row))
        columns = zip(*((number, *row) for number, row in rows), strict=True) if rows else [()] * len(ACCEPTED)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, ACCEPTED, strict=True)]
        return pa.table(arrays, schema=ACCEPTED)

    def _sift_plain(self, plain: PlainLines) -> tuple[pa.Table, NDArray[np.uint8]]:
        """Sift plain lines by their columns: the accepted, and per line the code of its reason (0 if accepted)."""
        texts = dict(plain.texts)
        time_ms, request_id = _times_ms(plain.fixed.get("msec")), _request_ids(plain.fixed.get("rid"))
        if time_ms is None:
            texts["msec"] = _as_texts(plain, "msec")
            time_ms = _per_text(texts["msec"], lambda text: read_time_ms(text) or 0, np.int64)
        if request_id is None:
            texts["rid"] = _as_texts(plain, "rid")
            request_id = _per_text(texts["rid"], _request_id_or_zeros, np.dtype("V16"))

        codes = np.zeros(len(plain.numbers), np.uint8)
        for key, rule in FIELD_RULES:
            if key in texts:  # the others keep their rule, or are not logged
                found = _per_text(texts[key], _coded(rule), np.uint8)
                codes = np.where(codes == 0, found, codes)

        rows = np.flatnonzero(codes == 0)
        asked = only_used(texts["uri"].take(pa.array(rows)))
        clean = clean_column(asked.dictionary, self._uris)
        codes[rows] = clean.codes[asked.indices.to_numpy()]
        kept = codes[rows] == 0
        rows, which_uri = rows[kept], asked.indices.filter(pa.array(kept))

        duration_ms = _per_text(texts["rt"], lambda text: read_duration_ms(text) or 0, np.int64)
        sampling_rate = np.ones(len(codes))
        if RATE_KEY in texts:
            sampling_rate = _per_text(texts[RATE_KEY], lambda text: read_sampling_rate(text) or 0.0, np.float64)
        ids = pa.py_buffer(np.ascontiguousarray(request_id[rows]))
        accepted = [
            pa.array(plain.numbers[rows], pa.int32()),
            pa.array(time_ms[rows] - duration_ms[rows]),
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(rows), [None, ids]),
            _texts_of(texts["user"].take(pa.array(rows)), read_user),
            only_used(clean.uri.take(which_uri)),
            clean.route.take(which_uri),
            pa.array(_per_text(texts["st"], lambda text: read_status(text) or 0, np.int16)[rows]),
            pa.array(sampling_rate[rows]),
            _texts_of(texts["ae"].take(pa.array(rows)), read_accept_encoding),
        ]
        return pa.table(accepted, schema=ACCEPTED), codes


def _coded(rule: Callable[[str], Reason | None]) -> Callable[[str], int]:
    return lambda text: reason_code(rule(text))


def only_used(texts: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same texts with a dictionary of those that occur."""
    indices = texts.indices.to_numpy()
    used = np.zeros(len(texts.dictionary), np.bool_)
    used[indices] = True
    renumbered = (np.cumsum(used) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(renumbered[indices], texts.dictionary.filter(pa.array(used)))


def _per_text(texts: pa.DictionaryArray, function: Callable[[str], object], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The function of each text of a column, called once per distinct text."""
    values = np.array([function(text) for text in texts.dictionary.to_pylist()], dtype)
    return values[texts.indices.to_numpy()]


def _texts_of(texts: pa.DictionaryArray, function: Callable[[str], str]) -> pa.DictionaryArray:
    """The same for texts: the function may make two of them one."""
    values = pa.array([function(text) for text in texts.dictionary.to_pylist()], pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(values.indices.take(texts.indices), values.dictionary)


def _request_id_or_zeros(text: str) -> bytes:
    try:
        return bytes.fromhex(text).rjust(16, b"\0")[:16]
    except ValueError:
        return bytes(16)


def _as_texts(plain: PlainLines, key: str) -> pa.DictionaryArray:
    """The values of a key as texts, also where they were kept as rows of bytes."""
    if key in plain.texts:
        return plain.texts[key]
    values = plain.fixed[key]
    rows, width = values.shape
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())).dictionary_encode()


def _times_ms(values: NDArray[np.uint8] | None) -> NDArray[np.int64] | None:
    """Unix ms of a column of `$msec`, all at once; None when one of them is not ten digits, a point, three digits."""
    if values is None or (values[:, 10] != ord(".")).any():
        return None
    digits = np.delete(values, 10, axis=1) - np.uint8(ord("0"))
    return digits @ _POWERS_OF_TEN if (digits <= 9).all() else None


def _request_ids(values: NDArray[np.uint8] | None) -> npt.NDArray[np.void] | None:
    """The bytes of a column of request ids, all at once; None when one of them is not 32 hex digits in lower case."""
    if values is None:
        return None
    texts = values.tobytes()
    try:
        ids = bytes.fromhex(texts.decode("ascii"))
    except ValueError:
        return None
    return np.frombuffer(ids, "V16") if ids.hex().encode("ascii") == texts else None

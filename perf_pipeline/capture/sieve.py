"""Which lines of the access log are replayed: the accepted as rows, the others with their reason.

What belongs here: applying the rules of `access_log` and `uri` to one line (`sift_line`, the definition) and to all
lines of an object (`sift`, the same answer at speed). `sift` splits plain lines into columns and asks each rule once
per distinct value, by the same functions; lines that are not plain go through `sift_line` one by one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.typing import NDArray

from perf_pipeline.capture.access_log import RATE_KEY, READERS, read_fields, read_values
from perf_pipeline.capture.lines import Lines, Positions
from perf_pipeline.capture.plain_lines import FIXED_WIDTHS, PlainLines, split_plain_lines
from perf_pipeline.capture.reasons import REASONS, Reason, reason_code
from perf_pipeline.capture.remembered import Remembered
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
        # The same users, durations and so on come again in each object; times and ids do not.
        self._readers = [
            (key, reader if key in FIXED_WIDTHS else Remembered(reader).__getitem__) for key, reader in READERS
        ]

    def sift_line(self, line: bytes) -> AcceptedLine | Reason:
        """What becomes of one line, any bytes without a newline. Never raises. This is what `sift` must say too."""
        fields = read_fields(line)
        if isinstance(fields, Reason):
            return fields
        values = read_values(fields, self._readers)
        if isinstance(values, Reason):
            return values
        uri = self._uris.clean(fields["uri"].encode("utf-8", "surrogateescape"))
        if isinstance(uri, Reason):
            return uri
        return AcceptedLine(
            arrival_ms=values["msec"] - values["rt"],
            request_id=values["rid"],
            user=values["user"],
            uri=uri.uri,
            route=uri.route,
            status=values["st"],
            sampling_rate=values.get(RATE_KEY, 1.0),
            accept_encoding=values["ae"],
        )

    def sift(self, data: pa.Buffer) -> Sifted:
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
        time_ms, request_id = _times_ms(plain.fixed.get("msec")), _request_ids(plain.fixed.get("rid"))
        texts = dict(plain.texts)
        for key, in_bulk in (("msec", time_ms), ("rid", request_id)):
            if in_bulk is None and key in plain.fixed:
                texts[key] = _as_texts(plain.fixed[key])

        codes = np.zeros(len(plain.numbers), np.uint8)
        values: dict[str, list[Any]] = {}
        for key, reader in self._readers:
            if key in texts:  # else all of them were read at once, or it is not logged
                values[key] = list(map(reader, texts[key].dictionary.to_pylist()))
                found = np.array([reason_code(value) for value in values[key]], np.uint8)
                if found.any():
                    codes = np.where(codes == 0, found[texts[key].indices.to_numpy()], codes)

        rows = np.flatnonzero(codes == 0)
        asked = only_used(texts["uri"].take(pa.array(rows)))
        clean = clean_column(asked.dictionary, self._uris)
        codes[rows] = clean.codes[asked.indices.to_numpy()]
        kept = codes[rows] == 0
        rows, which_uri = rows[kept], asked.indices.filter(pa.array(kept))

        def numbers(key: str, dtype: npt.DTypeLike, instead: object = 0) -> npt.NDArray[Any]:
            """The values of a column in the rows that are kept."""
            distinct = [instead if isinstance(value, Reason) else value for value in values[key]]
            return np.array(distinct, dtype)[texts[key].indices.to_numpy()[rows]]

        def words(key: str) -> pa.DictionaryArray:
            """The same for texts; two of them may have become one."""
            distinct = ["" if isinstance(value, Reason) else value for value in values[key]]
            encoded = pa.array(distinct, pa.string()).dictionary_encode()
            which = encoded.indices.take(texts[key].indices.take(pa.array(rows)))
            return pa.DictionaryArray.from_arrays(which, encoded.dictionary)

        written_ms = numbers("msec", np.int64) if time_ms is None else time_ms[rows]
        ids = numbers("rid", "V16", bytes(16)) if request_id is None else np.ascontiguousarray(request_id[rows])
        accepted = [
            pa.array(plain.numbers[rows], pa.int32()),
            pa.array(written_ms - numbers("rt", np.int64)),
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(rows), [None, pa.py_buffer(ids)]),
            words("user"),
            only_used(clean.uri.take(which_uri)),
            clean.route.take(which_uri),
            pa.array(numbers("st", np.int16)),
            pa.array(numbers(RATE_KEY, np.float64) if RATE_KEY in texts else np.ones(len(rows))),
            words("ae"),
        ]
        return pa.table(accepted, schema=ACCEPTED), codes


def only_used(texts: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same texts with a dictionary of those that occur."""
    indices = texts.indices.to_numpy()
    used = np.zeros(len(texts.dictionary), np.bool_)
    used[indices] = True
    renumbered = (np.cumsum(used) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(renumbered[indices], texts.dictionary.filter(pa.array(used)))


def _as_texts(values: NDArray[np.uint8]) -> pa.DictionaryArray:
    """Rows of bytes as texts."""
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

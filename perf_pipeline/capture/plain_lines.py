"""Plain lines of the access log, thousands at a time: split into columns without parsing JSON.

What belongs here: the fast path, and why it says what a JSON parser would say. nginx writes every line from one
pattern, `{"v":"1","msec":"...", ...}`: a fixed skeleton with values in it. A line is plain when

- it has ASCII without control characters and backslashes only, so that nothing in it is escaped, and
- cut at the colons behind the keys, each piece is a text without quotes in the skeleton's wrapping.

Then it is the compact JSON of these texts, and any JSON parser reads exactly them. Every other line is left to
`access_log.read_fields`. The cutting is done by Arrow's CSV reader, the fastest reader of delimited text at hand, and
what costs time per text is done per distinct text.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
from numpy.typing import NDArray

from perf_pipeline.capture.access_log import NEEDED_KEYS, READ_KEYS
from perf_pipeline.capture.lines import Lines, Positions

FIXED_WIDTHS = {"msec": 14, "rid": 32}
"""Values that differ from line to line and have one width: kept as rows of bytes, not as distinct texts."""

_CUT = b'":"'
_MARKED_CUT = b'"\x01"'  # a plain line holds no control character, so this one can only be ours
_BLOCK_BYTES = 2 * 2**20
_LINES_TO_LEARN_FROM = 100


@dataclass(frozen=True)
class PlainLines:
    """Lines split into values. A key stands in `texts` or in `fixed`."""

    numbers: Positions
    """Number of each line in the text that was split."""
    texts: dict[str, pa.DictionaryArray]
    """Per key the value of each line."""
    fixed: dict[str, NDArray[np.uint8]]
    """Per key of `FIXED_WIDTHS` the value of each line, lines x width, where all of them have this width."""


def split_plain_lines(lines: Lines) -> list[PlainLines]:
    """The plain lines of a text, in batches. A line that is in none of them is for the exact path to read."""
    numbers = np.flatnonzero(~lines.odd)
    skeleton = _learn(lines.take(numbers[:_LINES_TO_LEARN_FROM]).to_pylist())
    if skeleton is None:
        return []
    first = _renumbered(skeleton.split(lines.join(numbers), ":"), numbers)
    rest = np.setdiff1d(numbers, first.numbers, assume_unique=True)
    if not len(rest):
        return [first]
    # A colon in a value makes one piece too many. Marking the cuts first costs more, so only these lines get it.
    marked = pa.py_buffer(lines.join(rest).to_pybytes().replace(_CUT, _MARKED_CUT))
    return [first, _renumbered(skeleton.split(marked, "\x01"), rest)]


def _renumbered(plain: PlainLines, numbers: Positions) -> PlainLines:
    return replace(plain, numbers=numbers[plain.numbers])


def _learn(lines: list[bytes]) -> "Skeleton | None":
    """The skeleton of the first line that has one."""
    for line in lines:
        try:
            return Skeleton(line)
        except ValueError:
            continue
    return None


class Skeleton:
    """What the lines of a log have in common: they are the compact JSON of texts under the same keys in one order."""

    def __init__(self, line: bytes) -> None:
        """Learn from a line that is not odd. Raises ValueError when it has no such form."""
        record = orjson.loads(line)
        if not isinstance(record, dict) or not set(NEEDED_KEYS) <= set(record):
            raise ValueError("the line lacks a needed key")
        if not all(isinstance(value, str) for value in record.values()) or orjson.dumps(record) != line:
            raise ValueError("the line is not the compact JSON of texts")
        keys = list(record)
        self._head = f'{{"{keys[0]}"'
        self._tails = {key: f'","{after}"' for key, after in pairwise(keys)} | {keys[-1]: '"}'}

    def split(self, data: pa.Buffer, delimiter: str) -> PlainLines:
        """The lines that fit, of a text without odd lines in which the delimiter stands between keys and values."""
        table, numbers = self._cut(data, delimiter)
        fits = pc.equal(table.column(0), self._head).combine_chunks().to_numpy(False)
        texts: dict[str, pa.DictionaryArray] = {}
        fixed: dict[str, NDArray[np.uint8]] = {}
        for position, (key, tail) in enumerate(self._tails.items(), start=1):
            pieces = table.column(position).combine_chunks()
            values = _unwrap_fixed_width(pieces, FIXED_WIDTHS[key], tail) if key in FIXED_WIDTHS else None
            if values is not None:
                fixed[key] = values
                continue
            unwrapped, unwraps = _unwrap(_distinct(pieces), tail)
            fits = fits & unwraps
            if key in READ_KEYS:
                texts[key] = unwrapped
        if not fits.all():
            texts = {key: column.filter(pa.array(fits)) for key, column in texts.items()}
            fixed = {key: values[fits] for key, values in fixed.items()}
        return PlainLines(numbers[fits], texts, fixed)

    def _cut(self, data: pa.Buffer, delimiter: str) -> tuple[pa.Table, Positions]:
        """The pieces of the lines that have the right number of them, a column each; and the numbers of these lines."""
        misfits: list[int] = []

        def skip(row: csv.InvalidRow) -> str:
            misfits.append(row.number - 1)
            return "skip"

        names = [str(position) for position in range(1 + len(self._tails))]
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=names),
            parse_options=csv.ParseOptions(
                delimiter=delimiter, quote_char=False, ignore_empty_lines=False, invalid_row_handler=skip
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), check_utf8=False, strings_can_be_null=False
            ),
        )
        return table, np.delete(np.arange(table.num_rows + len(misfits)), misfits)


def _distinct(pieces: pa.StringArray) -> pa.DictionaryArray:
    """The pieces as a dictionary and indices; quickly where all of them are one, as in many columns of a log."""
    if len(pieces) and pieces[0] == pieces[-1] and pc.all(pc.equal(pieces, pieces[0])).as_py():
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(pieces), np.int32)), pieces.slice(0, 1))
    return pieces.dictionary_encode()


def _unwrap(pieces: pa.DictionaryArray, tail: str) -> tuple[pa.DictionaryArray, NDArray[np.bool_]]:
    """The values in pieces such as `"GET","uri"`, and per piece whether it is a value in this wrapping."""
    wrapped = pieces.dictionary
    values = pc.utf8_slice_codeunits(wrapped, 1, -len(tail))
    whole = pc.and_(pc.starts_with(wrapped, '"'), pc.ends_with(wrapped, tail))
    whole = pc.and_(whole, pc.greater(pc.binary_length(wrapped), len(tail)))
    whole = pc.and_not(whole, pc.match_substring(values, '"')).to_numpy(False)
    indices = pieces.indices
    unwraps = np.ones(len(indices), np.bool_) if whole.all() else whole[indices.to_numpy()]
    return pa.DictionaryArray.from_arrays(indices, values), unwraps


def _unwrap_fixed_width(pieces: pa.StringArray, width: int, tail: str) -> NDArray[np.uint8] | None:
    """The values in pieces, as rows of `width` bytes; None when a piece is no value of this width in its wrapping."""
    rows, length = len(pieces), 1 + width + len(tail)
    _, offsets_buffer, data = pieces.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, rows + 1, 4 * pieces.offset)
    if not rows or (np.diff(offsets) != length).any():
        return None
    table = np.frombuffer(data, np.uint8, rows * length, offsets[0]).reshape(rows, length)
    values = table[:, 1 : 1 + width]
    quote = ord('"')
    in_shape = (table[:, 0] == quote).all() and (table[:, 1 + width :] == np.frombuffer(tail.encode(), np.uint8)).all()
    return values if in_shape and not (values == quote).any() else None

"""The lines of a text: where they are, and which hold a byte that makes them odd.

What belongs here: bytes and positions. What a line says is in `access_log` and `plain_lines`. Texts are Arrow buffers:
they are large, and Arrow takes the memory of the last one for the next.
"""

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Positions: TypeAlias = NDArray[np.int64]

LONG_LINE_BYTES = 65_536
"""Longer lines count as odd; nginx lines stay below it with its default header buffers."""

_SCAN_BYTES = 2**18  # a scan in pieces that stay in the processor's cache


class Lines:
    """A text in which each line ends with a newline. Lines have numbers, from 0."""

    def __init__(self, data: pa.Buffer) -> None:
        """Index the lines. Raises ValueError when the last line has no newline."""
        if data.size and data[-1] != ord("\n"):
            raise ValueError("the last line has no newline")
        self._data = data
        ends, unusual = _scan(data)
        bounds = np.concatenate([np.zeros(1, np.int64), ends + 1])
        self.odd: NDArray[np.bool_] = np.diff(bounds) > LONG_LINE_BYTES
        """Per line: it holds a backslash, a control character or a byte that is not ASCII, or is very long."""
        self.odd[np.searchsorted(ends, unusual)] = True
        # The lines as an Arrow array that shares the bytes of the text.
        self._lines = pa.Array.from_buffers(pa.large_binary(), len(ends), [None, pa.py_buffer(bounds), data])

    def __len__(self) -> int:
        return len(self._lines)

    def take(self, numbers: Positions) -> pa.LargeBinaryArray:
        """The numbered lines, each without its newline."""
        return pc.binary_slice(self._lines.take(pa.array(numbers)), 0, -1)

    def join(self, numbers: Positions) -> pa.Buffer:
        """The numbered lines as a text of their own."""
        if len(numbers) == len(self):
            return self._data
        return self._lines.take(pa.array(numbers)).buffers()[2] or pa.py_buffer(b"")


def _scan(data: pa.Buffer) -> tuple[Positions, Positions]:
    """The positions of the newlines, and of the other bytes that make a line odd."""
    # As signed numbers, control characters and all that is not ASCII are below 32.
    buffer = np.frombuffer(data, np.int8)
    special = [np.zeros(0, np.int64)]
    for start in range(0, len(buffer), _SCAN_BYTES):
        piece = buffer[start : start + _SCAN_BYTES]
        special.append(np.flatnonzero((piece < 32) | (piece == ord("\\"))) + start)
    positions = np.concatenate(special)
    is_end = buffer[positions] == ord("\n")
    return positions[is_end], positions[~is_end]

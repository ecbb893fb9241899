"""The lines of a text: where they are, and which hold a byte that makes them odd.

What belongs here: bytes and positions. What a line says is in `access_log` and `plain_lines`.
"""

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Positions: TypeAlias = NDArray[np.int64]

MAX_PLAIN_BYTES = 65_536
"""Longer lines count as odd; nginx lines stay below it with its default header buffers."""

_SCAN_BYTES = 2**18  # a scan in pieces that stay in the processor's cache


class Lines:
    """A text in which each line ends with a newline. Lines have numbers, from 0."""

    def __init__(self, data: bytes) -> None:
        """Index the lines. Raises ValueError when the last line has no newline."""
        if data and not data.endswith(b"\n"):
            raise ValueError("the last line has no newline")
        self.data = data
        ends, unusual = _scan(data)
        self._bounds = np.concatenate([np.zeros(1, np.int64), ends + 1])
        self.odd: NDArray[np.bool_] = np.diff(self._bounds) > MAX_PLAIN_BYTES
        """Per line: it holds a backslash, a control character or a byte that is not ASCII, or is very long."""
        self.odd[np.searchsorted(ends, unusual)] = True
        # The lines as an Arrow array that shares the bytes of the text.
        buffers = [None, pa.py_buffer(self._bounds), pa.py_buffer(data)]
        self._lines = pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)

    def __len__(self) -> int:
        return len(self._lines)

    def take(self, numbers: Positions) -> pa.LargeBinaryArray:
        """The numbered lines, each without its newline."""
        return pc.binary_slice(self._lines.take(pa.array(numbers)), 0, -1)

    def join(self, numbers: Positions) -> bytes:
        """The numbered lines as a text of their own."""
        if len(numbers) == len(self):
            return self.data
        # Neighbours are copied together: mostly a few lines are left out of many.
        first = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
        last = np.flatnonzero(np.diff(numbers, append=-2) != 1)
        starts, ends = self._bounds[numbers[first]].tolist(), self._bounds[numbers[last] + 1].tolist()
        view = memoryview(self.data)
        return b"".join(view[start:end] for start, end in zip(starts, ends, strict=True))


def _scan(data: bytes) -> tuple[Positions, Positions]:
    """The positions of the newlines, and of the other bytes that make a line odd."""
    # As signed numbers, control characters and all that is not ASCII are below 32: one comparison finds them.
    buffer = np.frombuffer(data, np.int8)
    special = [np.zeros(0, np.int64)]
    for start in range(0, len(buffer), _SCAN_BYTES):
        piece = buffer[start : start + _SCAN_BYTES]
        special.append(np.flatnonzero(piece < 32) + start)
        if data.find(b"\\", start, start + _SCAN_BYTES) >= 0:
            special.append(np.flatnonzero(piece == ord("\\")) + start)
    positions = np.concatenate(special)
    is_end = buffer[positions] == ord("\n")
    return positions[is_end], positions[~is_end]

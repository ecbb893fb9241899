"""A function of short byte strings that remembers its answers, in bounded memory.

What belongs here: the memory. `functools.lru_cache` would keep long keys too, and strangers choose the keys.
"""

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

ENTRIES_MAX = 200_000
KEY_BYTES_MAX = 100


class Remembered(dict[bytes, Value]):
    """`remembered[key]` is `function(key)`. At most `ENTRIES_MAX` answers are kept, for keys up to `KEY_BYTES_MAX`."""

    def __init__(self, function: Callable[[bytes], Value]) -> None:
        """Remember what a pure function answers."""
        super().__init__()
        self._function = function

    def __missing__(self, key: bytes) -> Value:
        value = self._function(key)
        if len(key) <= KEY_BYTES_MAX:
            if len(self) >= ENTRIES_MAX:
                self.clear()
            self[key] = value
        return value

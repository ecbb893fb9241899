"""A function of short texts or byte strings that remembers its answers, in bounded memory.

What belongs here: the memory. `functools.lru_cache` would keep long keys too, and strangers choose the keys.
"""

from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key", bound=str | bytes)
Value = TypeVar("Value")

ENTRIES_MAX = 200_000
KEY_LENGTH_MAX = 100


class Remembered(dict[Key, Value]):
    """`remembered[key]` is `function(key)`. At most `ENTRIES_MAX` answers are kept, for keys up to `KEY_LENGTH_MAX`."""

    def __init__(self, function: Callable[[Key], Value]) -> None:
        """Remember what a pure function answers."""
        super().__init__()
        self._function = function

    def __missing__(self, key: Key) -> Value:
        value = self._function(key)
        if len(key) <= KEY_LENGTH_MAX:
            if len(self) >= ENTRIES_MAX:
                self.clear()
            self[key] = value
        return value

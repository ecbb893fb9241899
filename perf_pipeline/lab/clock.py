"""The clock of this machine during a run: samples and scrapes carry its time, and only that puts them together.

What belongs here: noticing that it was set, forwards or back, or that the machine slept. Slow corrections, as NTP makes
them all the time, are none of that.
"""

import time

STEP_S = 0.25
"""Seconds between two looks by which the clock must have moved against time that passed to count as set."""
_READ_WITHIN_S = 0.05
_TRIES = 5


class ClockWatch:
    """Compares the clock with the time that passed, from one look to the next."""

    def __init__(self) -> None:
        """Begin to watch."""
        self._offset_s = _offset_s()

    def step_s(self) -> float | None:
        """Seconds by which the clock was set since the last look; None when it was not."""
        offset_s, before_s = _offset_s(), self._offset_s
        if offset_s is None:
            return None
        self._offset_s = offset_s
        if before_s is None or abs(offset_s - before_s) < STEP_S:
            return None
        return offset_s - before_s


def _offset_s() -> float | None:
    """The clock's time less the time that passed; None where this process was kept waiting between the two readings."""
    for _ in range(_TRIES):
        before_s, now_s, after_s = time.monotonic(), time.time(), time.monotonic()
        if after_s - before_s < _READ_WITHIN_S:
            return now_s - before_s
    return None

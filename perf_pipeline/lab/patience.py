"""Waiting for a place that cannot be written for a while: a network drive that comes back, a disk that is cleared.

What belongs here: trying again for a bounded time, and saying so. What was measured is worth the wait.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from perf_pipeline.lab.interruption import raise_if_abandoned

PATIENCE_S = 120.0
_TRY_EVERY_S = 1.0

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def patiently(write: Callable[[], _T], what: str) -> _T:
    """Do something that writes, and again while it raises OSError; its last one is raised after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    said = False
    while True:
        try:
            return write()
        except OSError as error:
            if time.monotonic() >= deadline:
                raise
            if not said:
                _log.warning("Waiting, up to %.0f s, for %s: %s", PATIENCE_S, what, error)
                said = True
        raise_if_abandoned()
        time.sleep(_TRY_EVERY_S)

"""Waiting for a place that cannot be written for a while: a network drive or a bucket that comes back, a cleared disk.

What belongs here: trying again for a bounded time, and saying so. What was measured is worth the wait.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from perf_pipeline.errors import StoreAwayError
from perf_pipeline.lab.interruption import raise_if_abandoned

PATIENCE_S = 120.0
_TRY_EVERY_S = 1.0

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def patiently(write: Callable[[], _T], what: str) -> _T:
    """Do something that writes, and again while it raises OSError or StoreAwayError, for PATIENCE_S.

    The last error is raised then. A try that is under way at that time is not cut off.
    """
    deadline = time.monotonic() + PATIENCE_S
    said = False
    while True:
        try:
            return write()
        except (OSError, StoreAwayError) as error:
            if time.monotonic() >= deadline:
                raise
            if not said:
                why = error.problems[0].what if isinstance(error, StoreAwayError) else error
                _log.warning("Waiting, up to %.0f s, for %s: %s", PATIENCE_S, what, why)
                said = True
        raise_if_abandoned()
        time.sleep(_TRY_EVERY_S)

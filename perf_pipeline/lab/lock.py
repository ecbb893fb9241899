"""One campaign at a time on a machine: two would measure each other.

What belongs here: the lock. It is a file that the operating system locks for the process that holds it, and unlocks
however that process ends, so that nothing has to be cleaned up after a crash.
"""

import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.lab.interruption import raise_if_abandoned

PATIENCE_S = 3600.0
_ASK_EVERY_S = 0.2

_log = logging.getLogger(__name__)


@contextmanager
def one_campaign_at_a_time(
    comparison: str, patience_s: float = PATIENCE_S, folder: Path | None = None
) -> Iterator[None]:
    """Hold the machine's lab within the block; wait for a campaign that holds it, as long as `patience_s`.

    A second campaign of the same comparison then finds the runs of the first and measures nothing twice. Raises
    InputError, naming the holder, when it has not ended by then.
    """
    path = (folder or Path(tempfile.gettempdir())) / f"perf_pipeline-lab-{os.getuid()}.lock"
    # Others may write where this file is: never follow a link of theirs.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+") as file:
        _acquire(file.fileno(), path, patience_s)
        file.truncate(0)
        file.write(f"the campaign of {comparison} (process {os.getpid()})")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _acquire(descriptor: int, path: Path, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    said = ""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            holder = path.read_text() or "another campaign"
            if time.monotonic() >= deadline:
                remedy = "wait until it has ended, or stop it; two at once would measure each other"
                raise InputError(Problem("lab", f"this machine is measuring: {holder}", remedy)) from error
            if holder != said:
                _log.warning(
                    "Waiting, up to %.0f min, for %s: two at once would measure each other", patience_s / 60, holder
                )
                said = holder
        raise_if_abandoned()
        time.sleep(_ASK_EVERY_S)

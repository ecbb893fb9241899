"""When a process was started, told in a way that setting the clock does not change.

What belongs here: what tells a process from a later one that got its id. On Linux the start is counted in ticks since
the machine was started; elsewhere it is a unix time, which is the same again up to what the clock was set by.
"""

from pathlib import Path

import psutil

_CLOCK_S = 60
"""Seconds by which a unix time may differ when it is asked for again: clocks are set."""


def process_start(pid: int) -> str:
    """The start of a running process as text without a space or a dash.

    Raises psutil.NoSuchProcess when it is gone, and psutil.AccessDenied when it may not be looked at.
    """
    started_s = psutil.Process(pid).create_time()
    try:
        # Whatever stands in its name, the last ")" ends it; the start is the 22nd field, and the name is the 2nd.
        return "t" + Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return f"{started_s:.0f}"


def runs_since(pid: int, start: str) -> bool:
    """Whether a process runs that is the one whose `process_start` was this, and none that got its id later.

    Raises psutil.AccessDenied when it may not be looked at.
    """
    try:
        if start.isdigit():
            return abs(psutil.Process(pid).create_time() - int(start)) <= _CLOCK_S
        return process_start(pid) == start
    except psutil.NoSuchProcess:
        return False

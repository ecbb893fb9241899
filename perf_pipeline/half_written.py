"""Names of what is being written, and the removal of what a killed process never finished.

What belongs here: how a half-written file or folder is told from a whole one, and from one whose process is gone. Its
name begins with `.partial-` and says who writes it: the process's id, its start, this machine's name. Who writes what,
and how it is moved into place, is in `storage`.
"""

import os
import re
import shutil
import socket
import tempfile
from functools import cache
from pathlib import Path, PurePath

import psutil

from perf_pipeline.process_start import process_start, runs_since

_PARTIAL = ".partial-"
_WRITTEN_BY = re.compile(r"\.partial-(?P<pid>\d+)-(?P<start>t?\d+)-(?P<host>.*)-[^-]*")


def is_partial(path: PurePath) -> bool:
    """Whether a path is that of something half-written, or lies in it."""
    return any(part.startswith(_PARTIAL) for part in path.parts)


def partial_prefix() -> str:
    """How the names of what this process is writing begin."""
    pid = os.getpid()
    return f"{_PARTIAL}{pid}-{_start(pid)}-{socket.gethostname()}-"


def new_partial(parent: Path | None, name: str = "folder") -> Path:
    """A new folder for its owner's eyes only, in the parent or in the system's folder for temporary files."""
    return Path(tempfile.mkdtemp(prefix=partial_prefix(), suffix=f"_{name.replace('-', '_')}", dir=parent))


def remove_partials_of_the_dead(root: Path) -> list[Path]:
    """Remove what processes of this machine that no longer run were writing below a folder, and return the paths.

    What another machine writes into a shared folder stays: its processes cannot be seen from here.
    """
    removed: list[Path] = []
    for folder, names, files in os.walk(root):
        dead = [Path(folder, name) for name in (*names, *files) if _is_of_the_dead(name)]
        for path in dead:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        names[:] = [name for name in names if not name.startswith(_PARTIAL)]
        removed += dead
    return removed


@cache
def _start(pid: int) -> str:
    return process_start(pid)


def _is_of_the_dead(name: str) -> bool:
    """Whether a process of this machine that no longer runs was writing under that name."""
    written_by = _WRITTEN_BY.fullmatch(name)
    if written_by is None or written_by["host"] != socket.gethostname():
        return False
    try:
        return not runs_since(int(written_by["pid"]), written_by["start"])
    except psutil.AccessDenied:
        return False

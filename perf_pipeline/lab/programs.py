"""The programs of a run: started in sessions of their own, ended together, whatever happens.

What belongs here: starting and ending processes. Three layers take a program down, each when the one before could not:
the `with` block of `programs`, on return, on an exception and on a signal that `interruption` turned into one; SIGKILL
to its process group and to all its descendants when it does not end within its grace; and the dead man's switch when
this process itself is killed. A program that detaches itself (a session of its own and a parent that has ended) is out
of reach.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.lab.interruption import uninterrupted
from perf_pipeline.lab.placement import Cpus, pinned

GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_SWITCH = Path(__file__).with_name("dead_mans_switch.py")


@dataclass(frozen=True)
class Program:
    """A program that was started, and leads a session and a process group of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    """What it prints, on both streams."""

    @property
    def pid(self) -> int:
        """Its process id, which is also the number of its group."""
        return self.process.pid

    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self.process.poll()

    def last_lines(self, count: int = 10) -> str:
        """The last lines that it printed."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").splitlines()
            return "\n".join(lines[-count:])
        return ""


class Programs:
    """The programs of one run. Made by `programs`."""

    def __init__(self, switch: int) -> None:
        """Note down what is started with the dead man's switch, at the other end of this pipe."""
        self._switch = switch
        self._running: list[Program] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        variables: Mapping[str, str],
        log: Path,
        folder: Path | None = None,
        cpus: Cpus = None,
    ) -> Program:
        """Start a program with exactly these environment variables, on these CPUs, printing into a log.

        Raises InputError when there is no such program.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        # A signal between the start and the note of it would leave a program that nobody ends.
        with uninterrupted(), log.open("ab") as output, pinned(cpus):
            try:
                process = subprocess.Popen(
                    list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    env=dict(variables), cwd=folder, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                what = f"{command[0]} cannot be started: {error.strerror}"
                raise InputError(Problem(name, what, "install it, or mend the command in the plan")) from error
            program = Program(name, process, log)
            self._running.append(program)
            self._tell("group", program.pid)
        return program

    def end(self, *ending: Program, grace_s: float = GRACE_S) -> None:
        """End programs and all that they have started: SIGTERM, and SIGKILL after the grace."""
        with uninterrupted():
            trees = [tree for program in ending for tree in _descendants(program.pid)]
            for program in ending:
                _signal_group(program.pid, signal.SIGTERM)
            deadline = time.monotonic() + grace_s
            for program in ending:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.process.wait(max(0.0, deadline - time.monotonic()))
            for program in ending:
                _signal_group(program.pid, signal.SIGKILL)
            for descendant in trees:
                with contextlib.suppress(psutil.Error):
                    descendant.kill()
            psutil.wait_procs(trees, timeout=grace_s)
            for program in ending:
                program.process.wait()
                self._running.remove(program)
                self._tell("ended", program.pid)

    def end_all(self) -> None:
        """End every program that is still running, the last one started first in line."""
        self.end(*reversed(self._running))

    def remove_if_abandoned(self, folder: Path) -> None:
        """Have the dead man's switch remove a folder if this process is killed before it can do so itself."""
        self._tell("folder", folder)

    def _tell(self, word: str, what: object) -> None:
        # Without its switch the lab goes on: the other layers hold.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._switch, f"{word} {what}\n".encode())


@contextmanager
def programs() -> Iterator[Programs]:
    """Programs that are all ended when the block is left."""
    read_end, write_end = os.pipe()
    with uninterrupted():
        switch = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SWITCH)], stdin=read_end, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, cwd="/",
        )  # fmt: skip
        os.close(read_end)
    started = Programs(write_end)
    try:
        yield started
    finally:
        with uninterrupted():
            started.end_all()
            os.close(write_end)
            switch.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    # macOS answers EPERM for a group of which only a zombie is left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []

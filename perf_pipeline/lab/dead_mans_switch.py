"""The dead man's switch: a small program that ends what a lab started when the lab itself is gone.

What belongs here: the last layer of the teardown, for a lab that was killed by SIGKILL and could do nothing any more.
It runs as a process of its own, is told on its standard input which process groups and folders are the lab's, and acts
when that pipe closes: the operating system closes it, however the lab ended. It works on Linux and macOS alike, and
unlike Linux's PR_SET_PDEATHSIG also ends what the programs have started themselves.

Lines on standard input: `group <number>`, `ended <number>`, `folder <path>`. Run with `python -I -S`: nothing but the
standard library is imported.
"""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable


def watch(lines: Iterable[str]) -> None:
    """Follow the lines to their end, then kill the groups that have not ended and remove the folders."""
    groups: set[int] = set()
    folders: set[str] = set()
    for line in lines:
        word, _, what = line.rstrip("\n").partition(" ")
        if word == "group":
            groups.add(int(what))
        elif word == "ended":
            groups.discard(int(what))
        elif word == "folder":
            folders.add(what)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(sys.stdin)

"""How a process of ours ends: the exit code of an error, and its last words.

What belongs here: exit codes that are not an answer, for the command line and for the process that materialises. 1 says
"regression" and nothing else, so no error may end with it.
"""

import os
import sys
import tempfile
import traceback

import click

from perf_pipeline.errors import InputError, Problem

WRONG_INPUT = 2
NOT_ENOUGH_EVIDENCE = 3
DEFECT = 70
"""EX_SOFTWARE of sysexits.h."""
INTERRUPTED = 130
"""128 + SIGINT, as shells say it."""
NOBODY_READS = 141
"""128 + SIGPIPE: what we write to was closed, as `| head` does."""


def exit_code(error: BaseException) -> int:
    """The exit code of an error, after its message was written to stderr.

    An input error says its problems; a file or folder that cannot be used is named; anything else is a defect of ours,
    one line that says where its traceback is.
    """
    if isinstance(error, BrokenPipeError):
        # Python flushes stdout at its end, and would say that it could not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        return NOBODY_READS
    if isinstance(error, KeyboardInterrupt | click.Abort):  # Ctrl-C, or a question that was answered with no
        _say("stopped")
        return INTERRUPTED
    if isinstance(error, OSError) and error.filename is not None:
        places = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        remedy = "name a place that exists and that you may read and write"
        error = InputError(Problem(places, f"cannot be used: {error.strerror}", remedy))
    if isinstance(error, InputError):
        _say(str(error))
        return WRONG_INPUT
    what = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]
    _say(f"perf_pipeline failed, which is a defect of it: {what}\n    -> report it with {_traceback_file(error)}")
    return DEFECT


def write_whatever_the_encoding() -> None:
    """Let stdout and stderr show a `?` for what the terminal's encoding does not know, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="replace")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _traceback_file(error: BaseException) -> str:
    """Write the traceback where its owner finds it, and return the path; the traceback where that cannot be done."""
    text = "".join(traceback.format_exception(error))
    try:
        descriptor, path = tempfile.mkstemp(prefix="perf_pipeline-", suffix=".traceback")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError:
        return text
    return path

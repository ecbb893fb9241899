"""Progress of long work: a bar on a terminal, plain lines in a log.

What belongs here: how the library tells people how far it is. Callers wrap what they iterate over; they never print.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Item = TypeVar("Item")

TERMINAL_VARIABLE = "PERF_PIPELINE_TERMINAL_FD"
"""Names a descriptor of the user's terminal. Dagster redirects stderr of a step into its own logs, so the command line
hands the terminal on by this variable."""

_log = logging.getLogger(__name__)


def track(items: Iterable[Item], total: int, what: str, label: Callable[[Item], str] = lambda _: "") -> Iterator[Item]:
    """Yield the items while showing how many of `total` are done; `label` says which one is being worked on.

    On a terminal this draws one bar; elsewhere it logs a line an item at level INFO.
    """
    with _terminal(os.environ) as terminal:
        if terminal is None:
            for number, item in enumerate(items, start=1):
                _log.info("%s: %d of %d %s", what, number, total, label(item))
                yield item
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[label]}", style="dim"),
        )
        with Progress(*columns, console=Console(file=terminal, force_terminal=True)) as bars:
            task = bars.add_task(what, total=total, label="")
            for item in items:
                bars.update(task, label=label(item))
                yield item
                bars.advance(task)
            bars.update(task, label="")


@contextmanager
def told_to_the_user(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Within the block, what the library logs goes to the stderr that the command line handed on.

    Progress elsewhere than on a terminal, and what is being waited for, would else end in the logs of a step.
    """
    descriptor = environ.get(TERMINAL_VARIABLE, "")
    handed_on = os.dup(int(descriptor) if descriptor.isdigit() else sys.__stderr__.fileno() if sys.__stderr__ else 2)
    library = logging.getLogger("perf_pipeline")
    before = library.level
    with os.fdopen(handed_on, "w", buffering=1, errors="replace") as stream:
        handler = logging.StreamHandler(stream)
        library.addHandler(handler)
        library.setLevel(logging.INFO)
        try:
            yield
        finally:
            library.removeHandler(handler)
            library.setLevel(before)


@contextmanager
def _terminal(environ: Mapping[str, str]) -> Iterator[TextIO | None]:
    """The terminal to draw on, or None where nobody watches."""
    descriptor = environ.get(TERMINAL_VARIABLE, "")
    if descriptor.isdigit() and os.isatty(int(descriptor)):
        with os.fdopen(os.dup(int(descriptor)), "w") as terminal:
            yield terminal
    else:
        yield sys.stderr if sys.stderr.isatty() else None

"""Progress of long work: a bar on a terminal, plain lines in a log.

What belongs here: how the library tells people how far it is. Callers wrap what they iterate over; they never print.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Item = TypeVar("Item")

_log = logging.getLogger(__name__)


def track(items: Iterable[Item], total: int, what: str, label: Callable[[Item], str] | None = None) -> Iterator[Item]:
    """Yield the items while showing how many of `total` are done; `label` says which one is being worked on.

    On a terminal this draws one bar on stderr; elsewhere it logs a line an item at level INFO.
    """
    if not sys.stderr.isatty():
        for number, item in enumerate(items, start=1):
            _log.info("%s %d of %d%s", what, number, total, f": {label(item)}" if label else "")
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
    with Progress(*columns, console=Console(stderr=True), transient=False) as bars:
        task = bars.add_task(what, total=total, label="")
        for item in items:
            bars.update(task, label=label(item) if label else "")
            yield item
            bars.advance(task)
        bars.update(task, label="")

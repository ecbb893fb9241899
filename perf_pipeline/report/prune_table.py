"""What has expired, as a table on the terminal.

What belongs here: one row a kind, so that a person sees before it happens what would go.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perf_pipeline.report.wording import plural
from perf_pipeline.retention import Expired

_KINDS = {
    "raw": "raw log",
    "requests": "requests",
    "tokens": "tokens (blanked)",
    "quarantine": "quarantine",
    "workloads": "workloads",
    "runs": "runs",
    "reports": "reports",
    "metrics": "metrics",
}


def render(expired: Sequence[Expired], dry_run: bool) -> RenderableType:
    """A row for each kind: how many there are, from when to when, and the oldest by name."""
    if not expired:
        return Text("Nothing is older than the plan keeps it.")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("what", no_wrap=True, min_width=10)
    table.add_column("count", justify="right", no_wrap=True, min_width=5)
    table.add_column("from", no_wrap=True, min_width=10)
    table.add_column("to", no_wrap=True, min_width=10)
    table.add_column("such as", overflow="fold")
    for kind, name in _KINDS.items():
        if items := [item for item in expired if item.kind == kind]:
            times = sorted(item.since for item in items)
            dates = (f"{times[0]:%Y-%m-%d}", f"{times[-1]:%Y-%m-%d}")
            table.add_row(name, f"{len(items):,}", *dates, items[0].prefix)
    what = f"{plural(len(expired), 'item')} would go; without --dry-run they do." if dry_run else "Removed:"
    return Group(Text(what), table) if not dry_run else Group(table, Text(what))

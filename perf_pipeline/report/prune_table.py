"""What has expired, as a table on the terminal.

What belongs here: one row a kind, so that a person sees before it happens what would go, and what stays although it is
old enough.
"""

from collections.abc import Sequence
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perf_pipeline.report.wording import plural
from perf_pipeline.retention import Expired, Outlived

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
_SHOWN = 3
_NOTHING = "Nothing is older than the plan keeps it."


def render(outlived: Outlived, dry_run: bool) -> RenderableType:
    """A row for each kind: how many there are, from when to when, and the oldest by name; then what stays, and why."""
    parts: list[RenderableType] = []
    if not outlived.expired:
        parts.append(Text("Nothing goes: nothing else is older than the plan keeps it." if outlived.kept else _NOTHING))
    elif dry_run:
        what = f"{plural(len(outlived.expired), 'item')} would go; without --dry-run they do."
        parts += [_table(outlived.expired), Text(what)]
    else:
        parts += [Text("Removed:"), _table(outlived.expired)]
    if outlived.kept:
        parts.append(Text(f"kept: named by the plan (workload.hours): {_hours(outlived.kept)}"))
    return Group(*parts)


def _table(expired: Sequence[Expired]) -> Table:
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
    return table


def _hours(kept: Sequence[Expired]) -> str:
    """The hours of what is kept by kind, the first few by name."""
    said = []
    for kind, name in _KINDS.items():
        if hours := [f"{item.since - timedelta(hours=1):%Y-%m-%d-%H:%M}" for item in kept if item.kind == kind]:
            more = f" and {len(hours) - _SHOWN} more" if len(hours) > _SHOWN else ""
            said.append(f"{name} of {', '.join(hours[:_SHOWN])}{more}")
    return "; ".join(said)

"""What changes from one policy to another, as a table on the terminal and as JSON.

What belongs here: the layout. What changed and why is in `policy_diff`.
"""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.policy_diff import PolicyDiff
from perf_pipeline.report.json_output import plain, verdict_to_json
from perf_pipeline.report.wording import UNKNOWN, metric_label, plural, prose, verdict_word


def render(diff: PolicyDiff) -> RenderableType:
    """Both answers, the verdicts that change with their reasons, and the limits that differ."""
    return Group(*_parts(diff))


def _parts(diff: PolicyDiff) -> Iterator[RenderableType]:
    before, after = _name(diff.before), _name(diff.after)
    yield _table(*((f"{_name(one)}:", prose(one.decision.headline)) for one in (diff.before, diff.after)))
    yield Text()
    changed = len(diff.verdicts)
    do = "changes" if changed == 1 else "change"
    yield Text(f"{changed} of {plural(diff.compared, 'verdict')} {do}.", style="bold")
    if changed:
        yield _table(*((str(count), f"{old} → {new}") for (old, new), count in diff.moves.items()))
        yield Text()
        yield _verdicts(diff, before, after)
    yield Text()
    if not diff.limits:
        yield Text("The policies set no limit differently.")
        return
    yield Text(f"{plural(len(diff.limits), 'limit')} that the policies set differently", style="bold")
    rows = [(one.limit, _limit(one.before), _limit(one.after)) for one in diff.limits]
    yield _table(("", before, after), *rows)


def _verdicts(diff: PolicyDiff, before: str, after: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("scenario", overflow="fold")
    table.add_column("metric", no_wrap=True)
    table.add_column(before)
    table.add_column(after)
    table.add_column("why", ratio=1, overflow="fold")
    for change in diff.verdicts:
        why = Text("\n").join(Text(prose(reason)) for reason in change.reasons)
        verdicts = verdict_word(change.before), verdict_word(change.after)
        table.add_row(change.after.scenario, metric_label(change.after.metric), *verdicts, why)
    return table


def _table(*rows: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for row in rows:
        table.add_row(*row)
    return table


def _name(judgement: Judgement) -> str:
    return f"{judgement.policy_name} {judgement.policy_version}"


def _limit(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_limit, value)) or "none"
    return UNKNOWN if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def to_json(diff: PolicyDiff) -> dict[str, Any]:
    """The same as plain values, both verdicts with all that `judge --json` says of one."""
    return {
        "before": _side(diff.before),
        "after": _side(diff.after),
        "compared": diff.compared,
        "verdicts": [
            {
                "scenario": change.after.scenario,
                "metric": change.after.metric,
                "before": verdict_to_json(change.before),
                "after": verdict_to_json(change.after),
                "reasons": list(change.reasons),
            }
            for change in diff.verdicts
        ],
        "limits": [{"limit": one.limit, "before": one.before, "after": one.after} for one in diff.limits],
    }


def _side(judgement: Judgement) -> dict[str, Any]:
    policy = {"name": judgement.policy_name, "version": judgement.policy_version}
    return {"policy": policy, "decision": plain(judgement.decision)}

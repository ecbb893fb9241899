"""What a planned campaign can see, as a table on the terminal and as JSON.

What belongs here: one row a scenario and metric. Where the numbers come from is in `gates.power`.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.power import Sight
from perf_pipeline.plan import Plan
from perf_pipeline.report.wording import UNKNOWN, change, metric_label


def render(plan: Plan, policy: Policy, sights: Sequence[Sight], source: str) -> RenderableType:
    """The table with a sentence that says what it rests on."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("scenario", overflow="fold")
    table.add_column("metric", no_wrap=True)
    table.add_column("smallest\nregression seen", justify="right", no_wrap=True)
    table.add_column("equivalent when\nnothing changed", justify="right", no_wrap=True)
    table.add_column("repeats for\n" + f"{policy.change.power:.0%} of that", justify="right", no_wrap=True)
    for sight in sights:
        needed = f"> {policy.change.max_repeats_named}" if sight.repeats_needed is None else str(sight.repeats_needed)
        smallest = UNKNOWN if sight.smallest_detectable is None else change(sight.metric, sight.smallest_detectable)
        enough = sight.equivalent_chance >= policy.change.power
        table.add_row(
            sight.scenario,
            metric_label(sight.metric),
            smallest,
            Text(f"{sight.equivalent_chance:.0%}", style="" if enough else "yellow"),
            needed,
        )
    return Group(Text(f"{plan.name}: {_repeats(plan)}; noise of {source}."), Text(), table)


def to_json(plan: Plan, sights: Sequence[Sight], source: str) -> dict[str, Any]:
    """The same as plain values."""
    schedule = plan.schedule
    return {
        "plan": plan.name,
        "repeats": schedule.repeats,
        "looks": list(schedule.looks),
        "paired": schedule.paired,
        "noise": source,
        "sights": [asdict(sight) for sight in sights],
    }


def _repeats(plan: Plan) -> str:
    schedule = plan.schedule
    when = f"looks at {', '.join(map(str, schedule.looks))}" if schedule.looks else f"{schedule.repeats}"
    return f"{when} repeats" + (", runs of a block as pairs" if schedule.paired else "")

"""The history of releases as the warehouse holds it: chains that end at a release, and the nights of a lab.

What belongs here: reading links, one row for each scenario and metric, and the words of a chain's answer. Reading
effects is in `stored_effects`, the statistics are in `chain`, `effect` and `level_shifts`.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import pyarrow as pa

from perf_pipeline.gates.evidence import DISTRIBUTIONS, ERROR_RATES, NEGATIVE_CONTROL
from perf_pipeline.gates.policy import Policy
from perf_pipeline.history.chain import Link, Placed, add_up, directly, place, steps_to
from perf_pipeline.history.effect import Effect
from perf_pipeline.history.level_shifts import level_shifts
from perf_pipeline.history.stored_effects import stored_effects
from perf_pipeline.warehouse import Warehouse, table_schema

SHIFT_FLOOR_OF_ZONE = 0.5
"""A level shift counts from half the zone on: the zone is for one comparison, and many nights see more."""

_LINKS = """
SELECT decision.comparison, decision.baseline, decision.candidate, min(run.hold_start) AS measured
FROM decision LEFT JOIN run USING (comparison) GROUP BY ALL ORDER BY measured NULLS FIRST, comparison"""


@dataclass(frozen=True)
class Chained:
    """What all releases from one version to another changed together, in one scenario and metric."""

    scenario: str
    metric: str
    path: str
    """`chain` or `direct`."""
    from_version: str
    to_version: str
    steps: int
    answer: str
    reason: str
    deciding_percentile: float | None
    estimate: float | None
    low: float | None
    high: float | None
    zone_low: float
    zone_high: float


@dataclass(frozen=True)
class Shift:
    """From one night on, a metric lies on another level."""

    scenario: str
    metric: str
    what: str
    """`effect` of the candidates, or `lab`: the level of a baseline that stayed the same."""
    comparison: str
    """The first one on the new level."""
    measured: datetime | None
    estimate: float
    low: float
    high: float


def links(warehouse: Warehouse) -> list[Link]:
    """Every judged comparison as a step between two releases, in order of measuring."""
    return [Link(**row) for row in warehouse.query(_LINKS).to_pylist()]


def chains_to(warehouse: Warehouse, release: str, policy: Policy, anchor: str | None = None) -> list[Chained]:
    """What changed from the first release, or from `anchor`, to a release: added up, and measured directly if it was.

    One row for each scenario and metric that any step compared. A step that could not compare it breaks the chain, and
    the row says so. Where both paths answer, each is held to half of the probability of error.
    """
    known = links(warehouse)
    steps = steps_to(known, release, anchor)
    if not steps:
        return []
    start = steps[0].baseline
    direct = directly(known, start, release) if len(steps) > 1 else None
    found = stored_effects(warehouse, [link.comparison for link in (*steps, *([direct] if direct else []))])
    tail = (1 - policy.change.confidence) / 2 / (2 if direct else 1)
    cells = dict.fromkeys((scenario, metric) for by_cell in found.values() for scenario, metric in by_cell)
    rows = []
    for scenario, metric in sorted(cells):
        if metric in ERROR_RATES or metric == NEGATIVE_CONTROL:
            continue
        for path, taken in (("chain", steps), ("direct", [direct] if direct else [])):
            if taken:
                effects = {link: found.get(link.comparison, {}).get((scenario, metric)) for link in taken}
                rows.append(_chained(scenario, metric, path, effects, policy.change.zone[metric], tail))
    return rows


def chain_table(rows: Sequence[Chained], comparison: str) -> pa.Table:
    """The rows as the table `release_chain`."""
    schema = table_schema("release_chain")
    table = pa.Table.from_pylist([asdict(row) for row in rows], schema)
    return table.add_column(0, "comparison", pa.array([comparison] * table.num_rows, pa.string()))


def shifts(warehouse: Warehouse, policy: Policy) -> list[Shift]:
    """Level shifts over all comparisons in order of measuring: of the candidates' effects, and of the lab's own level.

    Effects are those of comparisons with the same baseline, and so is the level of the lab: that of a baseline that
    stayed the same. Distributions are followed at their median, the percentile that the lab moves least.
    """
    rows = warehouse.query(
        "SELECT h.measured_from, h.comparison, h.baseline, h.scenario, h.metric,"
        " coalesce(c.estimate, h.estimate) AS estimate, coalesce(c.baseline_ms, h.baseline_value) AS level"
        " FROM release_history AS h LEFT JOIN gate_change AS c"
        " ON c.comparison = h.comparison AND c.scenario = h.scenario AND c.metric = h.metric AND c.p = 50"
        " WHERE h.verdict <> 'not comparable' ORDER BY h.measured_from NULLS FIRST, h.comparison"
    ).to_pylist()
    series: dict[tuple[str, str, str], list[dict]] = defaultdict(list)
    for row in rows:
        if row["metric"] not in ERROR_RATES:
            series[row["baseline"], row["scenario"], row["metric"]].append(row)
    found = []
    for (_, scenario, metric), nights in series.items():
        floor = SHIFT_FLOOR_OF_ZONE * math.log1p(policy.change.zone[metric])
        for what, values in (
            ("effect", [_log(1 + night["estimate"]) for night in nights if night["estimate"] is not None]),
            ("lab", [_log(night["level"]) for night in nights]),
        ):
            if len(values) != len(nights):
                continue
            for shift in level_shifts(values, floor):
                night = nights[shift.at]
                found.append(
                    Shift(
                        scenario, metric, what, night["comparison"], night["measured_from"],
                        math.expm1(shift.estimate), math.expm1(shift.low), math.expm1(shift.high),
                    )
                )  # fmt: skip
    return found


def _log(value: float | None) -> float:
    return math.log(value) if value is not None and value > 0 else math.nan


def _chained(
    scenario: str, metric: str, path: str, effects: Mapping[Link, Effect | str | None], zone: float, tail: float
) -> Chained:
    steps = list(effects)
    edge = math.log1p(zone)
    start, end = steps[0].baseline, steps[-1].candidate
    known = [effect for effect in effects.values() if isinstance(effect, Effect)]
    placed: Placed | None = None
    if broken := [link.comparison for link, effect in effects.items() if not isinstance(effect, Effect)]:
        reason = f"{len(broken)} of {len(steps)} steps did not compare it, the first one {broken[0]}"
    else:
        try:
            placed = place(add_up(known), edge, tail)
            reason = f"{'sum of' if path == 'chain' else 'measured in'} {len(steps)} comparison{'s'[: len(steps) > 1]}"
        except ValueError as error:
            reason = str(error)
    common = (scenario, metric, path, start, end, len(steps))
    zone_edges = (math.expm1(-edge), zone)
    if placed is None:
        return Chained(*common, "not comparable", reason, None, None, None, None, *zone_edges)
    at = placed.deciding
    percentile = float(placed.effect.percentiles[at]) if metric in DISTRIBUTIONS else None
    size = math.expm1(float(placed.effect.estimate[at]))
    return Chained(
        *common, placed.answer, reason, percentile, size, math.expm1(placed.low), math.expm1(placed.high), *zone_edges
    )

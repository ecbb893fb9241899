"""Every comparison that was judged, as the warehouse holds it: the rows of an index over all reports.

What belongs here: reading decisions, counts of verdicts and the worst cell of each comparison, and the chains that were
kept. How chains come about is in `releases`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from perf_pipeline.history.releases import Chained
from perf_pipeline.warehouse import Warehouse

_COMPARISONS = """
SELECT
    decision.comparison, decision.baseline, decision.candidate, measured, answer, headline, control_status, aa_status,
    policy_name, policy_version, counts, worst
FROM decision
LEFT JOIN (SELECT comparison, min(hold_start) AS measured FROM run GROUP BY comparison) USING (comparison)
LEFT JOIN (
    SELECT comparison, map_from_entries(list((verdict, number))) AS counts FROM (
        SELECT comparison, verdict, count(*) AS number FROM verdict
        WHERE NOT absent AND metric <> 'upstream_latency' GROUP BY ALL
    ) GROUP BY comparison
) USING (comparison)
LEFT JOIN (
    SELECT comparison, {scenario: scenario, metric: metric, verdict: verdict, deciding_percentile: deciding_percentile,
        estimate: estimate, low: low, high: high} AS worst
    FROM verdict WHERE NOT absent AND metric <> 'upstream_latency'
    QUALIFY row_number() OVER (
        PARTITION BY comparison
        ORDER BY
            list_position(['regression', 'inconclusive', 'not comparable', 'equivalent', 'improvement'], verdict),
            estimate / zone_high DESC NULLS LAST, scenario, metric
    ) = 1
) USING (comparison)
ORDER BY measured DESC NULLS LAST, decision.comparison DESC
"""
_CHAINS = """
SELECT release_chain.* EXCLUDE (comparison) FROM release_chain
LEFT JOIN (SELECT comparison, min(hold_start) AS measured FROM run GROUP BY comparison) USING (comparison)
ORDER BY measured NULLS FIRST, comparison, scenario, metric, path
"""


@dataclass(frozen=True)
class WorstCell:
    """The verdict of a comparison that needs attention most: the regression most zones away, else what is open."""

    scenario: str
    metric: str
    verdict: str
    deciding_percentile: float | None
    estimate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class JudgedComparison:
    """One comparison and what came of it."""

    comparison: str
    baseline: str
    candidate: str
    measured: datetime | None
    """Start of the hold of its first run, UTC."""
    answer: str
    headline: str
    control_status: str
    aa_status: str | None
    policy_name: str
    policy_version: str
    counts: Mapping[str, int]
    """How often each verdict was given, the negative control left out."""
    worst: WorstCell | None


def judged_comparisons(warehouse: Warehouse) -> list[JudgedComparison]:
    """Every comparison with a decision, the newest first."""
    return [
        JudgedComparison(
            **row | {"counts": dict(row["counts"] or ()), "worst": row["worst"] and WorstCell(**row["worst"])}
        )
        for row in warehouse.query(_COMPARISONS).to_pylist()
    ]


def kept_chains(warehouse: Warehouse) -> list[Chained]:
    """The chains that were kept with each comparison, in order of measuring."""
    return [Chained(**row) for row in warehouse.query(_CHAINS).to_pylist()]

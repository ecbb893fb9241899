"""One comparison of Gate 3: its verdict, and the numbers behind it that are pooled over scenarios.

What belongs here: the value that the comparisons of logs and of error rates both produce, and what they share.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perf_pipeline.gates.evidence import DISTRIBUTIONS
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.intervals import Difference

_UNITS = {"service_p99": "ms", "service_memory": "bytes"}


@dataclass(frozen=True)
class Comparison:
    """A verdict, and the difference in logs that it rests on where there is one."""

    verdict: Verdict
    difference: Difference | None = None
    resolved: NDArray[np.bool_] | None = None
    """(P,) True where the source's histogram tells changes of the size of the zone apart."""


def not_comparable(
    scenario: str, metric: str, reason: str, repeats: tuple[int, int], absent: bool = False
) -> Comparison:
    """A comparison that cannot be made; `repeats` are the usable runs of baseline and candidate."""
    return Comparison(
        Verdict(
            scenario=scenario,
            metric=metric,
            verdict="not comparable",
            reason=reason,
            estimate=None,
            low=None,
            high=None,
            zone_low=None,
            zone_high=None,
            smallest_detectable=None,
            repeats_to_settle=None,
            deciding_percentile=None,
            percentiles=(),
            baseline_value=None,
            candidate_value=None,
            unit=unit(metric),
            baseline_repeats=repeats[0],
            candidate_repeats=repeats[1],
            df=None,
            absent=absent,
        )
    )


def unit(metric: str) -> str:
    """The unit of a metric's values: ms, bytes or share (of requests)."""
    return "ms" if metric in DISTRIBUTIONS else _UNITS.get(metric, "share")


def outlook(repeats: int | None) -> str:
    """What would settle an inconclusive comparison, in words."""
    if repeats is None:
        return "no practical number of repeats would settle it if estimate and noise stay as they are"
    return f"about {repeats} repeats per version would settle it if estimate and noise stay as they are"

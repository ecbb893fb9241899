"""One comparison of Gate 3: its verdict, and the numbers behind it that are pooled over scenarios.

What belongs here: the value that the comparisons of logs and of error rates both produce, and what they share.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perf_pipeline.gates.evidence import DISTRIBUTIONS
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.intervals import Difference
from perf_pipeline.gates.looks import Look
from perf_pipeline.gates.moderation import Prior
from perf_pipeline.gates.policy import ChangeLimits

_DISAGREE, _TOO_FEW_TO_SAY = " disagree", " are too few to say whether they agree"
"""What the reason of a comparison says of the repeats of a side before it gives the numbers."""
FINER_BUCKETS = "finer buckets would settle it, more repeats would not"
FOR_PAIRS = "are needed to compare pairs"
_UNITS = {"service_p99": "ms", "service_memory": "bytes"}


@dataclass(frozen=True)
class Standing:
    """Where a comparison stands in its campaign: what it takes over from there."""

    comparisons: int = 1
    """How many the campaign makes."""
    look: Look | None = None
    """None for one look at the end."""
    prior: Prior | None = None
    """What the other scenarios say about the variances of the metric; None where variances are not moderated."""
    paired: bool = False
    """True when the samples of both sides come in pairs, in the same order."""

    def tail(self, limits: ChangeLimits) -> float:
        """The tail probability of one interval at this look."""
        return self.look.tail if self.look else (1 - limits.confidence) / 2

    def campaign_share(self, limits: ChangeLimits) -> float:
        """By what the tail of a band is multiplied to hold for all comparisons of the campaign (Bonferroni)."""
        return (1 - limits.campaign_confidence) / (1 - limits.confidence) / self.comparisons


ALONE = Standing()
"""A comparison by itself."""


@dataclass(frozen=True)
class Comparison:
    """A verdict, and the difference in logs that it rests on where there is one."""

    verdict: Verdict
    difference: Difference | None = None
    resolved: NDArray[np.bool_] | None = None
    """(P,) True where the source's histogram tells changes of the size of the zone apart."""


def not_comparable(
    scenario: str,
    metric: str,
    reason: str,
    repeats: tuple[int, int],
    *,
    absent: bool = False,
    open_to_repeats: bool = False,
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
            open_to_repeats=open_to_repeats,
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


def disagreeing(reason: str) -> tuple[str, ...]:
    """The versions whose repeats disagree, by the reason of a comparison that could not be made."""
    said = (part.partition(": ")[0] for part in reason.split("; "))
    return tuple(
        one.removeprefix("repeats of ").removesuffix(_DISAGREE)
        for one in said
        if one.startswith("repeats of ") and one.endswith(_DISAGREE)
    )


def needs_finer_buckets(reason: str) -> bool:
    """Whether an inconclusive comparison hangs on the resolution of its histograms alone, by its reason."""
    return reason.endswith(FINER_BUCKETS)


def lacks_pairs(reason: str) -> bool:
    """Whether it is whole blocks that are too few, though usable runs may be enough, by the reason."""
    return FOR_PAIRS in reason


def in_short(reason: str) -> str:
    """The reason of a comparison that could not be made, without the numbers of Gate 2."""
    apart = disagreeing(reason)
    few = [part.partition(": ")[0] for part in reason.split("; ") if f"{_TOO_FEW_TO_SAY}: " in part]
    return "; ".join([*([f"repeats of {' and '.join(apart)} disagree"] if apart else []), *few]) or reason

"""Where the intervals of a comparison lie against the zone, and which verdict follows.

What belongs here: the rule that turns intervals of differences of logs into a verdict. How the intervals come about is
in `intervals`; what is compared and how it is said is in `log_change`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perf_pipeline.gates.evidence import FloatArray
from perf_pipeline.gates.findings import VerdictName
from perf_pipeline.gates.intervals import Difference


@dataclass(frozen=True)
class Placement:
    """The P statistics of a metric, each with its intervals in logs, against the zone [-edge, edge]."""

    difference: Difference
    low: FloatArray
    high: FloatArray
    """With low, the pointwise intervals."""
    band_low: FloatArray
    band_high: FloatArray
    """With band_low, the band that holds for all statistics of this comparison together."""
    campaign_low: FloatArray
    campaign_high: FloatArray
    """With campaign_low, the band that holds for all comparisons of the campaign together."""
    edge: float
    resolved: NDArray[np.bool_]
    """(P,) False where histogram buckets are wider than the zone."""

    @property
    def protrusion(self) -> FloatArray:
        """(P,) how far each pointwise interval reaches out of the zone; negative inside it."""
        return np.maximum(self.high, -self.low) - self.edge

    @property
    def open(self) -> NDArray[np.bool_]:
        """(P,) where more repeats could bring an answer and have not yet."""
        return (self.protrusion >= 0) & self.resolved

    @property
    def above(self) -> NDArray[np.bool_]:
        """(P,) where the band lies wholly above the zone."""
        return self.band_low > self.edge

    @property
    def below(self) -> NDArray[np.bool_]:
        """(P,) where the band lies wholly below the zone."""
        return self.band_high < -self.edge

    @property
    def worse(self) -> NDArray[np.bool_]:
        """(P,) where the metric regressed: above the zone, and above 0 in the eyes of the whole campaign."""
        return self.above & (self.campaign_low > 0)

    @property
    def better(self) -> NDArray[np.bool_]:
        """(P,) where the metric improved: below the zone, and below 0 in the eyes of the whole campaign."""
        return self.below & (self.campaign_high < 0)

    @property
    def name(self) -> VerdictName:
        """Wholly beyond somewhere even in the simultaneous bands, or inside everywhere, point by point.

        An improvement is none while the band lies above the zone elsewhere, if only in the eyes of this comparison.
        """
        if self.worse.any():
            return "regression"
        if self.better.any() and not self.above.any():
            return "improvement"
        return "equivalent" if (self.protrusion < 0).all() else "inconclusive"

    @property
    def deciding(self) -> int:
        """The statistic furthest beyond the zone, or the one that reaches out of it furthest, or most nearly."""
        for candidates, depth in (
            (self.worse, self.band_low),
            (self.above, self.band_low),
            (self.better, -self.band_high),
            (self.below, -self.band_high),
            (self.open, self.protrusion),
        ):
            if candidates.any():
                return int(np.where(candidates, depth, -np.inf).argmax())
        return int(self.protrusion.argmax())


def place(
    change: Difference,
    blur: FloatArray,
    tails: tuple[float, float, float],
    edge: float,
    resolved: NDArray[np.bool_],
) -> Placement:
    """The intervals at the tails of one statistic, of one comparison and of the campaign, each widened by the blur."""
    limits = [limit for tail in tails for limit in change.limits(tail)]
    low, high, band_low, band_high, campaign_low, campaign_high = (
        limit + sign * blur for limit, sign in zip(limits, (-1, 1) * 3, strict=True)
    )
    return Placement(change, low, high, band_low, band_high, campaign_low, campaign_high, edge, resolved)

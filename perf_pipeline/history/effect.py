"""What one comparison found for one metric of one scenario, in the form that effects are added up in.

What belongs here: the effect as numbers on a log scale, its intervals, and reading it back from the limits that the
tables hold. Adding effects up is in `chain`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """The change of a metric from one version to another: P percentiles of a distribution, or P = 1 for a number."""

    percentiles: FloatArray
    """(P,) in percent; nan for a number."""
    estimate: FloatArray
    """(P,) change of ln."""
    standard_error: FloatArray
    """(P,) of the estimate."""
    df: FloatArray
    """(P,) degrees of freedom of the standard error."""
    tests: float
    """How many independent percentiles the simultaneous band has to hold for; 1 for a number."""

    def limits(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """(P,) and (P,): pointwise intervals that leave the probability `tail` on each side."""
        reach = stdtrit(self.df, 1 - tail) * self.standard_error
        return self.estimate - reach, self.estimate + reach

    def band(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """(P,) and (P,): limits that hold at all percentiles together, by Bonferroni's rule over `tests` of them."""
        return self.limits(tail / self.tests)


def effects_from_limits(
    percentiles: FloatArray, changes: FloatArray, df: FloatArray, tails: FloatArray
) -> list[Effect | None]:
    """The effects behind N rows of stored limits at the same (P,) percentiles; None where one of them is not finite.

    `changes` is (5, N, P): estimate, low, high, band_low, band_high as ratios minus 1, the intervals of row n at
    `tails[n]` on each side with (N, P) `df` degrees of freedom. The number of independent percentiles is read from how
    much wider the band is than the intervals: a max-t band at the quantile c acts like Bonferroni's rule over
    tail / P(t > c) of them.
    """
    sound = (
        (np.isfinite(changes) & (changes > -1)).all(axis=(0, 2)) & (df > 0).all(axis=1) & (tails > 0) & (tails < 0.5)
    )
    estimate, low, high, band_low, band_high = np.log1p(changes[:, sound])
    df, tail = df[sound], tails[sound, None]
    quantile = stdtrit(df, 1 - tail)
    standard_error = (high - low) / (2 * quantile)
    wide = standard_error > 0
    ratio = np.divide(band_high - band_low, high - low, out=np.ones_like(low), where=wide)
    tests = np.where(wide, tail / stdtr(df, -quantile * np.maximum(ratio, 1.0)), np.nan)
    tests[~wide.any(axis=1)] = 1.0
    independent = np.clip(np.nanmedian(tests, axis=1), 1.0, len(percentiles))
    rows = zip(estimate, standard_error, df, independent.tolist(), strict=True)
    return [Effect(percentiles, *next(rows)) if known else None for known in sound.tolist()]

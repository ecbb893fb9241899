"""Intervals of a change between two sides whose unit is the run.

What belongs here: the Welch interval of a difference of mean logs, and the simultaneous band over several statistics of
the same runs. What the numbers are, and what an interval says about a zone, is in `change`.
"""

import itertools
import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from perf_pipeline.gates.evidence import FloatArray

MOST_SPLITS = 5_000
"""All splits of the runs into two sides are used up to this many (7 + 7 runs have 3,432)."""
SAMPLED_SPLITS = 4_000
"""Beyond, this many are drawn with a fixed seed, which finds the 95 % point somewhere between 94.3 and 95.7 %."""


@dataclass(frozen=True)
class Difference:
    """Mean log of the candidate minus mean log of the baseline, for P statistics of the same runs."""

    estimate: FloatArray
    """(P,) in logs."""
    baseline_variance: FloatArray
    """(P,) variance of one run of the baseline, in logs squared."""
    candidate_variance: FloatArray
    """(P,) variance of one run of the candidate."""
    baseline_runs: int
    candidate_runs: int
    floored: NDArray[np.bool_]
    """(P,) where repeats of a side agree so well that the noise floor stands in for their variance."""

    @property
    def standard_error(self) -> FloatArray:
        """(P,) standard error of the estimate."""
        return np.sqrt(self.baseline_variance / self.baseline_runs + self.candidate_variance / self.candidate_runs)

    @property
    def df(self) -> FloatArray:
        """(P,) Welch-Satterthwaite degrees of freedom."""
        return welch_df(self.baseline_variance, self.candidate_variance, self.baseline_runs, self.candidate_runs)

    def with_runs(self, runs: int) -> "Difference":
        """The same difference and noise, from that many runs on each side."""
        return replace(self, baseline_runs=runs, candidate_runs=runs)

    def limits(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """(P,) and (P,): the interval that leaves the probability `tail` on each side."""
        reach = stdtrit(self.df, 1 - tail) * self.standard_error
        return self.estimate - reach, self.estimate + reach


def welch_df(
    baseline_variance: FloatArray, candidate_variance: FloatArray, baseline_runs: float, candidate_runs: float
) -> FloatArray:
    """Degrees of freedom of a difference of two means with variances of their own (Welch 1947).

    Variances are of one run and positive; each side has at least two runs.
    """
    baseline = baseline_variance / baseline_runs
    candidate = candidate_variance / candidate_runs
    return (baseline + candidate) ** 2 / (baseline**2 / (baseline_runs - 1) + candidate**2 / (candidate_runs - 1))


def difference(baseline: FloatArray, candidate: FloatArray, noise_floor: FloatArray) -> Difference:
    """The difference of two sides: (n, P) and (m, P) logs with n, m >= 2, and (P,) a floor for the standard deviation.

    The floor is what a single value cannot resolve: repeats that are equal because of rounding, or because a counter
    did not move, must not make an interval of no width.
    """
    floor = noise_floor**2
    baseline_variance, candidate_variance = baseline.var(axis=0, ddof=1), candidate.var(axis=0, ddof=1)
    return Difference(
        estimate=candidate.mean(axis=0) - baseline.mean(axis=0),
        baseline_variance=np.maximum(baseline_variance, floor),
        candidate_variance=np.maximum(candidate_variance, floor),
        baseline_runs=len(baseline),
        candidate_runs=len(candidate),
        floored=np.minimum(baseline_variance, candidate_variance) < floor,
    )


def simultaneous_tail(baseline: FloatArray, candidate: FloatArray, noise_floor: FloatArray, confidence: float) -> float:
    """The tail probability whose intervals hold for all P statistics at once (max-t, Westfall and Young 1993).

    Each side is centred on its mean; over all splits of the pooled residual runs into two sides (sampled when there
    are many), the largest |Welch t| of the P statistics is taken. Its `confidence` point is the critical value of the
    band. It is returned as the tail of a t distribution with n + m - 2 degrees of freedom, so that each statistic
    applies it with its own Welch degrees of freedom: shuffling runs supposes that both sides scatter alike, and where
    one scatters more its lower degrees of freedom widen the band.

    (n, P) and (m, P) logs with n, m >= 2. Never above the tail of a single interval, nor below Bonferroni's.
    """
    single = (1 - confidence) / 2
    statistics = baseline.shape[1]
    if statistics == 1:
        return single
    residuals = np.vstack((baseline - baseline.mean(axis=0), candidate - candidate.mean(axis=0)))
    # Sorted, so that neither the order of runs nor the names of the sides have a say in which splits are drawn.
    residuals = residuals[np.lexsort(residuals.T)]
    runs, few = len(residuals), min(len(baseline), len(candidate))
    many = runs - few
    first = _splits(runs, few)
    squares = residuals**2
    sums, squared = first @ residuals, first @ squares
    first_mean, second_mean = sums / few, (residuals.sum(axis=0) - sums) / many
    first_variance = (squared - few * first_mean**2) / (few - 1)
    second_variance = (squares.sum(axis=0) - squared - many * second_mean**2) / (many - 1)
    floor = noise_floor**2
    error = np.sqrt(np.maximum(first_variance, floor) / few + np.maximum(second_variance, floor) / many)
    largest = (np.abs(first_mean - second_mean) / error).max(axis=1)
    critical = np.quantile(largest, confidence, method="higher")
    return float(np.clip(stdtr(runs - 2, -critical), single / statistics, single))


@lru_cache(maxsize=64)
def _splits(runs: int, few: int) -> FloatArray:
    """(splits, runs) ones for the runs that a split puts on the first side, zeros for the others."""
    if math.comb(runs, few) <= MOST_SPLITS:
        chosen = np.array(list(itertools.combinations(range(runs), few)))
    else:
        chosen = np.argsort(np.random.default_rng(0).random((SAMPLED_SPLITS, runs)), axis=1)[:, :few]
    splits = np.zeros((len(chosen), runs))
    np.put_along_axis(splits, chosen, 1.0, axis=1)
    splits.setflags(write=False)
    return splits

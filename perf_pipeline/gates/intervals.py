"""Intervals of a change between two sides whose unit is the run.

What belongs here: the t interval of a difference of mean logs, of two sides or of pairs of runs, and the simultaneous
band over several statistics of the same runs. What the numbers are, and what an interval says about a zone, is in
`log_change` and `zone`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, stdtr, stdtrit

from perf_pipeline.gates.evidence import FloatArray

ROTATIONS = 4_000
"""Random rotations behind a band, drawn with a fixed seed: they find the 95 % point between 94.3 and 95.7 %."""


@dataclass(frozen=True)
class Difference:
    """Mean log of the candidate minus mean log of the baseline, for P statistics of the same runs.

    It rests on independent samples: the runs of both sides, or the one sample of the differences of pairs of runs.
    """

    estimate: FloatArray
    """(P,) in logs."""
    variances: tuple[FloatArray, ...]
    """(P,) for each sample: the variance of one of its values, in logs squared."""
    sizes: tuple[int, ...]
    """How many values each sample has."""
    floored: NDArray[np.bool_]
    """(P,) where a sample's values agree so well that the noise floor stands in for their variance."""
    prior_df: FloatArray
    """(P,) degrees of freedom that other scenarios lend to the variances; 0 where they rest on these runs alone."""
    most_df: float = math.inf
    """As many as all scenarios together have: what is borrowed cannot be more."""

    @cached_property
    def standard_error(self) -> FloatArray:
        """(P,) standard error of the estimate."""
        return np.sqrt(self._parts.sum(axis=0))

    @property
    def common_variance(self) -> FloatArray:
        """(P,) the variance of one value, if it is alike in all samples."""
        return self._parts.sum(axis=0) / sum(1 / size for size in self.sizes)

    @cached_property
    def own_df(self) -> FloatArray:
        """(P,) degrees of freedom of these runs' own variances (Welch 1947, Satterthwaite 1946)."""
        left = np.array(self.sizes)[:, None] - 1
        return self._parts.sum(axis=0) ** 2 / (self._parts**2 / left).sum(axis=0)

    @cached_property
    def _parts(self) -> FloatArray:
        """(samples, P) what each sample adds to the variance of the estimate."""
        return np.array(self.variances) / np.array(self.sizes)[:, None]

    @cached_property
    def df(self) -> FloatArray:
        """(P,) degrees of freedom of the interval."""
        return np.minimum(self.own_df + self.prior_df, np.maximum(self.most_df, self.own_df))

    def with_runs(self, runs: int) -> "Difference":
        """The same difference and noise, from that many runs on each side."""
        return replace(self, sizes=(runs,) * len(self.sizes))

    def reach(self, tail: float) -> FloatArray:
        """(P,) how far the interval that leaves the probability `tail` on each side reaches from the estimate."""
        return stdtrit(self.df, 1 - tail) * self.standard_error

    def limits(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """(P,) and (P,): the interval that leaves the probability `tail` on each side."""
        reach = self.reach(tail)
        return self.estimate - reach, self.estimate + reach


def difference(samples: Sequence[FloatArray], noise_floor: FloatArray) -> Difference:
    """The difference that (n, P) logs of each sample show, n >= 2, and (P,) a floor for one run's standard deviation.

    Two samples are baseline and candidate; one sample is candidate minus baseline of runs that are pairs. The floor is
    what a single value cannot resolve: repeats that are equal because of rounding, or because a counter did not move,
    must not make an interval of no width. A difference of two runs has twice its variance.
    """
    floor = noise_floor**2 * (2 / len(samples))
    means = [sample.mean(axis=0) for sample in samples]
    variances = [sample.var(axis=0, ddof=1) for sample in samples]
    return Difference(
        estimate=means[-1] - means[0] if len(samples) == 2 else means[0],
        variances=tuple(np.maximum(variance, floor) for variance in variances),
        sizes=tuple(len(sample) for sample in samples),
        floored=np.min(variances, axis=0) < floor,
        prior_df=np.zeros(samples[0].shape[1]),
    )


def simultaneous_tail(samples: Sequence[FloatArray], tail: float, prior_df: float = 0.0) -> float:
    """The tail whose intervals hold for all P statistics at once, where `tail` is that of one interval.

    How the statistics of a run move together is seen in the residuals of the runs around the means of their samples.
    Rotating the residuals at random (Langsrud 2005) shows how large the largest |t| of the P statistics becomes when
    nothing changed, with variances that rest on these runs and on `prior_df` degrees of freedom more. Its 1 - 2 tail
    point is the critical value of the band (max-t, Westfall and Young 1993). It is returned as the tail of a t
    distribution, so that each statistic applies it with its own degrees of freedom: rotating supposes that both sides
    scatter alike, and where one scatters more its lower degrees of freedom widen the band.

    (n, P) logs for each sample. Never above `tail`, nor below Bonferroni's.
    """
    statistics = samples[0].shape[1]
    df = sum(len(sample) - 1 for sample in samples)
    total = df + prior_df
    if statistics == 1:
        return tail
    if total <= 1:
        return tail / statistics
    residuals = np.vstack([sample - sample.mean(axis=0) for sample in samples])
    member = np.vstack([np.eye(len(samples))[[at] * len(sample)] for at, sample in enumerate(samples)])
    # Sorted, so that neither the order of runs nor the names of the sides have a say in how they are rotated.
    order = np.lexsort(residuals.T)
    residuals, member = residuals[order], member[order]
    spread = np.sqrt((residuals**2).sum(axis=0) / df)
    residuals = np.divide(residuals, spread, out=np.zeros_like(residuals), where=spread > 0)
    directions = _directions(len(residuals))
    means = directions @ (member / np.sqrt(member.sum(axis=0)))
    lengths = (directions**2).sum(axis=1) - (means**2).sum(axis=1) + _chi_squares(prior_df)
    largest = np.abs(directions @ residuals).max(axis=1) * np.sqrt(total / df / lengths)
    reach = float(np.quantile(largest, 1 - 2 * tail))
    critical = reach * math.sqrt((total - 1) / max(total - reach**2, 1e-9))
    return float(np.clip(stdtr(total - 1, -critical), tail / statistics, tail))


@lru_cache(maxsize=64)
def _directions(runs: int) -> FloatArray:
    """(ROTATIONS, runs) random directions: those of the first half, and the same with the runs in reverse order.

    Sides that change places reverse the order of the residuals of pairs, and must not change the band.
    """
    half = np.random.default_rng(0).standard_normal((ROTATIONS // 2, runs))
    directions = np.vstack((half, half[:, ::-1]))
    directions.setflags(write=False)
    return directions


@lru_cache(maxsize=256)
def _chi_squares(df: float) -> FloatArray:
    """(ROTATIONS,) chi-square values with so many degrees of freedom, evenly drawn and in random order."""
    if df == 0:
        return np.zeros(ROTATIONS)
    # Both halves of the directions meet the same values.
    levels = np.random.default_rng(1).permutation((np.arange(ROTATIONS // 2) + 0.5) / (ROTATIONS // 2))
    values = np.tile(2 * gammaincinv(df / 2, levels), 2)
    values.setflags(write=False)
    return values

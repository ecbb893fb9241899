"""Error rates: counts that are often zero and that come in bursts.

What belongs here: the dispersion of the counts of repeats, and the interval of a difference of two rates. Rates are
shares of requests; the unit is the run, with its requests as exposure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri, stdtrit

from perf_pipeline.gates.evidence import ErrorSample, FloatArray

DOUBT = 0.05
"""Scatter below chance is believed up to the upper limit that it exceeds with this probability."""


@dataclass(frozen=True)
class Rate:
    """Errors and requests of the runs of one side, and how the counts scatter."""

    errors: float
    requests: float
    runs: int
    chi_square: float
    """Pearson's, of the counts around the side's one rate."""
    df: int
    """Its degrees of freedom: runs - 1, and 0 where there are no errors, which say nothing about scatter."""

    @property
    def value(self) -> float:
        """Errors per request."""
        return self.errors / self.requests


@dataclass(frozen=True)
class RateDifference:
    """Rate of the candidate minus rate of the baseline, with its interval. Shares."""

    estimate: float
    low: float
    high: float
    dispersion: float
    """Variance of the counts as a multiple of the Poisson variance, on the side where it is larger."""
    df: int
    """Degrees of freedom of the dispersion; 0 when neither side has errors."""


def rate(samples: Sequence[ErrorSample]) -> Rate:
    """The rate of the runs of one side; each run has at least one request."""
    errors = np.array([float(sample.errors) for sample in samples])
    requests = np.array([float(sample.requests) for sample in samples])
    residuals = pearson_residuals(errors, requests)
    return Rate(
        errors=float(errors.sum()),
        requests=float(requests.sum()),
        runs=len(samples),
        chi_square=float((residuals**2).sum()),
        df=len(samples) - 1 if errors.any() else 0,
    )


def pearson_residuals(errors: FloatArray, requests: FloatArray) -> FloatArray:
    """(n,) each run's errors against what the common rate expects, in Poisson standard deviations; 0 without errors."""
    expected = errors.sum() / requests.sum() * requests
    return np.divide(errors - expected, np.sqrt(expected), out=np.zeros_like(errors), where=expected > 0)


def rate_difference(baseline: Rate, candidate: Rate, confidence: float) -> RateDifference:
    """The difference of two rates, each with its quasi-Poisson limits, joined by MOVER (Zou and Donner 2008).

    Both sides share one dispersion, whose uncertainty widens the limits as t is wider than normal. Without any error
    there is nothing to estimate it from, and the limits are Poisson's exact ones: 3.7 / requests at 95 %.
    """
    df = baseline.df + candidate.df
    common, widening = 1.0, 1.0
    if df:
        common = _common_dispersion(baseline.chi_square + candidate.chi_square, df)
        level = (1 + confidence) / 2
        widening = float(stdtrit(df, level) / ndtri(level))
    of_baseline, of_candidate = (max(common, _least_dispersion(side)) for side in (baseline, candidate))
    baseline_down, baseline_up = _reach(baseline, of_baseline, widening, confidence)
    candidate_down, candidate_up = _reach(candidate, of_candidate, widening, confidence)
    estimate = candidate.value - baseline.value
    return RateDifference(
        estimate=estimate,
        low=estimate - float(np.hypot(candidate_down, baseline_up)),
        high=estimate + float(np.hypot(candidate_up, baseline_down)),
        dispersion=max(of_baseline, of_candidate),
        df=df,
    )


def _common_dispersion(chi_square: float, df: int) -> float:
    """Pearson's chi-square per degree of freedom; below 1 only as far as it is certain.

    Replayed requests fail the same way in every run, so that counts scatter less than chance and a rate is known better
    than Poisson's variance says. A few counts are equal by luck, though: below 1 the upper confidence limit is taken.
    """
    upper = chi_square / (2 * float(gammaincinv(df / 2, DOUBT)))
    return max(chi_square / df, min(upper, 1.0))


def _least_dispersion(side: Rate) -> float:
    """What equal counts cannot disprove: a variance of one error per run, and Poisson's where there are no errors."""
    return min(side.runs / side.errors, 1.0) if side.errors else 1.0


def _reach(side: Rate, dispersion: float, widening: float, confidence: float) -> tuple[float, float]:
    """How far the limits of a rate lie below and above it (Garwood 1936, on counts scaled by the dispersion)."""
    tail = (1 - confidence) / 2
    events = side.errors / dispersion
    low = float(gammaincinv(events, tail)) if events > 0 else 0.0
    high = float(gammaincinv(events + 1, 1 - tail))
    scale = dispersion * widening / side.requests
    return min((events - low) * scale, side.value), min((high - events) * scale, 1 - side.value)

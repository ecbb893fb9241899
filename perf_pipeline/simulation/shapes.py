"""Shapes of latency distributions, as curves over normal scores.

What belongs here: how the latencies of one run are spread, whatever their level. A shape is the rising curve g(z) of
ln(latency / median) over the normal score z of a request: a share p of requests is faster than exp(g(z)) medians, with
p = Phi(z). A quantile is one point of the curve and a random latency is the curve at a random normal score, so that
exact quantiles and random requests come from one description.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from perf_pipeline.gates.evidence import FloatArray

TAIL_FROM = float(ndtri(0.90))
"""Normal score where a tail begins: the slowest tenth of requests."""

_SCORES = np.linspace(-8.0, 8.0, 4001)
_WEIGHTS = np.exp(-(_SCORES**2) / 2) / np.exp(-(_SCORES**2) / 2).sum()
_STEP = 1e-3


class Shape(ABC):
    """A curve of ln(latency / median) over normal scores; rising, and 0 at 0."""

    @abstractmethod
    def curve(self, scores: FloatArray) -> FloatArray:
        """ln(latency / median) at normal scores, same shape."""

    def slope(self, scores: FloatArray) -> FloatArray:
        """Derivative of the curve at normal scores, same shape."""
        return (self.curve(scores + _STEP) - self.curve(scores - _STEP)) / (2 * _STEP)

    def bend(self, scores: FloatArray) -> FloatArray:
        """Second derivative of the curve at normal scores, same shape."""
        return (self.slope(scores + _STEP) - self.slope(scores - _STEP)) / (2 * _STEP)


@dataclass(frozen=True)
class LogNormal(Shape):
    """ln latency is normal: most services, most of the time."""

    sigma: float = 0.4
    """Standard deviation of ln latency."""

    def curve(self, scores: FloatArray) -> FloatArray:
        """A straight line."""
        return self.sigma * scores


@dataclass(frozen=True)
class HeavyTail(Shape):
    """A log-normal body under a Pareto tail: a few requests are slower by orders of magnitude.

    Normal and exponential quantiles of ln latency are added, so that P(latency > x) falls as a power of x.
    """

    sigma: float = 0.25
    tail: float = 0.2
    """Inverse of the Pareto exponent: 0.2 makes the slowest in ten thousand 10^0.2 = 1.6 times the one in a thousand,
    beyond what the body does."""

    def curve(self, scores: FloatArray) -> FloatArray:
        """Normal plus exponential quantiles."""
        return self.sigma * scores - self.tail * (log_ndtr(-scores) + np.log(2.0))


@dataclass(frozen=True)
class Bimodal(Shape):
    """Two log-normal modes: answers from a cache, and answers that need the upstream."""

    slow_share: float = 0.3
    """Share of requests in the slower mode."""
    distance: float = 1.0
    """Distance of the modes in ln latency."""
    sigma: float = 0.25
    """Standard deviation of ln latency within each mode."""

    def curve(self, scores: FloatArray) -> FloatArray:
        """The mixture's quantiles, read from a table of 20,001 points."""
        return np.interp(scores, *_bimodal_table(self)[:2])

    def slope(self, scores: FloatArray) -> FloatArray:
        """Density of normal scores over the mixture's density of ln latency."""
        table_scores, table, median = _bimodal_table(self)
        logs = np.interp(scores, table_scores, table) + median
        fast, slow = logs / self.sigma, (logs - self.distance) / self.sigma
        mixed = (1 - self.slow_share) * np.exp(-(fast**2) / 2) + self.slow_share * np.exp(-(slow**2) / 2)
        return self.sigma * np.exp(-(scores**2) / 2) / mixed


@lru_cache(maxsize=64)
def _bimodal_table(shape: Bimodal) -> tuple[FloatArray, FloatArray, float]:
    """Normal scores, curve and ln median of a mixture whose fast mode lies at 0.

    Scores are computed from the nearer tail, so that neither loses its digits.
    """
    logs = np.linspace(-9 * shape.sigma, shape.distance + 9 * shape.sigma, 20_001)
    fast, slow = logs / shape.sigma, (logs - shape.distance) / shape.sigma
    below = (1 - shape.slow_share) * ndtr(fast) + shape.slow_share * ndtr(slow)
    above = (1 - shape.slow_share) * ndtr(-fast) + shape.slow_share * ndtr(-slow)
    scores = np.where(below < above, ndtri(below), -ndtri(above))
    kept = np.isfinite(scores)
    scores, logs = scores[kept], logs[kept]
    median = float(np.interp(0.0, scores, logs))
    return scores, logs - median, median


def tail_curve(scores: FloatArray) -> FloatArray:
    """How much of a change of the tail a request feels: 0 up to p90, 1 at p99, 2 at p99.9, in step with ln(1 - p)."""
    return np.where(scores > TAIL_FROM, -(log_ndtr(-np.maximum(scores, TAIL_FROM)) / np.log(10.0) + 1.0), 0.0)


class Moments(NamedTuple):
    """Means, variances and covariance of a shape's curve and of the tail curve over all requests."""

    curve_mean: float
    tail_mean: float
    curve_variance: float
    tail_variance: float
    covariance: float


@lru_cache(maxsize=256)
def moments(shape: Shape) -> Moments:
    """The moments of ln latency under a shape, by quadrature over normal scores."""
    curves = np.stack((shape.curve(_SCORES), tail_curve(_SCORES)))
    means = curves @ _WEIGHTS
    spread = (curves - means[:, None]) * _WEIGHTS @ (curves - means[:, None]).T
    return Moments(*(float(value) for value in (*means, spread[0, 0], spread[1, 1], spread[0, 1])))

"""Drift inside a hold: the slope of a metric's level, with an interval that respects autocorrelation.

What belongs here: the estimate of the slope. What slope is too much, and what follows from it, is in `run_validity`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from perf_pipeline.gates.autoregression import batch, regress
from perf_pipeline.gates.evidence import FloatArray


@dataclass(frozen=True)
class Slope:
    """Change of ln level per second, with the limits of its interval."""

    estimate: float
    low: float
    high: float


def slope(log_levels: FloatArray, sub_window_s: float, confidence: float, min_points: int) -> Slope | None:
    """Slope of (W,) log levels of consecutive sub-windows, nan in gaps; None with fewer than `min_points` >= 4 batches.

    A line through batch means by generalised least squares: see `autoregression.regress`.
    """
    times_s, values = batch(log_levels, sub_window_s)
    if len(values) < min_points:
        return None
    levels = np.nanmean(values, axis=1)
    found = regress(np.column_stack((np.ones_like(times_s), times_s - times_s.mean())), levels)
    gradient, error = (float(value[0]) for value in found.contrast(np.array([[0.0, 1.0]])))
    reach = float(stdtrit(found.df, (1 + confidence) / 2)) * error
    return Slope(gradient, gradient - reach, gradient + reach)

"""Drift inside a hold: the slope of a metric's level, with an interval that respects autocorrelation.

What belongs here: the estimate of the slope. What slope is too much, and what follows from it, is in `run_validity`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from perf_pipeline.gates.evidence import FloatArray

MOST_BATCHES = 24
"""Sub-windows are averaged into at most this many batches, so that batches outlast most of the autocorrelation."""
MOST_AUTOCORRELATION = 0.95
FITS = 3
"""Times that slope and autocorrelation are fitted in turn; the third changes neither in the second digit."""


@dataclass(frozen=True)
class Slope:
    """Change of ln level per second, with the limits of its interval."""

    estimate: float
    low: float
    high: float


def slope(log_levels: FloatArray, sub_window_s: float, confidence: float, min_points: int) -> Slope | None:
    """Slope of (W,) log levels of consecutive sub-windows, nan in gaps; None with fewer than `min_points` >= 4 batches.

    Generalised least squares with first-order autoregressive noise (Prais and Winsten 1954) on batch means. The
    autocorrelation of residuals around a line comes out too low in so few points, by about (2 + 4 rho) / n (Kendall
    1954, Marriott and Pope 1954), and is corrected for it. The t quantile has (n - 2) (1 - rho) / (1 + rho) degrees
    of freedom, at least 2, because correlated points know their own noise less well.
    """
    times, levels = _batches(log_levels, sub_window_s)
    points = len(levels)
    if points < min_points:
        return None
    times = times - times.mean()
    rho = 0.0
    for _ in range(FITS):
        intercept, gradient, _ = _prais_winsten(times, levels, rho)
        residuals = levels - intercept - gradient * times
        if not (power := float(residuals @ residuals)) > 0:
            break  # on a line to the last bit: there is no noise to be correlated
        seen = float(residuals[1:] @ residuals[:-1]) / power
        rho = float(np.clip(seen + (2 + 4 * seen) / points, 0.0, MOST_AUTOCORRELATION))
    _, gradient, error = _prais_winsten(times, levels, rho)
    df = max((points - 2) * (1 - rho) / (1 + rho), 2.0)
    reach = float(stdtrit(df, (1 + confidence) / 2)) * error
    return Slope(gradient, gradient - reach, gradient + reach)


def _batches(log_levels: FloatArray, sub_window_s: float) -> tuple[FloatArray, FloatArray]:
    """Middles (s) and means of at most MOST_BATCHES batches of neighbouring sub-windows, without empty ones."""
    times = (np.arange(len(log_levels)) + 0.5) * sub_window_s
    there = np.isfinite(log_levels)
    batch = np.arange(len(log_levels)) * min(MOST_BATCHES, len(log_levels)) // len(log_levels)
    batch, times, levels = batch[there], times[there], log_levels[there]
    counts = np.bincount(batch)
    filled = counts > 0
    mean_times, mean_levels = (
        np.bincount(batch, weights=values)[filled] / counts[filled] for values in (times, levels)
    )
    return mean_times, mean_levels


def _prais_winsten(times: FloatArray, levels: FloatArray, rho: float) -> tuple[float, float, float]:
    """Intercept, slope and the slope's standard error, given the autocorrelation of neighbouring points."""
    design = np.column_stack((np.ones_like(times), times))
    both = np.column_stack((design, levels))
    whitened = both - rho * np.vstack((np.zeros(3), both[:-1]))
    whitened[0] = np.sqrt(1 - rho**2) * both[0]
    x, y = whitened[:, :2], whitened[:, 2]
    inverse = np.linalg.inv(x.T @ x)
    intercept, gradient = inverse @ (x.T @ y)
    residuals = y - x @ (intercept, gradient)
    variance = float(residuals @ residuals) / (len(y) - 2)
    return float(intercept), float(gradient), float(np.sqrt(variance * inverse[1, 1]))

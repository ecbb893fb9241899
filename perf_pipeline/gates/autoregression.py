"""Regression on a series whose noise remembers: neighbouring points of a hold are not independent.

What belongs here: batches of neighbouring sub-windows, and generalised least squares with first-order autoregressive
noise. What is regressed on what is in `drift` (a line) and `steps` (levels).
"""

from dataclasses import dataclass

import numpy as np

from perf_pipeline.gates.evidence import FloatArray

MOST_BATCHES = 24
"""Sub-windows are gathered into at most this many batches, so that batches outlast most of the autocorrelation."""
MOST_AUTOCORRELATION = 0.95
FITS = 3
"""Times that coefficients and autocorrelation are fitted in turn; the third changes neither in the second digit."""


@dataclass(frozen=True)
class Regression:
    """K coefficients, and what is known of them."""

    coefficients: FloatArray
    covariance: FloatArray
    """(K, K)"""
    df: float
    """Degrees of freedom of the t distribution that their intervals take their width from."""
    autocorrelation: float
    """Of neighbouring points of the noise."""

    def contrast(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N,) weighted sums of the coefficients and (N,) their standard errors, for (N, K) weights."""
        variance = np.einsum("nk,kl,nl->n", weights, self.covariance, weights)
        return weights @ self.coefficients, np.sqrt(variance)


def batch(log_levels: FloatArray, sub_window_s: float) -> tuple[FloatArray, FloatArray]:
    """Middles (s from the start of the hold) and (m, L) values of batches of (W,) consecutive sub-windows, nan in gaps.

    At most MOST_BATCHES; batches without a value are left out, the others keep their place in time. The last values of
    a batch are nan where it has fewer than L.
    """
    windows = len(log_levels)
    there = np.flatnonzero(np.isfinite(log_levels))
    if not there.size:
        return np.empty(0), np.empty((0, 0))
    first = np.flatnonzero(np.diff(there * min(MOST_BATCHES, windows) // windows, prepend=-1))
    sizes = np.diff(first, append=there.size)
    values = np.full((first.size, sizes.max()), np.nan)
    values[np.repeat(np.arange(first.size), sizes), np.arange(there.size) - np.repeat(first, sizes)] = log_levels[there]
    return (np.add.reduceat(there, first) / sizes + 0.5) * sub_window_s, values


def medians(values: FloatArray) -> FloatArray:
    """(m,) medians of the values of batches; many times faster than `nanmedian`."""
    ordered, sizes = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)
    row = np.arange(len(values))
    return np.asarray((ordered[row, (sizes - 1) // 2] + ordered[row, sizes // 2]) / 2)


def regress(design: FloatArray, values: FloatArray) -> Regression:
    """Regress (m,) values on an (m, K) design, m > K, with noise u_t = rho u_(t-1) + e_t (Prais and Winsten 1954).

    The autocorrelation of residuals comes out too low in so few points, by about (K + (K + 2) rho) / m for K slow
    regressors (Kendall 1954, Marriott and Pope 1954), and is corrected for it. The degrees of freedom are
    (m - K) (1 - rho^2), at least 2: a choice, under which intervals of a slope exclude the truth in 4 to 7 % of cases
    from no autocorrelation up to 0.95 from one to the next of 240 points (tested).
    """
    points, parameters = design.shape
    rho = 0.0
    for _ in range(FITS):
        coefficients, _ = _prais_winsten(design, values, rho)
        residuals = values - design @ coefficients
        if not (power := float(residuals @ residuals)) > 0:
            break  # fitted to the last bit: there is no noise to be correlated
        seen = float(residuals[1:] @ residuals[:-1]) / power
        rho = seen + (parameters + (parameters + 2) * seen) / points
        rho = min(max(rho, 0.0), MOST_AUTOCORRELATION)
    coefficients, covariance = _prais_winsten(design, values, rho)
    return Regression(coefficients, covariance, degrees_of_freedom(points, parameters, rho), rho)


def degrees_of_freedom(points: int, parameters: int, autocorrelation: float) -> float:
    """Those of a regression with autoregressive noise; the rule is explained in `regress`."""
    return max((points - parameters) * (1 - autocorrelation**2), 2.0)


def whiten(series: FloatArray, autocorrelation: float) -> FloatArray:
    """(..., m) series with what each point remembers of the one before taken out; the first is scaled to match."""
    white = series.copy()
    white[..., 1:] -= autocorrelation * series[..., :-1]
    white[..., 0] *= np.sqrt(1 - autocorrelation**2)
    return white


def _prais_winsten(design: FloatArray, values: FloatArray, rho: float) -> tuple[FloatArray, FloatArray]:
    """Coefficients and their covariance, given the autocorrelation of neighbouring points."""
    x, y = whiten(design.T, rho).T, whiten(values, rho)
    inverse = np.linalg.inv(x.T @ x)
    coefficients = inverse @ (x.T @ y)
    residuals = y - x @ coefficients
    return coefficients, inverse * (float(residuals @ residuals) / (len(y) - x.shape[1]))

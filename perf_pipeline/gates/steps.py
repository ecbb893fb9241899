"""Steps inside a hold: whether a metric's level changed from one moment on, and by how much.

What belongs here: where steps are, and intervals of their sizes. What size is too much, and what follows from it, is in
`run_validity`. A slope misses a step, and a step is no line: a neighbour that wakes up, a cache that is emptied.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from perf_pipeline.gates.autoregression import batch, degrees_of_freedom, medians, regress, whiten
from perf_pipeline.gates.evidence import FloatArray

SHORTEST_LEVEL = 2
"""Batches that a level lasts at least: one alone is an outlier, not a level."""
PENALTY = 3.0
"""Times ln(batches) that a step has to explain, in units of the variance of the medians (Zhang and Siegmund 2007)."""


@dataclass(frozen=True)
class Step:
    """A change of ln level, with limits that hold for every place at which a step could have been looked for."""

    at_s: float
    """Seconds from the start of the hold."""
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Levels:
    """What the levels of a hold say about steps."""

    steps: tuple[Step, ...]
    """In order of time; empty when one level explains the hold."""
    reach: float
    """The largest change of ln level, either way, that could have happened at some moment and lasted."""


def find_steps(
    log_levels: FloatArray, sub_window_s: float, confidence: float, min_points: int, negligible: float
) -> Levels | None:
    """Steps in (W,) log levels of consecutive sub-windows, nan in gaps; None with fewer than `min_points` >= 8 batches.

    Medians of batches are cut into levels by PELT (Killick, Fearnhead and Eckley 2012, in `ruptures`). The variance in
    its penalty is that of all medians, steps included: that asks a step to stand out from the whole wandering of the
    level, where the variance of neighbours would take slow noise for steps. Sizes are then estimated with noise that
    remembers, and their limits corrected for all places by Bonferroni's rule.

    Where no two medians differ by more than `negligible` no levels do, and nothing more is computed.
    """
    times_s, values = batch(log_levels, sub_window_s)
    points = len(values)
    if points < min_points:
        return None
    levels = medians(values)
    if (spread := float(np.ptp(levels))) <= negligible:
        return Levels((), spread)
    places = np.arange(SHORTEST_LEVEL, points - SHORTEST_LEVEL + 1)
    tail = (1 - confidence) / 2
    number = np.arange(points)
    cuts = _cuts(levels)
    reach = _lasting(levels, number >= places[:, None], tail)
    if not cuts:
        return Levels((), reach)
    number_of_level = np.searchsorted(cuts, number, side="right")
    found = regress(np.eye(len(cuts) + 1)[number_of_level], levels)
    sizes, errors = found.contrast(np.diff(np.eye(len(cuts) + 1), axis=0))
    limits = float(stdtrit(found.df, 1 - tail / len(places))) * errors
    steps = tuple(
        Step((times_s[cut - 1] + times_s[cut]) / 2, float(size), float(size - limit), float(size + limit))
        for cut, size, limit in zip(cuts, sizes, limits, strict=True)
    )
    return Levels(steps, max(reach, *(max(abs(step.low), abs(step.high)) for step in steps)))


def _cuts(levels: FloatArray) -> list[int]:
    """The numbers of the medians at which another level begins."""
    from ruptures import KernelCPD  # here, because it takes longer to import than all gates together

    penalty = PENALTY * math.log(len(levels)) * float(levels.var())
    search = KernelCPD(kernel="linear", min_size=SHORTEST_LEVEL).fit((levels - levels.mean())[:, None])
    return search.predict(pen=penalty)[:-1]


def _lasting(levels: FloatArray, after: NDArray[np.bool_], tail: float) -> float:
    """How far the interval of the difference between the levels after and before a moment reaches from 0, at most.

    (P, m) masks of what comes after each of P moments. Each is a regression of its own on a constant and a step; the
    autocorrelation is that around the constant alone, which a step can only make larger.
    """
    points = len(levels)
    rho = regress(np.ones((points, 1)), levels).autocorrelation
    constant = whiten(np.ones(points), rho)
    constant /= np.linalg.norm(constant)
    steps, values = whiten(after.astype(float), rho), whiten(levels, rho)
    steps -= np.outer(steps @ constant, constant)
    values -= (values @ constant) * constant
    power = (steps**2).sum(axis=1)
    sizes = steps @ values / power
    noise = np.maximum(values @ values - sizes**2 * power, 0.0) / (points - 2)
    limit = float(stdtrit(degrees_of_freedom(points, 2, rho), 1 - tail))
    return float((np.abs(sizes) + limit * np.sqrt(noise / power)).max())

"""Level shifts: from which night on a series of nightly results lies on another level, and by how much.

What belongs here: change points in one series of values of ln, one a night. It watches two things: the effect of the
nightly builds, where a shift is a change of the service that single nights were too noisy to tell, and the level of a
baseline that stays the same, where a shift is a change of the lab.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from perf_pipeline.history.effect import FloatArray

SHORTEST_LEVEL = 3
"""Nights that a level lasts at least: fewer are outliers that the verdicts of those nights tell already."""
PENALTY = 3.0
"""Times ln(nights) that a shift has to explain, in units of the variance of a night (Zhang and Siegmund 2007)."""


@dataclass(frozen=True)
class LevelShift:
    """A change of ln level between two nights."""

    at: int
    """Index of the first night on the new level."""
    estimate: float
    low: float
    high: float
    """With low, limits that hold for every night at which a shift could have been found (Bonferroni)."""


def level_shifts(values: Sequence[float], floor: float, confidence: float = 0.95) -> list[LevelShift]:
    """Shifts of the level of (N,) nightly values of ln that are surely larger than `floor`, in order of time.

    The nights are cut by PELT (Killick, Fearnhead and Eckley 2012, in `ruptures`), with the variance of a night from
    the median absolute difference of neighbours, which shifts hardly touch. A cut is a shift when its limits, from the
    variance around the levels on both of its sides, lie wholly beyond the floor: nights are only called different when
    the difference is one that counts. Values that are not finite are left out; fewer than twice `SHORTEST_LEVEL` nights
    have no shift that could be told.
    """
    nights = np.flatnonzero(np.isfinite(values))
    series = np.asarray(values, dtype=float)[nights]
    if len(series) < 2 * SHORTEST_LEVEL:
        return []
    cuts = _cuts(series)
    tail = (1 - confidence) / 2 / (len(series) - 2 * SHORTEST_LEVEL + 1)
    edges = [0, *cuts, len(series)]
    shifts = []
    for begin, cut, end in zip(edges[:-2], edges[1:-1], edges[2:], strict=True):
        before, after = series[begin:cut], series[cut:end]
        df = len(before) + len(after) - 2
        variance = (before.var() * len(before) + after.var() * len(after)) / df
        error = math.sqrt(variance * (1 / len(before) + 1 / len(after)))
        reach = float(stdtrit(df, 1 - tail)) * error
        size = float(after.mean() - before.mean())
        if abs(size) - reach > floor:
            shifts.append(LevelShift(int(nights[cut]), size, size - reach, size + reach))
    return shifts


def _cuts(series: FloatArray) -> list[int]:
    """Indices at which another level begins."""
    from ruptures import KernelCPD  # here, because it takes longer to import than everything else

    # For normal noise the median of |difference of neighbours| is 0.954 standard deviations of one night.
    night = float(np.median(np.abs(np.diff(series)))) / 0.954
    variance = max(night**2, 1e-12)
    search = KernelCPD(kernel="linear", min_size=SHORTEST_LEVEL).fit((series - series.mean())[:, None])
    return search.predict(pen=PENALTY * math.log(len(series)) * variance)[:-1]

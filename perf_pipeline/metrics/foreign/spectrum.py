"""Percentile spectra: a distribution that is known at some of its percentiles, and in between not at all.

What belongs here: the histogram that a spectrum supports. How spectra are printed is in `hgrm` and `wrk`.

HdrHistogram prints at each level p the first recorded value v that is not below the quantile, and the count c of all
requests up to v. So the requests of rank p n to c have the value v, and those between the count of the line before and
rank p n lie somewhere between the two values. Each line thus makes a narrow bucket at v, as wide as the precision of
the record, and a wide one in front of it. A percentile that was printed is as precise as the record. One in between is
no better known than the distance to its neighbours, and Gate 3 is told so by the width of its bucket.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perf_pipeline.metrics.histogram import WindowedHistogram, window_histogram


@dataclass(frozen=True)
class Tick:
    """One line of a spectrum."""

    value_ms: float
    width_ms: float
    """The value stands for itself and for what is less than this below it."""
    level: float
    """Share of the requests that was asked for, 0 to 1."""
    count: int
    """Requests at or below the value."""


def spectrum_histogram(ticks: Sequence[Tick]) -> WindowedHistogram:
    """The histogram of a spectrum, in one sub-window.

    Raises ValueError when values or counts go back, when the spectrum does not reach level 1, or counts nothing.
    """
    if not ticks or ticks[-1].level < 1 - 1e-9:
        raise ValueError("is cut off: it does not reach the largest value, at percentile 1.0")
    total = ticks[-1].count
    if not total:
        raise ValueError("counts no request")
    rows: list[tuple[float, float, int]] = []
    edge_ms, before = 0.0, 0
    for tick in ticks:
        if tick.count < before or tick.value_ms < edge_ms - tick.width_ms:
            raise ValueError(f"goes back at percentile {tick.level:g}")
        # In front of the rank that was asked for nothing has to have this value; from there to the count all have.
        rank = math.ceil(tick.level * total * (1 - 1e-12))
        in_front = min(max(rank - 1, before), tick.count) - before
        at_value = tick.count - before - in_front
        narrow_ms = max(edge_ms, tick.value_ms - tick.width_ms) if at_value else tick.value_ms
        for low_ms, high_ms, count in ((edge_ms, narrow_ms, in_front), (narrow_ms, tick.value_ms, at_value)):
            if count and high_ms > low_ms:
                rows.append((low_ms, high_ms, count))
            elif count and rows:
                # Both values are the same as far as the record can tell.
                rows[-1] = (*rows[-1][:2], rows[-1][2] + count)
            elif count:
                raise ValueError(f"has a value of {tick.value_ms:g} at percentile {tick.level:g}")
        edge_ms, before = max(edge_ms, tick.value_ms), tick.count
    low, high, counts = zip(*rows, strict=True)
    return window_histogram(low, high, [0] * len(rows), counts, 1)

"""How a hold is cut into sub-windows, for results whose hold is known only when they were read.

What belongs here: the length and the number of sub-windows. It is that of run directories, but for holds of many hours
and for logs whose intervals are longer.
"""

import math

from perf_pipeline.metrics.measured_run import LONG_HOLD_S

_MOST_WINDOWS = 8640
"""A day in sub-windows of 10 s. Longer holds get longer sub-windows, so that their number stays bounded."""


def sub_windows(hold_s: float, interval_s: float = 0.0) -> tuple[float, int]:
    """Length in s and number of the sub-windows of a hold; none is shorter than the interval of its source."""
    shortest_s = 10.0 if hold_s >= LONG_HOLD_S else 1.0
    sub_window_s = max(shortest_s, interval_s, 10 * math.ceil(hold_s / _MOST_WINDOWS / 10) if hold_s > 86400 else 0.0)
    # What is left over at the end makes no sub-window of its own while it is shorter than a twentieth of one.
    return sub_window_s, max(1, math.ceil(hold_s / sub_window_s - 0.05))

"""Scales from changes to pixels, and the marks that every picture draws in the same way.

What belongs here: what `plots` and `forest` share. Changes are ratios minus 1, or differences of shares.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

from perf_pipeline.gates.findings import Verdict
from perf_pipeline.report.palette import Tone
from perf_pipeline.report.picture import Area, Point, Stroke
from perf_pipeline.report.wording import change_unit, signed

WIDTH = 440
"""Width of every picture but the marks, in pixels: text stays readable when a phone shrinks it to its own width."""

LETTER_PX = 7.2
"""Room for a letter, enough for the larger text on phones."""

_STEPS = tuple(factor * 10.0**power for power in range(-7, 5) for factor in (1, 2, 5))


@dataclass(frozen=True)
class Axis:
    """A linear scale from changes to pixels; what lies outside is drawn at its end, as an arrow that says so."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a change; infinite changes stand at the end of the scale."""
        inside = min(self.high, max(self.low, value))
        share = (inside - self.low) / (self.high - self.low)
        # Near the largest float the scale itself overflows, and everything stands where it starts.
        return self.start + (share if math.isfinite(share) else 0.0) * (self.end - self.start)

    def beyond(self, value: float) -> int:
        """-1 for what lies below the scale, 1 for what lies above it, 0 for what it holds."""
        return (value > self.high) - (value < self.low)

    def ticks(self, most: int, metric: str) -> list[tuple[float, str]]:
        """Round changes inside the scale with their text, at most so many; none where no round step is coarse enough.

        Percentage points are named by the title of the axis, not at each tick.
        """
        step = next((step for step in _STEPS if (self.high - self.low) / step <= most), None)
        if step is None:
            return []
        decimals = max(0, -math.floor(math.log10(step * 100) + 1e-9))
        unit = "\N{NARROW NO-BREAK SPACE}%" if change_unit(metric) == "%" else ""
        places = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        return [(step * place, f"{signed(step * place, decimals)}{unit}" if place else "0") for place in places]


def ticks_that_fit(axis: Axis, metric: str) -> list[tuple[float, str]]:
    """As many ticks of a lying axis as have room for their text."""
    for most in range(8, 0, -1):
        ticks = axis.ticks(most, metric)
        widest = max((len(text) for _, text in ticks), default=0) * LETTER_PX + 6
        if all(axis(right) - axis(left) >= widest for (left, _), (right, _) in pairwise(ticks)):
            return ticks
    return axis.ticks(1, metric)


def answer_of(verdict: Verdict) -> str:
    """The role of a verdict's dot: filled when it is an answer, hollow when it is none."""
    return "dot" if verdict.verdict in ("equivalent", "regression", "improvement") else "open"


def arrow(role: str, tip: Point, way: Point, tone: Tone | None) -> Area:
    """A mark at the end of a scale for what lies beyond it: a triangle whose tip looks that `way`, a unit vector."""
    (x, y), (dx, dy) = tip, way
    return Area(
        role, (tip, (x - 9 * dx + 5 * dy, y - 9 * dy + 5 * dx), (x - 9 * dx - 5 * dy, y - 9 * dy - 5 * dx)), tone
    )


def interval_line(x: Axis, low: float, high: float, middle: float, tone: Tone) -> list[Stroke]:
    """A lying interval; an end that lies beyond the scale ends in an open arrow head."""
    strokes = [Stroke("line", ((x(low), middle), (x(high), middle)), tone)]
    for end in (low, high):
        if way := x.beyond(end):
            back = x(end) - 4 * way
            strokes.append(Stroke("line", ((back, middle - 4), (x(end), middle), (back, middle + 4)), tone))
    return strokes


def box(left: float, top: float, right: float, bottom: float) -> tuple[Point, ...]:
    """The corners of a rectangle."""
    return ((left, top), (right, top), (right, bottom), (left, bottom))

"""How single runs are drawn: thin lines over the change at each percentile, dots below a number, levels over the hold.

What belongs here: the places of runs in a picture. A run of the baseline is grey and solid, one of the candidate has
the tone of the verdict and is dashed, one that was left out is dotted: the three differ without colour too. A change is
against the baseline's mean, so runs of the baseline scatter around no change.
"""

import math
from collections.abc import Iterable, Sequence

from perf_pipeline.gates.evidence import ERROR_RATES, PERCENTILES
from perf_pipeline.gates.findings import PercentileChange, Verdict
from perf_pipeline.report.palette import Tone, tone_of_verdict
from perf_pipeline.report.picture import Label, Lines, Picture, Point, Shape, Stroke
from perf_pipeline.report.run_curves import CellRuns, RunCurve
from perf_pipeline.report.scale import WIDTH, Axis
from perf_pipeline.report.wording import change, metric_label, plural

_HEIGHT = 150


def run_changes(verdict: Verdict, runs: Sequence[RunCurve]) -> list[float]:
    """The change of the number of each run against the baseline's value; nothing where that is not known."""
    base = verdict.baseline_value
    if base is None or not math.isfinite(base):
        return []
    if verdict.metric in ERROR_RATES:
        found = [run.value - base for run in runs]
    else:
        found = [run.value / base - 1 for run in runs] if base > 0 else []
    return [value for value in found if math.isfinite(value)]


def percentile_changes(points: Sequence[PercentileChange], runs: Iterable[RunCurve]) -> list[list[float]]:
    """The change of each run at each of the points, against the baseline's mean there; nan where it is not known."""
    return [
        [
            run.percentiles[PERCENTILES.index(point.p)] / point.baseline_ms - 1 if point.baseline_ms > 0 else math.nan
            for point in points
        ]
        for run in runs
        if run.percentiles
    ]


def lines(role: str, curves: Sequence[Sequence[float]], xs: Sequence[float], y: Axis, tone: Tone | None) -> list[Shape]:
    """Curves as thin lines, straight over what is not known. Where one leaves the scale it ends until it comes back."""
    parts: list[tuple[Point, ...]] = []
    for curve in curves:
        part: list[Point] = []
        for x, value in zip(xs, curve, strict=True):
            if not math.isfinite(value):
                continue
            if not y.beyond(value):
                part.append((x, y(value)))
            elif part:
                parts.append(tuple(part))
                part = []
        parts.append(tuple(part))
    parts = [part for part in parts if len(part) > 1]
    return [Lines(role, tuple(parts), tone)] if parts else []


def level_picture(verdict: Verdict, runs: CellRuns) -> Picture | None:
    """The level of each run over its hold, as a change against the mean level of the baseline; None if not known."""
    base = _mean_level(runs.baseline) or _mean_level(runs.candidate)
    sides = (("baseline", runs.baseline), ("candidate", runs.candidate), ("left out", runs.left_out))
    changes = {
        side: [[level / base - 1 for level in run.levels] for run in curves if run.levels] for side, curves in sides
    } if base else {}  # fmt: skip
    known = [level for curves in changes.values() for curve in curves for level in curve if math.isfinite(level)]
    if not known:
        return None
    hold_s = max(run.hold_s for _, curves in sides for run in curves if run.levels)
    low, high = min([-0.02, *known]), max([0.02, *known])
    margin = 0.05 * (high - low)
    left, right, top, bottom = 64.0, WIDTH - 8.0, 8.0, _HEIGHT - 40.0
    y = Axis(low - margin, high + margin, bottom, top)
    tone = tone_of_verdict(verdict.verdict)
    ticks = y.ticks(4, verdict.metric)
    shapes: list[Shape] = [Stroke("grid", ((left, y(tick)), (right, y(tick)))) for tick, _ in ticks]
    shapes.append(Stroke("zero", ((left, y(0)), (right, y(0)))))
    shapes += [Label("tick", (left - 6, y(tick) + 4), text, "end") for tick, text in ticks]
    for role, side in (("run-baseline", "baseline"), ("run-candidate", "candidate"), ("run-left-out", "left out")):
        for length in sorted({len(curve) for curve in changes[side]}):
            step = (right - left) // length  # whole pixels, which are short to write
            xs = [left + step // 2 + step * number for number in range(length)]
            curves = [curve for curve in changes[side] if len(curve) == length]
            shapes += lines(role, curves, xs, y, tone if side == "candidate" else None)
    shapes += [
        Label("tick", (left, bottom + 16), "0 s"),
        Label("tick", (right, bottom + 16), f"{hold_s:g} s" if math.isfinite(hold_s) else "end", "end"),
        Label("tick", ((left + right) / 2, bottom + 32), "level over the hold, one line a run", "middle"),
    ]
    words = [
        f"{plural(len(curves), 'run')} {'left out' if side == 'left out' else f'of the {side}'} between"
        f" {change(verdict.metric, min(values))} and {change(verdict.metric, max(values))}"
        for side, curves in changes.items()
        if (values := [level for curve in curves for level in curve if math.isfinite(level)])
    ]
    subject = f"{verdict.scenario}, {metric_label(verdict.metric)}"
    return Picture(subject, "level over the hold", f"{'; '.join(words)}.", WIDTH, _HEIGHT, tuple(shapes))


def _mean_level(runs: Sequence[RunCurve]) -> float:
    """The geometric mean of all levels; 0 where there is none."""
    logs = [math.log(level) for run in runs for level in run.levels if math.isfinite(level) and level > 0]
    return math.exp(sum(logs) / len(logs)) if logs else 0.0

"""What the pictures of a report show: the change at each percentile, numbers over scenarios, the pooled changes.

What belongs here: where each mark goes and what the title and the words for it say. How a mark looks is in `picture`.
Each function takes findings and returns a `Picture`; none computes statistics. Changes are drawn in % (error rates in
percentage points), and upwards or to the right is always worse. A filled dot is an answer, a hollow one is none.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from perf_pipeline.gates.findings import PercentileChange, Verdict
from perf_pipeline.report.palette import Tone, tone_of_verdict
from perf_pipeline.report.picture import Area, Dot, Label, Picture, Point, Shape, Stroke
from perf_pipeline.report.run_curves import CellRuns
from perf_pipeline.report.run_lines import lines, percentile_changes
from perf_pipeline.report.scale import WIDTH, Axis, answer_of, arrow, box, interval_line
from perf_pipeline.report.wording import (
    change,
    edge,
    finding,
    finite,
    listed,
    metric_label,
    percentile_label,
    side_of_zone,
    verdict_word,
    zone,
)

_SHIFT_HEIGHT = 262
_LINE_PX = 16
"""From one line of text to the next, enough for the larger text on phones."""
_LABELLED_PERCENTILES = (5.0, 99.0, 50.0, 25.0, 75.0, 95.0)


def percentile_shift(verdict: Verdict, runs: CellRuns | None = None) -> Picture:
    """The change of a distribution at each percentile, its intervals and its band, against the zone.

    The `runs` are drawn over it, each as a thin line. A verdict without percentiles gives a picture that says why.
    """
    subject = f"{verdict.scenario}, {metric_label(verdict.metric)}"
    title = f"{verdict_word(verdict).capitalize()}. {finding(verdict)}"
    points = [point for point in verdict.percentiles if math.isfinite(point.estimate)]
    if not points:
        words = Label("label", (WIDTH / 2, 40), "nothing to compare", "middle")
        return Picture(subject, title, finding(verdict), WIDTH, 80, (words,))

    tone = tone_of_verdict(verdict.verdict)
    left, right, top, bottom = 64.0, WIDTH - 68.0, 30.0, _SHIFT_HEIGHT - 44.0
    sides = (
        [percentile_changes(points, side) for side in (runs.baseline, runs.candidate, runs.left_out)] if runs else []
    )
    y = _shift_axis(verdict, points, [value for side in sides for curve in side for value in curve], bottom, top)
    step = (right - left) // len(points)  # whole pixels, which are short to write
    right = left + step * len(points)
    xs = [left + step // 2 + step * number for number in range(len(points))]

    places = [(x, y(point.estimate)) for x, point in zip(xs, points, strict=True)]
    shapes: list[Shape] = [*_legend(tone), *_zone_area(verdict, y, left, right)]
    ticks = y.ticks(7, verdict.metric)
    shapes += [Stroke("grid", ((left, y(tick)), (right, y(tick)))) for tick, _ in ticks]
    shapes += [Label("tick", (left - 6, y(tick) + 4), text, "end") for tick, text in ticks]
    shapes += _zone_edges(verdict, y, left, right)
    if y.low < 0 < y.high:
        shapes.append(Stroke("zero", ((left, y(0)), (right, y(0)))))
    shapes.append(Area("band", _ribbon(xs, y, [(point.band_low, point.band_high) for point in points]), tone))
    shapes.append(Area("interval", _ribbon(xs, y, [(point.low, point.high) for point in points]), tone))
    for role, side in zip(("run-baseline", "run-candidate", "run-left-out"), sides, strict=False):
        shapes += lines(role, side, xs, y, tone if role == "run-candidate" else None)
    shapes.append(Stroke("line", tuple(places), tone))
    for place, point in zip(places, points, strict=True):
        radius = 4.5 if point.p == verdict.deciding_percentile else 2.5
        shapes.append(Dot(_answer_at(point, verdict), place, radius, tone))
    shapes += _percentile_axis(points, xs, bottom)
    shapes += [
        Label("note", (left + 5, top + 13), "↑ slower"),
        *([Label("note", (left + 5, bottom - 6), "↓ faster")] if bottom - y(0) > 2 * _LINE_PX else []),
        *_beyond(verdict, points, [value for side in sides for curve in side for value in curve], y, right),
        *_deciding_label(verdict, {point.p: place for point, place in zip(points, places, strict=True)}, left, right),
    ]
    return Picture(subject, title, _shift_words(verdict, points), WIDTH, _SHIFT_HEIGHT, tuple(shapes))


def interval_mark(verdict: Verdict, reach: float) -> Picture:
    """The interval of one verdict against its zone, small enough for a cell of a table.

    Its scale goes from -`reach` to +`reach`, the same for every cell of a metric.
    """
    x = Axis(-reach, reach, 1.0, 95.0)
    low, high, estimate = finite(verdict.low), finite(verdict.high), finite(verdict.estimate)
    zone_low, zone_high = finite(verdict.zone_low), finite(verdict.zone_high)
    tone = tone_of_verdict(verdict.verdict)
    shapes: list[Shape] = []
    if zone_low is not None and zone_high is not None:
        shapes.append(Area("zone", box(x(zone_low), 0, x(zone_high), 12)))
    shapes.append(Stroke("zero", ((x(0), 0), (x(0), 12))))
    if low is not None and high is not None:
        shapes += interval_line(x, low, high, 6, tone)
    if estimate is not None and (way := x.beyond(estimate)):
        shapes.append(arrow(answer_of(verdict), (x(estimate), 6), (way, 0), tone))
    elif estimate is not None:
        shapes.append(Dot(answer_of(verdict), (x(estimate), 6), 3, tone))
    return Picture(f"{verdict.scenario}, {metric_label(verdict.metric)}", verdict.verdict, "", 96, 12, tuple(shapes))


def mark_reach(verdicts: Iterable[Verdict]) -> float:
    """The scale on which the marks of one metric are drawn: at least twice the zone, at most six times."""
    zones, ends = [0.0], [0.0]
    for verdict in verdicts:
        zones += [abs(value) for value in map(finite, (verdict.zone_low, verdict.zone_high)) if value is not None]
        ends += [abs(value) for value in map(finite, (verdict.low, verdict.high)) if value is not None]
    widest = max(zones) or max(ends) or 1.0
    return min(6 * widest, max(2 * widest, 1.05 * max(ends)))


def _shift_axis(
    verdict: Verdict, points: Sequence[PercentileChange], of_runs: Sequence[float], bottom: float, top: float
) -> Axis:
    """A scale that holds zone and intervals, and of the band and single runs as much as does not squeeze them."""
    zone_low, zone_high = finite(verdict.zone_low) or -0.1, finite(verdict.zone_high) or 0.1
    ends = [value for point in points for value in (point.low, point.high, point.estimate) if math.isfinite(value)]
    bands = [value for point in points for value in (point.band_low, point.band_high) if math.isfinite(value)]
    bands += [value for value in of_runs if math.isfinite(value)]
    low, high = min([1.45 * zone_low, *ends]), max([1.45 * zone_high, *ends])
    room = 0.6 * (high - low)
    low, high = max(low - room, min([low, *bands])), min(high + room, max([high, *bands]))
    margin = 0.04 * (high - low) or 0.01
    return Axis(low - margin, high + margin, bottom, top)


def _legend(tone: Tone) -> list[Shape]:
    return [
        Stroke("line", ((10, 11), (28, 11)), tone),
        Dot("dot", (19, 11), 2.5, tone),
        Label("tick", (33, 15), "change"),
        Area("interval", box(98, 5, 116, 17), tone),
        Label("tick", (121, 15), "interval (each)"),
        Area("band", box(236, 5, 254, 17), tone),
        Label("tick", (259, 15), "band (all at once)"),
    ]


def _zone_area(verdict: Verdict, y: Axis, left: float, right: float) -> list[Shape]:
    low, high = finite(verdict.zone_low), finite(verdict.zone_high)
    return [] if low is None or high is None else [Area("zone", box(left, y(high), right, y(low)))]


def _zone_edges(verdict: Verdict, y: Axis, left: float, right: float) -> list[Shape]:
    low, high = finite(verdict.zone_low), finite(verdict.zone_high)
    if low is None or high is None:
        return []
    shapes: list[Shape] = []
    middle = (y(low) + y(high)) / 2 + 4
    # Where the zone is thin beside the changes, its three labels keep a line of text apart.
    heights = {high: min(y(high) + 4, middle - _LINE_PX), low: max(y(low) + 4, middle + _LINE_PX)}
    for limit, height in heights.items():
        shapes.append(Stroke("edge", ((left, y(limit)), (right, y(limit)))))
        shapes.append(Label("tick", (right + 5, height), edge(verdict.metric, limit)))
    shapes.append(Label("label", (right + 5, middle), "zone"))
    return shapes


def _ribbon(xs: Sequence[float], y: Axis, bounds: Sequence[tuple[float, float]]) -> tuple[Point, ...]:
    """The polygon between lower and upper bounds; a bound that is not known reaches to the end of the scale."""
    lows = [y(low if not math.isnan(low) else -math.inf) for low, _ in bounds]
    highs = [y(high if not math.isnan(high) else math.inf) for _, high in bounds]
    return (*zip(xs, highs, strict=True), *reversed(list(zip(xs, lows, strict=True))))


def _beyond(
    verdict: Verdict, points: Sequence[PercentileChange], of_runs: Sequence[float], y: Axis, right: float
) -> list[Shape]:
    """How far a band or a run reaches that is too wide for the scale; what is drawn of it ends with the scale."""
    bands = [value for point in points for value in (point.band_low, point.band_high)]
    shapes: list[Shape] = []
    lines_at = {1: 0, -1: 0}
    for name, values in (("band", bands), ("a run", of_runs)):
        known = [value for value in values if math.isfinite(value)] or [0.0]
        for value in (max(known), min(known)):
            if way := y.beyond(value):
                height = y(value) + (13 if way > 0 else -6) + way * _LINE_PX * lines_at[way]
                lines_at[way] += 1
                text = f"{name} to {change(verdict.metric, value)} {'↑' if way > 0 else '↓'}"
                shapes.append(Label("note", (right - 4, height), text, "end"))
    return shapes


def _percentile_axis(points: Sequence[PercentileChange], xs: Sequence[float], bottom: float) -> list[Shape]:
    """Names of a few percentiles, the ends first, none nearer to another than its text is wide."""
    places = {point.p: x for point, x in zip(points, xs, strict=True)}
    taken: list[float] = []
    shapes: list[Shape] = []
    for p in _LABELLED_PERCENTILES:
        if p in places and all(abs(places[p] - other) >= 28 for other in taken):
            taken.append(places[p])
            shapes.append(Label("tick", (places[p], bottom + 16), percentile_label(p), "middle"))
    shapes.append(
        Label("tick", ((xs[0] + xs[-1]) / 2, bottom + 35), "percentile of requests (fastest → slowest)", "middle")
    )
    return shapes


def _deciding_label(verdict: Verdict, places: Mapping[float, Point], left: float, right: float) -> list[Shape]:
    """The change at the deciding percentile, beside its dot and towards the middle of the picture."""
    if verdict.deciding_percentile is None or verdict.deciding_percentile not in places:
        return []
    x, y = places[verdict.deciding_percentile]
    text = f"{percentile_label(verdict.deciding_percentile)}: {change(verdict.metric, verdict.estimate)}"
    tone = tone_of_verdict(verdict.verdict)
    if x > (left + right) / 2:
        return [Label("finding", (x - 7, y - 12), text, "end", tone)]
    return [Label("finding", (x + 7, y - 12), text, "start", tone)]


def _answer_at(point: PercentileChange, verdict: Verdict) -> str:
    """Whether this percentile is settled: its interval inside the zone, or its band wholly beyond it."""
    inside = side_of_zone(point.low, point.high, verdict) == "inside the zone"
    beyond = side_of_zone(point.band_low, point.band_high, verdict) in ("above the zone", "below the zone")
    return "dot" if inside or beyond else "open"


def _shift_words(verdict: Verdict, points: Sequence[PercentileChange]) -> str:
    shown = [point for point in points if point.p in _LABELLED_PERCENTILES] or list(points)
    changes = [f"{percentile_label(point.p)} {change(verdict.metric, point.estimate)}" for point in shown]
    limits = zone(verdict.metric, verdict.zone_low, verdict.zone_high)
    return f"Relative change by percentile: {listed(changes)}. Zone {limits}."

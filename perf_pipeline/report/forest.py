"""Pictures that hold intervals below each other: one metric over scenarios, and the pooled changes of all metrics.

What belongs here: rows, their marks, and what the title says. Worse is always to the right. A filled dot is an answer,
a hollow one is none; in the picture of pooled changes the hollow dot is the worst scenario, and the picture says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from perf_pipeline.gates.evidence import DISTRIBUTIONS
from perf_pipeline.gates.findings import Pooled, Verdict
from perf_pipeline.report.overview import VERDICTS_WORST_FIRST
from perf_pipeline.report.palette import Tone, tone_of_verdict
from perf_pipeline.report.picture import Area, Dot, Label, Picture, Shape, Stroke
from perf_pipeline.report.run_curves import CellRuns
from perf_pipeline.report.run_lines import run_changes
from perf_pipeline.report.scale import LETTER_PX, WIDTH, Axis, answer_of, arrow, box, interval_line, ticks_that_fit
from perf_pipeline.report.wording import (
    change,
    change_text,
    change_unit,
    counted,
    finding,
    finite,
    interval_with_units,
    metric_label,
    plural,
    pooled_label,
    verdict_word,
)

_ROW_HEIGHT = 26
_TOP = 20.0
_LABEL_LETTERS = 20
_WIDEST = 40
"""How many times the zone a picture reaches at most; what lies farther is an arrow at its end, with its number."""


@dataclass(frozen=True)
class _Row:
    """One interval with its name on the left and its change on the right."""

    label: str
    metric: str
    estimate: float | None
    low: float | None
    high: float | None
    zone_low: float | None
    zone_high: float | None
    tone: Tone
    dot: str
    words: str
    worst: float | None = None
    points: tuple[float, ...] = ()
    """Changes of single runs, a dot each."""


def number_picture(verdict: Verdict, runs: CellRuns, versions: tuple[str, str]) -> Picture:
    """One verdict on a number, and below it a dot for each run of the baseline and of the candidate (`versions`)."""
    picture = forest([verdict])
    sides = zip(versions, (runs.baseline, runs.candidate), ("run-baseline", "run-candidate"), strict=True)
    rows = [_row_of_verdict(verdict, "change")]
    rows += [_row_of_runs(verdict, name, run_changes(verdict, side), role) for name, side, role in sides]
    rows.append(_row_of_runs(verdict, "left out", run_changes(verdict, runs.left_out), "run-left-out"))
    rows = [row for row in rows if row.points or row.low is not None]
    return _drawn(picture.subject, picture.title, rows) if len(rows) > 1 else picture


def forest(verdicts: Sequence[Verdict], pooled: Sequence[Pooled] = ()) -> Picture:
    """One metric over scenarios: a row each with its interval against the zone, and the pooled changes below.

    A single verdict is drawn without its name: the title says it. Raises ValueError unless all are of one metric.
    """
    metrics = {verdict.metric for verdict in verdicts}
    if len(metrics) != 1 or metrics | {item.metric for item in pooled} != metrics:
        raise ValueError("a forest shows the verdicts of one metric")
    metric = verdicts[0].metric
    rows = [_row_of_verdict(verdict) for verdict in verdicts]
    rows += [_row_of_pooled(item, verdicts, _pooled_statistic(item)) for item in pooled]
    if len(verdicts) == 1:
        verdict = verdicts[0]
        title = f"{verdict_word(verdict).capitalize()}. {finding(verdict)}"
        return _drawn(f"{verdict.scenario}, {metric_label(metric)}", title, rows)
    words = [verdict_word(verdict) for verdict in verdicts]
    counts = [counted(words.count(word), word) for word in VERDICTS_WORST_FIRST if word in words]
    counts += [f"{words.count('absent')} absent"] if "absent" in words else []
    return _drawn(f"{metric_label(metric)} over {len(verdicts)} scenarios", f"{', '.join(counts)}.", rows)


def pooled_forest(pooled: Sequence[Pooled], verdicts: Sequence[Verdict]) -> Picture:
    """Pooled changes of several metrics with the same unit, each with the worst scenario as a hollow dot.

    The zone of each metric is read from `verdicts`. Raises ValueError when the units differ or there is nothing.
    """
    if len({change_unit(item.metric) for item in pooled}) != 1:
        raise ValueError("a picture of pooled changes shows one unit")
    rows = [_row_of_pooled(item, verdicts, pooled_label(item), worst=True) for item in pooled]
    largest = max(pooled, key=lambda item: abs(finite(item.estimate) or 0.0))
    title = f"Largest on average: {pooled_label(largest)}, {change(largest.metric, largest.estimate)}."
    return _drawn("Pooled over scenarios (○ worst scenario)", title, rows, named=True)


def _row_of_runs(verdict: Verdict, label: str, changes: Sequence[float], role: str) -> _Row:
    span = f"{change(verdict.metric, min(changes))} to {change(verdict.metric, max(changes))}" if changes else ""
    return _Row(
        label=label,
        metric=verdict.metric,
        estimate=None,
        low=None,
        high=None,
        zone_low=finite(verdict.zone_low),
        zone_high=finite(verdict.zone_high),
        tone=tone_of_verdict(verdict.verdict) if role == "run-candidate" else "none",
        dot="open" if role == "run-left-out" else "dot",
        words=f"{label}: {plural(len(changes), 'run')} from {span}",
        points=tuple(changes),
    )


def _row_of_verdict(verdict: Verdict, label: str = "") -> _Row:
    return _Row(
        label=label or verdict.scenario,
        metric=verdict.metric,
        estimate=finite(verdict.estimate),
        low=finite(verdict.low),
        high=finite(verdict.high),
        zone_low=finite(verdict.zone_low),
        zone_high=finite(verdict.zone_high),
        tone=tone_of_verdict(verdict.verdict),
        dot=answer_of(verdict),
        words=f"{verdict.scenario}: {verdict_word(verdict)}, {change_text(verdict).change}",
    )


def _row_of_pooled(pooled: Pooled, verdicts: Sequence[Verdict], label: str, worst: bool = False) -> _Row:
    same = next((verdict for verdict in verdicts if verdict.metric == pooled.metric), None)
    interval = interval_with_units(pooled.metric, pooled.low, pooled.high)
    return _Row(
        label=label,
        metric=pooled.metric,
        estimate=finite(pooled.estimate),
        low=finite(pooled.low),
        high=finite(pooled.high),
        zone_low=finite(same.zone_low) if same else None,
        zone_high=finite(same.zone_high) if same else None,
        tone="none",
        dot="dot",
        words=f"{pooled_label(pooled)} pooled: {change(pooled.metric, pooled.estimate)}, interval {interval};"
        f" worst scenario {pooled.worst_scenario} {change(pooled.metric, pooled.worst_estimate)}",
        worst=finite(pooled.worst_estimate) if worst else None,
    )


def _drawn(subject: str, title: str, rows: Sequence[_Row], named: bool = False) -> Picture:
    named = named or len(rows) > 1
    left, right = _margins(rows) if named else (24.0, WIDTH - 24.0)
    bottom = _TOP + _ROW_HEIGHT * len(rows)
    x = _axis(rows, left, right)
    metric = rows[0].metric
    shapes: list[Shape] = []
    for number, row in enumerate(rows):
        if row.zone_low is not None and row.zone_high is not None:
            top = _TOP + _ROW_HEIGHT * number
            if not any(isinstance(shape, Area) for shape in shapes):
                shapes.append(Label("tick", ((x(row.zone_low) + x(row.zone_high)) / 2, _TOP - 7), "zone", "middle"))
            shapes.append(Area("zone", box(x(row.zone_low), top, x(row.zone_high), top + _ROW_HEIGHT)))
    ticks = ticks_that_fit(x, metric)
    shapes += [Stroke("grid", ((x(tick), _TOP), (x(tick), bottom))) for tick, _ in ticks]
    shapes += [Label("tick", (x(tick), bottom + 15), text, "middle") for tick, text in ticks]
    if x.low < 0 < x.high:
        shapes.append(Stroke("zero", ((x(0), _TOP), (x(0), bottom))))
    for number, row in enumerate(rows):
        middle = _TOP + _ROW_HEIGHT * (number + 0.5)
        if named:
            shapes.append(Label("label", (left - 8, middle + 4), _shortened(row.label), "end"))
            shapes.append(Label("label", (WIDTH - 4.0, middle + 4), _said(row), "end"))
        shapes += _marks(row, x, middle, named)
    worse = "slower" if all(item.metric in (*DISTRIBUTIONS, "service_p99") for item in rows) else "worse"
    unit = "percentage points" if change_unit(metric) == "points" else "%"
    shapes.append(Label("tick", ((left + right) / 2, bottom + 33), f"change in {unit} ({worse} →)", "middle"))
    return Picture(subject, title, f"{'. '.join(row.words for row in rows)}.", WIDTH, int(bottom + 40), tuple(shapes))


def _said(row: _Row) -> str:
    """What stands at the end of a row: its change, or how many runs it holds."""
    return plural(len(row.points), "run") if row.points else change(row.metric, row.estimate)


def _margins(rows: Sequence[_Row]) -> tuple[float, float]:
    """Where the scale starts and ends between the names and the changes, by the letters of the longest ones."""
    names = max(len(_shortened(row.label)) for row in rows)
    changes = max(len(_said(row)) for row in rows)
    return 28 + LETTER_PX * names, WIDTH - 20 - LETTER_PX * changes


def _marks(row: _Row, x: Axis, middle: float, named: bool) -> list[Shape]:
    marks: list[Shape] = []
    if row.low is not None and row.high is not None:
        marks += interval_line(x, row.low, row.high, middle, row.tone)
    if row.worst is not None:
        marks += _mark("open", row.worst, x, middle, row, numbered=True)
    for point in row.points:
        marks += _mark(row.dot, point, x, middle, row, numbered=False, radius=2.5)
    if row.estimate is not None:
        marks += _mark(row.dot, row.estimate, x, middle, row, numbered=not named)
    return marks


def _mark(
    role: str, value: float, x: Axis, middle: float, row: _Row, numbered: bool, radius: float = 4.5
) -> list[Shape]:
    """A dot, or an arrow at the end of the scale; with its number where the row does not give it already."""
    way = x.beyond(value)
    if not way:
        return [Dot(role, (x(value), middle), radius, row.tone)]
    marks: list[Shape] = [arrow(role, (x(value), middle), (way, 0), row.tone)]
    if numbered:
        at = (x(value) - 13 * way, middle + 4)
        marks.append(Label("note", at, change(row.metric, value), "end" if way > 0 else "start"))
    return marks


def _axis(rows: Sequence[_Row], left: float, right: float) -> Axis:
    zones = [abs(value) for row in rows for value in (row.zone_low, row.zone_high) if value is not None]
    ends = [
        value
        for row in rows
        for value in (row.low, row.high, row.estimate, row.worst, *row.points)
        if value is not None
    ]
    widest = max(zones, default=0.0) or max(map(abs, ends), default=0.0) or 0.1
    low, high = min([-1.5 * widest, *(1.1 * end for end in ends)]), max([1.5 * widest, *(1.1 * end for end in ends)])
    return Axis(max(-_WIDEST * widest, low), min(_WIDEST * widest, high), left, right)


def _pooled_statistic(pooled: Pooled) -> str:
    return "pooled" if pooled.statistic == "value" else f"pooled {pooled.statistic}"


def _shortened(text: str) -> str:
    return text if len(text) <= _LABEL_LETTERS else f"{text[: _LABEL_LETTERS - 1]}…"

"""The matrix of the page and the details of its cells, as texts, tables and pictures ready for the templates.

What belongs here: which cells and rows there are and in which order; `page_totals` has what is said of all scenarios
together. How they look is in `templates/`, how they are said in `wording`. Everything here is plain text except the
pictures, which `picture` has escaped.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from markupsafe import Markup

from perf_pipeline.gates.evidence import NEGATIVE_CONTROL
from perf_pipeline.gates.findings import Agreement, Judgement, Verdict
from perf_pipeline.report.design import look_of, runs_compared
from perf_pipeline.report.forest import number_picture
from perf_pipeline.report.overview import ScenarioRow, absent_metrics, metrics, scenario_rows
from perf_pipeline.report.palette import Tone, tone_of_verdict
from perf_pipeline.report.plots import interval_mark, mark_reach, percentile_shift
from perf_pipeline.report.run_curves import CellRuns, RunCurve, by_cell
from perf_pipeline.report.run_lines import level_picture
from perf_pipeline.report.wording import (
    GLYPHS,
    UNKNOWN,
    ChangeText,
    baseline_to_candidate,
    change_text,
    change_unit,
    edge,
    finding,
    finite,
    metric_label,
    percentile_label,
    plural,
    quantity,
    sentence,
    signed,
    verdict_word,
    what_it_would_take,
    zone,
)

_TABLE_PERCENTILES = (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0)
_OPEN_AT_MOST = 16


@dataclass(frozen=True)
class Column:
    """A metric as a column of the matrix."""

    metric: str
    label: str
    unit: str
    zone: str
    control: bool


@dataclass(frozen=True)
class PercentileRow:
    """A row of the short table below a picture."""

    percentile: str
    baseline: str
    candidate: str
    change: str
    interval: str
    band: str
    decides: bool


@dataclass(frozen=True)
class Cell:
    """One verdict, in the matrix and in detail."""

    anchor: str
    metric: str
    label: str
    tone: Tone
    glyph: str
    word: str
    text: ChangeText
    at: str
    mark: Markup
    opened: bool
    finding: str
    figures: tuple[Markup, ...]
    percentiles: tuple[PercentileRow, ...]
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Row:
    """One scenario."""

    scenario: str
    anchor: str
    cells: Mapping[str, Cell]
    """By metric, in reading order."""


def anchor(scenario: str, metric: str = "") -> str:
    """The id of a verdict's (or a scenario's) place in the page, the same in every report, for links from elsewhere."""
    name = f"{scenario}/{metric}" if metric else scenario
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if readable.replace("-", "") == re.sub(r"[/._-]", "", name):
        return f"v-{readable}"
    return f"v-{readable[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def columns(judgement: Judgement) -> tuple[Column, ...]:
    """The metrics that were asked for, in reading order, each with its zone."""
    absent = absent_metrics(judgement)
    found = []
    for metric in metrics(judgement):
        if metric in absent:
            continue
        zones = [
            zone(metric, verdict.zone_low, verdict.zone_high)
            for verdict in judgement.verdicts
            if verdict.metric == metric and finite(verdict.zone_low) is not None
        ]
        text = "" if not zones else zones[0] if len(set(zones)) == 1 else "differs by scenario"
        found.append(Column(metric, metric_label(metric), change_unit(metric), text, metric == NEGATIVE_CONTROL))
    return tuple(found)


def rows(judgement: Judgement, curves: Sequence[RunCurve] = ()) -> tuple[Row, ...]:
    """The scenarios with their verdicts, those that need attention first, and the runs behind each."""
    of_cell = by_cell(curves, judgement)
    arranged = scenario_rows(judgement)
    absent = absent_metrics(judgement)
    reaches = {
        column.metric: mark_reach(verdict for verdict in judgement.verdicts if verdict.metric == column.metric)
        for column in columns(judgement)
    }
    agreement = {(item.scenario, item.metric, item.version): item for item in judgement.agreement}
    versions = (judgement.baseline, judgement.candidate)
    opened = _opened(judgement)
    numbers = count()

    def cells(row: ScenarioRow) -> dict[str, Cell]:
        found = {}
        for verdict in row.verdicts:
            if verdict.metric not in absent:
                sides = [agreement.get((verdict.scenario, verdict.metric, version)) for version in versions]
                found[verdict.metric] = _cell(
                    verdict,
                    next(numbers),
                    reaches[verdict.metric],
                    [side for side in sides if side],
                    verdict_word(verdict) in opened,
                    judgement,
                    of_cell.get((verdict.scenario, verdict.metric), CellRuns()),
                )
        return found

    return tuple(Row(row.scenario, anchor(row.scenario), cells(row)) for row in arranged)


def agreement_sentence(item: Agreement) -> str:
    """How the repeats of one version agree: "agree (5 repeats, log Wasserstein distance 1.3 %, limit 2.5 %)"."""
    inside = [plural(item.repeats, "repeat")]
    if finite(item.value) is not None:
        limit = f", limit {_statistic(item, item.limit)}" if finite(item.limit) is not None else ""
        inside.append(f"{item.statistic} {_statistic(item, item.value)}{limit}")
    return f"{item.status} ({', '.join(inside)})"


def _opened(judgement: Judgement) -> set[str]:
    """The words whose verdicts are shown in detail from the start: as many as a reader can take in."""
    words = Counter(verdict_word(verdict) for verdict in judgement.verdicts)
    opened: set[str] = set()
    count = 0
    for word in ("regression", "improvement", "inconclusive"):
        count += words[word]
        if not opened or count <= _OPEN_AT_MOST:
            opened.add(word)
    return opened


def _cell(
    verdict: Verdict,
    number: int,
    reach: float,
    sides: Sequence[Agreement],
    opened: bool,
    judgement: Judgement,
    runs: CellRuns,
) -> Cell:
    name = anchor(verdict.scenario, verdict.metric)
    figures = []
    if verdict.percentiles:
        figures.append(percentile_shift(verdict, runs).svg(f"p{number}"))
    elif has_interval(verdict):
        figures.append(number_picture(verdict, runs, (judgement.baseline, judgement.candidate)).svg(f"p{number}"))
    if levels := level_picture(verdict, runs):
        figures.append(levels.svg(f"h{number}"))
    return Cell(
        anchor=name,
        metric=verdict.metric,
        label=metric_label(verdict.metric),
        tone=tone_of_verdict(verdict.verdict),
        glyph="" if verdict.absent else GLYPHS[verdict.verdict],
        word=verdict_word(verdict),
        text=change_text(verdict),
        at=percentile_label(verdict.deciding_percentile),
        mark=Markup("" if verdict.estimate is None else interval_mark(verdict, reach).decorative_svg()),  # noqa: S704
        opened=opened,
        finding=finding(verdict),
        figures=tuple(map(Markup, figures)),
        percentiles=_percentile_rows(verdict),
        facts=_facts(verdict, sides, judgement.looks),
    )


def has_interval(verdict: Verdict) -> bool:
    """Whether there is an interval to draw."""
    return finite(verdict.low) is not None and finite(verdict.high) is not None


def _percentile_rows(verdict: Verdict) -> tuple[PercentileRow, ...]:
    shown = {*_TABLE_PERCENTILES, verdict.deciding_percentile}
    return tuple(
        PercentileRow(
            percentile=percentile_label(point.p),
            baseline=quantity(point.baseline_ms, ""),
            candidate=quantity(point.candidate_ms, ""),
            change=signed(point.estimate, 1),
            interval=f"[{signed(point.low, 1)}, {signed(point.high, 1)}]",
            band=f"[{signed(point.band_low, 1)}, {signed(point.band_high, 1)}]",
            decides=point.p == verdict.deciding_percentile,
        )
        for point in verdict.percentiles
        if point.p in shown
    )


def _facts(verdict: Verdict, sides: Sequence[Agreement], looks: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """(label, value) of what else is known about a verdict; what does not exist is left out."""
    facts = [
        ("Why", "" if sentence(verdict.reason) in finding(verdict) else sentence(verdict.reason)),
        ("What it would take", "" if "would settle" in verdict.reason else what_it_would_take(verdict)),
        ("Baseline → candidate", "" if verdict.percentiles else baseline_to_candidate(verdict)),
        ("Zone", zone(verdict.metric, verdict.zone_low, verdict.zone_high)),
        ("Smallest detectable change", edge(verdict.metric, verdict.smallest_detectable)),
        ("Runs compared", runs_compared(verdict)),
        ("Look", look_of(verdict, looks)),
        *[(f"Repeats of {side.version}", agreement_sentence(side)) for side in sides],
    ]
    return tuple((label, value) for label, value in facts if value and value != UNKNOWN)


def _statistic(item: Agreement, value: float | None) -> str:
    """The value of an agreement's statistic: distances of logarithms and variations are relative, so they are in %."""
    relative = re.search(r"log|variation|relative|share", item.statistic, re.IGNORECASE)
    if (known := finite(value)) is None:
        return UNKNOWN
    return f"{known * 100:.3g} %" if relative else f"{known:.3g}"

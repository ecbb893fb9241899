"""What the page says of all scenarios together: pooled changes, numbers over scenarios, repeats, the A/A arm.

What belongs here: tables and pictures over scenarios, ready for the templates. The cells are in `page`.
"""

from collections import Counter
from dataclasses import dataclass

from markupsafe import Markup

from perf_pipeline.gates.findings import ArmAgainstItself, Judgement
from perf_pipeline.report.design import in_general, which_changed
from perf_pipeline.report.forest import forest, pooled_forest
from perf_pipeline.report.overview import metrics, scenario_rows, worst_first
from perf_pipeline.report.page import anchor, columns, has_interval
from perf_pipeline.report.palette import Tone, tone_of_verdict
from perf_pipeline.report.wording import (
    GLYPHS,
    bracketed,
    change,
    change_text,
    change_unit,
    is_distribution,
    metric_label,
    percentile_label,
    pooled_label,
    verdict_word,
    zone,
)


@dataclass(frozen=True)
class PooledRow:
    """A row of the table of pooled changes."""

    label: str
    change: str
    interval: str
    general: str
    zone: str
    scenarios: int
    worst: str
    changed: str


@dataclass(frozen=True)
class Figure:
    """A picture with its finding."""

    subject: str
    title: str
    svg: Markup


@dataclass(frozen=True)
class AgreementRow:
    """How the repeats of one metric agree, over all scenarios and both versions."""

    label: str
    agree: int
    disagree: int
    too_few: int


@dataclass(frozen=True)
class ArmRow:
    """A verdict of the baseline against itself."""

    scenario: str
    label: str
    tone: Tone
    glyph: str
    word: str
    change: str
    interval: str


def pooled_rows(judgement: Judgement) -> tuple[PooledRow, ...]:
    """The pooled changes with the worst scenario beside each."""
    zones = {verdict.metric: (verdict.zone_low, verdict.zone_high) for verdict in judgement.verdicts}
    return tuple(
        PooledRow(
            label=pooled_label(item),
            change=change(item.metric, item.estimate),
            interval=bracketed(item.metric, item.low, item.high),
            general=in_general(item),
            zone=zone(item.metric, *zones.get(item.metric, (None, None))),
            scenarios=item.scenarios,
            worst=f"{item.worst_scenario}, {change(item.metric, item.worst_estimate)}",
            changed=which_changed(item),
        )
        for item in judgement.pooled
    )


def pooled_figures(judgement: Judgement) -> tuple[Figure, ...]:
    """The pooled changes as pictures, one for each unit."""
    figures = []
    for unit in dict.fromkeys(change_unit(item.metric) for item in judgement.pooled):
        picture = pooled_forest(
            [item for item in judgement.pooled if change_unit(item.metric) == unit], judgement.verdicts
        )
        svg = Markup(picture.svg(f"pooled-{'points' if unit == 'points' else 'percent'}"))  # noqa: S704 - escaped by picture
        figures.append(Figure(picture.subject, picture.title, svg))
    return tuple(figures)


def number_figures(judgement: Judgement) -> tuple[Figure, ...]:
    """Each number metric over the scenarios; nothing where there is only one scenario or no interval to show."""
    figures = []
    for column in columns(judgement):
        compared = [
            verdict for row in scenario_rows(judgement) for verdict in row.verdicts if verdict.metric == column.metric
        ]
        if is_distribution(column.metric) or len(compared) < 2 or not any(map(has_interval, compared)):
            continue
        picture = forest(compared, [item for item in judgement.pooled if item.metric == column.metric])
        svg = Markup(picture.svg(f"over-{anchor(column.metric)}"))  # noqa: S704 - escaped by picture
        figures.append(Figure(picture.subject, picture.title, svg))
    return tuple(figures)


def agreement_rows(judgement: Judgement) -> tuple[AgreementRow, ...]:
    """How the repeats of each metric agree."""
    order = metrics(judgement)
    found: dict[str, Counter[str]] = {metric: Counter() for metric in order}
    for item in judgement.agreement:
        found.setdefault(item.metric, Counter())[item.status] += 1
    return tuple(
        AgreementRow(metric_label(metric), counts["agree"], counts["disagree"], counts["too few to say"])
        for metric, counts in found.items()
        if counts
    )


def arm_rows(arm: ArmAgainstItself) -> tuple[ArmRow, ...]:
    """The verdicts of the A/A arm, what moved first."""
    rows = []
    for verdict in worst_first(verdict for verdict in arm.verdicts if not verdict.absent):
        text = change_text(verdict)
        at = percentile_label(verdict.deciding_percentile)
        rows.append(
            ArmRow(
                scenario=verdict.scenario,
                label=metric_label(verdict.metric),
                tone=tone_of_verdict(verdict.verdict),
                glyph=GLYPHS[verdict.verdict],
                word=verdict_word(verdict),
                change=f"{text.change} at {at}" if at else text.change,
                interval=text.interval,
            )
        )
    return tuple(rows)

"""The index over all comparisons as one HTML page: the newest decision, what releases add up to, every comparison.

What belongs here: which rows and pictures the index has. It needs nothing but itself, like the report of a comparison,
and links to those reports by the place where they lie beside it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

from markupsafe import Markup

from perf_pipeline.gates.findings import Answer, VerdictName
from perf_pipeline.history.comparisons import JudgedComparison, WorstCell
from perf_pipeline.history.noise import EARLIER, EARLIER_AT_LEAST, CellNoise, LabNoise
from perf_pipeline.history.releases import Chained, Shift
from perf_pipeline.report.chain_pictures import CHAINS_DRAWN, Chain, chain_picture, chains_of, worst_chains
from perf_pipeline.report.drift import drifts, lately, shift_words
from perf_pipeline.report.html import TEMPLATES, themes
from perf_pipeline.report.overview import VERDICTS_WORST_FIRST
from perf_pipeline.report.page_totals import Figure
from perf_pipeline.report.palette import Tone, tone_of_answer, tone_of_verdict
from perf_pipeline.report.wording import (
    ANSWER_GLYPHS,
    GLYPHS,
    UNKNOWN,
    change,
    counted,
    edge,
    interval_with_units,
    metric_label,
    percentile_label,
    plural,
    zone,
)

NOISE_SHOWN = 6
"""The cells whose noise is shown, the noisiest first; the view `noise_floor` has all."""


@dataclass(frozen=True)
class ComparisonRow:
    """One comparison in the table."""

    comparison: str
    href: str
    """Where its report lies; empty when there is none any more."""
    baseline: str
    candidate: str
    measured: str
    answer: str
    tone: Tone
    glyph: str
    headline: str
    worst: str
    worst_tone: Tone
    counts: str
    alarm: str
    """What moved although it cannot have; empty when nothing did."""
    policy: str


@dataclass(frozen=True)
class ChainRow:
    """What all releases changed in one scenario and metric."""

    scenario: str
    label: str
    path: str
    steps: int
    tone: Tone
    glyph: str
    word: str
    change: str
    interval: str
    zone: str
    reason: str


@dataclass(frozen=True)
class NoiseRow:
    """What one scenario and metric could have shown, now and before."""

    scenario: str
    label: str
    zone: str
    now: str
    before: str
    fewer: bool
    """Whether it had fewer repeats than those before."""


def render(
    title: str,
    comparisons: Sequence[JudgedComparison],
    chained: Sequence[Chained] = (),
    shifts: Sequence[Shift] = (),
    reports: Collection[str] = (),
    noise: LabNoise | None = None,
) -> str:
    """The page as text. `comparisons` are the newest first, `chained` the oldest first.

    `reports` are the comparisons whose report lies in a folder of their name beside the page, as `report.html`.
    """
    rows = [_row(item, item.comparison in reports) for item in comparisons]
    keys = [item.comparison for item in comparisons]
    chains = chains_of(chained)
    latest = chained[-1].to_version if chained else ""
    cells = noise.cells if noise else ()
    figures = []
    for number, chain in enumerate(worst_chains(chains)):
        picture = chain_picture(chain)
        figures.append(Figure(picture.subject, picture.title, Markup(picture.svg(f"c{number}"))))  # noqa: S704 - escaped
    return TEMPLATES.get_template("index.html").render(
        title=title,
        rows=rows,
        newest=rows[0] if rows else None,
        drifts=drifts(chained, shifts, lately(keys, keys[0])) if keys else (),
        total=plural(len(rows), "comparison"),
        answers=[
            (answer, number, tone_of_answer(answer), ANSWER_GLYPHS[answer])
            for answer in ("regression", "not enough evidence", "no regression")
            if (number := sum(row.answer == answer for row in rows))
        ],
        figures=figures,
        not_drawn=max(0, len(chains) - CHAINS_DRAWN),
        latest=latest,
        first=chained[-1].from_version if chained else "",
        chain_rows=_chain_rows(chains, latest),
        shifts=[shift_words(shift) for shift in shifts],
        noise_rows=[_noise_row(cell) for cell in cells[:NOISE_SHOWN]],
        noise_cells=plural(len(cells), "cell"),
        noise_of=next(
            (_versions(item) for item in comparisons if noise and item.comparison == noise.comparison), "the newest one"
        ),
        noise_unmeasured=_unmeasured(noise.unmeasured, len(cells)) if noise else "",
        noise_earlier=EARLIER,
        noise_takes=EARLIER_AT_LEAST,
        themes=themes(),
    )


def _row(item: JudgedComparison, has_report: bool) -> ComparisonRow:
    answer = cast(Answer, item.answer)
    moved = [
        name
        for name, status in (("A/A arm", item.aa_status), ("negative control", item.control_status))
        if status == "moved"
    ]
    return ComparisonRow(
        comparison=item.comparison,
        href=f"{quote(item.comparison, safe='')}/report.html" if has_report else "",
        baseline=item.baseline,
        candidate=item.candidate,
        measured=f"{item.measured:%Y-%m-%d %H:%M}" if item.measured else UNKNOWN,
        answer=item.answer,
        tone=tone_of_answer(answer),
        glyph=ANSWER_GLYPHS[answer],
        headline=item.headline,
        worst=_worst(item.worst),
        worst_tone=tone_of_verdict(cast(VerdictName, item.worst.verdict)) if item.worst else "none",
        counts=", ".join(counted(item.counts[name], name) for name in VERDICTS_WORST_FIRST if item.counts.get(name)),
        alarm=f"{' and '.join(moved)} moved" if moved else "",
        policy=f"{item.policy_name}, version {item.policy_version}",
    )


def _versions(item: JudgedComparison) -> str:
    return f"{item.candidate} against {item.baseline}"


def _worst(cell: WorstCell | None) -> str:
    """The worst cell in a few words: `▲ client latency p99 in browse: +21.1 % (+16.8 % to +25.6 %)`."""
    if cell is None:
        return UNKNOWN
    glyph = GLYPHS[cast(VerdictName, cell.verdict)]
    where = f"{metric_label(cell.metric)} {percentile_label(cell.deciding_percentile)}".rstrip()
    if cell.estimate is None:
        return f"{glyph} {where} in {cell.scenario}: {cell.verdict}"
    interval = interval_with_units(cell.metric, cell.low, cell.high)
    return f"{glyph} {where} in {cell.scenario}: {change(cell.metric, cell.estimate)} ({interval})"


def _chain_rows(chains: Sequence[Chain], latest: str) -> list[ChainRow]:
    """What is known of the latest release, the worst first."""
    rows = []
    for chain in sorted(chains, key=lambda one: one.attention):
        for step in (chain.steps[-1], *([chain.direct] if chain.direct else [])):
            if step.to_version == latest:
                name = cast(VerdictName, step.answer)
                at = percentile_label(step.deciding_percentile)
                size = change(step.metric, step.estimate)
                rows.append(
                    ChainRow(
                        scenario=step.scenario,
                        label=metric_label(step.metric),
                        path="added up" if step.path == "chain" else "measured directly",
                        steps=step.steps,
                        tone=tone_of_verdict(name),
                        glyph=GLYPHS[name],
                        word=name,
                        change=f"{size} at {at}" if at and size != UNKNOWN else size,
                        interval=interval_with_units(step.metric, step.low, step.high),
                        zone=zone(step.metric, step.zone_low, step.zone_high),
                        reason=step.reason if name == "not comparable" else "",
                    )
                )
    return rows


def _unmeasured(number: int, measured: int) -> str:
    """How many cells tell no noise, as a sentence; empty when all do."""
    cells = plural(number, "more cell" if measured else "cell")
    return f"{cells} could not be measured: see {'its' if number == 1 else 'their'} report." if number else ""


def _noise_row(cell: CellNoise) -> NoiseRow:
    before = cell.known_before
    return NoiseRow(
        scenario=cell.scenario,
        label=metric_label(cell.metric),
        zone=edge(cell.metric, cell.zone),
        now=change(cell.metric, cell.now),
        before=change(cell.metric, before),
        fewer=before is not None and cell.repeats < (cell.repeats_before or 0),
    )

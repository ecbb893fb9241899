"""What many comparisons say together and the newest one alone does not: drift over releases, and shifts of a level.

What belongs here: which of it a reader must see beside the newest decision, and its words. The index has them in the
box of the decision, the chat message in a block of their own. How pictures of drift look is in `chain_pictures`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from perf_pipeline.history.releases import Chained, Shift
from perf_pipeline.report.chain_pictures import Chain, chains_of
from perf_pipeline.report.palette import Tone
from perf_pipeline.report.wording import (
    GLYPHS,
    change,
    interval_with_units,
    metric_label,
    percentile_label,
    plural,
)

RECENT = 14
"""Comparisons, two weeks of nights, for which a level shift is told beside the decision; its list keeps it for ever."""
_SHOWN = 3
"""How many of each kind are said in full; the others are counted."""


@dataclass(frozen=True)
class Drift:
    """One line beside the newest decision."""

    section: str
    """Where the index shows it: `chain` or `shifts`."""
    tone: Tone
    glyph: str
    words: str


def drifts(chained: Sequence[Chained], shifts: Sequence[Shift], recent: Collection[str]) -> list[Drift]:
    """What regressed over releases up to the newest of them, the most zones first; then shifts that began lately.

    `recent` are the comparisons that count as lately.
    """
    found = sorted(
        (row for chain in chains_of(chained) if (row := _regressed(chain, chained[-1].to_version))),
        key=lambda row: -(row[1].estimate or 0.0) / row[1].zone_high,
    )
    lines = [Drift("chain", "regression", GLYPHS["regression"], _chain_words(*row)) for row in found[:_SHOWN]]
    if len(found) > _SHOWN:
        words = f"over these releases: {plural(len(found) - _SHOWN, 'more regression')}"
        lines.append(Drift("chain", "regression", GLYPHS["regression"], words))
    begun = [shift for shift in shifts if shift.comparison in recent]
    begun.sort(key=lambda shift: (shift.what != "lab", -abs(shift.estimate)))
    lines += [Drift("shifts", _shift_tone(shift), "!", shift_words(shift)) for shift in begun[:_SHOWN]]
    if len(begun) > _SHOWN:
        lines.append(Drift("shifts", "none", "!", f"{plural(len(begun) - _SHOWN, 'more level shift')}."))
    return lines


def lately(comparisons: Sequence[str], comparison: str) -> set[str]:
    """Of comparisons, the newest first, one and those just before it."""
    begin = comparisons.index(comparison) if comparison in comparisons else 0
    return set(comparisons[begin : begin + RECENT])


def shift_words(shift: Shift) -> str:
    """A level shift as a sentence."""
    what = "the change of the candidates" if shift.what == "effect" else "the baseline, which did not change,"
    when = f" ({shift.measured:%Y-%m-%d})" if shift.measured else ""
    size = f"{change(shift.metric, shift.estimate)} ({interval_with_units(shift.metric, shift.low, shift.high)})"
    where = f"{metric_label(shift.metric)} of {what} in {shift.scenario}"
    return f"From {shift.comparison}{when} on, {where} lies {size} from where it was."


def _regressed(chain: Chain, latest: str) -> tuple[int, Chained] | None:
    """The number of releases, and the row that says that they regressed together.

    One release alone is told by its own comparison.
    """
    steps = chain.steps[-1].steps
    for row in (chain.steps[-1], chain.direct):
        if row and row.to_version == latest and steps > 1 and row.answer == "regression":
            return steps, row
    return None


def _chain_words(steps: int, row: Chained) -> str:
    """`over 12 releases since 1.0.0: regression in browse, client latency p95: +14.4 % (+12.3 % to +16.5 %)`."""
    how = ", measured directly" if row.path == "direct" else ""
    where = f"{row.scenario}, {metric_label(row.metric)} {percentile_label(row.deciding_percentile)}".rstrip()
    size = f"{change(row.metric, row.estimate)} ({interval_with_units(row.metric, row.low, row.high)})"
    return f"over {plural(steps, 'release')} since {row.from_version}{how}: regression in {where}: {size}"


def _shift_tone(shift: Shift) -> Tone:
    if shift.what == "lab":
        return "inconclusive"
    return "regression" if shift.estimate > 0 else "improvement"

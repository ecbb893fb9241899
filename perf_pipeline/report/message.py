"""The judgement as a chat message, in the blocks that Slack and what is compatible with it show.

What belongs here: what a message says. It is read on a phone at night, so it has the decision, the worst cells and what
is not known, and links to the rest. Delivering it is in `notify`.
"""

from collections.abc import Sequence
from typing import Any

from perf_pipeline.gates.findings import Judgement, Verdict
from perf_pipeline.report.drift import Drift
from perf_pipeline.report.wording import finding, metric_label, prose, sentence

WORST_CELLS = 5
"""Cells of the verdict matrix that a message names; the report has them all."""

_MARKS = {"regression": ":red_circle:", "no regression": ":large_green_circle:"}
_UNDECIDED = ":white_circle:"
_TEXT_LIMIT = 3000
"""Characters that one section takes."""
_TITLE_LIMIT = 150
_WORST, _NOT_KNOWN = "Worst", "Not known"
_DETAILS = (f"*{_WORST}*", f"*{_NOT_KNOWN}*")
_HISTORY = "history"
"""Names the block about many comparisons, so that it is replaced and never added twice."""
_OVER_RELEASES = "; over releases: regression"
"""What a phone shows before the message is opened is its text alone."""


def verdict_message(judgement: Judgement) -> dict[str, Any]:
    """The message about a judgement."""
    decision = judgement.decision
    title = f"{judgement.candidate} against {judgement.baseline}: {decision.answer}"
    sections = []
    if judgement.negative_control.status == "moved":
        sections.append(f":warning: *Negative control* {sentence(judgement.negative_control.message)}")
    sections.append(f"{_MARKS.get(decision.answer, _UNDECIDED)} {prose(decision.headline)}")
    if cells := _worst_cells(judgement.verdicts):
        sections.append(_list(_WORST, cells))
    if decision.not_known:
        sections.append(_list(_NOT_KNOWN, list(map(prose, decision.not_known))))
    return _message(title, sections)


def failure_message(comparison: str, why: str) -> dict[str, Any]:
    """The message about a comparison that came to no verdict."""
    return _message(
        f"{comparison}: no verdict",
        [
            f"{_UNDECIDED} The run failed: {why}",
            "What was measured is kept; materialising again goes on with what is missing.",
        ],
    )


def unread_message(comparison: str, why: str) -> dict[str, Any]:
    """The message about a comparison that ended, and whose report cannot be read now."""
    return _message(
        f"{comparison}: ended, its report cannot be read now",
        [
            f"{_UNDECIDED} The comparison ended, and its report cannot be read now: {why}",
            "Whether it is a regression is not known here: read the report once the store answers.",
        ],
    )


def with_drifts(message: dict[str, Any], drifts: Sequence[Drift]) -> dict[str, Any]:
    """The message with one block, below the decision, about what many comparisons say together; none if it is nothing.

    A message that has such a block already gets the new one in its place.
    """
    blocks = [block for block in message["blocks"] if block.get("block_id") != _HISTORY]
    text = message["text"].removesuffix(_OVER_RELEASES)
    if drifts:
        said = _list("Over many comparisons", [f"{drift.glyph} {drift.words}" for drift in drifts])
        details = (number for number, block in enumerate(blocks) if block["text"]["text"].startswith(_DETAILS))
        blocks.insert(next(details, len(blocks)), {**_block(said), "block_id": _HISTORY})
    if any(drift.section == "chain" for drift in drifts):
        text += _OVER_RELEASES
    return {**message, "text": text, "blocks": blocks}


def night_message(why: str) -> dict[str, Any]:
    """The message about a night that could not find out what to compare."""
    return _message(
        "Nothing was compared tonight",
        [f"{_UNDECIDED} The versions are not known: {why}", "The next night asks again."],
    )


def with_links(message: dict[str, Any], links: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The message with links at its end: a label and an address each."""
    if not links:
        return message
    text = "  ·  ".join(f"<{address}|{_escaped(label)}>" for label, address in links)
    return {**message, "blocks": [*message["blocks"], {"type": "section", "text": {"type": "mrkdwn", "text": text}}]}


def _block(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": _section(text)}}


def _worst_cells(verdicts: Sequence[Verdict]) -> list[str]:
    """What regressed, the largest change first."""
    regressed = [verdict for verdict in verdicts if verdict.verdict == "regression"]
    worst = sorted(regressed, key=lambda verdict: -abs(verdict.estimate or 0.0))
    cells = [
        f"{verdict.scenario}, {metric_label(verdict.metric)}: {finding(verdict)}" for verdict in worst[:WORST_CELLS]
    ]
    return [*cells, *([f"and {len(worst) - WORST_CELLS} more"] if len(worst) > WORST_CELLS else [])]


def _list(title: str, items: Sequence[str]) -> str:
    """The items that one section takes, each whole; the others are counted."""
    lines = [f"*{title}*", *(f"• {item}" for item in items)]
    whole = "\n".join(lines)
    if len(_escaped(whole)) <= _TEXT_LIMIT:
        return whole
    shown = len(lines)
    while shown > 2:
        shown -= 1
        cut = "\n".join([*lines[:shown], f"• and {len(lines) - shown:,} more: see the report"])
        if len(_escaped(cut)) <= _TEXT_LIMIT:
            return cut
    return whole


def _message(title: str, sections: Sequence[str]) -> dict[str, Any]:
    return {
        "text": _escaped(title),
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": title[:_TITLE_LIMIT]}},
            *map(_block, sections),
        ],
    }


def _section(text: str) -> str:
    shown = _escaped(text)
    return shown if len(shown) <= _TEXT_LIMIT else shown[: _TEXT_LIMIT - 1] + "…"


def _escaped(text: str) -> str:
    """Text that is shown as it is: names of versions and scenarios must not ping people or make links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

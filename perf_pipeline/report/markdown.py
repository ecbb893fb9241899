"""The report as Markdown, fit for the comment of a pull request.

What belongs here: GitHub-flavoured Markdown that stays below the length of a comment, with everything escaped that
names and reasons could carry. What is equivalent folds away when there is much of it; nothing else ever does.
"""

import re
from collections.abc import Sequence

from perf_pipeline.gates.evidence import NEGATIVE_CONTROL
from perf_pipeline.gates.findings import ArmAgainstItself, Judgement, Verdict
from perf_pipeline.report import overview
from perf_pipeline.report.context import ReportContext
from perf_pipeline.report.design import arm_sentence, design_sentence
from perf_pipeline.report.wording import (
    ANSWER_GLYPHS,
    GLYPHS,
    UNKNOWN,
    baseline_to_candidate,
    change_text,
    change_unit,
    control_sentence,
    counted,
    listed,
    metric_heading,
    metric_label,
    percentile_label,
    plural,
    prose,
    sentence,
    verdict_word,
    zone,
)

COMMENT_LETTERS = 65_536
"""The longest comment that GitHub takes, in characters."""

_ROWS_IN_SIGHT = 20
_RUNS_IN_SIGHT = 10
_HEADER = ("scenario", "metric", "verdict", "change", "interval", "zone", "baseline → candidate")
_ALIGNMENT = ("---", "---", "---", "--:", "--:", "--:", "--:")


def render(judgement: Judgement, context: ReportContext) -> str:
    """The comment as text that ends with a newline.

    When everything together is longer than a comment may be, the rows of equivalent verdicts give way to their number.
    """
    text = _rendered(judgement, context, with_equivalent=True)
    return text if len(text) <= COMMENT_LETTERS else _rendered(judgement, context, with_equivalent=False)


def _rendered(judgement: Judgement, context: ReportContext, *, with_equivalent: bool) -> str:
    decision = judgement.decision
    headline = _text(prose(decision.headline))
    glyph = ANSWER_GLYPHS[decision.answer]
    policy = f"policy {judgement.policy_name}, version {judgement.policy_version}"
    compared = f"{overview.what_was_compared(judgement)}; {policy}"
    blocks = [
        f"## {glyph} {decision.answer.capitalize()}: {_text(judgement.candidate)} against {_text(judgement.baseline)}",
        *([f"**{headline}**"] if headline else []),
        f"{_text(context.title)}: {_text(compared)}. {_text(design_sentence(judgement))}".rstrip(),
        _control(judgement),
        *([_arm(judgement.aa_arm)] if judgement.aa_arm else []),
        *_bullets("Known", overview.in_reading_order(decision.known)),
        *_bullets("Not known", decision.not_known),
        *_bullets("Notes", judgement.notes),
        *_verdicts(judgement, with_equivalent=with_equivalent),
        *_reasons(judgement),
        *_runs(judgement),
        *_context(context),
    ]
    return "\n\n".join(blocks) + "\n"


def _control(judgement: Judgement) -> str:
    control = judgement.negative_control
    text = f"Negative control: **{control.status}**, {_text(metric_label(control.metric))}."
    text = f"{text} {_text(control_sentence(control))}".rstrip()
    return f"> [!WARNING]\n> {text}" if control.status == "moved" else text


def _arm(arm: ArmAgainstItself) -> str:
    text = f"A/A arm: **{arm.status}**. {_text(arm_sentence(arm))}"
    return f"> [!WARNING]\n> {text}" if arm.status == "moved" else text


def _verdicts(judgement: Judgement, *, with_equivalent: bool) -> list[str]:
    absent = overview.absent_metrics(judgement)
    judged = [
        verdict for row in overview.scenario_rows(judgement) for verdict in row.verdicts if verdict.metric not in absent
    ]
    counts = [counted(count, name) for name, count in overview.verdict_counts(judgement).items() if count]
    blocks = [f"### Verdicts: {', '.join(counts)}" if counts else "### Verdicts"]
    folds = len(judged) > _ROWS_IN_SIGHT
    seen = [verdict for verdict in judged if not folds or verdict.verdict != "equivalent"]
    folded = [verdict for verdict in judged if folds and verdict.verdict == "equivalent"]
    if seen:
        blocks.append(_table(overview.worst_first(seen) if folds else seen))
    if folded and with_equivalent:
        blocks.append(_details(counted(len(folded), "equivalent"), _table(folded)))
    elif folded:
        blocks.append(f"And {counted(len(folded), 'equivalent')}, left out because a comment holds no more.")
    if not judged:
        blocks.append("No metric was judged in any scenario.")
    for metric, reason in absent.items():
        blocks.append(f"{_text(metric_label(metric))} was not measured. {_text(sentence(reason))}".rstrip())
    return blocks


def _table(verdicts: Sequence[Verdict]) -> str:
    rows = ["| " + " | ".join(_HEADER) + " |", "| " + " | ".join(_ALIGNMENT) + " |"]
    for verdict in verdicts:
        text = change_text(verdict)
        word = verdict_word(verdict)
        loud = verdict.verdict in ("regression", "improvement") and verdict.metric != NEGATIVE_CONTROL
        at = f" at {percentile_label(verdict.deciding_percentile)}" if verdict.deciding_percentile is not None else ""
        unit = f" {change_unit(verdict.metric)}"
        cells = (
            _text(verdict.scenario),
            _text(metric_heading(verdict.metric)),
            f"{'' if verdict.absent else GLYPHS[verdict.verdict]} {f'**{word}**' if loud else word}".strip(),
            f"{text.change}{at}",
            text.interval if text.interval == UNKNOWN else text.interval + unit,
            zone(verdict.metric, verdict.zone_low, verdict.zone_high),
            _text(baseline_to_candidate(verdict)),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _reasons(judgement: Judgement) -> list[str]:
    """Why verdicts are not comparable: each reason once, with what it holds for."""
    items = []
    for reason, places in overview.why_not_comparable(judgement).items():
        where = [
            f"{_text(scenario)}: {_text(listed(list(map(metric_label, names))))}" for scenario, names in places.items()
        ]
        items.append(f"- {'; '.join(where)}. {_text(sentence(reason))}")
    return ["### Not comparable\n\n" + "\n".join(items)] if items else []


def _runs(judgement: Judgement) -> list[str]:
    items = [
        f"`{_code(run.run_id)}`: {_text(sentence(run.reason))}" for run in overview.runs_with(judgement, "set aside")
    ]
    for run in overview.runs_with(judgement, "metric dropped"):
        lost = ", ".join(map(metric_label, run.dropped_metrics))
        items.append(f"`{_code(run.run_id)}` lost {_text(lost)}: {_text(sentence(run.reason))}")
    heading = f"### Runs\n\n{overview.runs_sentence(judgement.runs).capitalize()}."
    if not items:
        return [heading]
    bullets = "\n".join(f"- {item}" for item in items)
    return [heading, bullets if len(items) <= _RUNS_IN_SIGHT else _details(plural(len(items), "run"), bullets)]


def _context(context: ReportContext) -> list[str]:
    blocks = []
    facts = (*context.facts, *context.policy_limits)
    if facts:
        lines = "\n".join(f"- {_text(label)}: {_text(value)}" for label, value in facts)
        blocks.append(_details("How it was measured", lines))
    if context.reproduce:
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", context.reproduce)), default=0))
        blocks.append(_details("Judge it again", f"{fence}\n{context.reproduce}\n{fence}"))
    return blocks


def _bullets(heading: str, items: Sequence[str]) -> list[str]:
    return ["\n".join((f"**{heading}**", "", *(f"- {_text(prose(item))}" for item in items)))] if items else []


def _details(summary: str, inside: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _text(text: str) -> str:
    """The text as Markdown that shows it as it is: on one line, no markup, no HTML, nobody notified."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    line = re.sub(r"([\\`*\[\]|~])", r"\\\1", line)
    line = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", line)
    line = re.sub(r"^([#>]|[-+](?=[\s-]|$))", r"\\\1", line)
    line = re.sub(r"^(\d{1,9})([.)])(?=\s|$)", r"\1\\\2", line)
    return line.replace("@", "@\N{WORD JOINER}")


def _code(text: str) -> str:
    """The text inside a code span in a list."""
    return " ".join(text.replace("`", "'").split())

"""The report as one HTML page that needs nothing else: no network, no script, no font, no other file.

What belongs here: the environment of the templates and what is handed to them. What the page says is in `page`.

Names and reasons come from files that others wrote, so every text is escaped by the templates, and the page forbids
itself scripts and requests by its content security policy.
"""

import math
import re
from collections.abc import Sequence
from itertools import accumulate

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.report import overview, page, page_totals
from perf_pipeline.report.context import ReportContext
from perf_pipeline.report.design import arm_name, arm_sentence, design_sentence
from perf_pipeline.report.glossary import GLOSSARY
from perf_pipeline.report.palette import DARK, LIGHT, css_variables, tone_of_answer, tone_of_verdict
from perf_pipeline.report.picture import chart_css
from perf_pipeline.report.wording import (
    ANSWER_GLYPHS,
    GLYPHS,
    MEANINGS,
    control_sentence,
    counted,
    metric_label,
    prose,
    sentence,
)

_SENTENCES_SHOWN = 5
"""How many sentences of each list stand in the first screen at most; the others unfold."""
_LINES_OF_SCREEN = 16
"""Lines for the headline and a list below it in a window of 1280 x 800."""
_HEADLINE_LETTERS, _LIST_LETTERS = 82, 56
"""Letters that fit a line of each there."""
_ALARM_LINES = 4
_PRINTED_AT_MOST = 24
"""Cells of which all are printed with their pictures; of more cells, those that are equivalent are not."""

_SPACE_IN_NUMBER = re.compile(r"(?<=\d) (?=(?:%|points|ms|[KMG]iB)(?!\w))|(?<=\d,) (?=[+−]?[\d.]+\])")


def _with_units_kept(value: object) -> object:
    """The text with a number and its unit, and an interval, each on one line wherever the page wraps."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _SPACE_IN_NUMBER.sub("\N{NO-BREAK SPACE}", value)
    return value


TEMPLATES = Environment(
    loader=PackageLoader("perf_pipeline.report"),
    autoescape=True,
    finalize=_with_units_kept,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters.update(prose=prose, sentence=sentence)
"""The templates of the report and of the index, which share their parts."""


def render(judgement: Judgement, context: ReportContext) -> str:
    """The page as text, UTF-8 when it is written. It depends on its arguments only."""
    control = judgement.negative_control
    rows = page.rows(judgement, context.curves)
    return TEMPLATES.get_template("page.html").render(
        judgement=judgement,
        context=context,
        decision=judgement.decision,
        decision_tone=tone_of_answer(judgement.decision.answer),
        decision_glyph=ANSWER_GLYPHS[judgement.decision.answer],
        known=[(known, None) for known in overview.in_reading_order(judgement.decision.known)],
        open_questions=[(question, section_of(judgement, question)) for question in judgement.decision.not_known],
        compared=overview.what_was_compared(judgement),
        shown=lambda sentences: _shown(judgement, [text for text, _ in sentences]),
        counts=[
            (name, count, GLYPHS[name], tone_of_verdict(name))
            for name, count in overview.verdict_counts(judgement).items()
        ],
        legend=[(name, GLYPHS[name], tone_of_verdict(name), meaning) for name, meaning in MEANINGS.items()],
        runs_sentence=overview.runs_sentence(judgement.runs),
        columns=page.columns(judgement),
        rows=rows,
        few=sum(len(row.cells) for row in rows) <= _PRINTED_AT_MOST,
        with_runs=bool(context.curves),
        absent=[(metric_label(metric), reason) for metric, reason in overview.absent_metrics(judgement).items()],
        pooled=page_totals.pooled_rows(judgement),
        pooled_figures=page_totals.pooled_figures(judgement),
        number_figures=page_totals.number_figures(judgement),
        design=design_sentence(judgement),
        arm=judgement.aa_arm,
        arm_name=arm_name(judgement.aa_arm) if judgement.aa_arm else "",
        arm_sentence=arm_sentence(judgement.aa_arm) if judgement.aa_arm else "",
        arm_rows=page_totals.arm_rows(judgement.aa_arm) if judgement.aa_arm else (),
        arm_runs=overview.runs_sentence(judgement.aa_arm.runs) if judgement.aa_arm else "",
        control=control,
        control_label=metric_label(control.metric),
        control_sentence=control_sentence(control),
        agreement=page_totals.agreement_rows(judgement),
        disagreements=[item for item in judgement.agreement if item.status == "disagree"],
        set_aside=overview.runs_with(judgement, "set aside"),
        metric_dropped=overview.runs_with(judgement, "metric dropped"),
        check_counts=overview.check_counts(judgement),
        glossary=GLOSSARY,
        counted=counted,
        metric_label=metric_label,
        themes=themes(),
    )


def _shown(judgement: Judgement, sentences: Sequence[str]) -> int:
    """How many sentences of a list fit the first screen; one always does."""
    arm = judgement.aa_arm
    alarm = judgement.negative_control.status == "moved" or (arm is not None and arm.status == "moved")
    left = _LINES_OF_SCREEN - math.ceil(len(judgement.decision.headline) / _HEADLINE_LETTERS) - alarm * _ALARM_LINES
    ends = accumulate(math.ceil(len(text) / _LIST_LETTERS) for text in sentences[:_SENTENCES_SHOWN])
    return max(1, sum(end <= left for end in ends))


def section_of(judgement: Judgement, question: str) -> tuple[str, str] | None:
    """Where on this page the numbers are of what is not known."""
    found = overview.section_of(question)
    return None if found and found[0] == "arm" and not judgement.aa_arm else found


def themes() -> dict[str, Markup]:
    """The colours of both themes and the style of pictures, as CSS."""
    return {
        "light": Markup(css_variables(LIGHT)),  # noqa: S704 - our own constants
        "dark": Markup(css_variables(DARK)),  # noqa: S704 - our own constants
        "chart": Markup(chart_css()),  # noqa: S704 - our own constants
    }

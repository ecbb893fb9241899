"""The comment of a pull request, wording by wording.

The expected texts are in tests/fixtures/report/. When a wording was changed on purpose, write them anew with

    PERF_PIPELINE_RENEW=1 python -m pytest tests/test_report_markdown.py tests/test_report_terminal.py

and read the difference before it is committed.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from perf_pipeline.report import markdown
from perf_pipeline.report.context import ReportContext
from tests.report_judgements import CONTEXT, OUTCOMES, many_scenarios, regression
from tests.report_reading import read_markdown, words

FIXTURES = Path(__file__).parent / "fixtures" / "report"


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_outcome_reads_as_expected(outcome: str) -> None:
    expected = FIXTURES / f"{outcome}.md"
    text = markdown.render(OUTCOMES[outcome](), CONTEXT)
    if os.environ.get("PERF_PIPELINE_RENEW"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


def test_the_first_line_is_the_decision() -> None:
    assert markdown.render(regression(), CONTEXT).startswith("## ▲ Regression: 1.1.0 against 1.0.0\n\n**")


def test_what_is_equivalent_folds_away_in_a_large_campaign() -> None:
    comment = read_markdown(markdown.render(many_scenarios(), CONTEXT))
    seen, folded = comment.all("table")
    assert seen.parent
    assert seen.parent.tag == "root"
    assert folded.parent
    assert folded.parent.tag == "details"
    assert "equivalent" not in words(seen.text())
    assert words(seen.all("tr")[1].text()).startswith("graph-04-config-3 client latency ▲ regression")


def test_a_comment_is_never_longer_than_github_takes() -> None:
    text = markdown.render(many_scenarios(90), CONTEXT)
    assert len(text) <= markdown.COMMENT_LETTERS
    assert "left out because a comment holds no more" in text
    assert "▲ **regression**" in text


def test_markup_in_names_is_shown_not_obeyed() -> None:
    found = regression()
    nasty = replace(found.verdicts[0], scenario="a|b <img src=x> *c* @team\n# d")
    comment = read_markdown(markdown.render(replace(found, verdicts=(nasty,)), CONTEXT))
    assert words(comment.all("td")[0].text()) == "a|b <img src=x> *c* @team # d"
    assert not comment.all("img", "em", "h1")


def test_a_command_with_backticks_stays_in_its_fence() -> None:
    context = ReportContext("t", reproduce="echo ```\nx")
    comment = read_markdown(markdown.render(regression(), context))
    assert comment.all("code")[-1].text() == "echo ```\nx\n"

"""Whatever the gates find, every form of the report can say it, says all of it, and escapes what names could carry."""

import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from rich.console import Console

from perf_pipeline.files import project_file
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.report import html, markdown, terminal
from perf_pipeline.report.json_output import to_json
from perf_pipeline.report.overview import absent_metrics
from perf_pipeline.report.page import anchor
from perf_pipeline.report.wording import metric_heading, metric_label, verdict_word
from tests.report_judgements import CONTEXT
from tests.report_reading import read_html, read_markdown, words
from tests.report_strategies import JUDGEMENTS

ANY = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SCHEMA = Draft202012Validator(json.loads(project_file("docs/judgement.schema.json").read_text()))


def printed(judgement: Judgement, width: int) -> list[str]:
    file = io.StringIO()
    Console(width=width, file=file, legacy_windows=False).print(terminal.render(judgement, CONTEXT))
    return file.getvalue().splitlines()


@ANY
@given(JUDGEMENTS)
def test_the_page_holds_every_verdict_and_no_markup_of_others(judgement: Judgement) -> None:
    page = read_html(html.render(judgement, CONTEXT))
    assert not page.all("script", "img", "iframe")
    assert not [name for element in page.all() for name in element.attributes if name.startswith("on")]
    by_id = {element.attributes["id"]: element for element in page.all() if "id" in element.attributes}
    absent = absent_metrics(judgement)
    for verdict in judgement.verdicts:
        if verdict.metric in absent:
            assert f"{metric_label(verdict.metric)} was not measured" in words(page.text())
            continue
        detail = by_id[anchor(verdict.scenario, verdict.metric)].parent
        assert detail
        summary = words(detail.all("summary")[0].text())
        assert words(metric_label(verdict.metric)) in summary
        assert verdict_word(verdict) in summary
    assert (
        words(judgement.decision.headline) in words(page.text().replace("−", "-")) or "-" in judgement.decision.headline
    )


@ANY
@given(JUDGEMENTS)
def test_the_comment_holds_every_verdict_in_a_row_of_its_own(judgement: Judgement) -> None:
    comment = read_markdown(markdown.render(judgement, CONTEXT))
    assert {element.tag for element in comment.all()} <= {
        *("h2", "h3", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "blockquote", "details"),
        *("summary", "pre", "code"),
    }
    rows = [[words(cell.text()) for cell in row.all("td")] for row in comment.all("tr")]
    absent = absent_metrics(judgement)
    for verdict in judgement.verdicts:
        if verdict.metric in absent:
            assert f"{metric_label(verdict.metric)} was not measured" in words(comment.text())
            continue
        name = [words(verdict.scenario), metric_heading(verdict.metric)]
        (row,) = [row for row in rows if row[:2] == name] or [["", "", "is missing"]]
        assert row[2].endswith(verdict_word(verdict)), name


@ANY
@given(JUDGEMENTS)
def test_the_terminal_gives_every_verdict_a_line(judgement: Judgement) -> None:
    lines = [words(line) for line in printed(judgement, 160)]
    assert lines[0].startswith(judgement.decision.answer.upper())
    absent = absent_metrics(judgement)
    for verdict in judgement.verdicts:
        label = metric_label(verdict.metric)
        if verdict.metric in absent:
            assert any(line.startswith(f"{label} was not measured") for line in lines)
        else:
            assert words(verdict.scenario) in lines
            assert any(line.startswith(label) and verdict_word(verdict) in line for line in lines)


@ANY
@given(JUDGEMENTS)
def test_the_json_fits_its_schema_and_knows_no_nan(judgement: Judgement) -> None:
    found = to_json(judgement)
    json.dumps(found, allow_nan=False)
    SCHEMA.validate(found)
    assert [(item["scenario"], item["metric"], item["verdict"]) for item in found["verdicts"]] == [
        (verdict.scenario, verdict.metric, verdict.verdict) for verdict in judgement.verdicts
    ]


@pytest.mark.parametrize("width", [80, 100])
@ANY
@given(judgement=JUDGEMENTS)
def test_no_line_is_wider_than_the_terminal(width: int, judgement: Judgement) -> None:
    assert max(map(len, printed(judgement, width))) <= width

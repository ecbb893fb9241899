"""What was fixed before the first run is said in every form of the report."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from perf_pipeline.gates.findings import Judgement, ScenarioChange
from perf_pipeline.report import html, markdown, terminal
from perf_pipeline.report.design import design_sentence, in_general, look_of, runs_compared, which_changed
from tests.report_judgements import CONTEXT, baseline_differs_from_itself, control_moved, regression
from tests.report_reading import read_html, words

FOUND = baseline_differs_from_itself()


def on_terminal(judgement: Judgement) -> str:
    file = io.StringIO()
    Console(file=file, width=200, legacy_windows=False).print(terminal.render(judgement, CONTEXT))
    return words(file.getvalue())


FORMS = {
    "page": lambda judgement: words(read_html(html.render(judgement, CONTEXT)).all("body")[0].text()),
    "comment": lambda judgement: words(markdown.render(judgement, CONTEXT)),
    "terminal": on_terminal,
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@every_form
def test_looks_and_pairs_are_told(form: object) -> None:
    text = form(FOUND)  # type: ignore[operator]
    assert "Judged at look 2 of 3, planned before the first run at 5, 8 and 12 repeats per version." in text
    assert "Runs of one block are compared as pairs" in text
    assert "planned before the first run" not in form(regression())  # type: ignore[operator]


@every_form
def test_an_arm_that_moved_is_told_before_the_verdicts(form: object) -> None:
    text = form(FOUND)  # type: ignore[operator]
    assert text.index("1.0.0 against itself") < text.index("service p99")
    assert "1.0.0 against itself moved in 2 of 12 comparisons" in text


def test_an_arm_that_moved_is_the_first_thing_on_the_page() -> None:
    page = read_html(html.render(FOUND, CONTEXT))
    assert words(page.all("main")[0].text()).startswith("▲ The baseline differs from itself (A/A) Something other")
    (table,) = [table for table in page.all("table") if "against itself" in table.all("caption")[0].text()]
    assert words(table.all("tr")[1].text()).startswith("browse client latency ▲ regression +16.1 % at p80")
    both = replace(control_moved(), aa_arm=FOUND.aa_arm)
    first = words(read_html(html.render(both, CONTEXT)).all("main")[0].text())
    assert first.startswith("▲ The baseline differs from itself (A/A), and the negative control moved")


def test_a_quiet_arm_raises_no_alarm() -> None:
    assert FOUND.aa_arm
    quiet = replace(FOUND, aa_arm=replace(FOUND.aa_arm, status="quiet", message="was quiet in 12 comparisons"))
    page = read_html(html.render(quiet, CONTEXT))
    assert not [item for item in page.all("section") if "alarm" in item.classes()]
    assert "1.0.0 against itself was quiet in 12 comparisons." in words(page.text())
    assert "[!WARNING]" not in markdown.render(quiet, CONTEXT)


def test_the_table_of_pooled_changes_says_how_far_it_reaches_and_which_one_changed() -> None:
    page = read_html(html.render(FOUND, CONTEXT))
    (table,) = [table for table in page.all("table") if "Pooled changes" in table.all("caption")[0].text()]
    row = next(row for row in table.all("tr") if words(row.text()).startswith("service latency p50"))
    assert "browse +1.9 % (p < 0.001)" in words(row.text())
    pooled = next(one for one in FOUND.pooled if one.metric == "service_latency" and one.statistic == "p50")
    assert words(row.all("td")[2].text()) == words(in_general(pooled))


def test_lent_degrees_of_freedom_and_the_look_stand_in_the_detail() -> None:
    verdict = FOUND.verdicts[0]
    assert runs_compared(verdict) == (
        "5 pairs, each of one block, 7.4 degrees of freedom, 3.1 of them lent by the other scenarios"
    )
    assert look_of(verdict, FOUND.looks) == "2 of 3; its interval leaves out 1.2 %"
    assert look_of(regression().verdicts[0], ()) == ""
    assert runs_compared(regression().verdicts[0]) == "5 of baseline, 5 of candidate, 7.4 degrees of freedom"


def test_looks_that_differ_by_scenario_are_told_as_a_range() -> None:
    verdicts = (replace(FOUND.verdicts[0], look=1), *FOUND.verdicts[1:])
    assert design_sentence(replace(FOUND, verdicts=verdicts)).startswith("Judged at looks 1 to 2, by scenario, of 3")


def test_many_changed_scenarios_are_counted_after_the_third() -> None:
    pooled = replace(FOUND.pooled[0], changed=tuple(ScenarioChange(f"s{n}", 0.01, 0.01) for n in range(5)))
    assert words(which_changed(pooled)).endswith("s2 +1.0 % (p 0.01) and 2 more")
    assert which_changed(replace(pooled, changed=())) == "none"

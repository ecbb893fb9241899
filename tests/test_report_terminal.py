"""The report on a terminal. The expected texts are renewed as test_report_markdown.py says."""

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.report import terminal
from tests.noisy_judgements import NOISY, busy_machine
from tests.report_judgements import CONTEXT, control_moved, many_scenarios, no_regression, regression

FIXTURES = Path(__file__).parent / "fixtures" / "report"


def printed(judgement: Judgement, width: int, colour: bool = False) -> str:
    file = io.StringIO()
    Console(
        file=file, width=width, force_terminal=colour, color_system="standard" if colour else None, legacy_windows=False
    ).print(terminal.render(judgement, CONTEXT), crop=False)
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_looks_as_expected(width: int) -> None:
    expected = FIXTURES / f"regression_{width}_columns.txt"
    text = printed(regression(), width)
    if os.environ.get("PERF_PIPELINE_RENEW"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("build", [regression, no_regression, control_moved, many_scenarios])
def test_numbers_are_whole_and_lines_fit(build: object, width: int) -> None:
    lines = printed(build(), width).splitlines()  # type: ignore[operator]
    (command,) = [line for line in lines if line.startswith("Judge it again: ")]
    assert command.endswith(CONTEXT.reproduce), "whole, so that it can be copied"
    assert max(len(line) for line in lines if line != command) <= width
    assert not [line for line in lines if "…" in line.replace("…+", "")], "nothing is cut off"


def test_the_first_line_is_the_decision_in_words() -> None:
    assert printed(regression(), 100).splitlines()[0].startswith(" REGRESSION  1.1.0 is worse than 1.0.0")


def test_columns_align() -> None:
    lines = printed(regression(), 100).splitlines()
    head = next(line for line in lines if line.lstrip().startswith("verdict"))
    rows = [line for line in lines if line.startswith("  ") and "[" in line and "]" in line and line is not head]
    assert len({row.index("]") for row in rows}) == 1
    assert len({row.index(",") for row in rows}) == 1
    assert {row.index("]") for row in rows} == {head.index("]")}


def test_measured_values_show_where_there_is_room() -> None:
    assert "7.15 ms → 8.66 ms" in printed(regression(), 120)
    assert "7.15 ms → 8.66 ms" not in printed(regression(), 80)


def test_colour_is_an_addition() -> None:
    coloured = printed(regression(), 100, colour=True)
    assert "\x1b[" in coloured
    plain = printed(regression(), 100)
    assert all(word in plain for word in ("▲ regression", "= equivalent", "? inconclusive", "quiet"))


def test_a_long_report_says_the_decision_again_at_its_end() -> None:
    lines = printed(many_scenarios(), 160).splitlines()
    assert lines[-1] == lines[0]
    assert printed(regression(), 160).count("REGRESSION") == 1


@pytest.mark.parametrize(("rows", "times"), [(30, 2), (60, 1)])
def test_how_long_is_long_depends_on_the_terminal(rows: int, times: int) -> None:
    file = io.StringIO()
    console = Console(file=file, width=160, height=rows, force_terminal=True, color_system=None, legacy_windows=False)
    console.print(terminal.render(regression(), CONTEXT), crop=False)
    assert file.getvalue().count("REGRESSION") == times


@pytest.mark.parametrize("build", NOISY.values(), ids=NOISY)
def test_on_a_busy_machine_no_paragraph_stands_twice(build: Callable[[], Judgement]) -> None:
    found = build()
    text = printed(found, 10_000)
    lines = text.splitlines()
    assert lines[-1] == lines[0]
    long = [line for line in lines[1:-1] if len(line) > 60 and line.startswith(("  • ", "Negative"))]
    assert len(set(long)) == len(long)
    assert "typically lie" not in text, "what Gate 2 measured is in the report and the JSON"


def test_a_busy_machine_takes_no_more_than_three_screens() -> None:
    text = printed(busy_machine(), 100)
    assert len(text.splitlines()) < 72, "it was 151"
    assert "8 set aside by achieved rate and dropped iterations: 1.0.0-browse-r02, 1.0.0-browse-r04," in text


def test_markup_in_names_is_shown_as_it_is() -> None:
    found = regression()
    verdicts = (replace(found.verdicts[0], scenario="[bold red]x[/]"),)
    assert "[bold red]x[/]" in printed(replace(found, verdicts=verdicts), 100)


def test_many_lost_runs_are_counted_after_the_first() -> None:
    found = regression()
    lost = tuple(replace(found.runs[0], run_id=f"run-{number}", status="set aside", reason="r") for number in range(30))
    assert "and 10 more; the HTML report and the JSON list them all" in printed(replace(found, runs=lost), 100)

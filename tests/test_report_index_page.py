"""The index over all comparisons."""

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.report import index_page
from tests.report_histories import chained, comparisons, shifts
from tests.report_reading import Element, read_html, words
from tests.report_strategies import NASTY

FOUND = comparisons()
REPORTS = {item.comparison for item in FOUND}


@pytest.fixture(scope="module")
def page() -> Element:
    return read_html(index_page.render("Demo shop", FOUND, chained(), shifts(), REPORTS))


def rows(page: Element) -> list[Element]:
    (table,) = [table for table in page.all("table") if "index" in table.classes()]
    return table.all("tr")[1:]


def test_the_newest_comparison_is_read_first(page: Element) -> None:
    main = words(page.all("main")[0].text()).removeprefix("The newest decision ")
    assert main.startswith("=No regression No regression in 1.12.0 against 1.11.0. Report of 1.12.0 against 1.11.0")
    assert [words(row.all("th")[0].text()) for row in rows(page)][::11] == [
        "1.12.0 against 1.11.0",
        "1.1.0 against 1.0.0",
    ]


def test_a_row_has_the_decision_the_worst_cell_and_a_link(page: Element) -> None:
    row = next(row for row in rows(page) if words(row.text()).startswith("1.5.0"))
    assert words(row.text()) == (
        "1.5.0 against 1.4.0 ▲ regression ▲ client latency p99 in browse: +21.4 % (+17.4 % to +25.4 %)"
        " 1 regression, 9 equivalent 2026-11-05 04:00 policy default, version 1"
    )
    assert row.all("a")[0].attributes["href"] == "1.4.0__1.5.0/report.html"


def test_what_moved_although_it_cannot_have_stands_beside_the_decision(page: Element) -> None:
    row = next(row for row in rows(page) if words(row.text()).startswith("1.8.0"))
    assert "not enough evidence negative control moved" in words(row.text())
    both = replace(FOUND[0], aa_status="moved", control_status="moved")
    assert "A/A arm and negative control moved" in words(read_html(index_page.render("t", [both])).text())


def test_a_report_that_is_gone_has_no_link() -> None:
    page = read_html(index_page.render("t", FOUND, reports={FOUND[0].comparison}))
    assert len([link for link in page.all("a") if link.attributes["href"].endswith("report.html")]) == 2
    assert "1.5.0 against 1.4.0" in words(page.text())


def test_releases_together_and_level_shifts_are_told(page: Element) -> None:
    text = words(page.text())
    assert "browse, client latency p95 Regression over 12 comparisons: +14.4 % (+12.3 % to +16.5 %)." in text
    assert "1.12.0 against 1.0.0, every scenario and metric" in text
    assert "service latency of the baseline, which did not change, in browse lies +8.0 % (+6.0 % to +10.0 %)" in text


def test_an_index_of_nothing_says_so() -> None:
    assert "Nothing was compared yet." in words(read_html(index_page.render("t", [])).text())
    alone = words(read_html(index_page.render("t", FOUND[:1])).text())
    assert "No chain of releases is known yet" in alone
    assert "None was found" in alone


def test_nothing_is_fetched_and_links_stay_beside_the_page(page: Element) -> None:
    assert not page.all("script", "img", "iframe", "object", "form")
    for link in page.all("a"):
        assert (
            link.attributes["href"].startswith("#") or link.attributes["href"].removesuffix("/report.html") in REPORTS
        )
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    assert {link.attributes["href"][1:] for link in page.all("a") if link.attributes["href"][0] == "#"} <= set(ids)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(NASTY))
def test_names_of_others_are_shown_and_not_obeyed(name: str) -> None:
    item = replace(FOUND[0], comparison=name, candidate=name, headline=name)
    page = read_html(index_page.render(name, [item], reports={name}))
    assert not page.all("script", "img", "iframe")
    (link, *_) = [link for link in page.all("a") if link.attributes["href"].endswith("/report.html")]
    assert link.attributes["href"].count("/") == 1
    assert ":" not in link.attributes["href"]


def test_a_thousand_comparisons_are_written_in_a_blink_and_below_a_megabyte() -> None:
    many = [replace(FOUND[0], comparison=f"1.{number}__2.{number}") for number in range(1_000)]
    started = time.perf_counter()
    text = index_page.render("t", many, chained(), shifts(), {item.comparison for item in many})
    assert time.perf_counter() - started < 5
    assert len(text.encode()) < 1_000_000

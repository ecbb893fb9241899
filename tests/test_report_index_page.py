"""The index over all comparisons."""

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.history.noise import LabNoise
from perf_pipeline.report import index_page
from tests.report_histories import chained, comparisons, noise, shifts
from tests.report_reading import Element, read_html, words
from tests.report_strategies import NASTY

FOUND = comparisons()
REPORTS = {item.comparison for item in FOUND}


@pytest.fixture(scope="module")
def page() -> Element:
    return read_html(index_page.render("Demo shop", FOUND, chained(), shifts(), REPORTS, noise()))


def rows(page: Element) -> list[Element]:
    (table,) = [table for table in page.all("table") if "index" in table.classes()]
    return table.all("tr")[1:]


def test_the_newest_comparison_is_read_first(page: Element) -> None:
    main = words(page.all("main")[0].text()).removeprefix("The newest decision ")
    assert main.startswith("=No regression No regression in 1.12.0 against 1.11.0. ▲ But over 12 releases")
    assert "Report of 1.12.0 against 1.11.0" in main
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


def test_slow_drift_stands_in_the_box_of_the_decision(page: Element) -> None:
    (box,) = [section for section in page.all("section") if "decision" in section.classes()]
    (lines,) = [item for item in box.all("ul") if "drift" in item.classes()]
    drifted = "But over 12 releases since 1.0.0: regression in {}, client latency p95: +14.4 % (+12.3 % to +16.5 %)"
    assert [(link.attributes["href"], words(link.text())) for link in lines.all("a")] == [
        ("#chain", f"▲ {drifted.format('browse')}"),
        ("#chain", f"▲ {drifted.format('products')}"),
        (
            "#shifts",
            "! From 1.5.0__1.6.0 (2026-11-06) on, service latency of the baseline, which did not change, in browse"
            " lies +8.0 % (+6.0 % to +10.0 %) from where it was.",
        ),
    ]


def test_what_many_comparisons_say_comes_before_the_rows_of_each(page: Element) -> None:
    headings = [heading.attributes["id"] for heading in page.all("h2")]
    assert headings == ["newest", "chain", "shifts", "noise", "comparisons"]


def test_a_newest_regression_is_followed_and_not_contradicted_by_the_drift() -> None:
    regressed = replace(FOUND[0], answer="regression")
    assert "▲ And over 12 releases" in words(read_html(index_page.render("t", [regressed], chained())).text())


def test_where_nothing_drifted_the_box_says_nothing_more() -> None:
    quiet = [row for row in chained() if row.metric == "service_memory"]
    page = read_html(index_page.render("t", FOUND, quiet, ()))
    assert not [item for item in page.all("ul") if "drift" in item.classes()]


def test_the_noise_of_the_lab_is_held_against_what_it_was(page: Element) -> None:
    (table,) = [table for table in page.all("table") if "Noise of the newest" in table.all("caption")[0].text()]
    assert [words(row.text()) for row in table.all("tr")[1:3]] == [
        "browse service p99 +5 % +7.9 % +8.1 %",
        "products service p99 +5 % +7.9 % +8.1 %",
    ]
    assert len(table.all("tr")) == 1 + index_page.NOISE_SHOWN
    assert "as noisy as 1.12.0 against 1.11.0 would call a regression" in words(page.text())
    assert "These are the noisiest of 12 cells." in words(page.text())
    assert "could not be measured" not in words(page.text())
    assert not [item for item in table.all("td") if item.classes()], "it is shown, and judged by whoever reads it"


def told(noise: LabNoise) -> str:
    return words(read_html(index_page.render("t", FOUND, noise=noise)).text())


def test_too_few_earlier_comparisons_are_a_dash_and_fewer_repeats_are_said() -> None:
    young = replace(noise(), cells=tuple(replace(cell, earlier=7) for cell in noise().cells))
    assert "service p99 +5 % – +8.1 %" in told(young)
    fewer = replace(noise(), cells=tuple(replace(cell, repeats=3) for cell in noise().cells))
    assert "+8.1 % fewer repeats" in told(fewer)


def test_cells_that_could_not_be_measured_are_counted() -> None:
    assert "the noisiest of 12 cells. 3 more cells could not be measured: see their report." in told(noise(3))
    assert "1 more cell could not be measured: see its report." in told(noise(1))
    nothing = told(replace(noise(12), cells=()))
    assert "tells how noisy the lab was. 12 cells could not be measured: see their report." in nothing


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

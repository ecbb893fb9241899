"""The page: complete, self-contained, and built so that keyboards, screen readers and old campaigns find their way."""

import re
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.report import html
from perf_pipeline.report.context import ReportContext
from perf_pipeline.report.page import anchor
from perf_pipeline.report.wording import metric_label
from tests.report_judgements import CONTEXT, OUTCOMES, control_moved, curves_for, many_scenarios, regression
from tests.report_reading import Element, read_html, words


def rendered(found: Judgement) -> str:
    return html.render(found, replace(CONTEXT, curves=curves_for(found)))


PAGES = {name: read_html(rendered(build())) for name, build in OUTCOMES.items()}
every_outcome = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@every_outcome
def test_nothing_is_fetched_and_nothing_runs(page: Element) -> None:
    assert not page.all("script", "img", "iframe", "object", "form")
    for element in page.all():
        for name in ("href", "src"):
            assert element.attributes.get(name, "#")[:1] == "#" or element.attributes[name] == "data:,"
    css = page.all("style")[0].text()
    assert "url(" not in css
    assert "@import" not in css
    policy = next(meta for meta in page.all("meta") if "http-equiv" in meta.attributes)
    assert "default-src 'none'" in policy.attributes["content"]


@every_outcome
def test_the_reader_is_led_by_headings_landmarks_and_a_skip_link(page: Element) -> None:
    levels = [int(heading.tag[1]) for heading in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert all(len(page.all(tag)) == 1 for tag in ("main", "header", "footer", "nav"))
    assert page.all("a")[0].attributes == {"class": "skip", "href": "#decision"}
    assert page.all("html")[0].attributes["lang"] == "en"


@every_outcome
def test_every_link_leads_to_one_place(page: Element) -> None:
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    targets = {link.attributes["href"].removeprefix("#") for link in page.all("a")}
    labels = {name for element in page.all() for name in element.attributes.get("aria-labelledby", "").split()}
    assert targets | labels <= set(ids)


@every_outcome
def test_tables_have_captions_and_scopes_and_pictures_have_words(page: Element) -> None:
    for table in page.all("table"):
        assert words(table.all("caption")[0].text())
        assert all(cell.attributes.get("scope") in ("col", "row") for cell in table.all("th"))
    for svg in page.all("svg"):
        if svg.attributes.get("role") == "img":
            assert [child.tag for child in svg.children[:2] if isinstance(child, Element)] == ["title", "desc"]
            assert all(words(part.text()) for part in svg.all("title", "desc"))
        else:
            assert svg.attributes["aria-hidden"] == "true"


@every_outcome
def test_the_decision_comes_before_anything_but_a_moved_control(page: Element) -> None:
    text = words(page.all("body")[0].text())
    assert text.index("What is known") > text.index("Is 1.1.0 slower than 1.0.0?")
    main = page.all("main")[0]
    sections = [section for section in main.children if isinstance(section, Element)]
    first = sections[1] if "alarm" in sections[0].classes() else sections[0]
    assert first.attributes["id"] == "decision"


def test_a_moved_control_is_told_first() -> None:
    main = PAGES["control_moved"].all("main")[0]
    assert words(main.text()).startswith("▲ The negative control moved")
    assert "2 regressions" not in words(main.text())


def test_a_cell_of_the_matrix_leads_to_its_picture() -> None:
    page = PAGES["regression"]
    link = next(link for link in page.all("a") if link.attributes["href"] == f"#{anchor('products', 'client_latency')}")
    assert words(link.text()) == "client latency? inconclusive +14.7 % at p99 [+6.1, +24.1]"
    (target,) = [item for item in page.all("div") if item.attributes.get("id") == anchor("products", "client_latency")]
    assert target.all("svg")
    assert target.parent
    assert words(target.parent.all("h4")[0].text()) == "client latency"
    facts = words(target.text())
    assert "What it would take About 16 repeats per version" in facts
    assert "Smallest detectable change" in facts
    assert "Repeats of 1.1.0 agree (5 repeats, log Wasserstein distance 1.3 %, limit 2.5 %)" in facts


def test_what_needs_attention_is_unfolded_and_the_rest_is_not() -> None:
    details = [item for item in PAGES["regression"].all("details") if "verdict" in item.classes()]
    for item in details:
        settled = "equivalent" in words(item.all("summary")[0].text())
        assert ("open" in item.attributes) is not settled


def test_runs_set_aside_are_named_with_their_reason() -> None:
    text = words(PAGES["regression"].text())
    assert "1.1.0-products-r04 products 1.1.0 Service memory drifts" in text
    assert "service latency: Service latency drifts" in text


def test_the_text_around_the_judgement_is_there_and_may_be_missing() -> None:
    text = words(PAGES["regression"].text())
    for label, value in (*CONTEXT.facts, *CONTEXT.policy_limits):
        assert f"{label} {words(value)}" in text
    assert CONTEXT.reproduce in text
    bare = words(read_html(html.render(regression(), ReportContext("t"))).text())
    assert "Judge it again" not in bare


def test_absent_metrics_are_named_and_have_no_column() -> None:
    page = PAGES["regression"]
    assert "GraphQL error rate was not measured." in words(page.text())
    assert "GraphQL error rate" not in words(page.all("thead")[0].text())


def test_a_number_never_parts_from_its_unit() -> None:
    text = re.sub(r"<svg.*?</svg>", "", html.render(regression(), CONTEXT))
    assert not re.search(r">[^<]*\d (%|points|ms|MiB)\b", text)


def test_anchors_are_stable_and_differ_where_names_differ() -> None:
    assert anchor("browse", "client_latency") == "v-browse-client-latency"
    assert anchor("browse") == "v-browse"
    assert anchor("a b", "m") != anchor("a-b", "m")
    assert anchor("Browse", "m") != anchor("browse", "m")
    assert anchor("日本", "m") != anchor("東京", "m")
    assert re.fullmatch(r"v-[a-z0-9-]+", anchor("日本 <&>", "m"))


def test_a_large_campaign_fits_into_two_megabytes_and_a_blink() -> None:
    found = many_scenarios()
    started = time.thread_time()
    text = rendered(found)
    assert time.thread_time() - started < 10
    assert len(text.encode()) <= 2_000_000
    page = read_html(text)
    opened = [item for item in page.all("details") if "verdict" in item.classes() and "open" in item.attributes]
    assert 0 < len(opened) <= 16
    assert len([link for link in page.all("a") if link.attributes["href"].startswith("#v-")]) == 300 + 50


def test_long_lists_unfold() -> None:
    found = regression()
    many = replace(
        found, decision=replace(found.decision, not_known=tuple(f"question {number}" for number in range(9)))
    )
    text = words(read_html(html.render(many, CONTEXT)).text())
    assert "and 4 more" in text
    assert "question 8" in text


def test_the_page_depends_on_its_arguments_only() -> None:
    assert html.render(control_moved(), CONTEXT) == html.render(control_moved(), CONTEXT)
    assert metric_label("client_latency") in html.render(control_moved(), CONTEXT)

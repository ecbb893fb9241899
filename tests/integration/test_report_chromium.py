"""The page in a real Chromium: no console message, no sideways scrolling on a phone, the decision in the first screen.

Chromium is driven through its DevTools protocol. Where it is not installed these tests are skipped, and pytest says so.
"""

import base64
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perf_pipeline.files import project_file
from perf_pipeline.report import html, index_page
from perf_pipeline.report.page import anchor
from tests.noisy_judgements import NOISY
from tests.report_histories import chained, comparisons, noise, shifts
from tests.report_judgements import CONTEXT, OUTCOMES, curves_for, many_scenarios

pytest.importorskip("websocket", reason="websocket-client is not installed: the page is not tested")
from bench.chromium import PROGRAM, Browser, chromium

AXE = project_file("tests").parent / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed: the page is not tested in a browser"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, build in {**OUTCOMES, "many_scenarios": many_scenarios}.items():
        path: Path = folder / f"{name}.html"
        found_by_gates = build()
        context = replace(CONTEXT, curves=curves_for(found_by_gates))
        path.write_text(html.render(found_by_gates, context), encoding="utf-8")
        found[name] = path.as_uri()
    for name, build in NOISY.items():
        path = folder / f"{name}.html"
        path.write_text(html.render(build(), CONTEXT), encoding="utf-8")
        found[name] = path.as_uri()
    history = comparisons()
    index = folder / "index.html"
    reports = {item.comparison for item in history}
    text = index_page.render("Demo shop", history, chained(), shifts(), reports, noise(unmeasured=3))
    index.write_text(text, encoding="utf-8")
    return found | {"index": index.as_uri()}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", [*OUTCOMES, "many_scenarios", *NOISY])
def test_the_first_screen_holds_the_decision_and_the_console_stays_silent(
    browser: Browser, pages: dict[str, str], name: str, dark: bool
) -> None:
    browser.show(pages[name], 1280, 800, dark=dark)
    answer = browser.value("document.querySelector('.answer').textContent")
    headline = browser.value("document.querySelector('.headline').getBoundingClientRect().bottom")
    open_questions = browser.value("document.querySelector('#not-known').parentElement.getBoundingClientRect().bottom")
    assert answer.lower().endswith(("regression", "not enough evidence"))
    assert headline < 800
    assert open_questions < 800, "the whole box, and that of what is known, which is as high"
    assert browser.messages() == []


@pytest.mark.parametrize("name", NOISY)
def test_a_busy_machine_is_named_first_and_leads_to_the_runs(
    browser: Browser, pages: dict[str, str], name: str
) -> None:
    browser.show(pages[name], 1280, 800)
    first = "document.querySelector('#not-known').parentElement.querySelector('li')"
    assert "the machine was busy" in browser.value(f"{first}.textContent")
    assert browser.value(f"{first}.querySelector('a').getAttribute('href')") == "#runs"
    browser.value(f"{first}.querySelector('a').click()")
    assert browser.value("document.querySelector('#runs').getBoundingClientRect().top") < 400


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("name", [*OUTCOMES, "many_scenarios", "busy_machine", "candidate_hardly_starts", "index"])
def test_the_page_never_scrolls_sideways(browser: Browser, pages: dict[str, str], name: str, width: int) -> None:
    browser.show(pages[name], width, 844)
    assert browser.value("document.documentElement.scrollWidth") <= width


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: make services")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", [*OUTCOMES, "busy_machine", "index"])
def test_axe_finds_nothing(browser: Browser, pages: dict[str, str], name: str, width: int, dark: bool) -> None:
    browser.show(pages[name], width, 900, dark=dark)
    browser.value("for (const item of document.querySelectorAll('details')) item.open = true")
    browser.value(AXE.read_text(encoding="utf-8"))
    found = browser.do(
        "Runtime.evaluate",
        expression="axe.run().then(all => all.violations.map(one => [one.id, one.nodes[0].html, one.nodes.length]))",
        awaitPromise=True,
        returnByValue=True,
    )
    assert found["result"]["value"] == []


def test_every_word_of_a_table_head_stays_whole(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["regression"], 390, 844)
    lines = browser.value(
        "[...document.querySelectorAll('.percentiles thead th:first-child')].filter(head => head.offsetParent)"
        ".map(head => { const range = document.createRange(); range.selectNodeContents(head);"
        " return new Set([...range.getClientRects()].map(box => box.top)).size })"
    )
    assert lines
    assert set(lines) == {1}


def test_no_label_of_a_picture_is_cut_on_a_phone(browser: Browser, pages: dict[str, str]) -> None:
    for name in ("regression", "not_enough_evidence", "index"):
        browser.show(pages[name], 390, 844)
        browser.value("for (const item of document.querySelectorAll('details')) item.open = true")
        cut = browser.value(
            "[...document.querySelectorAll('svg.chart[role=img] text')].filter(text => { const box ="
            " text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();"
            " return box.left < all.left - 1 || box.right > all.right + 1 }).map(text => text.textContent)"
        )
        assert cut == [], name


def test_the_index_leads_to_a_report_and_its_first_screen_has_the_decision(
    browser: Browser, pages: dict[str, str]
) -> None:
    browser.show(pages["index"], 1280, 800)
    assert browser.value("document.querySelector('.headline').getBoundingClientRect().bottom") < 800
    assert browser.value("document.querySelectorAll('.index a[href$=\"report.html\"]').length") == 12
    assert browser.messages() == []


def test_dark_and_light_are_different_pages_of_the_same_size(browser: Browser, pages: dict[str, str]) -> None:
    grounds = []
    for dark in (False, True):
        browser.show(pages["regression"], 1280, 800, dark=dark)
        grounds.append(browser.value("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(246, 246, 243)", "rgb(15, 19, 22)"]


def test_a_cell_unfolds_the_picture_that_it_leads_to(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["regression"], 1280, 800)
    place = anchor("browse", "service_memory")
    is_open = f"document.getElementById('{place}').closest('details').open"
    assert browser.value(is_open) is False
    browser.value(f"document.querySelector('.matrix a[href=\"#{place}\"]').click()")
    deadline = time.monotonic() + 30
    while not browser.value(is_open) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert browser.value(is_open) is True
    top = browser.value(f"document.getElementById('{place}').closest('details').getBoundingClientRect().top")
    assert 0 <= top < 300, "its heading is in view"


def test_the_keyboard_reaches_the_decision_first(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["regression"], 1280, 800)
    for kind in ("keyDown", "keyUp"):
        browser.do("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.value("document.activeElement.textContent") == "Skip to the decision"
    assert browser.value("document.activeElement.getBoundingClientRect().top") >= 0


def test_a_screenshot_shows_the_decision_in_its_colour(browser: Browser, pages: dict[str, str], tmp_path: Path) -> None:
    browser.show(pages["regression"], 1280, 800)
    png = base64.b64decode(browser.do("Page.captureScreenshot")["data"])
    assert struct.unpack(">II", png[16:24]) == (1280, 800)
    from PIL import Image

    (tmp_path / "first.png").write_bytes(png)
    colours = Image.open(tmp_path / "first.png").convert("RGB").getcolors(1_000_000) or []
    assert {colour: count for count, colour in colours}.get((179, 50, 10), 0) > 2_000


def test_the_picture_in_the_docs_is_small(browser: Browser, pages: dict[str, str]) -> None:
    """Drawn anew with PERF_PIPELINE_RENEW=1."""
    picture = project_file("docs") / "img" / "report.png"
    if os.environ.get("PERF_PIPELINE_RENEW"):
        browser.show(pages["regression"], 1200, 1010)
        picture.write_bytes(base64.b64decode(browser.do("Page.captureScreenshot")["data"]))
    assert 0 < picture.stat().st_size < 200_000


def test_it_prints_on_few_pages(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["regression"], 1280, 800)
    pdf = base64.b64decode(browser.do("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert 2 <= pdf.count(b"/Type /Page\n") <= 12


@pytest.mark.parametrize(
    ("name", "left_out"), [("regression", False), ("no_regression", False), ("many_scenarios", True), ("index", False)]
)
def test_folded_evidence_is_on_paper_unless_there_is_much_of_it(
    browser: Browser, pages: dict[str, str], name: str, left_out: bool
) -> None:
    """What is folded on the screen is printed; of a large campaign all but what is equivalent, and the page says so."""
    browser.show(pages[name], 760, 800)
    shown = (
        "[...document.querySelectorAll('details')].filter(one => one.lastElementChild.checkVisibility("
        "{contentVisibilityAuto: true})).map(one => one.classList.contains('tone-equivalent'))"
    )
    note = "[...document.querySelectorAll('.on-paper')].map(one => one.checkVisibility())"
    folded = browser.value("document.querySelectorAll('details:not([open])').length")
    everything = browser.value("document.querySelectorAll('details').length")
    equivalent = browser.value("document.querySelectorAll('details.tone-equivalent').length")
    assert folded > 0
    assert len(browser.value(shown)) == everything - folded
    assert not any(browser.value(note))
    browser.do("Emulation.setEmulatedMedia", media="print")
    expected = everything - (equivalent if left_out else 0)
    deadline = time.monotonic() + 30
    while len(browser.value(shown)) != expected and time.monotonic() < deadline:
        time.sleep(0.02)  # it takes Chromium a frame or two to unfold
    assert len(browser.value(shown)) == expected
    assert browser.value(note) == ([True] if left_out else [])
    assert equivalent > 100 or not left_out


def test_a_large_campaign_is_laid_out_in_two_seconds(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["many_scenarios"], 1280, 800)
    loaded = browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert 0 < loaded < 10_000, "2 s are wanted; the bound leaves room for a busy machine"

"""The pictures of docs/reading-a-verdict.md are what the report draws, and what the page says is true of it.

The pictures are drawn anew with PERF_PIPELINE_RENEW=1, the screenshot by tests/integration/test_report_chromium.py.
"""

import os
import re
from dataclasses import replace

import pytest

from perf_pipeline.files import project_file
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.report.forest import forest
from perf_pipeline.report.picture import Picture
from perf_pipeline.report.plots import percentile_shift
from perf_pipeline.report.wording import GLYPHS
from tests.report_judgements import not_comparable, number, regression

DOCS = project_file("docs")
PAGE = (DOCS / "reading-a-verdict.md").read_text(encoding="utf-8")


def five_verdicts() -> list[Verdict]:
    examples = {
        "equivalent": number("equivalent", "service_p99", 20.0, 0.012, 0.008, "ms"),
        "regression": number("regression", "service_p99", 20.0, 0.105, 0.011, "ms"),
        "improvement": number("improvement", "service_p99", 20.0, -0.095, 0.009, "ms"),
        "inconclusive": number("inconclusive", "service_p99", 20.0, 0.041, 0.016, "ms"),
        "not comparable": not_comparable(number("not comparable", "service_p99", 20.0, 0.0, 0.01, "ms"), "no runs"),
    }
    assert [verdict.verdict for verdict in examples.values()] == list(examples)
    return list(examples.values())


@pytest.mark.parametrize(
    ("name", "picture"),
    [
        ("five-verdicts.svg", replace(forest(five_verdicts()), subject="service p99", title="The five verdicts")),
        ("percentile-shift.svg", percentile_shift(regression().verdicts[0])),
    ],
)
def test_the_pictures_are_what_the_report_draws(name: str, picture: Picture) -> None:
    path = DOCS / "img" / name
    if os.environ.get("PERF_PIPELINE_RENEW"):
        path.write_bytes(picture.svg_file())
    assert path.read_bytes() == picture.svg_file()


def test_the_page_explains_every_verdict_with_its_glyph() -> None:
    for verdict, glyph in GLYPHS.items():
        assert f"**{verdict.capitalize()}** ({glyph})" in PAGE


def test_links_and_pictures_of_the_page_are_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (DOCS / target).exists(), target

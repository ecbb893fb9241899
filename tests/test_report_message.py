"""The chat message: the decision first, the worst cells, what is not known, and nothing that pings people."""

from dataclasses import replace

import pytest

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.report.message import failure_message, verdict_message, with_links
from tests import report_judgements


def texts(message: dict) -> list[str]:
    return [block["text"]["text"] for block in message["blocks"]]


def test_a_regression_names_its_worst_cells() -> None:
    judgement = report_judgements.regression()
    title, decision, worst, *_ = texts(verdict_message(judgement))
    assert title == f"{judgement.candidate} against {judgement.baseline}: regression"
    assert decision.startswith(":red_circle: ")
    largest = max(
        (verdict for verdict in judgement.verdicts if verdict.verdict == "regression"),
        key=lambda verdict: abs(verdict.estimate or 0),
    )
    heading, first, *_ = worst.splitlines()
    assert heading == "*Worst*"
    assert first.startswith(f"• {largest.scenario}, service latency: Slower: +")


def test_many_worst_cells_are_counted() -> None:
    judgement = report_judgements.regression()
    one = next(verdict for verdict in judgement.verdicts if verdict.verdict == "regression")
    many = replace(judgement, verdicts=(one,) * 9)
    assert texts(verdict_message(many))[2].splitlines()[-1] == "• and 4 more"


def test_a_moved_control_comes_first() -> None:
    assert texts(verdict_message(report_judgements.control_moved()))[1].startswith(":warning: *Negative control* ")


def test_too_little_evidence_says_what_is_not_known() -> None:
    judgement = report_judgements.not_enough_evidence()
    said = texts(verdict_message(judgement))
    assert said[1].startswith(":white_circle: ")
    assert said[-1].startswith("*Not known*\n• ")
    assert len(said[-1].splitlines()) == 1 + len(judgement.decision.not_known)


@pytest.mark.parametrize(
    "judgement",
    [
        report_judgements.regression(),
        report_judgements.no_regression(),
        report_judgements.everything_set_aside(),
        report_judgements.many_scenarios(),
    ],
)
def test_a_message_fits_what_a_webhook_takes(judgement: Judgement) -> None:
    message = verdict_message(judgement)
    assert len(message["blocks"]) <= 50
    assert all(0 < len(text) <= 3000 for text in texts(message))
    assert len(texts(message)[0]) <= 150


def test_names_ping_nobody_and_make_no_links() -> None:
    said = texts(failure_message("a__b", "<!channel> & <http://x|y>" + "x" * 4000))
    assert "&lt;!channel&gt; &amp; &lt;http://x|y&gt;" in said[1]
    assert len(said[1]) <= 3000


def test_links_stand_at_the_end() -> None:
    message = failure_message("a__b", "why")
    assert with_links(message, ()) == message
    linked = with_links(message, (("Report", "https://r.example"), ("Stop", "https://s.example")))
    assert texts(linked)[-1] == "<https://r.example|Report>  ·  <https://s.example|Stop>"
    assert linked["text"] == message["text"]

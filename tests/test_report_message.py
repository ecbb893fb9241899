"""The chat message: the decision first, the worst cells, what is not known, and nothing that pings people."""

from dataclasses import replace

import pytest

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.report.drift import drifts
from perf_pipeline.report.message import failure_message, verdict_message, with_drifts, with_links
from tests import report_judgements
from tests.report_histories import chained, shifts


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


def test_what_does_not_fit_is_counted_and_never_cut_in_mid_sentence() -> None:
    judgement = report_judgements.no_regression()
    open_questions = tuple(f"service_p99 is inconclusive in <graph {n}>: {'why ' * 20}." for n in range(60))
    decision = replace(judgement.decision, not_known=open_questions)
    lines = texts(verdict_message(replace(judgement, decision=decision)))[-1].splitlines()
    assert 20 < len(lines) < 40
    assert all(line.endswith(".") for line in lines[1:-1])
    assert lines[-1] == f"• and {60 - len(lines[1:-1])} more: see the report"


def test_drift_is_one_block_below_the_decision_and_in_the_text_of_a_phone() -> None:
    message = verdict_message(report_judgements.no_regression())
    found = drifts(chained(), shifts(), {"1.5.0__1.6.0"})
    told = with_drifts(message, found)
    (block,) = [block for block in told["blocks"] if block not in message["blocks"]]
    assert told["blocks"].index(block) == 2
    assert texts(told)[2].splitlines() == [
        "*Over many comparisons*",
        "• ▲ over 12 releases since 1.0.0: regression in browse, client latency p95: +14.4 % (+12.3 % to +16.5 %)",
        "• ▲ over 12 releases since 1.0.0: regression in products, client latency p95: +14.4 % (+12.3 % to +16.5 %)",
        "• ! From 1.5.0__1.6.0 (2026-11-06) on, service latency of the baseline, which did not change, in browse lies"
        " +8.0 % (+6.0 % to +10.0 %) from where it was.",
    ]
    assert told["text"] == "1.1.0 against 1.0.0: no regression; over releases: regression"
    assert with_drifts(told, found) == told, "said again it replaces what was said"
    assert with_drifts(told, []) == message


def test_only_a_shift_leaves_the_text_of_a_phone_alone() -> None:
    message = verdict_message(report_judgements.no_regression())
    assert with_drifts(message, drifts((), shifts(), {"1.5.0__1.6.0"}))["text"] == message["text"]
    assert drifts((), shifts(), {"1.6.0__1.7.0"}) == []


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

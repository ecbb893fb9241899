"""What comes first in a report and what is counted."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from perf_pipeline.gates.decision import decide
from perf_pipeline.gates.findings import Judgement, NegativeControl, Pooled, ScenarioChange
from perf_pipeline.report import overview
from tests.noisy_judgements import NOISY
from tests.report_judgements import (
    OUTCOMES,
    control_moved,
    everything_set_aside,
    many_scenarios,
    no_regression,
    regression,
)
from tests.simulated_runs import policy


def test_scenarios_with_the_worst_verdict_come_first() -> None:
    assert [row.scenario for row in overview.scenario_rows(no_regression())] == ["products", "browse"]
    assert overview.scenario_rows(many_scenarios())[0].scenario == "graph-04-config-3"


def test_metrics_stand_in_reading_order_whatever_order_they_came_in() -> None:
    found = regression()
    turned = replace(found, verdicts=tuple(reversed(found.verdicts)))
    assert overview.metrics(turned) == overview.metrics(found)
    assert overview.scenario_rows(turned)[0].verdicts[0].metric == "client_latency"


def test_absent_metrics_are_told_and_never_counted() -> None:
    found = regression()
    assert list(overview.absent_metrics(found)) == ["graphql_error_rate"]
    assert sum(overview.verdict_counts(found).values()) == 10
    assert overview.what_was_compared(found) == "2 scenarios, 6 metrics, 20 runs"


def test_a_metric_that_is_absent_in_one_scenario_only_stays_in_the_table() -> None:
    found = regression()
    verdicts = tuple(
        replace(verdict, absent=False) if verdict is found.verdicts[5] else verdict for verdict in found.verdicts
    )
    assert overview.absent_metrics(replace(found, verdicts=verdicts)) == {}


@pytest.mark.parametrize("build", OUTCOMES.values(), ids=OUTCOMES)
def test_what_is_known_and_the_tally_beside_it_count_the_same(build: Callable[[], Judgement]) -> None:
    """As those of real judgements do, so that the picture in the README does not contradict itself."""
    found = build()
    counts = overview.verdict_counts(found)
    told = [re.fullmatch(r"(\d+) of (\d+) comparisons: (\w+)\.", sentence) for sentence in found.decision.known]
    for one in filter(None, told):
        assert (int(one[1]), int(one[2])) == (counts[one[3]], sum(counts.values()))  # type: ignore[index]
    assert sum(" regressed in " in sentence for sentence in found.decision.known) == counts["regression"]


def test_a_moved_control_is_no_regression_of_the_service() -> None:
    counts = overview.verdict_counts(control_moved())
    assert counts["regression"] == 0
    assert counts["not comparable"] == 10


def test_runs_are_told_in_one_sentence() -> None:
    assert overview.runs_sentence(regression().runs) == "20 runs: 18 passed, 1 lost a metric, 1 set aside"
    assert overview.runs_sentence(no_regression().runs) == "20 runs: all passed"
    assert overview.runs_sentence(everything_set_aside().runs) == "20 runs: 0 passed, 20 set aside"
    assert overview.runs_sentence(()) == "no runs"


def test_checks_that_could_not_tell_are_counted_apart() -> None:
    counts = {check.check: check.counts for check in overview.check_counts(regression())}
    assert counts["CPU throttling"]["not measured"] == 20
    assert counts["drift"]["cannot tell"] == 20
    assert counts["drift"]["fail"] == 2


def test_one_reason_is_given_once_for_all_that_it_holds_for() -> None:
    ((_, places),) = overview.why_not_comparable(everything_set_aside()).items()
    assert list(places) == ["browse", "products"]
    assert "graphql_error_rate" not in places["browse"]


@pytest.mark.parametrize("build", NOISY.values(), ids=NOISY)
def test_every_question_that_real_gates_leave_open_leads_to_its_numbers(build: Callable[[], Judgement]) -> None:
    questions = build().decision.not_known
    assert [question for question in questions if overview.section_of(question) is None] == [
        "graphql_error_rate: the plan names no source for it."
    ]
    assert overview.section_of(questions[0]) == ("runs", "Gate 1")
    assert {overview.section_of(question) for question in questions if "so the lab" in question} == {
        ("agreement", "Gate 2")
    }


def test_what_holds_for_all_scenarios_together_is_read_after_the_verdicts() -> None:
    found = no_regression()
    changed = (ScenarioChange("browse", 0.04, 0.003),)
    pooled = Pooled("client_latency", "p50", 0.02, 0.01, 0.03, 9.0, 2, "browse", 0.04, 0.0, 0.04, 0.01, changed)
    quiet = NegativeControl("upstream_latency", "quiet", 0.0, -0.01, 0.01, "quiet")
    known = decide("1.0.0", "1.1.0", found.verdicts, found.runs, [pooled], quiet, policy()).known
    ordered = overview.in_reading_order(known)
    assert sorted(ordered) == sorted(known)
    assert [sentence.split()[0] for sentence in ordered[-3:]] == ["Over", "In", "client_latency"]
    assert all("scenarios client_latency changed" not in sentence for sentence in ordered[:-3])

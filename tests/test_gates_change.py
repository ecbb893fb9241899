from dataclasses import replace

import numpy as np
import pytest

from perf_pipeline.gates.evidence import Missing, RunEvidence
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from tests.simulated_runs import campaign, latency, number, policy, with_metric


def verdict_of(runs: list[RunEvidence], metric: str, scenario: str = "browse", limits: Policy | None = None) -> Verdict:
    judgement = judge(runs, "1.0", "1.1", limits or policy())
    (verdict,) = [one for one in judgement.verdicts if (one.scenario, one.metric) == (scenario, metric)]
    return verdict


def spoiled(runs: list[RunEvidence], version: str, number_of_runs: int, **changes: object) -> list[RunEvidence]:
    """The runs with the first few of a version changed."""
    chosen = [run.run_id for run in runs if run.version == version][:number_of_runs]
    return [replace(run, **changes) if run.run_id in chosen else run for run in runs]  # type: ignore[arg-type]


def test_every_metric_of_every_scenario_has_a_verdict_in_reading_order() -> None:
    judgement = judge(campaign(scenarios=["search", "browse"]), "1.0", "1.1", policy())
    assert [(one.scenario, one.metric) for one in judgement.verdicts][:3] == [
        ("browse", "client_latency"),
        ("browse", "service_latency"),
        ("browse", "service_p99"),
    ]
    assert len(judgement.verdicts) == 2 * 7


def test_a_metric_without_a_source_is_absent_with_the_plans_reason() -> None:
    verdict = verdict_of(campaign(), "graphql_error_rate")
    assert (verdict.verdict, verdict.absent, verdict.reason) == ("not comparable", True, "the plan names no source")


def test_a_metric_that_one_side_never_asked_for_is_not_absent() -> None:
    runs = [
        with_metric(run, "service_memory", Missing("the plan names no source", absent=True))
        if run.version == "1.0"
        else run
        for run in campaign()
    ]
    verdict = verdict_of(runs, "service_memory")
    assert (verdict.verdict, verdict.absent) == ("not comparable", False)
    assert verdict.reason == ("1.0 has 0 usable of 5 runs, 2 are needed: 5 without it (the plan names no source)")


def test_a_side_without_enough_valid_runs_says_where_they_went() -> None:
    runs = spoiled(campaign(), "1.1", 3, achieved_rate_per_s=50.0)
    runs = spoiled(runs, "1.1", 1, failure="the service died")
    chosen = next(run for run in runs if run.run_id == "1.1-browse-r05")
    runs[runs.index(chosen)] = with_metric(
        chosen, "client_latency", latency(np.random.default_rng(1), drift_per_240_s=0.1)
    )
    verdict = verdict_of(runs, "client_latency")
    assert verdict.reason == (
        "1.1 has 1 usable of 5 runs, 2 are needed: 1 lost it to drift, 2 set aside by achieved rate, "
        "1 set aside by finished and achieved rate"
    )
    assert (verdict.baseline_repeats, verdict.candidate_repeats) == (5, 1)
    assert verdict_of(runs, "service_memory").verdict != "not comparable"


def test_a_scenario_that_only_one_side_ran_is_not_comparable() -> None:
    runs = [run for run in campaign() if not (run.version == "1.1" and run.scenario == "search")]
    verdict = verdict_of(runs, "client_latency", "search")
    assert verdict.reason == "1.1 has 0 usable of 0 runs, 2 are needed"
    assert verdict_of(runs, "client_latency").verdict == "equivalent"


def test_all_runs_of_a_side_set_aside_leave_no_verdict_at_all() -> None:
    runs = spoiled(campaign(), "1.1", 10, failure="k6 ended with 107")
    judgement = judge(runs, "1.0", "1.1", policy())
    assert {verdict.verdict for verdict in judgement.verdicts} == {"not comparable"}
    assert judgement.decision.answer == "not enough evidence"
    assert judgement.pooled == ()


def test_sides_in_different_environments_are_not_comparable_in_any_metric() -> None:
    runs = spoiled(campaign(shifts={"client_latency": 0.5}), "1.1", 10, environment={"kernel": "6.8"})
    judgement = judge(runs, "1.0", "1.1", policy())
    reasons = {verdict.reason for verdict in judgement.verdicts if not verdict.absent}
    assert len(reasons) == 1
    assert reasons.pop().startswith("the sides ran in different environments: cpu_model (model A, not unknown)")
    assert judgement.decision.answer == "not enough evidence"
    assert judgement.notes[0].startswith("browse: the sides ran in different environments")
    assert {run.status for run in judgement.runs} == {"passed"}


def test_a_run_in_another_environment_is_left_out_of_the_comparison() -> None:
    runs = spoiled(campaign(), "1.1", 1, environment={"kernel": "6.8"})
    verdict = verdict_of(runs, "client_latency")
    assert (verdict.baseline_repeats, verdict.candidate_repeats) == (5, 4)


def test_a_metric_whose_repeats_disagree_is_never_compared() -> None:
    rng = np.random.default_rng(2)
    runs = [
        with_metric(run, "client_latency", latency(rng, shift=1.0 * (run.repeat % 2))) if run.version == "1.1" else run
        for run in campaign()
    ]
    verdict = verdict_of(runs, "client_latency")
    assert verdict.verdict == "not comparable"
    assert verdict.reason.startswith("repeats of 1.1 disagree: repeats typically lie ")
    assert verdict_of(runs, "service_latency").verdict == "equivalent"


@pytest.mark.parametrize(("limits", "expected"), [("default", "inconclusive"), ("v2.18", "not comparable")])
def test_too_few_repeats_to_say_are_compared_or_not_as_the_policy_says(limits: str, expected: str) -> None:
    rng = np.random.default_rng(3)
    runs = [with_metric(run, "service_p99", number(rng, 30, run_cv=0.1)) for run in campaign()]
    verdict = verdict_of(runs, "service_p99", limits=policy(limits))
    assert verdict.verdict == expected
    if limits == "v2.18":
        assert "too few to say whether they agree" in verdict.reason

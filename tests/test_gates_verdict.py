import random
import subprocess
import sys
import time
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.gates.evidence import Missing, RunEvidence
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.verdict import QuestionError, judge
from tests.simulated_runs import campaign, latency, policy, with_metric

GREENNESS = {"regression": 0, "not enough evidence": 1, "no regression": 2}


def judged(runs: list[RunEvidence], **changes: object) -> Judgement:
    return judge(runs, "1.0", "1.1", policy(**changes))


def test_two_builds_that_are_the_same_give_no_regression() -> None:
    judgement = judged(campaign())
    assert judgement.decision.answer == "no regression"
    assert judgement.decision.exit_code == 0
    assert judgement.decision.headline.startswith("No regression found in 1.1 against 1.0: of 10 comparisons ")
    assert (judgement.policy_name, judgement.policy_version) == ("default", "1")


def test_a_slower_build_gives_a_regression_that_names_its_worst() -> None:
    judgement = judged(campaign(shifts={"client_latency": 0.25, "service_memory": 0.1}))
    assert (judgement.decision.answer, judgement.decision.exit_code) == ("regression", 1)
    assert judgement.decision.headline.startswith("1.1 is worse than 1.0: ")
    assert judgement.decision.known[0].startswith("client_latency regressed in 2 of 2 scenarios, most at p")
    assert judgement.decision.known[1].startswith("service_memory regressed in ")


def test_new_errors_alone_are_a_regression() -> None:
    judgement = judged(campaign(shifts={"http_error_rate": 0.01}))
    assert judgement.decision.answer == "regression"
    assert "http_error_rate in " in judgement.decision.headline
    assert "points" in judgement.decision.headline


def test_a_faster_build_is_no_regression_and_says_so() -> None:
    judgement = judged(campaign(shifts={"client_latency": -0.3}))
    assert judgement.decision.answer == "no regression"
    assert any(sentence.startswith("client_latency improved in 2 of 2") for sentence in judgement.decision.known)
    assert "2 improved" in judgement.decision.headline


def test_too_little_evidence_is_no_green() -> None:
    judgement = judged(campaign(run_cv=0.04, repeats=2))
    assert judgement.decision.answer == "not enough evidence"
    assert judgement.decision.exit_code == 0
    assert "50 % are needed; none regressed" in judgement.decision.headline
    assert any("would settle" in sentence for sentence in judgement.decision.not_known)


def test_the_policy_says_how_much_evidence_is_enough() -> None:
    runs = campaign(run_cv=0.04, repeats=2)
    assert judged(runs, decision__min_decided_share=0.0).decision.answer == "no regression"


def test_a_control_that_moved_comes_first_and_takes_the_green() -> None:
    judgement = judged(campaign(shifts={"upstream_latency": 0.3}))
    assert judgement.negative_control.status == "moved"
    assert judgement.decision.answer == "not enough evidence"
    assert judgement.decision.headline.startswith("The negative control upstream_latency moved in 2 of 2 scenarios")
    worse = judged(campaign(shifts={"upstream_latency": 0.3, "client_latency": 0.3}))
    assert worse.decision.answer == "regression"
    assert worse.decision.headline.startswith("The negative control upstream_latency moved")


def test_the_control_itself_is_never_the_regression() -> None:
    judgement = judged(campaign(shifts={"upstream_latency": 0.3}))
    control = [verdict for verdict in judgement.verdicts if verdict.metric == "upstream_latency"]
    assert {verdict.verdict for verdict in control} == {"regression"}
    assert judgement.decision.exit_code == 0


def test_a_version_that_loses_its_own_runs_is_not_judged_by_the_survivors() -> None:
    """Half of the candidate's runs miss the load; the other half look fine."""
    runs = [
        replace(run, achieved_rate_per_s=80.0) if run.version == "1.1" and run.repeat <= 3 else run
        for run in campaign(scenarios=["a", "b", "c"])
    ]
    judgement = judged(runs)
    assert judgement.decision.answer == "not enough evidence"
    assert "9 of 15 runs of 1.1 and from 0 of 15 of 1.0, too uneven for chance" in judgement.decision.headline
    both = [replace(run, achieved_rate_per_s=80.0) if run.repeat <= 3 else run for run in campaign()]
    assert "uneven" not in judged(both).decision.headline


def test_nothing_asked_for_is_no_evidence() -> None:
    absent = Missing("the plan names no source", absent=True)
    runs = [replace(run, metrics=dict.fromkeys(run.metrics, absent)) for run in campaign()]
    judgement = judged(runs)
    assert judgement.decision.answer == "not enough evidence"
    assert "no metric was asked for" in judgement.decision.headline
    assert judgement.agreement == ()


def test_what_gate_1_could_not_check_is_noted() -> None:
    runs = [replace(run, throttled_share=None) for run in campaign()]
    assert "Gate 1: CPU throttling was not measured in 20 of 20 runs." in judged(runs).notes


@pytest.mark.parametrize(
    ("baseline", "candidate", "message"),
    [
        ("1.0", "2.0", r"there is no run of 2\.0; the runs hold 1\.0, 1\.1"),
        ("0.9", "2.0", r"there is no run of 0\.9 or 2\.0"),
        ("1.0", "1.0", r"1\.0 cannot be compared with itself"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(baseline: str, candidate: str, message: str) -> None:
    with pytest.raises(QuestionError, match=message) as raised:
        judge(campaign(), baseline, candidate, policy())
    assert raised.value.versions == ("1.0", "1.1")


def test_two_runs_of_one_name_are_refused() -> None:
    runs = campaign()
    with pytest.raises(QuestionError, match=r"several runs are called 1\.0-browse-r01"):
        judge([*runs, runs[0]], "1.0", "1.1", policy())


def test_runs_of_other_versions_have_no_say() -> None:
    runs = campaign()
    others = [replace(run, version="0.9", run_id=f"other-{run.run_id}") for run in campaign(seed=2)]
    assert judged([*others, *runs]) == judged(runs)


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([3, 8]))
def test_the_order_of_runs_changes_nothing(order: random.Random, repeats: int) -> None:
    runs = campaign(scenarios=["browse"], repeats=repeats, run_cv=0.03)
    shuffled = list(runs)
    order.shuffle(shuffled)
    assert judged(shuffled) == judged(runs)


@settings(max_examples=15, deadline=None)
@given(
    st.sets(st.integers(0, 19), min_size=1),
    st.sampled_from([0.0, 0.08, 0.3]),
    st.sampled_from([0.01, 0.03]),
    st.sampled_from([0.2, 0.5, 0.9, 1.0]),
    st.integers(0, 10),
)
def test_a_metric_that_should_be_there_and_is_not_never_makes_a_decision_greener(
    which: set[int], shift: float, run_cv: float, enough: float, seed: int
) -> None:
    """The same evidence, but some runs should have had GraphQL errors counted."""
    runs = campaign(seed=seed, shifts={"client_latency": shift}, run_cv=run_cv)
    missing = Missing("graphql_errors is not in k6.csv")
    poorer = [
        with_metric(run, "graphql_error_rate", missing) if number in which else run for number, run in enumerate(runs)
    ]
    before, after = (
        judged(evidence, decision__min_decided_share=enough).decision.answer for evidence in (runs, poorer)
    )
    assert GREENNESS[after] <= GREENNESS[before]


def test_a_metric_missing_everywhere_lowers_the_share_of_answers() -> None:
    runs = [with_metric(run, "graphql_error_rate", Missing("graphql_errors is not in k6.csv")) for run in campaign()]
    judgement = judged(runs)
    assert "of 12 comparisons" in judgement.decision.headline
    assert any(sentence.startswith("graphql_error_rate could not be compared in 2 of 2") for sentence in
               judgement.decision.not_known)  # fmt: skip


def numbers_in(value: object) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_in(item)]
    if isinstance(value, list | tuple):
        return [number for item in value for number in numbers_in(item)]
    return [value] if isinstance(value, float) else []


def nasty(run: RunEvidence) -> list[RunEvidence]:
    """Evidence at the edges of what can be measured."""
    rng = np.random.default_rng(1)
    wide = replace(latency(rng), log_bucket_width=np.full(21, np.inf))
    short = latency(rng, sub_windows=1, sub_window_s=1.0)
    wild = replace(latency(rng), levels=np.linspace(0, 300, 24))
    holed = replace(latency(rng), half_shapes=np.full((2, 200), np.nan), levels=np.full(24, np.nan))
    return [with_metric(run, "client_latency", sample) for sample in (wide, short, wild, holed)]


def test_no_finding_holds_a_number_that_is_none() -> None:
    """nan and inf cannot be written to JSON, and nobody can read them."""
    runs = campaign()
    for index in range(4):
        spoiled = [nasty(run)[index] for run in runs]
        assert all(np.isfinite(numbers_in(asdict(judged(spoiled)))))


def test_the_gates_are_imported_in_a_moment() -> None:
    """Within 1.5 s also on a busy machine: neither scipy.stats nor statsmodels is needed to judge."""
    heavy = subprocess.run(
        [sys.executable, "-c", "import sys, perf_pipeline.gates.verdict as _; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert not {"scipy.stats", "statsmodels", "matplotlib", "duckdb", "pyarrow"} & set(heavy)


def test_when_nothing_changed_no_campaign_calls_a_regression() -> None:
    """60 campaigns of 5 comparisons: with none among them the true rate is below 5 % with 95 % confidence."""
    answers = [judged(campaign(seed=seed, scenarios=["browse"], run_cv=0.03)).decision.answer for seed in range(60)]
    assert "regression" not in answers


def test_500_runs_are_judged_in_seconds() -> None:
    runs = campaign(scenarios=[f"graph-{number}" for number in range(50)])
    assert len(runs) == 500
    start = time.process_time()
    judged(runs)
    assert time.process_time() - start < 5

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import multivariate_normal, norm

from perf_pipeline.gates.evidence import Design, RunEvidence
from perf_pipeline.gates.looks import Look, look_at, notes_on_looks, settled, tail_at
from perf_pipeline.gates.policy import Spending
from perf_pipeline.gates.verdict import judge
from tests.simulated_runs import campaign, policy

LOOKS = (5, 8, 12)
SPENDINGS: tuple[Spending, ...] = ("pocock", "obrien-fleming")


def planned(runs: list[RunEvidence], looks: tuple[int, ...] = LOOKS) -> list[RunEvidence]:
    return [replace(run, design=Design(looks=looks)) for run in runs]


@pytest.mark.parametrize("spending", SPENDINGS)
def test_a_single_look_has_everything(spending: Spending) -> None:
    assert tail_at(7, (7,), spending, 0.025) == pytest.approx(0.025)


def test_two_looks_are_those_of_the_literature() -> None:
    """Pocock has 2.178 twice for equal looks at 2.5 %, O'Brien and Fleming end at 1.977: spending comes near both."""
    pocock = [norm.isf(tail_at(n, (5, 10), "pocock", 0.025)) for n in (5, 10)]
    assert pocock == pytest.approx([2.157, 2.201], abs=0.002)
    obrien = [norm.isf(tail_at(n, (5, 10), "obrien-fleming", 0.025)) for n in (5, 10)]
    assert obrien == pytest.approx([2.963, 1.969], abs=0.002)


@pytest.mark.parametrize("spending", SPENDINGS)
@pytest.mark.parametrize("looks", [(5, 8, 12), (4, 5), (3, 6, 9, 12)])
def test_over_all_looks_as_much_is_spent_as_in_one(spending: Spending, looks: tuple[int, ...]) -> None:
    """Against the multivariate normal distribution of the statistics at all looks."""
    limits = norm.isf([tail_at(look, looks, spending, 0.025) for look in looks])
    correlation = np.array([[min(a, b) / np.sqrt(a * b) for a in looks] for b in looks])
    inside = multivariate_normal(cov=correlation, seed=0).cdf(limits)
    assert 1 - inside == pytest.approx(0.025, abs=2e-4)


@pytest.mark.parametrize("spending", SPENDINGS)
def test_t_intervals_of_growing_samples_miss_as_rarely_as_one_look(spending: Spending) -> None:
    """A mean with an estimated variance, seen at 5 + 5, 8 + 8 and 12 + 12 runs: any interval misses the truth."""
    rng, tries = np.random.default_rng(1), 20_000
    runs = rng.normal(size=(2, 12, tries))
    missed = np.zeros(tries, dtype=bool)
    for look in LOOKS:
        means, variances = runs[:, :look].mean(axis=1), runs[:, :look].var(axis=1, ddof=1)
        error = np.sqrt(variances.sum(axis=0) / look)
        missed |= np.abs(means[1] - means[0]) > stdtrit(2 * look - 2, 1 - tail_at(look, LOOKS, spending, 0.025)) * error
    assert missed.mean() <= 0.054


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(2, 40), min_size=2, max_size=5, unique=True), st.integers(1, 50))
def test_no_look_has_more_than_a_single_one(looks: list[int], repeats: int) -> None:
    for spending in SPENDINGS:
        assert 0 < tail_at(repeats, tuple(sorted(looks)), spending, 0.025) <= 0.025 + 1e-9


def test_a_look_that_was_not_planned_spends_what_its_repeats_allow_and_none_is_beyond_the_last() -> None:
    planned_looks = [tail_at(look, LOOKS, "pocock", 0.025) for look in LOOKS]
    between = tail_at(6, LOOKS, "pocock", 0.025)
    assert 0 < between < planned_looks[1]
    assert tail_at(15, LOOKS, "pocock", 0.025) == planned_looks[2]


def test_each_scenario_is_at_the_look_that_its_repeats_have_reached() -> None:
    runs = planned([*campaign(scenarios=["browse"]), *campaign(scenarios=["search"], repeats=8)])
    judgement = judge(runs, "1.0", "1.1", policy())
    seen = {verdict.scenario: verdict for verdict in judgement.verdicts if verdict.tail is not None}
    for scenario, number, repeats in (("browse", 1, 5), ("search", 2, 8)):
        assert seen[scenario].look == number
        assert seen[scenario].tail == pytest.approx(tail_at(repeats, LOOKS, "pocock", 0.025))
    assert judgement.looks == LOOKS
    assert "Looks at 5, 8, 12 repeats were planned: 1 scenario at look 1, 1 scenario at look 2." in judgement.notes


def test_a_look_that_nobody_planned_is_on_record() -> None:
    judgement = judge(planned(campaign(scenarios=["browse"], repeats=6)), "1.0", "1.1", policy())
    assert judgement.verdicts[0].look == 2
    assert "No look was planned at the repeats of browse; it spends what they allow." in judgement.notes


def test_a_run_that_forgets_its_plan_lends_its_scenario_nothing() -> None:
    runs = campaign(scenarios=["browse"])
    first = tail_at(5, LOOKS, "pocock", 0.025)
    assert look_at(planned(runs), "pocock", 0.025) == Look(1, first)
    assert look_at([replace(runs[0], design=None), *planned(runs[1:])], "pocock", 0.025) == Look(None, first)
    second = tail_at(5, (4, 5), "pocock", 0.025)
    assert second < first
    assert look_at([*planned(runs[:1], (4, 5)), *planned(runs[1:])], "pocock", 0.025) == Look(None, second)
    assert look_at([*planned(runs[:1], (2, 12)), *planned(runs[1:], (5,))], "pocock", 0.025).tail < 0.025
    for alike in (runs, planned(runs, (5,)), [*planned(runs[:3], (5,)), *runs[3:]]):
        assert look_at(alike, "pocock", 0.025) == Look(None, 0.025)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(10)), st.integers(1, 9))
def test_the_tail_of_different_looks_is_the_smallest_of_them_in_any_order(order: list[int], without: int) -> None:
    runs = campaign(scenarios=["browse"])
    mixed = [*runs[:without], *planned(runs[without:])]
    assert look_at([mixed[at] for at in order], "pocock", 0.025) == Look(None, tail_at(5, LOOKS, "pocock", 0.025))


def test_looks_that_are_not_those_of_one_plan_are_noted() -> None:
    runs = campaign(scenarios=["browse"], repeats=6)
    assert list(notes_on_looks({"browse": planned(runs, (3, 6))})) == []
    assert list(notes_on_looks({"browse": runs})) == []
    assert list(notes_on_looks({"browse": planned(runs, (5, 8))})) == [
        "No look was planned at the repeats of browse; it spends what they allow."
    ]
    (beyond,) = notes_on_looks({"browse": planned(runs, (3, 5)), "search": planned(runs, (3, 6))})
    assert beyond.startswith("The repeats of browse lie beyond the last look that was planned, where nothing is left")
    (mixed,) = notes_on_looks({"browse": [*planned(runs[:3], (3, 6)), *runs[3:]]})
    assert mixed == "Runs of browse name different looks: the smallest tail of those named counts."


def test_a_look_widens_every_interval() -> None:
    runs = campaign(scenarios=["browse"], error_rate=0.001)
    once, first = (judge(some, "1.0", "1.1", policy()).verdicts for some in (runs, planned(runs)))
    for single, one_of_three in itertools.filterfalse(lambda pair: pair[0].low is None, zip(once, first, strict=True)):
        assert single.low is not None
        assert one_of_three.low is not None
        assert one_of_three.low < single.low
        assert (single.smallest_detectable or 0) < (one_of_three.smallest_detectable or 0)


def test_scenarios_with_all_answers_are_settled_and_those_without_are_not() -> None:
    quiet = campaign(scenarios=["quiet"], run_cv=0.01)
    noisy = campaign(3, scenarios=["noisy"], run_cv=0.12)
    broken = [
        replace(run, failure="the service died") if run.version == "1.1" else run
        for run in campaign(4, scenarios=["broken"], run_cv=0.01)
    ]
    assert settled(judge(planned([*quiet, *noisy, *broken]), "1.0", "1.1", policy())) == ("quiet",)


def test_what_more_repeats_cannot_answer_keeps_no_scenario_open() -> None:
    """Buckets wider than the zone at some percentiles: inside the zone but for what cannot be seen."""
    runs = [
        replace(
            run,
            metrics={
                metric: replace(sample, log_bucket_width=np.r_[np.full(20, 0.005), 0.3])
                if metric == "client_latency"
                else sample
                for metric, sample in run.metrics.items()
            },
        )
        for run in campaign(scenarios=["coarse"], run_cv=0.01)
    ]
    judgement = judge(planned(runs), "1.0", "1.1", policy())
    assert judgement.verdicts[0].verdict == "inconclusive"
    assert settled(judgement) == ("coarse",)

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from perf_pipeline.gates.evidence import Design, RunEvidence
from perf_pipeline.gates.past import earlier_spreads, noise_of
from perf_pipeline.gates.power import ErrorNoise, Noise, Sight, what_can_be_seen
from perf_pipeline.gates.verdict import judge
from tests.simulated_runs import campaign, policy

ALONE = policy(change__moderation__enabled=False)


def one(cv: float, repeats: int, metric: str = "client_latency", **how: object) -> Sight:
    noise = {("browse", metric): Noise(np.array([cv]))}
    (sight,) = what_can_be_seen(noise, repeats, how.pop("limits", ALONE), **how)  # type: ignore[arg-type]
    return sight


@pytest.mark.parametrize(
    ("metric", "repeats", "cv"),
    [
        ("service_p99", 5, 0.021),
        ("service_p99", 10, 0.032),
        ("client_latency", 5, 0.041),
        ("client_latency", 20, 0.091),
    ],
)
def test_the_largest_noise_that_proves_equivalence_is_that_of_the_reference(
    metric: str, repeats: int, cv: float
) -> None:
    """Statistics reference, section 3: 80 % power to prove equivalence when nothing changed, 95 % interval."""
    assert one(cv, repeats, metric).equivalent_chance == pytest.approx(0.80, abs=0.025)
    needed = one(cv, repeats, metric).repeats_needed
    assert needed is not None
    assert abs(needed - repeats) <= 1


def test_the_smallest_detectable_change_is_that_of_the_reference() -> None:
    found = one(0.02, 5).smallest_detectable
    assert found == pytest.approx(0.146, abs=0.002)


def test_scenarios_that_are_alike_see_more_together() -> None:
    noise = {(f"s{number}", "client_latency"): Noise(np.array([0.05])) for number in range(20)}
    (alone, *_), (together, *_) = (what_can_be_seen(noise, 5, limits) for limits in (ALONE, policy()))
    assert together.equivalent_chance > alone.equivalent_chance + 0.05
    assert (together.smallest_detectable or 0) < (alone.smallest_detectable or 0)
    assert (together.repeats_needed or 0) <= (alone.repeats_needed or 0)


def test_the_chance_of_equivalent_is_what_campaigns_show() -> None:
    """Ten scenarios of one noise: what is said from the noise against how often the gates say equivalent."""
    scenarios = [f"s{number}" for number in range(10)]
    said = what_can_be_seen({(name, "service_p99"): Noise(np.array([0.025])) for name in scenarios}, 5, policy())
    found = [
        verdict.verdict == "equivalent"
        for seed in range(12)
        for verdict in judge(campaign(seed, scenarios=scenarios, run_cv=0.025), "1.0", "1.1", policy()).verdicts
        if verdict.metric == "service_p99"
    ]
    assert np.mean(found) == pytest.approx(said[0].equivalent_chance, abs=0.12)


def test_several_looks_see_less_than_one_at_the_end() -> None:
    once, thrice = one(0.05, 12), one(0.05, 12, design=Design(looks=(5, 8, 12)))
    assert thrice.equivalent_chance < once.equivalent_chance
    assert (thrice.smallest_detectable or 0) > (once.smallest_detectable or 0)


def test_pairs_have_half_of_the_degrees_of_freedom() -> None:
    paired = one(0.02, 5, design=Design(paired=True))
    t = stats.t.ppf([0.975, 0.8], 4).sum()
    assert math.log1p(paired.smallest_detectable or 0) == pytest.approx(
        math.log1p(0.1) + t * 0.02 * math.sqrt(2 / 5), rel=1e-6
    )


def test_errors_are_seen_by_their_number() -> None:
    noise = {
        ("none", "http_error_rate"): ErrorNoise(0.0, 1_000),
        ("few", "http_error_rate"): ErrorNoise(0.001, 20_000),
        ("many", "http_error_rate"): ErrorNoise(0.01, 20_000, 3.0),
    }
    none, few, many = what_can_be_seen(noise, 5, policy())
    # 3.7 / n is below 0.1 points from 3,700 requests on: four runs of a thousand.
    assert (none.equivalent_chance, none.repeats_needed) == (1.0, 4)
    assert few.equivalent_chance > many.equivalent_chance
    assert (few.repeats_needed or 0) < (many.repeats_needed or 0)
    assert 0.001 < (few.smallest_detectable or 0) < (many.smallest_detectable or 0)


def test_the_noise_of_a_pilot_is_found_again_in_every_metric_that_it_measured() -> None:
    pilot = campaign(2, scenarios=["browse"], repeats=30, run_cv=0.04, error_rate=0.002)
    # What the versions differ by is no noise.
    shifted = [replace(run, version="0.9") for run in pilot if run.version == "1.1"]
    noise = noise_of([*(run for run in pilot if run.version == "1.0"), *shifted], policy())
    assert {metric for _, metric in noise} == {
        "client_latency", "service_latency", "service_p99", "service_memory", "http_error_rate", "upstream_latency",
    }  # fmt: skip
    latency, errors = noise["browse", "client_latency"], noise["browse", "http_error_rate"]
    assert isinstance(latency, Noise)
    assert latency.sd[9] == pytest.approx(0.04, rel=0.25)
    assert 1 / 21 <= latency.band_share < 1
    assert isinstance(errors, ErrorNoise)
    assert errors.rate == pytest.approx(0.002, rel=0.1)
    assert errors.requests == 20_000


def in_pairs(runs: list[RunEvidence]) -> list[RunEvidence]:
    return [replace(run, design=Design(paired=True)) for run in runs]


def test_noise_of_pairs_is_that_of_one_run_without_what_a_block_shares() -> None:
    runs = in_pairs(campaign(2, scenarios=["browse"], repeats=30, run_cv=0.04))
    found = noise_of(runs, policy())["browse", "service_p99"]
    assert isinstance(found, Noise)
    assert found.sd[0] == pytest.approx(0.04, rel=0.25)


def test_earlier_campaigns_are_one_spread_for_each_scenario_over_the_runs_that_gate_1_lets_through() -> None:
    runs = campaign(2)
    failed = [replace(runs[0], failure="died"), *runs[1:]]
    spreads = earlier_spreads([runs, failed], policy())
    assert [spread.df for spread in spreads["client_latency"]] == pytest.approx([8, 8, 6.568, 8], abs=1e-3)
    assert [spread.earlier for spread in spreads["client_latency"]] == [1, 1, 2, 2]
    assert "http_error_rate" not in spreads
    assert earlier_spreads([runs, []], ALONE) == {}
    assert [spread.df for spread in earlier_spreads([in_pairs(runs)], policy())["service_memory"]] == pytest.approx(
        [4, 4]
    )

"""The rules of other systems, held against what their authors say of them."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, ttest_ind

from perf_pipeline.gates.evidence import LatencySample
from perf_pipeline.simulation.campaign import Campaign
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.peers import PEERS, benchstat, kayenta, otava
from perf_pipeline.simulation.run_effects import RunEffects, Seconds, Shift
from perf_pipeline.simulation.scenario import Latency, Scenario

Sides = tuple[list[LatencySample], list[LatencySample]]


def sides(seed: int, change: float, run_cv: float = 0.02) -> Sides:
    latency = Latency(12.0, effects=RunEffects(run_cv), seconds=Seconds(0.02))
    scenario = Scenario("s", 500.0, {"client_latency": latency}, changes={"client_latency": Shift(change)})
    samples = [run.metrics["client_latency"] for run in simulate(Campaign((scenario,)), seed)]
    return samples[:5], samples[5:]


@pytest.mark.parametrize("name", PEERS)
def test_every_rule_calls_a_change_of_a_third(name: str) -> None:
    assert PEERS[name](*sides(1, 0.3), np.random.default_rng(1))


@pytest.mark.parametrize("name", PEERS)
def test_no_rule_calls_a_change_where_the_sides_are_the_same_runs(name: str) -> None:
    baseline, _ = sides(1, 0.0)
    assert not PEERS[name](baseline, baseline, np.random.default_rng(1))


@pytest.mark.parametrize("seed", range(8))
def test_benchstat_and_otava_are_the_tests_that_they_say(seed: int) -> None:
    pair, rng = sides(seed, 0.03), np.random.default_rng(1)
    medians = [np.exp([sample.log_quantiles[9] for sample in side]) for side in pair]
    exact = mannwhitneyu(*medians, method="exact").pvalue < 0.05
    assert benchstat(*pair, rng) == exact
    # Otava divides by n where Student divides by n - 1: its t is larger by sqrt(5 / 4).
    t = ttest_ind(*medians).statistic * np.sqrt(5 / 4)
    assert otava(*pair, rng) == (abs(t) > 5.0413)


def test_kayenta_takes_points_in_time_for_independent_ones() -> None:
    """Run effects of 2 % are shared by all points of a run, which its interval knows nothing of."""
    called = [kayenta(*sides(seed, 0.0), np.random.default_rng(1)) for seed in range(20)]
    assert np.mean(called) > 0.2

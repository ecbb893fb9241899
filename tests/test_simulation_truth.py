"""The truth of a campaign: the same for the same seed, and what its description says."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from perf_pipeline.gates.evidence import PERCENTILES
from perf_pipeline.simulation.campaign import Campaign, Incident, RunKey, Step, named
from perf_pipeline.simulation.run_effects import RunEffects, Seconds, Shift
from perf_pipeline.simulation.scenario import Errors, Latency, Memory, Scenario, every_metric
from perf_pipeline.simulation.shapes import LogNormal
from perf_pipeline.simulation.truth import draw_truth, log_change

QUIET = RunEffects(level=0.0)


def one_latency(effects: RunEffects = QUIET, **described: object) -> Scenario:
    return Scenario("s", latencies={"client_latency": Latency(10.0, LogNormal(0.4), effects)}, **described)


def test_the_same_seed_draws_the_same_truth_and_another_one_does_not() -> None:
    campaign = Campaign(named(every_metric(), 2), repeats=3)
    first, again, other = (draw_truth(campaign, seed).latencies["client_latency"].level for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_describing_one_more_metric_changes_nothing_in_the_others() -> None:
    scenario = one_latency(RunEffects(0.02))
    more = replace(scenario, memory=Memory(), errors={"http_error_rate": Errors(0.01, 0.5)})
    alone, beside = (draw_truth(Campaign((one,)), 3).latencies["client_latency"].level for one in (scenario, more))
    assert np.array_equal(alone, beside)


def test_a_change_is_in_the_candidate_alone_and_known_at_every_percentile() -> None:
    scenario = one_latency(changes={"client_latency": Shift(level=0.05, spread=0.1, tail=0.2)})
    truth = draw_truth(Campaign((scenario,), repeats=2), 1).latencies["client_latency"]
    scores = np.broadcast_to(ndtri(np.array(PERCENTILES) / 100), (4, len(PERCENTILES)))
    logs = truth.log_latency(scores)
    np.testing.assert_allclose(logs[2:] - logs[:2], [log_change(scenario, "client_latency")] * 2, atol=1e-9)
    change = log_change(scenario, "client_latency")
    assert change[PERCENTILES.index(50.0)] == pytest.approx(0.05)
    assert change[PERCENTILES.index(99.0)] == pytest.approx(0.05 + 0.1 * 0.4 * ndtri(0.99) + 0.2)


def test_changes_of_numbers_and_of_error_rates_are_known() -> None:
    scenario = Scenario(
        "s",
        latencies={"service_latency": Latency(10.0, effects=QUIET)},
        memory=Memory(effects=QUIET, seconds=Seconds()),
        errors={"http_error_rate": Errors(0.001)},
        changes={"service_latency": Shift(tail=0.1), "service_memory": Shift(level=0.03)},
        rate_changes={"http_error_rate": 0.004},
    )
    truth = draw_truth(Campaign((scenario,), repeats=1), 1)
    assert log_change(scenario, "service_p99") == pytest.approx([0.1])
    assert np.diff(truth.memory.log_bytes[:, 0]) == pytest.approx([log_change(scenario, "service_memory")[0]])
    assert truth.errors["http_error_rate"].rates == pytest.approx([0.001, 0.005])


def test_run_effects_have_the_described_size_on_level_spread_and_tail() -> None:
    effects = RunEffects(level=0.02, spread=0.05, tail=0.04)
    truth = draw_truth(Campaign(named(one_latency(effects), 100), repeats=20), 5).latencies["client_latency"]
    assert truth.level.std() == pytest.approx(0.02, rel=0.05)
    assert truth.stretch.std() == pytest.approx(0.05, rel=0.05)
    assert truth.tail.std() == pytest.approx(0.04, rel=0.05)


def test_runs_of_one_block_share_its_effect_and_others_do_not() -> None:
    campaign = Campaign(named(one_latency(RunEffects(level=0.0, block=0.03)), 2), repeats=4)
    level = draw_truth(campaign, 1).latencies["client_latency"].level.reshape(2, 2, 4)
    assert np.array_equal(level[:, 0], level[:, 1])
    assert len(np.unique(level)) == 8


def test_scenarios_differ_in_noise_by_factors_of_mean_1_that_the_truth_tells() -> None:
    campaign = Campaign(named(one_latency(RunEffects(0.02)), 2000), repeats=5, differing_noise=0.4)
    truth = draw_truth(campaign, 1)
    factors = np.array([truth.noise[scenario.name, "client_latency"] for scenario in campaign.scenarios])
    assert factors.mean() == pytest.approx(1, abs=0.03)
    assert np.log(factors).std() == pytest.approx(0.4, abs=0.02)
    spread = truth.latencies["client_latency"].level.reshape(2000, 10).std(axis=1, ddof=1)
    assert np.corrcoef(spread, factors)[0, 1] > 0.8


def test_over_dispersed_errors_scatter_around_their_rate() -> None:
    scenario = Scenario("s", errors={"http_error_rate": Errors(0.002, 0.5)})
    rates = draw_truth(Campaign(named(scenario, 400)), 1).errors["http_error_rate"].rates
    assert rates.mean() == pytest.approx(0.002, rel=0.05)
    assert rates.var() / 0.002**2 == pytest.approx(0.5, rel=0.15)


def test_an_incident_befalls_its_run_alone() -> None:
    incident = Incident(
        shifts={"client_latency": Shift(level=0.15)},
        drifts={"client_latency": 0.08},
        steps={"client_latency": Step(0.2, at_share=0.5)},
        load_share=0.5,
    )
    campaign = Campaign((one_latency(),), repeats=3, incidents={RunKey("1.1", "s", 2): incident})
    plain, truth = draw_truth(replace(campaign, incidents={}), 1), draw_truth(campaign, 1)
    moved = truth.latencies["client_latency"].level - plain.latencies["client_latency"].level
    assert moved == pytest.approx([0, 0, 0, 0, 0.15, 0])
    seconds = truth.latencies["client_latency"].seconds
    assert not seconds[[0, 1, 2, 3, 5]].any()
    assert seconds[4, -1] - seconds[4, 0] == pytest.approx(0.2 + 0.08 * 239 / 240)
    assert truth.requests.tolist() == [24_000] * 4 + [12_000, 24_000]

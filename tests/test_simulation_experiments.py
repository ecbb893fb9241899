"""Experiments where the answer is beyond doubt have to count it. How often the gates are right is not asked here."""

import numpy as np
import pytest

from perf_pipeline.gates.findings import PercentileChange, Verdict
from perf_pipeline.simulation import experiments
from perf_pipeline.simulation.counting import changed, covered, share_of, total, without_zero
from perf_pipeline.simulation.truth import draw_truth
from tests.simulated_runs import policy


@pytest.fixture(autouse=True)
def small_campaigns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "SCENARIOS", 9)
    monkeypatch.setattr(experiments, "FEW_SCENARIOS", 4)


def of_all(pair: tuple[float, float]) -> float:
    return pair[0] / pair[1]


def test_a_change_of_twice_as_much_is_a_regression_everywhere() -> None:
    assert experiments.worse_everywhere(1, policy(), change=1.0, run_cv=0.01)["regression"] == (9, 9)


def test_nothing_is_equivalent_where_runs_differ_by_half() -> None:
    counts = experiments.equivalence(1, policy(), run_cv=0.5)
    assert {pair[0] for pair in counts.values()} == {0}


def test_everything_is_equivalent_where_runs_hardly_differ() -> None:
    counts = experiments.equivalence(1, policy(), run_cv=0.003)
    assert {of_all(pair) for pair in counts.values()} == {1}


def test_a_drift_without_noise_is_found_and_noise_without_a_drift_is_not() -> None:
    steep = experiments.drift(1, policy(), autocorrelation=0.5, second_sd=0.001, per_240_s=0.1)["failed"]
    level = experiments.drift(1, policy(), autocorrelation=0.0, second_sd=0.001)["failed"]
    assert (of_all(steep), of_all(level)) == (1, 0)


def test_a_repeat_at_twice_the_latency_is_named() -> None:
    counts = experiments.outlier(1, policy(), shift=1.0, run_cv=0.005)
    assert of_all(counts["named"]) == 1


def test_the_edge_campaign_lies_on_the_edge_of_every_zone() -> None:
    campaign = experiments.edge_campaign(policy())
    zone = policy().change.zone
    rates = draw_truth(campaign, 1).errors["http_error_rate"].rates.reshape(-1, 2, 5).mean(axis=(0, 2))
    assert rates[1] - rates[0] == pytest.approx(zone["http_error_rate"], rel=0.5)
    for scenario in campaign.scenarios:
        largest = {metric: max(shift.level, shift.tail) for metric, shift in scenario.changes.items()}
        assert largest["client_latency"] == pytest.approx(np.log1p(zone["client_latency"]))
        assert largest["service_memory"] == pytest.approx(np.log1p(zone["service_memory"]))
        assert largest["service_latency"] == pytest.approx(np.log1p(zone["service_p99"]))


def verdict(name: str = "inconclusive", low: float | None = None, high: float | None = None, percentiles=()) -> Verdict:
    nothing = dict.fromkeys(
        ("estimate", "zone_low", "zone_high", "smallest_detectable", "repeats_to_settle", "deciding_percentile"),
    ) | dict.fromkeys(("baseline_value", "candidate_value", "df"))
    return Verdict(
        scenario="s", metric="client_latency", verdict=name, reason="", low=low, high=high, percentiles=percentiles,
        unit="ms", baseline_repeats=5, candidate_repeats=5, **nothing,
    )  # fmt: skip


def percentile(low: float, high: float, wider: float = 0.01) -> PercentileChange:
    return PercentileChange(50.0, 0.0, low, high, low - wider, high + wider, 10.0, 10.0)


def test_what_is_counted_of_a_verdict() -> None:
    assert [changed(verdict(name)) for name in ("regression", "improvement", "equivalent")] == [True, True, False]
    assert without_zero(verdict(low=0.01, high=0.02)) and not without_zero(verdict(low=-0.01, high=0.02))
    assert not without_zero(verdict(percentiles=(percentile(0.005, 0.1), percentile(-0.1, 0.1))))
    assert without_zero(verdict(percentiles=(percentile(0.02, 0.1), percentile(-0.1, 0.1))))
    assert covered(verdict(percentiles=(percentile(0.02, 0.1), percentile(-0.1, 0.1))), np.array([0.0, 0.0])) == (1, 2)
    assert covered(verdict(low=0.01, high=0.02), np.array([0.015])) == (1, 1)
    assert covered(verdict(), np.array([0.015])) == (0, 0)


def test_sums_and_shares() -> None:
    assert share_of([True, False, True]) == (2, 3)
    assert total([(1, 2), (3, 4)]) == (4, 6)

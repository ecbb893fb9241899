import math

import numpy as np
import pytest

from perf_pipeline.gates.error_rates import rate, rate_difference
from perf_pipeline.gates.evidence import ErrorSample
from perf_pipeline.gates.intervals import Difference
from perf_pipeline.gates.rate_change import compare_rates
from perf_pipeline.gates.sensitivity import fewest_repeats, smallest_detectable, smallest_detectable_rate
from tests.simulated_runs import policy


def spread(sd: float, runs: int, statistics: int = 1) -> Difference:
    variance = np.full(statistics, sd**2)
    return Difference(
        np.zeros(statistics), (variance, variance), (runs, runs), np.zeros(statistics, dtype=bool), np.zeros(statistics)
    )


@pytest.mark.parametrize(
    ("cv", "runs", "zone", "expected"),
    [(0.02, 5, 0.05, 0.093), (0.02, 5, 0.10, 0.146), (0.02, 10, 0.10, 0.130), (0.05, 5, 0.05, 0.162)],
)
def test_a_single_number_needs_the_change_of_the_reference(cv: float, runs: int, zone: float, expected: float) -> None:
    """Statistics reference, section 3: true change for 80 % power to clear the zone."""
    found = smallest_detectable(spread(cv, runs), math.log1p(zone), 0.025, 0.025, np.zeros(1), 0.80)
    assert math.expm1(found) == pytest.approx(expected, abs=0.002)


def test_a_campaign_of_many_comparisons_asks_for_more_only_where_noise_is_large() -> None:
    edge = math.log1p(0.05)
    small, large = spread(0.01, 5), spread(0.10, 5)
    in_250 = 0.025 / 250

    def needed(noise: Difference, campaign_tail: float) -> float:
        return smallest_detectable(noise, edge, 0.025, campaign_tail, np.zeros(1), 0.8)

    assert needed(small, in_250) == needed(small, 0.025)
    assert needed(large, in_250) > 1.5 * needed(large, 0.025)


def test_what_cannot_be_resolved_cannot_be_detected() -> None:
    edge, found = math.log(1.1), spread(0.02, 5, statistics=4)
    most = smallest_detectable(found, edge, 0.01, 0.01, np.array([0.0, 0.0, np.inf, np.inf]), 0.8)
    none = smallest_detectable(found, edge, 0.01, 0.01, np.full(4, np.inf), 0.8)
    assert math.isfinite(most)
    assert none == math.inf


def test_the_detectable_increase_of_an_error_rate_is_found_eight_times_in_ten() -> None:
    limits, rng = policy(), np.random.default_rng(10)
    baseline = rate([ErrorSample(count, 20_000) for count in (16, 25, 19, 20, 20)])
    found_now = rate_difference(baseline, baseline, 0.95)
    increase = smallest_detectable_rate(baseline, baseline, found_now, 0.001, 0.025, 0.8)
    found = 0
    for _ in range(400):
        sides = [
            [ErrorSample(int(count), 20_000) for count in rng.poisson(20_000 * (0.001 + more), 5)]
            for more in (0.0, increase)
        ]
        found += compare_rates("s", "http_error_rate", sides[0], sides[1], limits).verdict.verdict == "regression"
    assert 0.70 <= found / 400 <= 0.90


def test_the_fewest_repeats_are_more_than_there_are_unless_a_side_is_short() -> None:
    assert fewest_repeats(lambda runs: runs >= 9, 5, 5, 100) == 9
    assert fewest_repeats(lambda runs: True, 5, 5, 100) == 6
    assert fewest_repeats(lambda runs: True, 5, 3, 100) == 5
    assert fewest_repeats(lambda runs: runs >= 101, 5, 5, 100) is None
    assert fewest_repeats(lambda runs: True, 100, 100, 100) is None

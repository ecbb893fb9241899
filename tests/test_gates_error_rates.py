import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from perf_pipeline.gates.error_rates import Rate, pearson_residuals, rate, rate_difference
from perf_pipeline.gates.evidence import ErrorSample


def side(*errors: int, requests: int = 100_000) -> Rate:
    return rate([ErrorSample(count, requests) for count in errors])


def test_without_any_error_the_limits_are_the_exact_ones_of_poisson() -> None:
    """0 errors in n: the two-sided 95 % bound is 3.7 / n (statistics reference, 4.3)."""
    found = rate_difference(side(0, 0, 0, 0, 0), side(0, 0, 0, 0, 0, requests=50_000), 0.95)
    assert found.high * 250_000 == pytest.approx(3.689, abs=0.001)
    assert found.low * 500_000 == pytest.approx(-3.689, abs=0.001)
    assert (found.estimate, found.dispersion, found.df) == (0, 1, 0)


def test_limits_of_one_side_are_those_of_garwood() -> None:
    """Against a side that is known perfectly, the difference has the limits of a single Poisson count."""
    known = Rate(errors=1e12, requests=1e16, runs=5, chi_square=0.0, df=4)
    found = rate_difference(known, side(0, 4, 1, 3, 2), 0.95)
    widening = stats.t.ppf(0.975, 8) / stats.norm.ppf(0.975)
    low, high = stats.chi2.ppf(0.025, 20) / 2, stats.chi2.ppf(0.975, 22) / 2
    assert found.high - found.estimate == pytest.approx((high - 10) / 5e5 * widening, rel=1e-3)
    assert found.estimate - found.low == pytest.approx((10 - low) / 5e5 * widening, rel=1e-3)


def test_bursts_widen_the_interval() -> None:
    calm = rate_difference(side(16, 25, 19, 20, 20), side(14, 26, 18, 20, 22), 0.95)
    burst = rate_difference(side(16, 25, 19, 20, 20), side(0, 0, 0, 0, 100), 0.95)
    assert calm.dispersion == 1
    assert burst.dispersion > 40
    assert burst.high - burst.low > 4 * (calm.high - calm.low)


def test_requests_that_fail_the_same_way_in_every_run_are_known_better_than_chance_says() -> None:
    """A frozen workload with 2 % of requests that always fail: Poisson's limits would never prove it unchanged."""
    always = rate_difference(side(2000, 2001, 2000, 1999, 2000), side(2000, 2000, 2001, 2000, 1999), 0.95)
    assert always.high < 1e-4
    assert 1 / 2000 <= always.dispersion < 1 / 1000
    new = rate_difference(side(0, 0, 0, 0, 0), side(2000, 2000, 2000, 2000, 2000), 0.95)
    assert new.estimate - new.low > 3.69 / 500_000
    by_luck = rate_difference(side(1, 1, 1, 1, 1), side(1, 1, 1, 1, 1), 0.95)
    assert by_luck.dispersion == 1


def test_everything_failing_is_a_rate_of_one_and_no_more() -> None:
    found = rate_difference(side(*[0] * 5), side(*[100_000] * 5), 0.95)
    assert found.estimate == 1
    assert found.low > 0.99
    assert found.high == pytest.approx(1)


def test_huge_counts_stay_finite() -> None:
    huge = Rate(errors=1e14, requests=1e16, runs=5, chi_square=0.0, df=4)
    found = rate_difference(huge, huge, 0.95)
    assert -1e-8 < found.low < 0 < found.high < 1e-8


def test_residuals_are_those_of_pearson() -> None:
    errors, requests = np.array([3.0, 5.0, 10.0]), np.array([100.0, 200.0, 300.0])
    expected = requests * 18 / 600
    chi_square = stats.chisquare(errors, expected).statistic
    assert (pearson_residuals(errors, requests) ** 2).sum() == pytest.approx(chi_square)
    assert (pearson_residuals(np.zeros(3), requests) == 0).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=6), st.lists(st.integers(0, 50), min_size=2, max_size=6))
def test_swapping_sides_turns_the_interval_around(baseline: list[int], candidate: list[int]) -> None:
    found = rate_difference(side(*baseline), side(*candidate), 0.95)
    swapped = rate_difference(side(*candidate), side(*baseline), 0.95)
    assert found.low == pytest.approx(-swapped.high)
    assert found.high == pytest.approx(-swapped.low)
    assert found.low <= found.estimate <= found.high


@pytest.mark.parametrize("variance", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("mean", [1.0, 20.0])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_the_interval_covers_the_truth_with_and_without_over_dispersion(
    mean: float, variance: float, ratio: float
) -> None:
    """Gamma-mixed counts, 5 + 5 runs: pooled exact Poisson fails in 24 to 55 % of such cases (reference, 4.3)."""
    rng = np.random.default_rng(9)
    tries, missed = 1_000, 0

    def counts(of: float) -> Rate:
        mix = rng.gamma(1 / variance, variance, 5) if variance else np.ones(5)
        return side(*rng.poisson(of * mix))

    for _ in range(tries):
        found = rate_difference(counts(mean), counts(mean * ratio), 0.95)
        truth = mean * (ratio - 1) / 1e5
        missed += not found.low <= truth <= found.high
    assert missed / tries <= 0.06 + 2 * math.sqrt(0.06 * 0.94 / tries)

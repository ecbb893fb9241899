import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from perf_pipeline.gates.evidence import PERCENTILES
from perf_pipeline.gates.intervals import Difference, difference, simultaneous_tail
from tests.simulated_runs import latency

FLOOR = np.array([1e-6])


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def rows(rng: np.random.Generator, runs: int, **how: float) -> np.ndarray:
    return np.stack([latency(rng, **how).log_quantiles for _ in range(runs)])  # type: ignore[arg-type]


def test_the_interval_is_the_one_of_welch() -> None:
    baseline, candidate = column(1.0, 1.2, 0.9, 1.1, 1.05), column(1.4, 1.1, 1.6)
    low, high = difference((baseline, candidate), FLOOR).limits(0.025)
    expected = stats.ttest_ind(candidate[:, 0], baseline[:, 0], equal_var=False).confidence_interval(0.95)
    assert low[0] == pytest.approx(expected.low)
    assert high[0] == pytest.approx(expected.high)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_swapping_sides_turns_every_interval_around(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(n, 5)), rng.normal(size=(m, 5))
    floor = np.full(5, 1e-3)
    low, high = difference((one, other), floor).limits(0.025)
    swapped_low, swapped_high = difference((other, one), floor).limits(0.025)
    np.testing.assert_allclose(low, -swapped_high)
    np.testing.assert_allclose(high, -swapped_low)
    assert simultaneous_tail((one, other), 0.025) == pytest.approx(simultaneous_tail((other, one), 0.025))


def test_neither_the_order_of_runs_nor_the_direction_of_pairs_has_a_say_in_the_band() -> None:
    rng = np.random.default_rng(5)
    one, other = rng.normal(size=(10, 4)), rng.normal(size=(10, 4))
    tail = simultaneous_tail((one, other), 0.025)
    assert simultaneous_tail((one[::-1], other[rng.permutation(10)]), 0.025) == pytest.approx(tail, rel=1e-9)
    tail = simultaneous_tail((other - one,), 0.025)
    assert simultaneous_tail((one - other,), 0.025) == pytest.approx(tail, rel=1e-9)


def permutation_tail(baseline: np.ndarray, candidate: np.ndarray) -> float:
    """The band of the reference: max-t over all splits of the residual runs."""
    runs = len(baseline)
    residuals = np.vstack((baseline - baseline.mean(axis=0), candidate - candidate.mean(axis=0)))
    largest = []
    for chosen in itertools.combinations(range(2 * runs), runs):
        first, second = residuals[list(chosen)], np.delete(residuals, list(chosen), axis=0)
        largest.append(np.abs(stats.ttest_ind(first, second).statistic).max())
    return float(stats.t.sf(np.quantile(largest, 0.95, method="higher"), 2 * runs - 2))


def test_rotated_runs_and_permuted_runs_have_the_same_band() -> None:
    """Against a plain loop over all splits of 5 + 5 runs, on the average of some campaigns."""
    rng = np.random.default_rng(3)
    sides = [(rows(rng, 5), rows(rng, 5)) for _ in range(20)]
    rotated = np.mean([simultaneous_tail(one, 0.025) for one in sides])
    permuted = np.mean([np.clip(permutation_tail(*one), 0.025 / 21, 0.025) for one in sides])
    assert rotated == pytest.approx(permuted, rel=0.15)


@pytest.mark.parametrize("prior_df", [0.0, 4.0, 400.0])
def test_a_statistic_that_all_others_follow_needs_no_band_whatever_its_variance_rests_on(prior_df: float) -> None:
    """For one statistic the rotated t has the t distribution exactly, which checks its degrees of freedom."""
    rng = np.random.default_rng(4)
    for samples in ((rng.normal(size=(5, 1)), rng.normal(size=(5, 1))), (rng.normal(size=(6, 1)),)):
        together = tuple(np.repeat(sample, 21, axis=1) for sample in samples)
        assert simultaneous_tail(together, 0.025, prior_df) == pytest.approx(0.025, rel=0.08)
        assert simultaneous_tail(samples, 0.025, prior_df) == 0.025


def test_statistics_that_move_apart_cost_nearly_what_bonferroni_asks_for() -> None:
    rng = np.random.default_rng(4)
    tails = [simultaneous_tail((rng.normal(size=(12, 21)), rng.normal(size=(12, 21))), 0.025) for _ in range(20)]
    assert 0.025 / 21 <= float(np.mean(tails)) < 0.0025


def test_two_pairs_say_nothing_about_how_statistics_move_together() -> None:
    pairs = np.random.default_rng(4).normal(size=(2, 21))
    assert simultaneous_tail((pairs,), 0.025) == 0.025 / 21


def test_pairs_are_compared_by_their_differences() -> None:
    rng = np.random.default_rng(9)
    block = 0.2 * rng.normal(size=(6, 1))
    baseline, candidate = block + 0.01 * rng.normal(size=(6, 1)), block + 0.01 * rng.normal(size=(6, 1)) + 0.05
    found = difference((candidate - baseline,), FLOOR)
    low, high = found.limits(0.025)
    expected = stats.ttest_rel(candidate[:, 0], baseline[:, 0]).confidence_interval(0.95)
    assert (low[0], high[0]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert found.df[0] == pytest.approx(5)
    assert high[0] - low[0] < 0.1 * np.diff(difference((baseline, candidate), FLOOR).limits(0.025), axis=0)[0, 0]


def test_equal_repeats_have_the_width_of_the_floor_and_say_so() -> None:
    same = np.full((5, 3), 2.0)
    found = difference((same, same), np.array([1e-3, 1e-3, 0.01]))
    low, high = found.limits(0.025)
    assert (high - low > 0).all()
    assert found.standard_error == pytest.approx(np.array([1e-3, 1e-3, 0.01]) * math.sqrt(2 / 5))
    assert found.floored.all()
    assert not difference((column(1, 2), column(1, 3)), FLOOR).floored.any()
    assert math.isfinite(simultaneous_tail((same, same), 0.025))


def test_welch_intervals_cover_the_truth_under_normal_heavy_and_skewed_runs() -> None:
    rng = np.random.default_rng(6)
    tries = 4_000
    for draw in (
        lambda size: rng.normal(size=size),
        lambda size: rng.standard_t(4, size=size) / math.sqrt(2),
        lambda size: (rng.gamma(2.0, size=size) - 2) / math.sqrt(2),
    ):
        for n, m in ((5, 5), (10, 10), (5, 3)):
            # P independent statistics of the same runs are P independent tries.
            found = difference((0.02 * draw((n, tries)), 0.02 * draw((m, tries))), np.full(tries, 1e-6))
            low, high = found.limits(0.025)
            covered = float(((low <= 0) & (high >= 0)).mean())
            assert 0.925 <= covered <= 0.99, (n, m, covered)


@pytest.mark.parametrize(("n", "m", "tries"), [(5, 5, 600), (4, 5, 400), (8, 8, 60)])
def test_the_band_excludes_no_change_as_rarely_as_it_says(n: int, m: int, tries: int) -> None:
    rng = np.random.default_rng(7)
    floor, excluded = np.full(len(PERCENTILES), 1e-3), 0
    for _ in range(tries):
        sides = rows(rng, n), rows(rng, m)
        low, high = difference(sides, floor).limits(simultaneous_tail(sides, 0.025))
        excluded += bool(((low > 0) | (high < 0)).any())
    assert excluded / tries <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / tries)


def test_a_side_that_scatters_three_times_as_much_is_not_taken_at_the_others_word() -> None:
    """A plain permutation band fails in 10 % of such cases; its degrees of freedom bring it near its promise."""
    rng = np.random.default_rng(8)
    floor, tries, excluded = np.full(len(PERCENTILES), 1e-3), 400, 0
    for _ in range(tries):
        sides = rows(rng, 5, run_cv=0.02), rows(rng, 5, run_cv=0.06)
        low, high = difference(sides, floor).limits(simultaneous_tail(sides, 0.025))
        excluded += bool(((low > 0) | (high < 0)).any())
    assert excluded / tries <= 0.09


def test_degrees_of_freedom_lie_between_those_of_the_smaller_side_and_of_both() -> None:
    variances = np.array([1.0, 1.0]), np.array([1.0, 100.0])
    found = Difference(np.zeros(2), variances, (5, 5), np.zeros(2, dtype=bool), np.zeros(2))
    assert found.df[0] == pytest.approx(8)
    assert 4 < found.df[1] < 4.1

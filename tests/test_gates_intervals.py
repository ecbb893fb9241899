import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from perf_pipeline.gates.evidence import PERCENTILES
from perf_pipeline.gates.intervals import SAMPLED_SPLITS, Difference, _splits, difference, simultaneous_tail
from tests.simulated_runs import latency

FLOOR = np.array([1e-6])


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def rows(rng: np.random.Generator, runs: int, **how: float) -> np.ndarray:
    return np.stack([latency(rng, **how).log_quantiles for _ in range(runs)])  # type: ignore[arg-type]


def test_the_interval_is_the_one_of_welch() -> None:
    baseline, candidate = column(1.0, 1.2, 0.9, 1.1, 1.05), column(1.4, 1.1, 1.6)
    low, high = difference(baseline, candidate, FLOOR).limits(0.025)
    expected = stats.ttest_ind(candidate[:, 0], baseline[:, 0], equal_var=False).confidence_interval(0.95)
    assert low[0] == pytest.approx(expected.low)
    assert high[0] == pytest.approx(expected.high)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_swapping_sides_turns_every_interval_around(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(n, 5)), rng.normal(size=(m, 5))
    floor = np.full(5, 1e-3)
    low, high = difference(one, other, floor).limits(0.025)
    swapped_low, swapped_high = difference(other, one, floor).limits(0.025)
    np.testing.assert_allclose(low, -swapped_high)
    np.testing.assert_allclose(high, -swapped_low)
    assert simultaneous_tail(one, other, floor, 0.95) == pytest.approx(simultaneous_tail(other, one, floor, 0.95))


def test_the_order_of_runs_has_no_say_in_the_band_even_when_splits_are_sampled() -> None:
    rng = np.random.default_rng(5)
    one, other = rng.normal(size=(10, 4)), rng.normal(size=(10, 4))
    floor = np.full(4, 1e-3)
    tail = simultaneous_tail(one, other, floor, 0.95)
    assert simultaneous_tail(one[::-1], other[rng.permutation(10)], floor, 0.95) == pytest.approx(tail, rel=1e-9)


def test_few_runs_use_every_split_and_many_a_fixed_sample() -> None:
    assert len(_splits(10, 5)) == math.comb(10, 5) == 252
    assert (_splits(10, 4).sum(axis=1) == 4).all()
    assert len(_splits(20, 10)) == SAMPLED_SPLITS
    assert len({tuple(split) for split in _splits(9, 4)}) == math.comb(9, 4)


def test_the_band_is_the_permutation_max_t_of_the_reference() -> None:
    """Against a plain loop over all splits, with the degrees of freedom of equal spreads."""
    rng = np.random.default_rng(3)
    baseline, candidate = rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    residuals = np.vstack((baseline - baseline.mean(axis=0), candidate - candidate.mean(axis=0)))
    largest = []
    for chosen in itertools.combinations(range(8), 4):
        first, second = residuals[list(chosen)], np.delete(residuals, list(chosen), axis=0)
        largest.append(np.abs(stats.ttest_ind(first, second, equal_var=False).statistic).max())
    critical = np.quantile(largest, 0.95, method="higher")
    tail = simultaneous_tail(baseline, candidate, np.full(6, 1e-9), 0.95)
    assert stats.t.isf(tail, 6) == pytest.approx(critical)


def test_a_single_statistic_needs_no_band() -> None:
    assert simultaneous_tail(column(1, 2, 3), column(1, 2, 4), FLOOR, 0.95) == pytest.approx(0.025)


def test_statistics_that_move_together_cost_less_than_bonferroni_and_never_nothing() -> None:
    rng = np.random.default_rng(4)
    together = [np.repeat(rng.normal(size=(5, 1)), 21, axis=1) for _ in range(2)]
    apart = [rng.normal(size=(5, 21)) for _ in range(2)]
    floor = np.full(21, 1e-6)
    assert simultaneous_tail(*together, floor, 0.95) == pytest.approx(0.025, rel=0.25)
    assert 0.025 / 21 <= simultaneous_tail(*apart, floor, 0.95) < 0.008


def test_equal_repeats_have_the_width_of_the_floor_and_say_so() -> None:
    same = np.full((5, 3), 2.0)
    found = difference(same, same, np.array([1e-3, 1e-3, 0.01]))
    low, high = found.limits(0.025)
    assert (high - low > 0).all()
    assert found.standard_error == pytest.approx(np.array([1e-3, 1e-3, 0.01]) * math.sqrt(2 / 5))
    assert found.floored.all()
    assert not difference(column(1, 2), column(1, 3), FLOOR).floored.any()
    assert math.isfinite(simultaneous_tail(same, same, np.full(3, 1e-3), 0.95))


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
            found = difference(0.02 * draw((n, tries)), 0.02 * draw((m, tries)), np.full(tries, 1e-6))
            low, high = found.limits(0.025)
            covered = float(((low <= 0) & (high >= 0)).mean())
            assert 0.925 <= covered <= 0.99, (n, m, covered)


@pytest.mark.parametrize(("n", "m", "tries"), [(5, 5, 600), (4, 5, 400), (8, 8, 60)])
def test_the_band_excludes_no_change_as_rarely_as_it_says(n: int, m: int, tries: int) -> None:
    rng = np.random.default_rng(7)
    floor, excluded = np.full(len(PERCENTILES), 1e-3), 0
    for _ in range(tries):
        baseline, candidate = rows(rng, n), rows(rng, m)
        low, high = difference(baseline, candidate, floor).limits(simultaneous_tail(baseline, candidate, floor, 0.95))
        excluded += bool(((low > 0) | (high < 0)).any())
    assert excluded / tries <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / tries)


def test_a_side_that_scatters_three_times_as_much_is_not_taken_at_the_others_word() -> None:
    """A plain permutation band fails in 10 % of such cases; its degrees of freedom bring it near its promise."""
    rng = np.random.default_rng(8)
    floor, tries, excluded = np.full(len(PERCENTILES), 1e-3), 400, 0
    for _ in range(tries):
        baseline, candidate = rows(rng, 5, run_cv=0.02), rows(rng, 5, run_cv=0.06)
        low, high = difference(baseline, candidate, floor).limits(simultaneous_tail(baseline, candidate, floor, 0.95))
        excluded += bool(((low > 0) | (high < 0)).any())
    assert excluded / tries <= 0.09


def test_degrees_of_freedom_lie_between_those_of_the_smaller_side_and_of_both() -> None:
    found = Difference(np.zeros(2), np.array([1.0, 1.0]), np.array([1.0, 100.0]), 5, 5, np.zeros(2, dtype=bool))
    assert found.df[0] == pytest.approx(8)
    assert 4 < found.df[1] < 4.1

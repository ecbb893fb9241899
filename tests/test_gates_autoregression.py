import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from perf_pipeline.gates.autoregression import MOST_BATCHES, batch, degrees_of_freedom, medians, regress, whiten
from tests.test_gates_drift import ar1


def test_batches_are_neighbours_and_as_many_as_allowed() -> None:
    middles_s, values = batch(np.arange(240.0), 1.0)
    assert values.shape == (MOST_BATCHES, 10)
    np.testing.assert_array_equal(values.ravel(), np.arange(240))
    np.testing.assert_allclose(middles_s, np.arange(24) * 10 + 5.0)
    assert batch(np.arange(10.0), 10.0)[1].shape == (10, 1)
    assert len(batch(np.full(10, np.nan), 1.0)[1]) == 0
    assert len(batch(np.empty(0), 1.0)[1]) == 0


@given(st.lists(st.floats(-10, 10) | st.just(math.nan), min_size=1, max_size=130))
def test_batches_keep_every_value_its_place_and_its_median(levels: list[float]) -> None:
    middles_s, values = batch(np.array(levels), 2.0)
    there = np.flatnonzero(np.isfinite(levels))
    number = there * min(MOST_BATCHES, len(levels)) // len(levels)
    expected = [there[number == one] for one in np.unique(number)]
    assert len(values) == len(expected)
    for row, middle_s, median, members in zip(values, middles_s, medians(values), expected, strict=True):
        np.testing.assert_array_equal(row[np.isfinite(row)], np.array(levels)[members])
        assert middle_s == pytest.approx(2 * (members.mean() + 0.5))
        assert median == pytest.approx(np.median(np.array(levels)[members]))


def test_white_noise_is_what_is_left_of_noise_that_remembers() -> None:
    white = whiten(ar1(np.random.default_rng(1), 20_000, 0.8, 1.0), 0.8)
    assert white.std() == pytest.approx(0.6, rel=0.03)
    assert abs(np.corrcoef(white[1:], white[:-1])[0, 1]) < 0.03


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_the_autocorrelation_is_found(rho: float) -> None:
    found = regress(np.ones((2000, 1)), ar1(np.random.default_rng(2), 2000, rho, 1.0))
    assert found.autocorrelation == pytest.approx(rho, abs=0.05)


def test_an_exact_fit_has_no_noise() -> None:
    design = np.column_stack((np.ones(24), np.arange(24.0)))
    found = regress(design, design @ [2.0, 0.5])
    np.testing.assert_allclose(found.coefficients, [2.0, 0.5])
    estimate, error = found.contrast(np.array([[0.0, 1.0], [0.0, -2.0]]))
    np.testing.assert_allclose(estimate, [0.5, -1.0])
    np.testing.assert_allclose(error, 0.0, atol=1e-9)


def test_points_that_remember_know_their_noise_less_well() -> None:
    assert degrees_of_freedom(24, 2, 0.0) == 22
    assert degrees_of_freedom(24, 2, 0.5) == pytest.approx(16.5)
    assert degrees_of_freedom(24, 2, 0.95) == pytest.approx(2.145)
    assert degrees_of_freedom(5, 4, 0.9) == 2


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_intervals_of_a_slope_exclude_the_truth_in_four_to_seven_percent(rho: float) -> None:
    """240 points with this correlation from one to the next, in 24 batches."""
    rng, tries, missed = np.random.default_rng(3), 1500, 0
    times = np.arange(24.0) - 11.5
    design = np.column_stack((np.ones(24), times))
    for _ in range(tries):
        found = regress(design, batch(ar1(rng, 240, rho, 1.0), 1.0)[1].mean(axis=1))
        estimate, error = found.contrast(np.array([[0.0, 1.0]]))
        missed += bool(abs(estimate[0]) > stdtrit(found.df, 0.975) * error[0])
    assert 0.035 <= missed / tries <= 0.08

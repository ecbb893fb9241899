import numpy as np
import pytest

from perf_pipeline.gates.autoregression import MOST_BATCHES, batch, degrees_of_freedom, regress, whiten
from tests.test_gates_drift import ar1


def test_batches_are_neighbours_and_as_many_as_allowed() -> None:
    middles_s, means = batch(np.arange(240.0), 1.0, np.mean)
    assert len(means) == MOST_BATCHES
    np.testing.assert_allclose(means, np.arange(24) * 10 + 4.5)
    np.testing.assert_allclose(middles_s, np.arange(24) * 10 + 5.0)
    assert len(batch(np.arange(10.0), 10.0, np.mean)[1]) == 10
    assert len(batch(np.full(10, np.nan), 1.0, np.mean)[1]) == 0


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
    from scipy.special import stdtrit

    rng, tries, missed = np.random.default_rng(3), 1500, 0
    times = np.arange(24.0) - 11.5
    design = np.column_stack((np.ones(24), times))
    for _ in range(tries):
        found = regress(design, batch(ar1(rng, 240, rho, 1.0), 1.0, np.mean)[1])
        estimate, error = found.contrast(np.array([[0.0, 1.0]]))
        missed += bool(abs(estimate[0]) > stdtrit(found.df, 0.975) * error[0])
    assert 0.035 <= missed / tries <= 0.08

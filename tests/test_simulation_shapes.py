"""Shapes: rising curves through 0, whose quantiles are those of the distributions that they are named after."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from perf_pipeline.simulation.shapes import Bimodal, HeavyTail, LogNormal, Shape, moments, tail_curve

SHAPES = st.one_of(
    st.builds(LogNormal, st.floats(0.05, 1.5)),
    st.builds(HeavyTail, st.floats(0.05, 1.0), st.floats(0.0, 0.5)),
    st.builds(Bimodal, st.floats(0.05, 0.45), st.floats(0.1, 1.0), st.floats(0.15, 0.5)),
)
SCORES = np.linspace(-4, 4, 81)


@given(SHAPES)
def test_a_shape_rises_and_its_median_is_one(shape: Shape) -> None:
    curve = shape.curve(SCORES)
    assert (np.diff(curve) > 0).all()
    assert curve[40] == pytest.approx(0, abs=1e-6)


@given(SHAPES)
def test_the_slope_is_that_of_the_curve(shape: Shape) -> None:
    scores = np.linspace(-4, 4, 8001)
    curve, slope = shape.curve(scores), shape.slope(scores)
    risen = ((slope[1:] + slope[:-1]) / 2 * np.diff(scores)).cumsum()
    np.testing.assert_allclose(risen, curve[1:] - curve[0], atol=5e-3)


def test_a_bimodal_shape_is_a_mixture_of_two_modes() -> None:
    rng, shape = np.random.default_rng(1), Bimodal(0.3, 1.0, 0.25)
    mixture = 0.25 * rng.standard_normal(400_000) + np.where(rng.random(400_000) < 0.3, 1.0, 0.0)
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    quantiles = np.quantile(mixture, shares)
    np.testing.assert_allclose(shape.curve(ndtri(shares)), quantiles - quantiles[2], atol=0.01)


def test_a_heavy_tail_falls_as_a_power() -> None:
    far = HeavyTail(sigma=1e-9, tail=0.2).curve(ndtri(np.array([0.999, 0.9999])))
    assert far[1] - far[0] == pytest.approx(0.2 * np.log(10))


def test_a_tail_begins_at_p90_and_grows_by_one_for_each_nine() -> None:
    scores = ndtri(np.array([0.5, 0.9, 0.99, 0.999]))
    np.testing.assert_allclose(tail_curve(scores), [0, 0, 1, 2], atol=1e-9)


@pytest.mark.parametrize("shape", [LogNormal(0.4), HeavyTail(0.3, 0.1), Bimodal(0.2, 0.8, 0.2)], ids=str)
def test_moments_are_those_of_drawn_requests(shape: Shape) -> None:
    scores = np.random.default_rng(2).standard_normal(1_000_000)
    curve, tail = shape.curve(scores), tail_curve(scores)
    cross = np.cov(curve, tail)
    expected = [curve.mean(), tail.mean(), cross[0, 0], cross[1, 1], cross[0, 1]]
    np.testing.assert_allclose(moments(shape), expected, rtol=0.03, atol=2e-3)

"""Rates over campaigns, with the error of ratios of sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.simulation.rates import rates


def test_a_rate_is_hits_per_try_over_all_campaigns_that_could_show_it() -> None:
    found = rates([{"a": (1, 10), "b": (0, 0)}, {"a": (3, 30), "b": (1, 2)}])
    assert (found["a"].value, found["a"].campaigns) == (0.1, 2)
    assert (found["b"].value, found["b"].campaigns) == (0.5, 1)


def test_campaigns_that_agree_with_each_other_less_than_chance_widen_the_error() -> None:
    clustered = rates({"a": (50.0 * (number % 2), 50.0)} for number in range(100))["a"]
    independent = rates({"a": (25.0, 50.0)} for _ in range(100))["a"]
    assert independent.error == pytest.approx(1.96 * np.sqrt(0.25 / 5000))
    assert clustered.error == pytest.approx(1.96 * 0.5 / 10, rel=0.02)


@given(st.integers(3, 10_000))
def test_what_never_happened_still_has_an_error(tries: int) -> None:
    never, always = (rates([{"a": (hits, tries)}])["a"] for hits in (0.0, float(tries)))
    assert never.error == pytest.approx(1 - 0.05 ** (1 / tries), rel=1e-6)
    assert always.error == never.error


def test_the_error_covers_the_truth_in_19_of_20_experiments() -> None:
    rng = np.random.default_rng(6)
    # Fifty comparisons of a campaign share its luck.
    luck = rng.beta(2, 18, (400, 60))
    hits = rng.binomial(50, luck)
    found = [rates({"a": (float(hit), 50.0)} for hit in row)["a"] for row in hits]
    assert np.mean([abs(rate.value - 0.1) <= rate.error for rate in found]) == pytest.approx(0.95, abs=0.03)

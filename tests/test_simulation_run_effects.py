"""Run effects have the size that is asked for under every law, and seconds the autocorrelation."""

import numpy as np
import pytest
from scipy.stats import kurtosis, skew

from perf_pipeline.simulation.run_effects import Law, Seconds, draw, draw_seconds


@pytest.mark.parametrize("law", ["normal", "t4", "skewed"])
def test_effects_have_mean_0_and_standard_deviation_1(law: Law) -> None:
    values = draw(np.random.default_rng(3), law, (400_000,))
    assert values.mean() == pytest.approx(0, abs=0.01)
    assert values.std() == pytest.approx(1, abs=0.03)


def test_laws_differ_in_what_they_are_named_after() -> None:
    rng = np.random.default_rng(4)
    normal, heavy, skewed = (draw(rng, law, (400_000,)) for law in ("normal", "t4", "skewed"))
    assert kurtosis(heavy) > 2 > abs(kurtosis(normal))
    assert skew(skewed) == pytest.approx(np.sqrt(2), abs=0.1)


@pytest.mark.parametrize("autocorrelation", [0.0, 0.5, 0.9])
def test_seconds_are_stationary_and_autocorrelated(autocorrelation: float) -> None:
    values = draw_seconds(np.random.default_rng(5), Seconds(0.05, autocorrelation), 2000, 240)
    assert values[:, 0].std() == pytest.approx(0.05, rel=0.08)
    assert values[:, -1].std() == pytest.approx(0.05, rel=0.08)
    neighbours = np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1]
    assert neighbours == pytest.approx(autocorrelation, abs=0.02)

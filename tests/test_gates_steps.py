import math

import numpy as np
import pytest

from perf_pipeline.gates.steps import SHORTEST_LEVEL, Levels, find_steps
from tests.test_gates_drift import ar1

ZONE = math.log1p(0.02)


def levels_of(log_levels: np.ndarray, sub_window_s: float = 1.0) -> Levels:
    found = find_steps(log_levels, sub_window_s, 0.95, 8, ZONE)
    assert found is not None
    return found


def beyond(found: Levels) -> bool:
    return any(step.low > ZONE or step.high < -ZONE for step in found.steps)


@pytest.mark.parametrize("size", [0.05, -0.05])
@pytest.mark.parametrize("at_s", [60, 120, 200])
def test_a_step_is_found_with_its_place_and_its_size(size: float, at_s: int) -> None:
    noise = ar1(np.random.default_rng(1), 240, 0.5, 0.01)
    (step,) = levels_of(noise + size * (np.arange(240) >= at_s)).steps
    assert step.at_s == pytest.approx(at_s, abs=10)
    assert step.low < size < step.high
    assert beyond(levels_of(noise + size * (np.arange(240) >= at_s)))


def test_a_disturbance_that_passes_is_two_steps() -> None:
    second = np.arange(240)
    noise = 0.005 * np.random.default_rng(2).standard_normal(240)
    up, down = levels_of(noise + 0.1 * ((second >= 80) & (second < 160))).steps
    assert (up.at_s, down.at_s) == (pytest.approx(80, abs=10), pytest.approx(160, abs=10))
    assert up.low > ZONE
    assert down.high < -ZONE


def test_a_few_wild_seconds_are_no_step() -> None:
    """A median of ten seconds does not see four of them, and one batch alone is no level."""
    assert SHORTEST_LEVEL == 2
    levels = 0.002 * np.random.default_rng(3).standard_normal(240)
    levels[[33, 34, 35, 36, 102, 170, 171]] += 1.0
    assert levels_of(levels).steps == ()
    levels[120:130] += 0.5
    assert not beyond(levels_of(levels))


def test_where_no_two_medians_differ_by_more_than_what_is_negligible_nothing_steps() -> None:
    found = levels_of(np.linspace(0, 0.015, 240))
    assert found == Levels((), pytest.approx(0.015, rel=0.1))
    assert levels_of(np.full(24, 3.0), 10.0) == Levels((), 0.0)


def test_a_noisy_level_may_hide_a_step_and_says_how_large_a_one() -> None:
    found = levels_of(ar1(np.random.default_rng(5), 240, 0.5, 0.05))
    assert found.reach > ZONE
    assert levels_of(ar1(np.random.default_rng(5), 240, 0.5, 0.2)).reach > 3 * found.reach


@pytest.mark.parametrize("there", [0, 1, 70])
def test_too_few_batches_give_no_answer(there: int) -> None:
    levels = np.full(240, np.nan)
    levels[:there] = np.linspace(0, 1, there)
    assert find_steps(levels, 1.0, 0.95, 8, ZONE) is None


def test_gaps_keep_their_place_in_time() -> None:
    levels = np.where(np.arange(240) < 160, 0.0, 0.1)
    levels[20:90] = np.nan
    (step,) = levels_of(levels).steps
    assert step.at_s == pytest.approx(160, abs=5)


@pytest.mark.parametrize(("rho", "allowed"), [(0.0, 0.01), (0.5, 0.01), (0.9, 0.03)])
@pytest.mark.parametrize("sd", [0.01, 0.05])
def test_noise_that_remembers_is_rarely_taken_for_a_step(rho: float, allowed: float, sd: float) -> None:
    rng, tries = np.random.default_rng(11), 200
    alarms = sum(beyond(levels_of(ar1(rng, 240, rho, sd))) for _ in range(tries))
    assert alarms / tries <= allowed + 2 * math.sqrt(allowed * (1 - allowed) / tries)


def test_steps_of_five_percent_are_found() -> None:
    rng = np.random.default_rng(12)
    step = 0.05 * (np.arange(240) >= 90)
    assert sum(beyond(levels_of(ar1(rng, 240, 0.5, 0.01) + step)) for _ in range(50)) >= 48

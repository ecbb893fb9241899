"""History: chains add up, slow drift is found at known rates, level shifts are found and noise is not."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.history.chain import Link, add_up, directly, place, steps_to
from perf_pipeline.history.effect import Effect, effects_from_limits
from perf_pipeline.history.level_shifts import level_shifts

DAY = datetime(2026, 11, 1, tzinfo=UTC)
TAIL = 0.025


def link(baseline: str, candidate: str, day: int = 0) -> Link:
    return Link(f"{baseline}__{candidate}", baseline, candidate, DAY + timedelta(days=day))


def effect(estimate: float = 0.0, error: float = 0.01, df: float = 8) -> Effect:
    one = np.ones(1)
    return Effect(np.array([np.nan]), one * estimate, one * error, one * df, 1.0)


def names(steps: list[Link]) -> list[str]:
    return [f"{step.baseline}>{step.candidate}" for step in steps]


def test_a_chain_leads_back_step_by_step() -> None:
    links = [link("1", "2", 1), link("2", "3", 2), link("3", "4", 3), link("9", "8", 4)]
    assert names(steps_to(links, "4")) == ["1>2", "2>3", "3>4"]
    assert names(steps_to(links, "4", start="2")) == ["2>3", "3>4"]
    assert steps_to(links, "5") == []


def test_the_latest_comparison_stands_for_a_step_and_the_anchor_for_none() -> None:
    links = [link("1", "2", 1), link("1", "2", 9), link("2", "3", 2), link("1", "3", 3), link("1", "3", 5)]
    chain = steps_to(links, "3")
    assert names(chain) == ["1>2", "2>3"]
    assert chain[0].measured == DAY + timedelta(days=9)
    assert directly(links, "1", "3") == links[-1]
    assert directly(links, "2", "1") is None


def test_rollbacks_do_not_go_round_for_ever() -> None:
    links = [link("1", "2", 1), link("2", "1", 2), link("1", "3", 3)]
    assert names(steps_to(links, "3")) == ["2>1", "1>3"]


def test_errors_of_independent_steps_add_as_squares() -> None:
    total = add_up([effect(0.01, 0.03, 8), effect(0.02, 0.04, 8)])
    assert total.estimate == pytest.approx(0.03)
    assert total.standard_error == pytest.approx(0.05)
    assert total.df == pytest.approx(25e-4**2 / ((9e-4**2 + 16e-4**2) / 8))


def test_only_shared_percentiles_are_added() -> None:
    def of(percentiles: list[float]) -> Effect:
        count = len(percentiles)
        return Effect(np.array(percentiles), np.arange(count) / 10, np.ones(count), np.ones(count), 2.0)

    total = add_up([of([50, 90, 99]), of([90, 99])])
    assert total.percentiles.tolist() == [90, 99]
    assert total.estimate.tolist() == pytest.approx([0.1, 0.3])
    with pytest.raises(ValueError, match="share no percentile"):
        add_up([of([50]), of([90])])
    with pytest.raises(ValueError, match="at least one"):
        add_up([])


@given(
    st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=5),
    st.floats(0.001, 0.2),
    st.floats(1.5, 60),
    st.floats(1.0, 1.6),
)
def test_an_effect_is_read_back_from_its_limits(estimates: list[float], error: float, df: float, wider: float) -> None:
    count = len(estimates)
    percentiles = np.arange(count, dtype=float)
    known = Effect(percentiles, np.array(estimates), np.full(count, error), np.full(count, df), 1.0)
    low, high = known.limits(TAIL)
    middle, reach = (low + high) / 2, (high - low) / 2 * wider
    changes = np.expm1(np.stack([known.estimate, low, high, middle - reach, middle + reach]))
    (found,) = effects_from_limits(percentiles, changes[:, None], known.df[None], np.array([TAIL]))
    assert found is not None
    assert found.standard_error == pytest.approx(known.standard_error, rel=1e-6)
    assert 1 <= found.tests <= count
    if found.tests < count:
        band_low, band_high = found.band(TAIL)
        assert np.expm1(band_low) == pytest.approx(changes[3], rel=1e-6, abs=1e-9)
        assert np.expm1(band_high) == pytest.approx(changes[4], rel=1e-6, abs=1e-9)


def test_limits_that_are_not_there_make_no_effect_and_take_none_from_others() -> None:
    changes = np.tile(np.array([0.0, -0.01, 0.01, -0.02, 0.02])[:, None, None], (1, 4, 1))
    changes[2, 1] = np.inf
    df = np.array([[8.0], [8.0], [np.nan], [8.0]])
    tails = np.array([TAIL, TAIL, TAIL, np.nan])
    sound, *others = effects_from_limits(np.array([50.0]), changes, df, tails)
    assert others == [None, None, None]
    assert sound is not None and sound.standard_error > 0


def test_an_interval_of_no_width_has_one_test() -> None:
    (found,) = effects_from_limits(np.array([50.0, 90.0]), np.zeros((5, 1, 2)), np.full((1, 2), 8.0), np.array([TAIL]))
    assert found is not None
    assert found.tests == 1
    assert found.standard_error.tolist() == [0, 0]


def simulated_chain(
    rng: np.random.Generator, step: float, cv: float, releases: int = 12, repeats: int = 5
) -> list[Effect]:
    """Comparisons of neighbours, each from its own runs of both versions: Welch's interval of the mean ln."""
    effects = []
    for _ in range(releases):
        runs = rng.normal([[0.0], [step]], cv, (2, repeats))
        variance = runs.var(axis=1, ddof=1) / repeats
        df = variance.sum() ** 2 / (variance**2 / (repeats - 1)).sum()
        size = float(runs[1].mean() - runs[0].mean())
        effects.append(effect(size, math.sqrt(variance.sum()), df))
    return effects


CAMPAIGNS = 400
EDGE = math.log(1.05)


def test_twelve_steps_of_one_percent_are_a_regression_that_no_step_shows() -> None:
    """At a run CV of 1 % and 5 repeats, each step is equivalent and the chain a regression beyond 5 %."""
    rng = np.random.default_rng(20261130)
    chains = [simulated_chain(rng, math.log(1.01), 0.01) for _ in range(CAMPAIGNS)]
    answers = [place(add_up(chain), EDGE, TAIL).answer for chain in chains]
    found = answers.count("regression") / CAMPAIGNS
    steps = [place(step, EDGE, TAIL).answer for chain in chains for step in chain]
    assert found > 0.85, found
    assert steps.count("regression") == 0
    assert steps.count("equivalent") / len(steps) > 0.97


@pytest.mark.parametrize("cv", [0.01, 0.03])
def test_twelve_steps_of_nothing_are_no_regression(cv: float) -> None:
    rng = np.random.default_rng(7)
    answers = [place(add_up(simulated_chain(rng, 0.0, cv)), EDGE, TAIL).answer for _ in range(CAMPAIGNS)]
    false = (answers.count("regression") + answers.count("improvement")) / CAMPAIGNS
    assert false <= 0.0025 + 3 * math.sqrt(0.0025 / CAMPAIGNS)


def test_a_chain_on_the_edge_of_the_zone_is_called_at_the_nominal_rate() -> None:
    """Coverage of the sum: on the edge itself the band excludes it in 2.5 % of campaigns a side."""
    rng = np.random.default_rng(3)
    answers = [place(add_up(simulated_chain(rng, EDGE / 12, 0.02)), EDGE, TAIL).answer for _ in range(2000)]
    rate = answers.count("regression") / 2000
    assert rate <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / 2000)
    assert rate >= 0.015 - 3 * math.sqrt(0.015 / 2000)


def test_a_level_shift_is_found_where_it_is() -> None:
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(100):
        values = rng.normal(0, 0.01, 30)
        values[18:] += 0.06
        (shift,) = level_shifts(values.tolist(), floor=0.02) or (None,)
        found += shift is not None and abs(shift.at - 18) <= 1 and shift.low <= 0.06 <= shift.high
    assert found >= 95


def test_noise_and_shifts_below_the_floor_are_none() -> None:
    rng = np.random.default_rng(2)
    nothing = sum(bool(level_shifts(rng.normal(0, 0.02, 40).tolist(), floor=0.02)) for _ in range(300))
    assert nothing <= 1
    below = 0
    for _ in range(100):
        values = rng.normal(0, 0.005, 40)
        values[20:] += 0.015
        below += bool(level_shifts(values.tolist(), floor=0.02))
    assert below == 0


def test_one_odd_night_is_no_level() -> None:
    values = np.random.default_rng(4).normal(0, 0.005, 30)
    values[12] += 0.3
    assert level_shifts(values.tolist(), floor=0.02) == []


def test_nights_without_a_value_are_left_out() -> None:
    values = [0.0, 0.001, math.nan, 0.0, 0.001, -0.001, 0.2, 0.201, math.nan, 0.199, 0.2, 0.201]
    (shift,) = level_shifts(values, floor=0.05)
    assert shift.at == 6
    assert level_shifts(values[:5], floor=0.05) == []
    assert level_shifts([0.1] * 10, floor=0.01) == []

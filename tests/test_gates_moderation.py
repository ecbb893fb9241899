from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, polygamma

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.intervals import difference
from perf_pipeline.gates.moderation import Prior, Spread, _trigamma_inverse, fit_prior, moderate, spread_of
from perf_pipeline.gates.verdict import judge
from tests.simulated_runs import campaign, policy

FLOOR = np.array([1e-6])
GUARD = 0.95
SCENARIOS = tuple(f"s{number:02d}" for number in range(10))


def drawn(rng: np.random.Generator, scenarios: int, prior_df: float, df: int, typical: float = 4e-4) -> list[Spread]:
    """Variances as the model supposes them: the true ones from a scaled inverse chi-square, estimates around them."""
    true = typical * prior_df / rng.chisquare(prior_df, size=scenarios)
    return [Spread(np.array([one * rng.chisquare(df) / df]), df) for one in true]


def sides(rng: np.random.Generator, sd: float, runs: int = 5) -> tuple[np.ndarray, np.ndarray]:
    return sd * rng.normal(size=(runs, 1)), sd * rng.normal(size=(runs, 1))


@given(st.floats(1e-4, 1e4))
def test_the_inverse_of_trigamma_is_its_inverse(value: float) -> None:
    assert float(polygamma(1, _trigamma_inverse(value))) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("prior_df", [3.0, 10.0])
def test_a_prior_that_variances_were_drawn_from_is_found_again(prior_df: float) -> None:
    found = fit_prior(drawn(np.random.default_rng(1), 3_000, prior_df, 8))
    assert found.df == pytest.approx(prior_df, rel=0.15)
    assert found.variance[0] == pytest.approx(4e-4, rel=0.1)


def test_scenarios_that_are_alike_lend_all_that_they_have() -> None:
    rng = np.random.default_rng(2)
    alike = [Spread(np.array([4e-4 * rng.chisquare(8) / 8]), 8) for _ in range(400)]
    found = fit_prior(alike)
    assert found.df > 100
    assert found.most_df == 3200
    assert fit_prior([Spread(np.array([4e-4]), 8)] * 5).df == 40


def test_a_variance_is_drawn_towards_the_others_by_what_it_knows_itself() -> None:
    own = difference(sides(np.random.default_rng(3), 0.02), FLOOR)
    prior = Prior(np.array([9e-4]), 6.0, 400.0)
    found = moderate(own, prior, GUARD, 0.025)
    expected = (6 * 9e-4 + own.own_df * own.common_variance) / (6 + own.own_df)
    assert found.common_variance == pytest.approx(expected)
    assert found.df == pytest.approx(own.df + 6)
    assert found.with_runs(10).df > found.df


def test_a_truly_noisier_scenario_keeps_its_own_interval() -> None:
    prior = Prior(np.array([1e-4]), 20.0, 400.0)
    noisy = difference(sides(np.random.default_rng(4), 0.04), FLOOR)
    kept = moderate(noisy, prior, GUARD, 0.025)
    assert kept.reach(0.025) == pytest.approx(noisy.reach(0.025))
    assert kept.prior_df[0] == 0
    unguarded = moderate(noisy, prior, 1 - 1e-12, 0.025)
    assert unguarded.reach(0.025) < noisy.reach(0.025)


def test_what_rounding_hides_is_not_made_up_for_by_the_others() -> None:
    same = np.full((5, 1), 2.0)
    floored = difference((same, same), np.array([0.01]))
    found = moderate(floored, Prior(np.array([1e-6]), 20.0, 400.0), GUARD, 0.025)
    assert found.common_variance >= floored.common_variance


def test_what_is_borrowed_is_no_more_than_all_scenarios_have() -> None:
    found = moderate(
        difference(sides(np.random.default_rng(3), 0.02), FLOOR), Prior(np.array([9e-4]), 80.0, 80.0), GUARD, 0.025
    )
    assert found.df[0] == 80.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_swapping_sides_turns_a_moderated_interval_around(seed: int) -> None:
    one, other = sides(np.random.default_rng(seed), 0.02)
    prior = Prior(np.array([3e-4]), 5.0, 400.0)
    low, _ = moderate(difference((one, other), FLOOR), prior, GUARD, 0.025).limits(0.025)
    _, high = moderate(difference((other, one), FLOOR), prior, GUARD, 0.025).limits(0.025)
    assert low == pytest.approx(-high)


@pytest.mark.parametrize(("scenarios", "least"), [(50, 0.94), (10, 0.93)])
def test_moderated_intervals_cover_the_truth_and_are_shorter(scenarios: int, least: float) -> None:
    """Run CV 3 %, spread log-normally by 0.4 over scenarios; reference: 95.1 %, half-width 4.18 against 4.75 %."""
    rng, covered, widths, own_widths = np.random.default_rng(5), 0, [], []
    campaigns = 2_000 // scenarios
    for _ in range(campaigns):
        noise = 0.03 * np.exp(0.4 * rng.normal(size=scenarios) - 0.08)
        both = [sides(rng, one) for one in noise]
        prior = fit_prior([spread_of(one, FLOOR) for one in both])
        for one in both:
            own = difference(one, FLOOR)
            found = moderate(own, prior, GUARD, 0.025)
            low, high = found.limits(0.025)
            covered += bool(low[0] <= 0 <= high[0])
            widths.append(found.reach(0.025)[0])
            own_widths.append(own.reach(0.025)[0])
    assert least <= covered / (campaigns * scenarios) <= 0.97
    assert np.mean(widths) < 0.95 * np.mean(own_widths)


@pytest.mark.parametrize("runs", [2, 5, 8, 10])
def test_equal_repeats_are_pooled_as_by_degrees_of_freedom(runs: int) -> None:
    one, other = sides(np.random.default_rng(6), 0.02, runs)
    found = spread_of((one, other), FLOOR)
    assert found.df == pytest.approx(2 * (runs - 1), rel=1e-12)
    assert found.variance == pytest.approx((one.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / 2, rel=1e-12)
    assert spread_of((one,), FLOOR).df == pytest.approx(runs - 1, rel=1e-12)


def test_a_spread_is_of_the_variance_that_it_will_moderate() -> None:
    rng = np.random.default_rng(7)
    both = (0.005 * rng.normal(size=(10, 1)), 0.02 * rng.normal(size=(3, 1)))
    assert spread_of(both, FLOOR).variance == pytest.approx(difference(both, FLOOR).common_variance)
    alike = [spread_of((rng.normal(size=(10, 1)), rng.normal(size=(3, 1))), FLOOR) for _ in range(4_000)]
    variances = np.array([one.variance[0] for one in alike])
    assert alike[0].df == pytest.approx(2 * variances.mean() ** 2 / variances.var(), rel=0.15)


def test_moderated_intervals_cover_where_the_side_with_few_runs_is_the_noisier_one() -> None:
    """10 + 4 runs, 0.5 and 2 %: 6.2 % miss, 5.7 % alone; pooled by degrees of freedom 12.5 % do."""
    rng, missed, campaigns, scenarios = np.random.default_rng(8), 0, 40, 50
    for _ in range(campaigns):
        both = [(0.005 * rng.normal(size=(10, 1)), 0.02 * rng.normal(size=(4, 1))) for _ in range(scenarios)]
        prior = fit_prior([spread_of(one, FLOOR) for one in both])
        for one in both:
            low, high = moderate(difference(one, FLOOR), prior, GUARD, 0.025).limits(0.025)
            missed += not low[0] <= 0 <= high[0]
    share = missed / (campaigns * scenarios)
    assert share + 1.96 * np.sqrt(share / (campaigns * scenarios)) <= 0.08


def of_campaign(rng: np.random.Generator, sd: float, scenarios: int, earlier: int) -> list[Spread]:
    return [replace(spread_of(sides(rng, sd), FLOOR), earlier=earlier) for _ in range(scenarios)]


def test_one_campaign_alone_has_the_prior_of_fitfdist() -> None:
    spreads = drawn(np.random.default_rng(9), 30, 5.0, 8)
    z = np.log([one.variance[0] for one in spreads]) - digamma(4) + np.log(4)
    df = 2 * _trigamma_inverse(z.var(ddof=1) - float(polygamma(1, 4)))
    found = fit_prior(spreads)
    assert found.df == pytest.approx(df)
    assert found.variance[0] == pytest.approx(np.exp(z.mean() + digamma(df / 2) - np.log(df / 2)))
    assert fit_prior([replace(one, earlier=3) for one in spreads]) == found


@pytest.mark.parametrize("quieter", [1.0, 2.0])
def test_earlier_campaigns_say_how_much_scenarios_differ_and_not_how_large_noise_is_now(quieter: float) -> None:
    """Five earlier campaigns; with their level, half the noise makes 8.9 % of the intervals miss instead of 5."""
    rng, missed, campaigns, scenarios = np.random.default_rng(10), 0, 40, 50
    for _ in range(campaigns):
        past = [one for number in range(1, 6) for one in of_campaign(rng, 0.02 / quieter, scenarios, number)]
        both = [sides(rng, 0.02) for _ in range(scenarios)]
        prior = fit_prior([*past, *(spread_of(one, FLOOR) for one in both)])
        for one in both:
            low, high = moderate(difference(one, FLOOR), prior, GUARD, 0.025).limits(0.025)
            missed += not low[0] <= 0 <= high[0]
    share = missed / (campaigns * scenarios)
    assert share - 1.96 * np.sqrt(share / (campaigns * scenarios)) <= 0.05


def test_few_scenarios_now_take_the_level_of_all() -> None:
    rng = np.random.default_rng(11)
    past, now = of_campaign(rng, 0.01, 40, 1), of_campaign(rng, 0.02, 8, 0)
    assert fit_prior([*past, *now]).variance[0] == pytest.approx(fit_prior(now).variance[0], rel=0.25)
    assert fit_prior([*past, *now]).most_df == pytest.approx(64)
    assert fit_prior([*past, *now[:7]]) == fit_prior([replace(one, earlier=0) for one in [*past, *now[:7]]])


def latency_of(judgement: Judgement, scenario: str = "s00") -> tuple[float, float | None]:
    (verdict,) = [one for one in judgement.verdicts if (one.scenario, one.metric) == (scenario, "client_latency")]
    assert verdict.df is not None
    return verdict.df, verdict.prior_df


def test_a_campaign_of_enough_scenarios_is_moderated_and_says_by_how_much() -> None:
    runs = campaign(scenarios=SCENARIOS)
    df, lent = latency_of(judge(runs, "1.0", "1.1", policy()))
    own, nothing = latency_of(judge(runs, "1.0", "1.1", policy(change__moderation__enabled=False)))
    assert nothing is None
    assert lent is not None
    assert lent > 0
    assert df == pytest.approx(own + lent, rel=0.5)
    assert own <= 8
    (note,) = [
        note for note in judge(runs, "1.0", "1.1", policy()).notes if note.startswith("Scenarios lend each other")
    ]
    assert "client_latency " in note
    assert "http_error_rate" not in note


def test_few_scenarios_stand_for_themselves_until_earlier_campaigns_join_them() -> None:
    runs = campaign(scenarios=SCENARIOS[:2])
    past = [campaign(seed, scenarios=SCENARIOS[:2]) for seed in (7, 8, 9)]
    assert latency_of(judge(runs, "1.0", "1.1", policy()))[1] is None
    joined = judge(runs, "1.0", "1.1", policy(), past)
    df, lent = latency_of(joined)
    assert lent is not None
    assert df > 8
    assert latency_of(judge(runs, "1.0", "1.1", policy(change__moderation__enabled=False), past))[1] is None
    alone = judge(runs, "1.0", "1.1", policy())
    assert [[change.estimate for change in one.percentiles] for one in joined.verdicts] == [
        [change.estimate for change in one.percentiles] for one in alone.verdicts
    ]

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from perf_pipeline.gates.evidence import ErrorSample, NumberSample, Sample
from perf_pipeline.gates.findings import Agreement
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.repeat_agreement import check_agreement
from tests.simulated_runs import latency, policy


def agreement(metric: str, samples: list[Sample], limits: Policy | None = None) -> Agreement:
    key = ("1.0", "browse", metric)
    repeats = [(f"r{number:02d}", sample) for number, sample in enumerate(samples, start=1)]
    return check_agreement({key: repeats}, [key], limits or policy())[0]


def shifted(*shifts: float, seed: int = 1, within: float = 0.0) -> list[Sample]:
    """Runs that differ by exact log shifts; halves of a run differ by `within`."""
    base = latency(np.random.default_rng(seed))
    return [
        replace(
            base, shape=base.shape + shift, half_shapes=np.stack((base.shape, base.shape + within)) + shift
        )
        for shift in shifts
    ]  # fmt: skip


def numbers(*values: float) -> list[Sample]:
    return [NumberSample(value, np.full(24, value), 10.0) for value in values]


def errors(*counts: int, requests: int = 100_000) -> list[Sample]:
    return [ErrorSample(count, requests) for count in counts]


def test_the_distance_is_wassersteins_on_log_latency() -> None:
    samples = [latency(np.random.default_rng(seed)) for seed in (1, 2)]
    found = agreement("client_latency", list(samples))
    expected = stats.wasserstein_distance(samples[0].shape, samples[1].shape)
    assert found.value == pytest.approx(math.expm1(expected))


def test_repeats_below_a_quarter_of_the_zone_agree_however_steady_each_run_is() -> None:
    found = agreement("client_latency", shifted(0.0, 0.01, 0.02, 0.024, 0.0))
    assert found.status == "agree"
    assert found.limit == pytest.approx(0.025)
    assert found.within == pytest.approx(0.0)


def test_a_limit_grows_with_what_the_halves_of_a_run_differ_by() -> None:
    found = agreement("client_latency", shifted(0.0, 0.05, within=0.04))
    assert math.log1p(found.limit or 0) == pytest.approx(0.71 * 3 * 0.04)
    assert found.status == "agree"


def test_repeats_in_two_groups_far_apart_disagree() -> None:
    found = agreement("client_latency", shifted(0.0, 0.001, 0.5, 0.501, 0.502))
    assert found.status == "disagree"
    assert "of which the interval of a change carries 15 %" in found.message


def test_a_spread_that_the_interval_of_a_change_carries_agrees() -> None:
    """Five repeats know a spread to within a factor of 2.37: 2.4 % may be 5.6 %, and 8 % may be 19 %."""
    assert agreement("client_latency", shifted(0.0, 0.015, 0.03, 0.045, 0.06)).status == "agree"
    found = agreement("client_latency", shifted(0.0, 0.05, 0.1, 0.15, 0.2))
    assert found.status == "too few to say"
    assert "a spread of 7.9 % between runs, with confidence between 5.1 % and 18.9 %" in found.message


def test_without_a_spread_that_is_carried_the_distance_alone_decides() -> None:
    article = policy("v2.18")
    assert agreement("client_latency", shifted(0.0, 0.02, 0.03, 0.045, 0.01), article).status == "agree"
    assert agreement("client_latency", shifted(0.0, 0.03, 0.06, 0.09, 0.12), article).status == "too few to say"
    assert agreement("client_latency", shifted(0.0, 0.001, 0.2, 0.201, 0.202), article).status == "disagree"


@pytest.mark.parametrize("run_cv", [0.03, 0.05])
def test_plain_noise_of_five_percent_is_never_refused(run_cv: float) -> None:
    found = [
        agreement("client_latency", [latency(np.random.default_rng([seed, one]), run_cv=run_cv) for one in range(5)])
        for seed in range(200)
    ]
    assert {one.status for one in found} <= {"agree", "too few to say"}


def test_without_halves_the_odd_and_even_seconds_are_the_scale() -> None:
    samples = [replace(sample, half_shapes=np.full((2, 200), np.nan)) for sample in shifted(0.0, 0.01)]
    apart = float(np.abs(samples[0].alternate_shapes[0] - samples[0].alternate_shapes[1]).mean())
    found = agreement("client_latency", list(samples))
    assert found.within == pytest.approx(math.expm1(apart))
    assert f"of one run odd and even seconds {100 * math.expm1(apart):.1f} %" in found.message


def test_movement_inside_runs_shows_in_halves_and_not_in_seconds() -> None:
    found = agreement("client_latency", shifted(0.0, 0.01, 0.02, within=0.06))
    assert "of one run halves 6.2 %, odd and even seconds 0.7 %" in found.message


def test_without_halves_nothing_says_that_repeats_disagree() -> None:
    samples = [replace(sample, half_shapes=np.full((2, 200), np.nan)) for sample in shifted(0, 0.1, 0, 0.1, 0, 0.1)]
    samples = [replace(sample, alternate_shapes=np.full((2, 200), np.nan)) for sample in samples]
    found = agreement("client_latency", list(samples), policy("v2.18"))
    assert found.status == "too few to say"
    assert "how far apart parts of one run lie is not known" in found.message


def test_the_repeat_that_stands_apart_is_named_and_kept() -> None:
    found = agreement("client_latency", shifted(0.0, 0.005, 0.15, 0.01, 0.002))
    assert found.most_influential_run == "r03"
    assert found.repeats == 5
    assert "r03 stands furthest from the others, 15.8 % away; without it 0.5 %" in found.message


def test_one_repeat_shifted_by_15_percent_is_named() -> None:
    named = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        samples = [latency(rng, shift=0.15 if number == 3 else 0.0) for number in range(5)]
        named += agreement("client_latency", list(samples)).most_influential_run == "r04"
    assert named >= 95


def test_of_two_repeats_neither_stands_apart() -> None:
    assert agreement("client_latency", shifted(0.0, 0.3)).most_influential_run is None


def test_five_numbers_have_three_answers() -> None:
    """The chi-square limits of a spread from five repeats: 0.65 and 2.37 times the estimate."""
    close, wide, wild = numbers(1, 1.02, 0.98, 1.01, 1), numbers(1, 1.2, 0.9, 1.1, 1), numbers(1, 2, 0.5, 1.5, 0.7)
    assert agreement("service_p99", close).status == "agree"
    assert agreement("service_p99", wide).status == "too few to say"
    assert agreement("service_p99", wild).status == "disagree"
    assert agreement("service_p99", wild).most_influential_run in ("r02", "r03")


def test_the_coefficient_of_variation_is_that_of_log_normal_values() -> None:
    values = np.exp(np.random.default_rng(2).normal(0, 0.1, 300))
    found = agreement("service_memory", numbers(*values))
    assert found.value == pytest.approx(values.std() / values.mean(), rel=0.03)


def test_a_spread_at_the_limit_is_said_to_agree_in_one_case_of_twenty() -> None:
    rng, tries, limits = np.random.default_rng(3), 1_500, policy()
    at_the_limit = math.sqrt(math.log1p(0.15**2))
    agreed = sum(
        agreement("service_p99", numbers(*np.exp(rng.normal(0, at_the_limit, 5))), limits).status == "agree"
        for _ in range(tries)
    )
    assert agreed / tries == pytest.approx(0.05, abs=0.017)


def test_equal_numbers_agree() -> None:
    found = agreement("service_memory", numbers(1e8, 1e8, 1e8))
    assert (found.status, found.value, found.most_influential_run) == ("agree", 0.0, None)


def test_error_counts_that_come_in_bursts_disagree() -> None:
    found = agreement("http_error_rate", errors(0, 0, 0, 2000, 0))
    assert (found.status, found.most_influential_run) == ("disagree", "r04")
    assert agreement("http_error_rate", errors(400, 410, 395, 420, 380)).status == "agree"


def test_over_dispersion_is_waived_below_the_zone() -> None:
    found = agreement("http_error_rate", errors(0, 0, 0, 99, 0))
    assert found.status == "agree"
    assert "below the zone" in found.message


def test_scatter_that_many_requests_make_significant_but_the_zone_makes_harmless_agrees() -> None:
    """1 % errors in a million requests: chance explains +-1 %, and +-2 % of 1 % is a fifth of the zone."""
    found = agreement("http_error_rate", errors(10_200, 9_800, 10_000, 10_210, 9_790, requests=1_000_000))
    assert (found.value or 0) > 4
    assert found.status == "agree"


@pytest.mark.parametrize("metric", ["client_latency", "service_p99", "http_error_rate"])
@pytest.mark.parametrize("repeats", [0, 1])
def test_less_than_two_repeats_cannot_agree(metric: str, repeats: int) -> None:
    one: Sample = {
        "client_latency": shifted(0.0)[0],
        "service_p99": numbers(1.0)[0],
        "http_error_rate": errors(0)[0],
    }[metric]
    found = agreement(metric, [one] * repeats)
    assert (found.status, found.repeats, found.value) == ("too few to say", repeats, None)

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.gates.comparison import Standing
from perf_pipeline.gates.evidence import PERCENTILES, LatencySample, NumberSample
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.log_change import compare_logs, measure
from perf_pipeline.gates.policy import Policy
from tests.simulated_runs import latency, policy

LIMITS = policy()
ZONE = {"low": 1 / 1.1 - 1, "high": 0.1}
BOTH_WAYS = {
    "regression": "improvement",
    "improvement": "regression",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
}


def side(seed: int, runs: int = 5, **how: float) -> list[LatencySample]:
    rng = np.random.default_rng(seed)
    return [latency(rng, **how) for _ in range(runs)]  # type: ignore[arg-type]


def compare(
    baseline: list[LatencySample], candidate: list[LatencySample], limits: Policy = LIMITS
) -> Verdict:  # fmt: skip
    return compare_logs(
        "browse", "client_latency", measure("client_latency", baseline, candidate, limits), limits
    ).verdict


def numbers(*values: float, width: float = 0.0) -> list[NumberSample]:
    return [NumberSample(value, np.full(24, value), 10.0, width) for value in values]


def compare_numbers(
    baseline: list[NumberSample], candidate: list[NumberSample], metric: str = "service_p99"
) -> Verdict:
    return compare_logs("browse", metric, measure(metric, baseline, candidate, LIMITS), LIMITS).verdict


def reshaped(sample: LatencySample, change: np.ndarray | float) -> LatencySample:
    return replace(sample, log_quantiles=sample.log_quantiles + change)


def test_nothing_changed_is_equivalent_and_says_where_it_was_closest() -> None:
    verdict = compare(side(1), side(2))
    assert verdict.verdict == "equivalent"
    assert verdict.reason.startswith(
        "inside the zone of ±10 % at every percentile, closest to its edge: client_latency"
    )
    assert (verdict.zone_low, verdict.zone_high) == (pytest.approx(ZONE["low"]), pytest.approx(ZONE["high"]))
    assert all(ZONE["low"] < change.low <= change.high < ZONE["high"] for change in verdict.percentiles)
    assert verdict.repeats_to_settle is None
    widest = max(verdict.percentiles, key=lambda one: max(math.log1p(one.high), -math.log1p(one.low)))
    assert verdict.deciding_percentile == widest.p


def test_a_slowdown_of_every_percentile_is_a_regression_by_the_band() -> None:
    verdict = compare(side(1), side(2, shift=0.25))
    assert verdict.verdict == "regression"
    assert "as at 21 of 21 percentiles" in verdict.reason
    decided = next(change for change in verdict.percentiles if change.p == verdict.deciding_percentile)
    assert (verdict.low, verdict.high) == (decided.band_low, decided.band_high)
    assert decided.band_low == max(change.band_low for change in verdict.percentiles)
    assert decided.band_low < decided.low < decided.estimate < decided.high < decided.band_high
    assert (verdict.candidate_value or 0) / (verdict.baseline_value or 1) - 1 == pytest.approx(verdict.estimate)
    assert verdict.unit == "ms"


def test_a_slowdown_of_the_faster_half_alone_is_found() -> None:
    """The article: p99 alone shows nothing, the distribution shows that the faster half got slower."""
    faster_half = np.where(np.array(PERCENTILES) <= 50, math.log(1.3), 0.0)
    verdict = compare(side(1), [reshaped(sample, faster_half) for sample in side(2)])
    assert verdict.verdict == "regression"
    assert verdict.deciding_percentile is not None
    assert verdict.deciding_percentile <= 50
    assert "as at 10 of 21 percentiles" in verdict.reason


def test_both_at_once_are_both_reported_and_the_regression_is_acted_on() -> None:
    twist = np.where(np.array(PERCENTILES) <= 50, math.log(0.7), math.log(1.4))
    verdict = compare(side(1), [reshaped(sample, twist) for sample in side(2)])
    assert verdict.verdict == "regression"
    assert "at the same time client_latency at p" in verdict.reason
    assert "improved: -" in verdict.reason


def test_too_much_noise_is_inconclusive_and_says_how_far_and_how_many() -> None:
    verdict = compare(side(1, run_cv=0.06), side(2, run_cv=0.06))
    assert verdict.verdict == "inconclusive"
    assert "crosses" in verdict.reason
    assert verdict.repeats_to_settle is not None
    assert f"about {verdict.repeats_to_settle} repeats per version would settle it" in verdict.reason
    assert (verdict.smallest_detectable or 0) > 0.15


def test_an_estimate_on_the_edge_is_never_settled() -> None:
    on_edge = [reshaped(sample, math.log(1.1)) for sample in side(1)]
    verdict = compare(side(1), on_edge)
    assert (verdict.verdict, verdict.repeats_to_settle) == ("inconclusive", None)
    assert "no practical number of repeats" in verdict.reason


def test_as_many_repeats_as_it_names_settle_it_when_nothing_else_changes() -> None:
    def with_runs(runs: int) -> Verdict:
        """+2 % with a standard deviation of 4 % on both sides, whatever the number of runs."""
        pattern = np.linspace(-1, 1, runs)
        noise = 0.04 * pattern / pattern.std(ddof=1)
        return compare_numbers(numbers(*np.exp(noise)), numbers(*np.exp(0.02 + noise)))

    verdict = with_runs(5)
    named = verdict.repeats_to_settle
    assert verdict.verdict == "inconclusive"
    assert named is not None
    assert with_runs(named).verdict == "equivalent"
    assert with_runs(named - 1).verdict == "inconclusive"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(-0.4, 0.6), st.integers(2, 6), st.integers(2, 6))
def test_swapping_the_sides_turns_the_verdict_around(seed: int, shift: float, n: int, m: int) -> None:
    one, other = side(seed, n), side(seed + 1, m, shift=shift)
    verdict, swapped = compare(one, other), compare(other, one)
    worse_and_better = "at the same time" in verdict.reason or "at the same time" in swapped.reason
    assert worse_and_better or swapped.verdict == BOTH_WAYS[verdict.verdict]
    for change, mirrored in zip(verdict.percentiles, swapped.percentiles, strict=True):
        assert math.log1p(mirrored.low) == pytest.approx(-math.log1p(change.high), abs=1e-9)
        assert math.log1p(mirrored.band_high) == pytest.approx(-math.log1p(change.band_low), abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(-0.3, 0.5), st.floats(-6, 6))
def test_the_scale_of_latencies_does_not_matter(seed: int, shift: float, scale: float) -> None:
    baseline, candidate = side(seed), side(seed + 1, shift=shift)
    verdict = compare(baseline, candidate)
    scaled = compare([reshaped(one, scale) for one in baseline], [reshaped(one, scale) for one in candidate])
    assert scaled.verdict == verdict.verdict
    assert scaled.low == pytest.approx(verdict.low, abs=1e-9)
    assert scaled.smallest_detectable == pytest.approx(verdict.smallest_detectable, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(-0.3, 0.4), st.floats(0.02, 0.2), st.floats(0.001, 0.3))
def test_a_wider_zone_never_turns_equivalent_or_improved_into_a_regression(
    seed: int, shift: float, zone: float, more: float
) -> None:
    baseline, candidate = side(seed), side(seed + 1, shift=shift)
    zones = dict(LIMITS.change.zone)
    narrow, wide = (
        compare(baseline, candidate, policy(change__zone=zones | {"client_latency": size}))
        for size in (zone, zone + more)
    )
    if narrow.verdict != "regression":
        assert wide.verdict != "regression"
    if narrow.verdict == "equivalent":
        assert wide.verdict == "equivalent"


def test_identical_repeats_do_not_make_an_interval_of_no_width() -> None:
    verdict = compare_numbers(numbers(*[100.0] * 5), numbers(*[101.0] * 5))
    assert verdict.verdict == "equivalent"
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.high - verdict.low > 0.002
    assert "a noise floor stands in for their spread" in verdict.reason


def test_values_that_are_tied_by_wide_buckets_vary_by_the_width_of_the_bucket() -> None:
    """Repeats that all fall into one bucket of 4 % cannot be known to a tenth of a percent."""
    fine, tied = (
        compare_numbers(numbers(*[50.0] * 5, width=width), numbers(*[51.0] * 5, width=width)) for width in (0.0, 0.04)
    )
    assert (fine.verdict, tied.verdict) == ("equivalent", "equivalent")
    assert (tied.high or 0) - (tied.low or 0) > 10 * ((fine.high or 0) - (fine.low or 0))


def coarse(samples: list[LatencySample], widths: np.ndarray | float) -> list[LatencySample]:
    return [replace(sample, log_bucket_width=np.broadcast_to(widths, 21).astype(float)) for sample in samples]


def test_buckets_wider_than_the_zone_are_not_comparable() -> None:
    for width in (0.3, math.inf):
        verdict = compare(coarse(side(1), width), coarse(side(2), width))
        assert verdict.verdict == "not comparable"
        assert "histogram buckets of client_latency are wider than the zone" in verdict.reason
        assert verdict.percentiles == ()


def test_coarse_buckets_at_some_percentiles_never_become_equivalent() -> None:
    widths = np.where(np.array(PERCENTILES) >= 97.5, 0.3, 0.005)
    verdict = compare(coarse(side(1), widths), coarse(side(2), widths))
    assert (verdict.verdict, verdict.repeats_to_settle) == ("inconclusive", None)
    assert "wider than the zone at p97.5, at p99; finer buckets would settle it" in verdict.reason


def test_a_change_larger_than_the_coarse_buckets_is_still_found() -> None:
    verdict = compare(coarse(side(1), 0.3), coarse(side(2, shift=2.0), 0.3))
    assert verdict.verdict == "regression"
    assert compare(coarse(side(1), 0.3), coarse(side(2, shift=0.6), 0.3)).verdict == "not comparable"


def test_percentiles_without_an_upper_edge_are_left_out_of_the_list() -> None:
    widths = np.where(np.array(PERCENTILES) == 99, math.inf, 0.005)
    verdict = compare(coarse(side(1), widths), coarse(side(2), widths))
    assert [change.p for change in verdict.percentiles] == list(PERCENTILES[:-1])
    assert all(math.isfinite(value) for change in verdict.percentiles for value in vars(change).values())


def test_one_wild_repeat_costs_the_answer_and_does_not_make_one() -> None:
    wild = side(2)
    wild[2] = reshaped(wild[2], math.log(1.8))
    assert compare(side(1), wild).verdict == "inconclusive"


def test_two_runs_a_side_are_enough_to_be_asked_and_rarely_to_be_answered() -> None:
    verdict = compare(side(1, 2), side(2, 2))
    assert verdict.verdict == "inconclusive"
    assert (verdict.baseline_repeats, verdict.candidate_repeats) == (2, 2)


def verdicts(tries: int, seed: int, runs: int = 5, **candidate: float) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    found: dict[str, int] = {}
    for _ in range(tries):
        sides = [
            [latency(rng, **how) for _ in range(runs)]  # type: ignore[arg-type]
            for how in ({key: value for key, value in candidate.items() if key != "shift"}, candidate)
        ]
        name = compare(*sides).verdict
        found[name] = found.get(name, 0) + 1
    return {name: number / tries for name, number in found.items()}


def test_when_nothing_changed_almost_everything_is_equivalent_and_nothing_a_regression() -> None:
    found = verdicts(300, seed=4, run_cv=0.02)
    assert found.get("regression", 0) + found.get("improvement", 0) == 0
    assert found["equivalent"] >= 0.93


def test_a_change_on_the_edge_of_the_zone_is_rarely_called_either_way() -> None:
    """The worst case: 2.5 % for each edge, and the reference allows 3 %."""
    tries = 400
    found = verdicts(tries, seed=5, run_cv=0.02, shift=0.10)
    allowed = 0.03 + 2 * math.sqrt(0.03 * 0.97 / tries)
    assert found.get("equivalent", 0) <= allowed
    assert found.get("regression", 0) <= allowed


def test_a_slowdown_of_20_percent_is_found() -> None:
    """The reference: 90 % with a permutation max-t band at a run CV with a tail up to 8.7 %."""
    assert verdicts(200, seed=6, run_cv=0.02, shift=0.20)["regression"] >= 0.97


@pytest.mark.parametrize("runs", [3, 5])
def test_the_smallest_detectable_change_is_found_about_eight_times_in_ten(runs: int) -> None:
    detectable = np.median([compare(side(seed, runs), side(seed + 1, runs)).smallest_detectable for seed in range(60)])
    found = verdicts(250, seed=7, runs=runs, shift=float(detectable))
    assert 0.72 <= found["regression"] <= 0.92


def test_an_improvement_says_where_a_regression_cannot_be_ruled_out() -> None:
    tail = np.array(PERCENTILES) >= 99
    candidate = [
        reshaped(sample, np.where(tail, jump, math.log(0.7)))
        for sample, jump in zip(side(2), (-0.4, -0.2, 0.0, 0.2, 0.4), strict=True)
    ]
    verdict = compare(side(1), candidate)
    assert verdict.verdict == "improvement"
    assert "whether client_latency at p99 regressed is not known" in verdict.reason


def test_among_hundreds_of_comparisons_a_wild_one_is_no_regression_by_chance() -> None:
    """+35 % with a run CV of 10 %: beyond a zone of 5 % for itself, and nothing special among 250."""
    pattern = np.linspace(-1, 1, 5)
    noise = 0.10 * pattern / pattern.std(ddof=1)
    sides = numbers(*np.exp(noise)), numbers(*np.exp(math.log(1.35) + noise))
    alone, among_many = (
        compare_logs("browse", "service_p99", measure("service_p99", *sides, LIMITS), LIMITS, Standing(number)).verdict
        for number in (1, 250)
    )
    assert alone.verdict == "regression"
    assert among_many.verdict == "inconclusive"
    assert "lies beyond the zone of ±5 % taken alone" in among_many.reason
    assert among_many.repeats_to_settle is not None
    assert (among_many.smallest_detectable or 0) > (alone.smallest_detectable or 0)
    assert among_many.low == alone.low


def test_when_nothing_changed_hundreds_of_noisy_numbers_have_no_regression_among_them() -> None:
    """150 campaigns of 100 comparisons of a number with a run CV of 10 % in a zone of 5 %, three runs a side. Each
    comparison for itself would make about one regression in every second campaign."""
    rng, campaigns, each = np.random.default_rng(9), 150, 100
    called = 0
    for _ in range(campaigns):
        logs = 0.10 * rng.standard_normal((each, 2, 3))
        # Few intervals reach beyond the zone at all: only those are worth the whole comparison.
        means, spreads = logs.mean(axis=2), logs.std(axis=2, ddof=1)
        far = np.flatnonzero(np.abs(means[:, 1] - means[:, 0]) > 2 * np.hypot(*(spreads / math.sqrt(3)).T))
        called += any(
            compare_logs(
                "s",
                "service_p99",
                measure("service_p99", numbers(*np.exp(one[0])), numbers(*np.exp(one[1])), LIMITS),
                LIMITS,
                Standing(each),
            )
            .verdict.verdict in ("regression", "improvement")
            for one in logs[far]
        )  # fmt: skip
    assert called / campaigns <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / campaigns)

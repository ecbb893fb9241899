"""Histograms: no quantile is further off than a bucket is wide, and counts add without loss."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.metrics.histogram import (
    BUCKET_RATIO,
    Histogram,
    WindowedHistogram,
    bucket_edges_ms,
    bucket_index,
    cumulative_differences,
    cumulative_edges_ms,
    merge,
    window_histogram,
)

latencies = st.lists(st.floats(1e-6, 1e8), min_size=1, max_size=300)
shares = st.floats(0.001, 1)


def histogram_of(values: list[float]) -> Histogram:
    low, high = bucket_edges_ms(bucket_index(values))
    return window_histogram(low, high, np.zeros(len(values), int), np.ones(len(values)), 1).over()


@given(latencies, shares)
def test_a_quantile_is_within_half_a_percent_of_the_exact_one(values: list[float], share: float) -> None:
    exact = np.quantile(values, share, method="inverted_cdf")
    ordered = np.sort(values)
    at = int(np.searchsorted(ordered, exact, "right")) - 1
    # At a rank that is a whole number, rounding of share * n picks either neighbour; both are right.
    right = ordered[[max(0, at - 1), at, min(at + 1, len(values) - 1)]]
    found = np.exp(histogram_of(values).log_quantiles(share))
    assert np.abs(np.log(found / right)).min() <= np.log(BUCKET_RATIO) * (1 + 1e-6)


def test_quantiles_of_many_requests_agree_with_numpy() -> None:
    values = np.random.default_rng(1).lognormal(1, 0.8, 200_000)
    at = np.array([0.0025, 0.05, 0.5, 0.9, 0.99, 0.999])
    found = np.exp(histogram_of(list(values)).log_quantiles(at))
    np.testing.assert_allclose(found, np.quantile(values, at), rtol=0.0025)


@given(latencies)
def test_every_latency_lies_in_its_bucket(values: list[float]) -> None:
    low, high = bucket_edges_ms(bucket_index(values))
    assert (low <= np.array(values) * (1 + 1e-9)).all()
    assert (np.array(values) <= high * (1 + 1e-9)).all()
    np.testing.assert_allclose(high / low, BUCKET_RATIO)


def test_an_answer_that_took_no_time_is_counted() -> None:
    assert histogram_of([0.0, 1.0]).requests == 2
    assert np.isfinite(histogram_of([0.0]).log_quantiles(0.5))


@given(latencies, latencies, latencies)
def test_merging_is_associative_and_loses_nothing(first: list, second: list, third: list) -> None:
    a, b, c = histogram_of(first), histogram_of(second), histogram_of(third)
    left, right, together = (
        merge([merge([a, b]), c]),
        merge([a, merge([b, c])]),
        histogram_of([*first, *second, *third]),
    )
    for merged in (left, right):
        np.testing.assert_array_equal(merged.low_ms, together.low_ms)
        np.testing.assert_array_equal(merged.high_ms, together.high_ms)
        np.testing.assert_array_equal(merged.counts, together.counts)


def test_merging_nothing_gives_nothing() -> None:
    assert merge([]).requests == 0


def test_histograms_of_other_buckets_are_not_merged() -> None:
    one = Histogram(np.array([1.0]), np.array([2.0]), np.array([1.0]))
    other = Histogram(np.array([1.5]), np.array([2.5]), np.array([1.0]))
    same_low = Histogram(np.array([1.0]), np.array([3.0]), np.array([1.0]))
    for wrong in (other, same_low):
        with pytest.raises(ValueError, match="overlap"):
            merge([one, wrong])


def test_quantiles_inside_a_bucket_are_spread_evenly_in_log_latency() -> None:
    histogram = Histogram(np.array([1.0]), np.array([100.0]), np.array([10.0]))
    np.testing.assert_allclose(np.exp(histogram.log_quantiles([0.25, 0.5, 1.0])), [10**0.5, 10, 100])


def test_a_bucket_without_width_in_log_latency_says_so() -> None:
    histogram = Histogram(np.array([0.0, 5.0, 10.0]), np.array([5.0, 10.0, np.inf]), np.array([4.0, 4.0, 2.0]))
    np.testing.assert_allclose(np.exp(histogram.log_quantiles([0.2, 0.95])), [2.5, 10.0])
    np.testing.assert_allclose(histogram.log_widths([0.2, 0.6, 0.95]), [np.inf, np.log(2), np.inf])


def test_a_histogram_without_requests_has_no_quantiles() -> None:
    empty = Histogram(np.array([1.0]), np.array([2.0]), np.array([0.0]))
    assert np.isnan(empty.log_quantiles([0.5, 0.9])).all()
    assert np.isnan(empty.log_widths([0.5])).all()
    assert np.isnan(WindowedHistogram(np.array([1.0]), np.array([2.0]), np.zeros((2, 1))).mean_logs()).all()


def test_empty_buckets_change_nothing() -> None:
    tight = Histogram(np.array([2.0]), np.array([3.0]), np.array([5.0]))
    padded = Histogram(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]), np.array([0.0, 5.0, 0.0]))
    at = [1e-9, 0.3, 1.0]
    np.testing.assert_allclose(padded.log_quantiles(at), tight.log_quantiles(at))
    np.testing.assert_allclose(padded.log_widths(at), tight.log_widths(at))


@given(latencies, st.integers(0, 2**32 - 1))
def test_mean_log_and_parts_of_sub_windows(values: list[float], seed: int) -> None:
    window = np.random.default_rng(seed).integers(0, 4, len(values))
    low, high = bucket_edges_ms(bucket_index(values))
    histogram = window_histogram(low, high, window, np.ones(len(values)), 4)
    for number in range(4):
        mine = np.array(values)[window == number]
        assert histogram.window(number).requests == mine.size
        if mine.size:
            assert abs(histogram.mean_logs()[number] - np.log(mine).mean()) <= np.log(BUCKET_RATIO) / 2 + 1e-9
        else:
            assert np.isnan(histogram.mean_logs()[number])
    assert histogram.over(np.array([True, False, True, False])).requests == np.isin(window, [0, 2]).sum()
    assert histogram.over().requests == len(values)


@given(latencies, st.integers(0, 2**32 - 1), st.integers(1, 25))
def test_seconds_are_gathered_into_sub_windows_and_every_other_one_is_known(
    values: list[float], seed: int, seconds: int
) -> None:
    second = np.random.default_rng(seed).integers(0, 24, len(values))
    low, high = bucket_edges_ms(bucket_index(values))
    by_second = window_histogram(low, high, second, np.ones(len(values)), 24)
    gathered = by_second.gathered(seconds)
    assert gathered.counts.shape[0] == math.ceil(24 / seconds)
    for number in range(math.ceil(24 / seconds)):
        assert gathered.window(number).requests == (second // seconds == number).sum()
    even, odd = gathered.alternate()
    there = np.unique(second)
    assert (even.requests, odd.requests) == (np.isin(second, there[::2]).sum(), np.isin(second, there[1::2]).sum())
    np.testing.assert_array_equal(even.counts + odd.counts, gathered.over().counts)


def test_without_seconds_the_sub_windows_alternate() -> None:
    histogram = WindowedHistogram(np.array([1.0]), np.array([2.0]), np.array([[1.0], [2.0], [4.0]]))
    assert [part.requests for part in histogram.alternate()] == [5, 2]


def test_mean_log_of_buckets_without_width_is_finite() -> None:
    histogram = WindowedHistogram(np.array([0.0, 5.0]), np.array([5.0, np.inf]), np.array([[3.0, 1.0]]))
    assert histogram.mean_logs() == pytest.approx((3 * (np.log(5) - 1) + np.log(5)) / 4)


@given(st.lists(st.floats(0.0001, 9.9), max_size=80), st.lists(st.floats(0.0001, 9.9), min_size=1, max_size=80), shares)
def test_the_difference_of_cumulative_scrapes_is_the_histogram_of_what_came_between(
    before: list[float], between: list[float], share: float
) -> None:
    upper_s = np.array([0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, np.inf])
    low_ms, high_ms = cumulative_edges_ms(upper_s)

    def scrape(values: list[float]) -> list[int]:
        return [int((np.array(values) <= edge).sum()) for edge in upper_s]

    counts, moved = cumulative_differences(scrape(before), scrape(before + between))
    assert moved == 0
    histogram = Histogram(low_ms, high_ms, counts)
    assert histogram.requests == len(between)
    found, width = np.exp(histogram.log_quantiles(share)), float(histogram.log_widths(share))
    ordered = 1000 * np.sort(between)
    rank = share * len(between)
    near = ordered[np.clip(np.array([np.ceil(rank - 1e-9), np.ceil(rank + 1e-9)]).astype(int) - 1, 0, len(between) - 1)]
    if np.isfinite(width):
        assert min(abs(np.log(found / near))) <= width + 1e-9
    else:
        assert 0 < found <= 1.0  # the first bucket, of which only its upper edge is known


def test_a_page_that_was_not_made_in_one_piece_costs_no_request_and_says_so() -> None:
    counts, moved = cumulative_differences([0, 0, 0], [5, 4, 10])
    np.testing.assert_array_equal(counts, [5, 0, 5])
    assert moved == 1

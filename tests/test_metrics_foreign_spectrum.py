"""Spectra: a percentile that was printed is exact, one in between is as unsure as its neighbours are far."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.metrics.foreign.spectrum import Tick, spectrum_histogram


def printed(values_ms: np.ndarray, levels: list[float]) -> list[Tick]:
    """What HdrHistogram prints of values that it recorded exactly."""
    ordered = np.sort(values_ms)
    ticks = []
    for level in levels:
        value = ordered[max(0, math.ceil(level * ordered.size * (1 - 1e-12)) - 1)]
        ticks.append(Tick(float(value), 0.001, level, int(np.searchsorted(ordered, value, side="right"))))
    return ticks


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=300),
    st.lists(st.floats(0.01, 0.99), max_size=12, unique=True),
)
def test_printed_percentiles_come_back_and_others_lie_within_their_bucket(
    values: list[int], levels: list[float]
) -> None:
    values_ms = np.array(values, dtype=float)
    ticks = printed(values_ms, [0.0, *sorted(levels), 1.0])
    histogram = spectrum_histogram(ticks).over()
    assert histogram.requests == len(values)
    for tick in ticks[1:]:
        found = float(np.exp(histogram.log_quantiles(tick.level)))
        assert tick.value_ms - 0.001 <= found * (1 + 1e-9) and found <= tick.value_ms * (1 + 1e-9)
        assert float(histogram.log_widths(tick.level)) <= math.log(tick.value_ms / (tick.value_ms - 0.001)) * (1 + 1e-6)
    for share in (0.05, 0.33, 0.5, 0.77, 0.95):
        exact = float(np.quantile(values_ms, share, method="inverted_cdf"))
        low = float(np.exp(histogram.log_quantiles(share) - histogram.log_widths(share)))
        high = float(np.exp(histogram.log_quantiles(share) + histogram.log_widths(share)))
        assert low * (1 - 1e-9) <= exact <= high * (1 + 1e-9)


def test_the_gap_between_two_lines_is_as_wide_as_they_are_apart() -> None:
    ticks = [Tick(1.0, 0.001, 0.0, 1), Tick(2.0, 0.001, 0.5, 50), Tick(4.0, 0.001, 1.0, 100)]
    histogram = spectrum_histogram(ticks).over()
    assert np.expm1(histogram.log_widths([0.25, 0.5, 0.75])) == pytest.approx([1.0, 0.0005, 1.0], abs=2e-3)


def test_below_the_first_line_nothing_is_known() -> None:
    histogram = spectrum_histogram([Tick(2.0, 0.001, 0.1, 10), Tick(4.0, 0.001, 1.0, 100)]).over()
    assert math.isinf(float(histogram.log_widths(0.05)))
    assert float(histogram.log_widths(0.1)) < 0.001


@pytest.mark.parametrize(
    ("ticks", "message"),
    [
        ([], "is cut off"),
        ([Tick(1.0, 0.1, 0.5, 5)], "is cut off"),
        ([Tick(1.0, 0.1, 1.0, 0)], "counts no request"),
        ([Tick(2.0, 0.1, 0.5, 5), Tick(1.0, 0.1, 1.0, 10)], "goes back at percentile 1"),
        ([Tick(1.0, 0.1, 0.5, 9), Tick(2.0, 0.1, 1.0, 8)], "goes back at percentile 1"),
        ([Tick(0.0, 0.0, 1.0, 8)], "has a value of 0"),
    ],
)
def test_what_no_spectrum_can_be_is_refused(ticks: list[Tick], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spectrum_histogram(ticks)

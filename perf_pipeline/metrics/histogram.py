"""Latency histograms: buckets, merging, quantiles.

What belongs here: the arithmetic of counts in buckets, in numpy alone. Where counts come from is in `k6_samples` (one
row a request, into this module's own log-spaced buckets) and in `series` (Prometheus histograms, which keep the edges
that they were scraped with, so that a coarse source stays visibly coarse).

A quantile q(p) of n requests is read at rank p*n, the "inverted CDF" of numpy: the bucket that holds that rank is found
exactly, and inside it the value is interpolated as if the requests were spread evenly in log latency. The result is
thus never further from the exact quantile than the width of one bucket: 0.5 % for log-spaced buckets. Counts add, so
histograms merge without loss; quantiles are never merged or averaged.

Two kinds of bucket have no width in log latency. One that starts at 0 ms is read linearly, one without an upper edge at
its lower edge, both as Prometheus does. Their log width is infinite, and the gates refuse to compare such a percentile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BUCKET_RATIO = 1.005
"""Upper edge / lower edge of a log-spaced bucket: at most 0.5 % relative error."""

SMALLEST_MS = 1e-6
"""What k6 can write at all (`%f` of ms); an answer that took 0 is counted here, because 0 has no logarithm."""


def bucket_index(latency_ms: ArrayLike) -> IntArray:
    """Index of the log-spaced bucket of each latency >= 0 ms; bucket i is [1.005^i, 1.005^(i+1)) ms."""
    latency = np.maximum(np.asarray(latency_ms, dtype=np.float64), SMALLEST_MS)
    return np.floor(np.log(latency) / np.log(BUCKET_RATIO)).astype(np.int64)


def bucket_edges_ms(index: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Lower and upper edge in ms of the log-spaced buckets with these indices."""
    number = np.asarray(index, dtype=np.int64)
    return BUCKET_RATIO ** number.astype(np.float64), BUCKET_RATIO ** (number + 1).astype(np.float64)


@dataclass(frozen=True)
class Histogram:
    """Counts of requests in B disjoint buckets, in rising order."""

    low_ms: FloatArray
    """(B,) lower edges; 0 where the bucket starts at 0."""
    high_ms: FloatArray
    """(B,) upper edges; inf where the bucket has none."""
    counts: FloatArray
    """(B,) requests in each bucket, >= 0."""

    @property
    def requests(self) -> float:
        """Requests in all buckets."""
        return float(self.counts.sum())

    def log_quantiles(self, shares: ArrayLike) -> FloatArray:
        """Natural logarithms of the quantiles in ms at shares in (0, 1], same shape; nan when there is no request."""
        share = np.asarray(shares, dtype=np.float64)
        if not self.requests:
            return np.full(share.shape, np.nan)
        bucket, before, rank = self._locate(share)
        part = (rank - before) / self.counts[bucket]
        low, high = self.low_ms[bucket], self.high_ms[bucket]
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.log(low) + part * np.log(high / low)
            from_zero = np.log(high) + np.log(part)
            open_ended = np.log(low)
        return np.where(np.isinf(high), open_ended, np.where(low == 0, from_zero, inside))

    def log_widths(self, shares: ArrayLike) -> FloatArray:
        """ln(upper / lower edge) of the bucket each quantile falls in: inf when unbounded, nan without requests."""
        share = np.asarray(shares, dtype=np.float64)
        if not self.requests:
            return np.full(share.shape, np.nan)
        bucket, _, _ = self._locate(share)
        with np.errstate(divide="ignore"):
            return np.log(self.high_ms[bucket] / self.low_ms[bucket])

    def _locate(self, share: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Bucket that holds each rank, requests in the buckets before it, and the rank itself."""
        cumulative = np.cumsum(self.counts)
        # A rank beyond the last request is rounding: p*n may exceed n by one unit in the last place.
        rank = np.minimum(share * cumulative[-1], cumulative[-1])
        bucket = np.searchsorted(cumulative, rank, side="left")
        # At share 0 the first bucket may be empty; the smallest request is in the first one that is not.
        bucket = np.maximum(bucket, np.flatnonzero(self.counts)[0])
        return bucket, cumulative[bucket] - self.counts[bucket], rank


@dataclass(frozen=True)
class WindowedHistogram:
    """One histogram for each of the W sub-windows of a hold, over the same B buckets."""

    low_ms: FloatArray
    high_ms: FloatArray
    counts: FloatArray
    """(W, B) requests."""
    odd_counts: FloatArray | None = None
    """(W, B) those of them that started in every other second; None where seconds are not known apart."""

    def over(self, windows: ArrayLike | None = None) -> Histogram:
        """The histogram of the sub-windows that a (W,) mask picks; of all by default."""
        picked = self.counts if windows is None else self.counts[np.asarray(windows, dtype=bool)]
        return Histogram(self.low_ms, self.high_ms, picked.sum(axis=0))

    def window(self, number: int) -> Histogram:
        """The histogram of one sub-window."""
        return Histogram(self.low_ms, self.high_ms, self.counts[number])

    def gathered(self, seconds: int) -> "WindowedHistogram":
        """Sub-windows of `seconds` seconds each, of a histogram whose own sub-windows are seconds.

        Every other second that holds requests is an odd one: a source that is read every two seconds has those, too.
        """
        starts = np.arange(0, self.counts.shape[0], seconds)
        odd = np.cumsum(self.counts.any(axis=1)) % 2 == 0
        odd_counts = np.where(odd[:, None], self.counts, 0.0)
        gathered = (np.add.reduceat(counts, starts, axis=0) for counts in (self.counts, odd_counts))
        return WindowedHistogram(self.low_ms, self.high_ms, *gathered)

    def alternate(self) -> tuple[Histogram, Histogram]:
        """The requests of every other second and of those between; of sub-windows where seconds are not known apart."""
        if self.odd_counts is None:
            odd = np.arange(self.counts.shape[0]) % 2 == 1
            return self.over(~odd), self.over(odd)
        even, odd_ones = (self.counts - self.odd_counts).sum(axis=0), self.odd_counts.sum(axis=0)
        return Histogram(self.low_ms, self.high_ms, even), Histogram(self.low_ms, self.high_ms, odd_ones)

    def mean_logs(self) -> FloatArray:
        """(W,) mean ln ms of the requests of each sub-window; nan where it has none.

        A bucket stands for the mean of ln latency under the spread that quantiles assume.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = (np.log(self.low_ms) + np.log(self.high_ms)) / 2
            middle = np.where(self.low_ms == 0, np.log(self.high_ms) - 1, middle)
            middle = np.where(np.isinf(self.high_ms), np.log(self.low_ms), middle)
            # An edge of 0 with no upper edge stands for nothing; it may only be there empty.
            weighted = np.where(self.counts > 0, self.counts * middle, 0.0)
            return np.asarray(weighted.sum(axis=1) / self.counts.sum(axis=1))


def window_histogram(
    low_ms: ArrayLike,
    high_ms: ArrayLike,
    sub_window: ArrayLike,
    counts: ArrayLike,
    windows: int,
    odd_counts: ArrayLike | None = None,
) -> WindowedHistogram:
    """Gather (N,) rows of bucket edges, sub-window (0 to windows - 1), count and, where known, count of odd seconds.

    Raises ValueError when two rows give one lower edge two upper edges, or buckets overlap.
    """
    low, high, count = (np.asarray(values, dtype=np.float64) for values in (low_ms, high_ms, counts))
    edges, first, bucket = np.unique(low, return_index=True, return_inverse=True)
    upper = high[first]
    # Edges that are computed twice may differ in the last place; edges that differ by more are another histogram's.
    if not np.allclose(high, upper[bucket], rtol=1e-9) or np.any(upper[:-1] > edges[1:] * (1 + 1e-9)):
        raise ValueError("buckets overlap: they do not come from one histogram")
    cell = np.asarray(sub_window, dtype=np.int64) * edges.size + bucket

    def table(rows: ArrayLike) -> FloatArray:
        weights = np.asarray(rows, dtype=np.float64)
        return np.bincount(cell, weights, windows * edges.size).astype(np.float64).reshape(windows, edges.size)

    return WindowedHistogram(edges, upper, table(count), None if odd_counts is None else table(odd_counts))


def merge(histograms: Sequence[Histogram]) -> Histogram:
    """All requests of several histograms of the same buckets. Raises ValueError when buckets overlap."""
    low, high, counts = (
        np.concatenate([getattr(histogram, name) for histogram in histograms]) if histograms else np.empty(0)
        for name in ("low_ms", "high_ms", "counts")
    )
    return window_histogram(low, high, np.zeros(low.size, dtype=np.int64), counts, 1).window(0)


def cumulative_edges_ms(upper_edges_s: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Lower and upper edges in ms of Prometheus buckets, from their rising `le` in seconds (inf last)."""
    upper = np.asarray(upper_edges_s, dtype=np.float64) * 1000
    return np.concatenate(([0.0], upper[:-1])), upper


def cumulative_differences(earlier: ArrayLike, later: ArrayLike) -> tuple[FloatArray, float]:
    """Requests in each bucket between two scrapes of cumulative Prometheus buckets.

    Takes (..., B) counts of requests <= each upper edge, and returns (..., B) counts inside each bucket and the largest
    count that had to be moved to a neighbour: a page that is not scraped in one piece can be off by the requests in
    flight, and anything larger says that these are not cumulative buckets.
    """
    growth = np.asarray(later, dtype=np.float64) - np.asarray(earlier, dtype=np.float64)
    rising = np.maximum.accumulate(growth, axis=-1)
    moved = float(np.max(rising - growth, initial=0.0))
    return np.diff(rising, axis=-1, prepend=0.0), moved

"""HdrHistogram's encodings: what was recorded comes back, and damage is said."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.metrics.foreign.hdr_encoding import Buckets, EncodingError, decode
from tests.hdr_histograms import V0, V1, V2, counts_of, encode, zigzag

VALUES = st.lists(st.integers(0, 3_600_000_000_000), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(
    values=VALUES,
    version=st.sampled_from([V0, V1, V2]),
    digits=st.integers(0, 4),
    lowest=st.sampled_from([1, 1000, 1_000_000]),
    word_bytes=st.sampled_from([2, 4, 8]),
    compressed=st.booleans(),
    doubles=st.booleans(),
)
def test_every_encoding_gives_back_each_value_in_the_bucket_that_holds_it(
    values: list[int], version: int, digits: int, lowest: int, word_bytes: int, compressed: bool, doubles: bool
) -> None:
    values = [min(value, 10**7) for value in values] if digits == 4 else values
    counts = counts_of(values, digits, lowest)
    found = decode(encode(counts, version, digits, lowest, word_bytes, compressed, doubles=doubles))
    assert dict(zip(found.index.tolist(), found.counts.tolist(), strict=True)) == {
        index: count for index, count in enumerate(counts) if count
    }
    low, high = found.buckets.edges(found.index)
    assert (low[1:] >= high[:-1]).all()
    spread = np.repeat(np.arange(low.size), found.counts)
    assert (low[spread] <= sorted(values)).all() and (sorted(values) < high[spread]).all()
    unit = 1 << (lowest.bit_length() - 1)
    assert (high - low <= np.maximum(low * 10.0**-digits, unit) * (1 + 1e-12)).all()


@given(counts=st.lists(st.integers(0, 2**62 - 1), min_size=1, max_size=40))
def test_counts_of_any_size_survive(counts: list[int]) -> None:
    found = decode(encode(counts))
    rebuilt = np.zeros(len(counts), dtype=np.int64)
    rebuilt[found.index] = found.counts
    assert rebuilt.tolist() == counts


def test_numbers_of_nine_bytes_are_read() -> None:
    assert len(zigzag(2**61)) == 9
    assert decode(encode([1, 2**61, 3])).counts.tolist() == [1, 2**61, 3]
    # Its last byte looks as if the number went on.
    assert decode(encode([2**62 + 2**61, 5])).counts.tolist() == [2**62 + 2**61, 5]


def test_a_histogram_of_doubles_has_the_values_that_were_recorded() -> None:
    found = decode(encode(counts_of([1500]), ratio=0.001, doubles=True))
    low, high = found.buckets.edges(found.index)
    assert low[0] <= 1.5 < high[0]


def test_an_empty_histogram_holds_nothing() -> None:
    assert decode(encode([])).counts.size == 0


def test_bucket_edges_are_those_of_three_digits() -> None:
    low, high = Buckets(0, 3).edges(np.array([0, 1, 2047, 2048, 3071, 3072]))
    assert low.tolist() == [0, 1, 2047, 2048, 4094, 4096]
    assert high.tolist() == [1, 2, 2048, 2050, 4096, 4100]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "cut off"),
        (lambda data: data[:6], "cut off"),
        (lambda data: data[:-5], "cut off"),
        (lambda data: b"\x00\x01\x02\x03" + data[4:], "no encoding of HdrHistogram"),
        (lambda data: data[:8] + b"garbage that is not deflated" + data[36:], "damaged"),
    ],
    ids=["empty", "header", "tail", "cookie", "content"],
)
def test_damage_is_said(damage: object, message: str) -> None:
    with pytest.raises(EncodingError, match=message):
        decode(damage(encode(counts_of(range(1, 100000, 77)))))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (encode([5, -3], V1), "negative count"),
        (encode([1], digits=9), "significant digits"),
        (encode([1], compressed=False)[:-1], "cut off"),
        (encode([1], V1, word_bytes=8)[:0] + encode([1, 2], V1, compressed=False)[:44], "cut off"),
    ],
)
def test_what_no_histogram_can_be_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(EncodingError, match=message):
        decode(data)


def test_a_run_of_empty_buckets_without_end_is_refused() -> None:
    data = bytearray(encode([1], compressed=False))
    payload = zigzag(-(2**40)) + zigzag(1)
    data[4:8] = len(payload).to_bytes(4, "big")
    with pytest.raises(EncodingError, match="skips more buckets"):
        decode(bytes(data[:40]) + payload)


@given(st.binary(max_size=80))
def test_no_bytes_end_in_another_error(data: bytes) -> None:
    for start in (b"", encode([1, 2, 0, 0, 3], compressed=False)[:40]):
        with contextlib.suppress(EncodingError):
            decode(start + data)

"""The binary encodings of HdrHistogram: V0, V1 and V2, compressed or not, of integer and of double histograms.

What belongs here: from the bytes of one histogram to its counts by bucket, in numpy alone. How histograms stand in a
log is in `hdr_log`. The encodings are those of HdrHistogram's Java sources (AbstractHistogram, DoubleHistogram,
ZigZagEncoding); the Python package `hdrhistogram` reads V2 only.

A histogram of d significant digits has sub-buckets in halves of a power of two: 2^m of them cover 0 to 2^m units one by
one, and each further half doubles their width, so that none is wider than 10^-d of its values.
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perf_pipeline.metrics.histogram import FloatArray, IntArray

_V0, _V1, _V2 = 0x1C849308, 0x1C849301, 0x1C849303
_V0_COMPRESSED, _V1_COMPRESSED, _V2_COMPRESSED = 0x1C849309, 0x1C849302, 0x1C849304
_DOUBLE, _DOUBLE_COMPRESSED = 0x0C72124E, 0x0C72124F
_WORD_SIZE = 0xF0
"""Bits of a cookie that hold the bytes of a count; in V2 counts are of any length."""
_INTEGER_TYPES = {2: ">i2", 4: ">i4", 8: ">i8"}
_LONGEST_NUMBER = 9
"""Bytes of the longest number in ZigZag LEB128-64b9B."""
_MOST_BYTES = 1 << 26
"""No histogram is larger: 5 significant digits over the whole of 64 bits take 50 MB."""


class EncodingError(ValueError):
    """The bytes are no histogram in one of these encodings."""


@dataclass(frozen=True)
class Buckets:
    """How a histogram cuts its values into buckets."""

    unit_magnitude: int
    """Values are counted in units of 2^unit_magnitude."""
    significant_digits: int
    value_ratio: float = 1.0
    """What a recorded integer stands for; not 1 in a histogram of doubles."""

    def edges(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Lower and upper edges of the buckets with these indices, in recorded values; bucket 0 starts at 0."""
        magnitude = self._sub_bucket_magnitude
        half = 1 << (magnitude - 1)
        doubled = np.maximum((index >> (magnitude - 1)) - 1, 0)
        sub_bucket = np.where(index < 2 * half, index, (index & (half - 1)) + half)
        width = np.exp2(doubled + self.unit_magnitude) * self.value_ratio
        return sub_bucket * width, (sub_bucket + 1) * width

    @property
    def most_buckets(self) -> int:
        """Buckets that values of 64 bits can need."""
        magnitude = self._sub_bucket_magnitude
        return (64 - magnitude - self.unit_magnitude + 2) << (magnitude - 1)

    @property
    def _sub_bucket_magnitude(self) -> int:
        return max(1, int(np.ceil(np.log2(2 * 10**self.significant_digits))))


@dataclass(frozen=True)
class HdrCounts:
    """One decoded histogram."""

    buckets: Buckets
    index: IntArray
    """(N,) indices of the buckets that hold values, rising."""
    counts: IntArray
    """(N,) values in them, > 0."""


def decode(data: bytes) -> HdrCounts:
    """Decode one histogram. Raises EncodingError saying what is wrong with it."""
    try:
        return _decode(data)
    except (struct.error, zlib.error, OverflowError) as error:
        raise EncodingError(f"is cut off or damaged ({error})") from error


def _decode(data: bytes) -> HdrCounts:
    (cookie,) = struct.unpack_from(">i", data)
    if cookie in (_DOUBLE, _DOUBLE_COMPRESSED):
        # Digits and range of a histogram of doubles stand before the histogram of integers that holds its counts.
        return _decode(data[16:])
    base = cookie & ~_WORD_SIZE
    if base in (_V0_COMPRESSED, _V1_COMPRESSED, _V2_COMPRESSED):
        (length,) = struct.unpack_from(">i", data, 4)
        packed = data[8 : 8 + length]
        if len(packed) < length:
            raise EncodingError(f"is cut off: {len(packed)} of {length} bytes are there")
        data = _unpack(packed)
        (cookie,) = struct.unpack_from(">i", data)
        base = cookie & ~_WORD_SIZE
    if base == _V0:
        digits, lowest = struct.unpack_from(">iq", data, 4)
        ratio, payload = 1.0, data[32:]
    elif base in (_V1, _V2):
        length, _, digits, lowest, _, ratio = struct.unpack_from(">iiiqqd", data, 4)
        payload = data[40 : 40 + length]
        if length < 0 or len(payload) < length:
            raise EncodingError(f"is cut off: {len(payload)} of {length} bytes of counts are there")
    else:
        raise EncodingError(f"begins with {cookie & 0xFFFFFFFF:#010x}, which is no encoding of HdrHistogram")
    if not 0 <= digits <= 5 or lowest < 1 or not (np.isfinite(ratio) and ratio > 0):
        raise EncodingError(f"has {digits} significant digits from {lowest} on, which no histogram has")
    buckets = Buckets(int(lowest).bit_length() - 1, digits, float(ratio))
    index, counts = _packed_counts(payload) if base == _V2 else _plain_counts(payload, (cookie & _WORD_SIZE) >> 4)
    if (counts < 0).any():
        raise EncodingError("holds a negative count")
    if index.size and index[-1] >= buckets.most_buckets:
        raise EncodingError(f"has a count in bucket {index[-1]}, beyond the last one")
    return HdrCounts(buckets, index[counts > 0], counts[counts > 0])


def _unpack(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(packed, _MOST_BYTES)
    if not unpacker.eof:
        raise EncodingError("is cut off or damaged: its compressed part has no end")
    return data


def _plain_counts(payload: bytes, word_bytes: int) -> tuple[IntArray, IntArray]:
    """V0 and V1: one integer a bucket, from the first to the last that holds values."""
    if word_bytes not in _INTEGER_TYPES:
        raise EncodingError(f"has counts of {word_bytes} bytes")
    # The buffer may end in the middle of a count that nobody wrote.
    whole = len(payload) // word_bytes * word_bytes
    counts = np.frombuffer(payload[:whole], dtype=_INTEGER_TYPES[word_bytes]).astype(np.int64)
    return np.arange(counts.size), counts


def _packed_counts(payload: bytes) -> tuple[IntArray, IntArray]:
    """V2: counts, and runs of -n empty buckets, in ZigZag LEB128-64b9B."""
    numbers = _zigzag(payload)
    steps = np.where(numbers < 0, -numbers, 1)
    if (steps < 0).any() or float(steps.astype(np.float64).sum()) > _MOST_BYTES:
        raise EncodingError("skips more buckets than there can be")
    index = np.cumsum(steps) - steps
    return index[numbers >= 0], numbers[numbers >= 0]


def _zigzag(payload: bytes) -> IntArray:
    """The (N,) signed numbers in a stream of 7 bits a byte, lowest first; the ninth byte of a number has 8."""
    data = np.frombuffer(payload, dtype=np.uint8)
    if not data.size:
        return np.empty(0, dtype=np.int64)
    ends = np.flatnonzero(data < 0x80)
    if np.diff(ends, prepend=-1).max(initial=0) >= _LONGEST_NUMBER or not ends.size or ends[-1] != data.size - 1:
        ends = _ends_one_by_one(data)
    starts = np.concatenate(([0], ends[:-1] + 1))
    number = np.repeat(np.arange(ends.size), ends - starts + 1)
    place = (np.arange(data.size) - starts[number]).astype(np.uint64)
    bits = np.where(place == _LONGEST_NUMBER - 1, data, data & 0x7F).astype(np.uint64) << (np.uint64(7) * place)
    values: NDArray[np.uint64] = np.bitwise_or.reduceat(bits, starts)
    halves = (values >> np.uint64(1)).astype(np.int64)
    return np.where(values & np.uint64(1), ~halves, halves)


def _ends_one_by_one(data: NDArray[np.uint8]) -> IntArray:
    """Where numbers end when some have nine bytes, of which the last says nothing about the end."""
    ends, start = [], 0
    while start < data.size:
        tail = data[start : start + _LONGEST_NUMBER]
        last = np.flatnonzero(tail[: _LONGEST_NUMBER - 1] < 0x80)
        end = start + (int(last[0]) if last.size else _LONGEST_NUMBER - 1)
        if end >= data.size:
            raise EncodingError("is cut off in the middle of a count")
        ends.append(end)
        start = end + 1
    return np.array(ends, dtype=np.int64)

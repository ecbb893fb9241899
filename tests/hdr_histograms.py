"""Histograms in HdrHistogram's encodings, written value by value as its Java sources do, to test the decoder on."""

import base64
import struct
import zlib
from collections.abc import Iterable, Sequence

V0, V1, V2 = 0x1C849308, 0x1C849301, 0x1C849303
COMPRESSED = {V0: 0x1C849309, V1: 0x1C849302, V2: 0x1C849304}


def counts_of(values: Iterable[int], digits: int = 3, lowest: int = 1) -> list[int]:
    """Counts by bucket of recorded values: countsArrayIndex of AbstractHistogram."""
    largest = 2 * 10**digits
    magnitude = max(1, (largest - 1).bit_length())
    unit = lowest.bit_length() - 1
    mask = ((1 << magnitude) - 1) << unit
    counts: dict[int, int] = {}
    for value in values:
        bucket = (value | mask).bit_length() - magnitude - unit
        sub_bucket = value >> (bucket + unit)
        index = ((bucket + 1) << (magnitude - 1)) + sub_bucket - (1 << (magnitude - 1))
        counts[index] = counts.get(index, 0) + 1
    return [counts.get(index, 0) for index in range(max(counts, default=-1) + 1)]


def zigzag(number: int) -> bytes:
    """ZigZag LEB128-64b9B: 7 bits a byte, lowest first, the ninth byte with 8."""
    coded = (number << 1) ^ (number >> 63)
    coded &= (1 << 64) - 1
    out = bytearray()
    for place in range(9):
        if place == 8:
            out.append(coded & 0xFF)
        elif coded >> 7 == 0:
            out.append(coded)
            break
        else:
            out.append(coded & 0x7F | 0x80)
            coded >>= 7
    return bytes(out)


def encode(
    counts: Sequence[int],
    version: int = V2,
    digits: int = 3,
    lowest: int = 1,
    word_bytes: int = 8,
    compressed: bool = True,
    ratio: float = 1.0,
    doubles: bool = False,
) -> bytes:
    """The bytes of one histogram."""
    if version == V2:
        payload, position = b"", 0
        while position < len(counts):
            zeros = 0
            while position + zeros < len(counts) and counts[position + zeros] == 0:
                zeros += 1
            payload += zigzag(-zeros) if zeros > 1 else zigzag(counts[position])
            position += max(zeros, 1)
        cookie = version | 0x10
    else:
        payload = b"".join(count.to_bytes(word_bytes, "big", signed=True) for count in counts)
        cookie = version | word_bytes << 4
    if version == V0:
        header = struct.pack(">iiqqq", cookie, digits, lowest, 3_600_000_000_000, sum(counts))
    else:
        header = struct.pack(">iiiiqqd", cookie, len(payload), 0, digits, lowest, 3_600_000_000_000, ratio)
    data = header + payload
    if compressed:
        packed = zlib.compress(data)
        data = struct.pack(">ii", COMPRESSED[version] | cookie & 0xF0, len(packed)) + packed
    if doubles:
        data = struct.pack(">iiq", 0x0C72124F if compressed else 0x0C72124E, digits, 1 << 40) + data
    return data


def log_line(start_s: float, length_s: float, data: bytes, tag: str = "") -> str:
    """A line of an interval log."""
    text = base64.b64encode(data).decode()
    return f"{f'Tag={tag},' if tag else ''}{start_s:.3f},{length_s:.3f},0.000,{text}\n"

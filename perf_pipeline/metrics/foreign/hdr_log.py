"""HdrHistogram interval logs (.hlog): format versions 1.0 to 1.3, plain or gzip, with or without tags.

What belongs here: reading the lines of a log, and which of its intervals make up the hold. The histograms themselves
are in `hdr_encoding`. What HdrHistogram's own reader accepts is accepted: fields between commas or spaces, comments, a
legend, a start time in a comment.

Every tag is a distribution of its own, and so is what has no tag. The hold begins with the first interval that starts a
warm-up after the first one of the log, with a twentieth of an interval of tolerance, because intervals start a few ms
early or late. Each interval belongs to the sub-window that its middle lies in.

A log does not say in which unit its values are. HdrHistogram's own tools record nanoseconds, which is what is supposed
unless another unit is told.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.checks import DROPPED_ITERATIONS, ENVIRONMENT, THROTTLING
from perf_pipeline.metrics.foreign.form import MAKE_AGAIN, Form, Load, check_whole, plain_text_lines, shown
from perf_pipeline.metrics.foreign.hdr_encoding import Buckets, EncodingError, HdrCounts, decode
from perf_pipeline.metrics.foreign.told import UNITS_PER_MS, Told
from perf_pipeline.metrics.foreign.windows import sub_windows
from perf_pipeline.metrics.histogram import WindowedHistogram, window_histogram

SUPPOSED_UNIT = "ns"
_MOST_PROBLEMS = 5
_YEAR_S = 365 * 24 * 3600.0
_TOLERANCE = 0.05
_TIME = re.compile(r"#\[(StartTime|BaseTime):\s*([-+.0-9eE]+)")
_INTERVAL = re.compile(r"(?:Tag=([^,\s]+)[,\s]+)?([-+.0-9eE]+)[,\s]+([-+.0-9eE]+)[,\s]+([-+.0-9eENa]+)[,\s]+(\S+)\s*")
_FIRST = re.compile(
    rb'(?m)^(#\[(?:Logg|Histogram log format)|"StartTimestamp"|(?:Tag=[^,]+,)?[\d.]+,[\d.]+,[\d.]+,D?HIST)'
)


@dataclass(frozen=True)
class _Interval:
    start_s: float
    length_s: float
    histogram: HdrCounts


def read_hdr_log(path: Path, told: Told) -> Sequence[Load]:
    """One load for each tag of the log, in the order of their first lines; without tags there is one.

    Raises InputError with the lines that cannot be read.
    """
    check_whole(path)
    by_tag: dict[str, list[_Interval]] = {}
    for tag, interval in _intervals(path):
        by_tag.setdefault(tag, []).append(interval)
    if not by_tag:
        raise InputError(Problem(str(path), "holds no interval", MAKE_AGAIN))
    start_s = min(intervals[0].start_s for intervals in by_tag.values())
    return [_load(path, tag, intervals, start_s, told) for tag, intervals in by_tag.items()]


def _intervals(path: Path) -> Iterator[tuple[str, _Interval]]:
    """The intervals of a log with their tags; starts are unix seconds where the log says so."""
    base_s: float | None = None
    start_s: float | None = None
    problems: list[Problem] = []
    for number, line in plain_text_lines(path):
        if line.startswith("#"):
            if noted := _TIME.match(line):
                if noted[1] == "BaseTime":
                    base_s = float(noted[2])
                else:
                    start_s = float(noted[2])
            continue
        if not line.strip() or line.startswith('"StartTimestamp"'):
            continue
        found = _INTERVAL.fullmatch(line)
        try:
            if found is None:
                raise EncodingError("is no interval: start, length, maximum and histogram are expected")
            stamp_s, length_s = float(found[2]), float(found[3])
            histogram = decode(base64.b64decode(found[5], validate=True))
        except (EncodingError, binascii.Error, ValueError) as error:
            what = str(error) if isinstance(error, EncodingError) else f"cannot be read: {error}"
            problems.append(Problem(f"{path}:{number}", f"{what}: {shown(line)}", MAKE_AGAIN))
            if len(problems) == _MOST_PROBLEMS:
                break
            continue
        if base_s is None:
            # As HdrHistogram's reader has it: stamps more than a year before the start count from the start.
            base_s = start_s if start_s is not None and stamp_s < start_s - _YEAR_S else 0.0
        yield found[1] or "", _Interval(stamp_s + base_s, length_s, histogram)
    if problems:
        raise InputError(problems)


def _load(path: Path, tag: str, intervals: list[_Interval], log_start_s: float, told: Told) -> Load:
    """The hold of one distribution of a log."""
    length_s = float(np.median([interval.length_s for interval in intervals]))
    warmup_s = told.warmup_s or 0.0
    hold = [one for one in intervals if one.start_s >= log_start_s + warmup_s - _TOLERANCE * length_s]
    if hold and told.hold_s is not None:
        end_s = hold[0].start_s + told.hold_s
        hold = [one for one in hold if one.start_s + one.length_s / 2 < end_s]
    if not hold:
        lasted_s = intervals[-1].start_s + intervals[-1].length_s - log_start_s
        what = f"holds no interval of the hold: the log lasts {lasted_s:.3g} s, of which {warmup_s:g} s are warm-up"
        raise InputError(Problem(str(path), what, "give a shorter --warmup, or measure for longer"))
    start_s = hold[0].start_s
    end_s = max(one.start_s + one.length_s for one in hold)
    hold_s = end_s - start_s
    if told.hold_s is not None and hold_s < told.hold_s - length_s:
        # A log that ends before the hold does has lost load, and the achieved rate is to show it.
        hold_s = told.hold_s
    if hold_s <= 0:
        raise InputError(Problem(str(path), "has intervals without length", MAKE_AGAIN))
    sub_window_s, windows = sub_windows(hold_s, length_s)
    latency = _windowed(path, hold, start_s, sub_window_s, windows, told)
    remarks = []
    if told.unit is None:
        remarks.append(
            f"values are taken to be in {SUPPOSED_UNIT}, as HdrHistogram's tools record them: --unit says else"
        )
    if told.warmup_s is None:
        remarks.append("no warm-up was cut off: --warmup was not given")
    requests = round(float(latency.counts.sum()))
    return Load(
        latency=latency if requests else None,
        requests=requests,
        errors=None,
        hold_s=hold_s,
        hold_start_s=start_s,
        sub_window_s=sub_window_s,
        density=min(1.0, sum(one.length_s for one in hold if one.histogram.index.size) / hold_s),
        tag=tag,
        remarks=tuple(remarks),
    )


def _windowed(
    path: Path, hold: list[_Interval], start_s: float, sub_window_s: float, windows: int, told: Told
) -> WindowedHistogram:
    """The counts of the hold by sub-window, over the buckets that the log was recorded with."""
    kinds = {one.histogram.buckets for one in hold if one.histogram.index.size}
    if len(kinds) > 1:
        shown = " and ".join(sorted(f"{one.significant_digits} digits of {2**one.unit_magnitude}" for one in kinds))
        what = f"has intervals of different precision, which cannot be added: {shown}"
        raise InputError(Problem(str(path), what, "record every interval with the same significant digits and unit"))
    buckets: Buckets = next(iter(kinds), Buckets(0, 3))
    window = [int(np.clip((one.start_s + one.length_s / 2 - start_s) // sub_window_s, 0, windows - 1)) for one in hold]
    sizes = [one.histogram.index.size for one in hold]
    index = np.concatenate([one.histogram.index for one in hold]).astype(np.int64)
    counts = np.concatenate([one.histogram.counts for one in hold])
    low, high = buckets.edges(index)
    per_ms = UNITS_PER_MS[told.unit or SUPPOSED_UNIT]
    return window_histogram(low / per_ms, high / per_ms, np.repeat(window, sizes), counts, windows)


def _is_hdr_log(head: bytes) -> bool:
    return _FIRST.search(head[:4096]) is not None


_OUTSIDE = "an HdrHistogram log holds latencies alone"
_MISSING = dict.fromkeys(
    ("service_latency", "service_p99", "service_memory", "upstream_latency", "graphql_error_rate"), _OUTSIDE
) | {"http_error_rate": "an HdrHistogram log does not count errors"}
_NOT_MEASURED = {
    DROPPED_ITERATIONS: "an HdrHistogram log does not count requests that were not started",
    THROTTLING: _OUTSIDE,
    ENVIRONMENT: "an HdrHistogram log does not say where it was made",
}

HDR_LOG = Form("HdrHistogram log", _is_hdr_log, read_hdr_log, _MISSING, _NOT_MEASURED)

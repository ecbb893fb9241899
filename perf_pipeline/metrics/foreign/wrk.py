"""What wrk2 and wrk print: the percentile spectrum of `wrk2 --latency`, the four percentiles of `wrk --latency`.

What belongs here: reading that text. wrk2 prints its spectrum twice with -U; the first one, measured from when a
request was due, is read, because the other hides that a slow service delayed requests (coordinated omission).
wrk has no target rate and always measures the second way.

The latencies of failed requests are among those of the others, which neither program tells apart.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.checks import ACHIEVED_RATE, DRIFT, DROPPED_ITERATIONS, ENVIRONMENT, THROTTLING
from perf_pipeline.metrics.foreign.form import MAKE_AGAIN, Form, Load, read_text
from perf_pipeline.metrics.foreign.hgrm import MOST_BYTES, NO_TIME_AXIS, has_spectrum, read_spectrum, without_warm_up
from perf_pipeline.metrics.foreign.spectrum import Tick, spectrum_histogram
from perf_pipeline.metrics.foreign.told import Told
from perf_pipeline.metrics.histogram import WindowedHistogram

_UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}
_TIME = r"(\d+(?:\.(\d+))?)(us|ms|s|m|h)"
_TOTAL = re.compile(rf"(\d+) requests in {_TIME}, \S+ read")
_LAST_LINE = "Transfer/sec:"
_NOT_OK = re.compile(r"Non-2xx or 3xx responses: (\d+)")
_SOCKETS = re.compile(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")
_LARGEST = re.compile(rf"(?m)^\s*Latency\s+\S+\s+\S+\s+{_TIME}\s+\S+%\s*$")
_PERCENTILE = re.compile(rf"(?m)^\s*(\d+(?:\.\d+)?)%\s+{_TIME}\s*$")


def read_wrk(path: Path, told: Told) -> Sequence[Load]:
    """The one load of a text that wrk2 or wrk printed."""
    text = read_text(path, MOST_BYTES)
    if text.count("Running ") > 1 and len(_TOTAL.findall(text)) > 1:
        what = f"holds {len(_TOTAL.findall(text))} tests: a file is the output of one run"
        raise InputError(Problem(str(path), what, "keep each in a file of its own"))
    total = _TOTAL.search(text)
    if total is None or _LAST_LINE not in text[total.end() :]:
        # Failed requests are counted between these lines, and only when there are any.
        missing = "with the number of requests" if total is None else f"{_LAST_LINE!r}"
        what = f"is cut off: the line {missing} is not there"
        raise InputError(Problem(str(path), what, MAKE_AGAIN))
    answers, hold_s = int(total[1]), _milliseconds(total[2], total[4]) / 1000
    not_ok = int(found[1]) if (found := _NOT_OK.search(text)) else 0
    unanswered = sum(map(int, found.groups())) if (found := _SOCKETS.search(text)) else 0
    lines = text.splitlines()
    header = next((number for number, line in enumerate(lines) if has_spectrum(line.encode())), None)
    if header is not None:
        latency, _ = read_spectrum(path, lines, header, "ms")
    else:
        latency = _four_percentiles(path, text, answers)
    remarks = list(without_warm_up(told))
    if not_ok:
        remarks.append("wrk measures the latency of failed requests with that of the others")
    if header is None:
        remarks.append(
            "wrk measures from when a request was sent, which hides the wait of requests that a slow service delayed"
            " (coordinated omission), and prints four percentiles: use wrk2 --latency, or a load at a fixed rate"
        )
    return [
        Load(
            latency=latency,
            requests=answers + unanswered,
            errors=not_ok + unanswered,
            hold_s=hold_s,
            not_measured={} if header is not None else {ACHIEVED_RATE: "wrk has no target rate"},
            remarks=tuple(remarks),
        )
    ]


def _four_percentiles(path: Path, text: str, answers: int) -> WindowedHistogram:
    """The histogram behind p50, p75, p90, p99 and the largest latency."""
    _, _, distribution = text.partition("Latency Distribution")
    percentiles, largest = _PERCENTILE.findall(distribution), _LARGEST.search(text)
    if not percentiles or largest is None:
        raise InputError(Problem(str(path), "prints no latency distribution", "run wrk or wrk2 with --latency"))
    printed = [(float(level) / 100, *time) for level, *time in percentiles] + [(1.0, *largest.groups())]
    ticks = [
        Tick(
            value_ms=_milliseconds(number, unit),
            width_ms=_milliseconds(str(10.0 ** -len(decimals or "")), unit),
            level=level,
            count=math.ceil(level * answers),
        )
        for level, number, decimals, unit in printed
    ]
    try:
        return spectrum_histogram(ticks)
    except ValueError as error:
        raise InputError(Problem(str(path), f"its latency distribution {error}", MAKE_AGAIN)) from error


def _milliseconds(number: str, unit: str) -> float:
    return float(number) * _UNITS_MS[unit]


def _is_wrk(head: bytes) -> bool:
    return re.search(rb"(?m)^Running \S+ test @ ", head) is not None and b"connections" in head


_OUTSIDE = "wrk sees the service from outside"
_MISSING = dict.fromkeys(("service_latency", "service_p99", "service_memory", "upstream_latency"), _OUTSIDE) | {
    "graphql_error_rate": "wrk does not look into the bodies of answers"
}
_NOT_MEASURED = {
    DRIFT: NO_TIME_AXIS,
    DROPPED_ITERATIONS: "wrk leaves out no request; the achieved rate shows what it did not get to",
    THROTTLING: _OUTSIDE,
    ENVIRONMENT: "wrk does not say where it ran",
}

WRK = Form("wrk2 or wrk output", _is_wrk, read_wrk, _MISSING, _NOT_MEASURED)

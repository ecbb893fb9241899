"""Printed percentile spectra of HdrHistogram: .hgrm files, its CSV variant, vegeta's hdrplot, and the tables of wrk2.

What belongs here: reading the table `Value Percentile TotalCount 1/(1-Percentile)` and its closing comments. What the
table supports is in `spectrum`.

Such a table does not say in which unit its values are. jHiccup and most users print milliseconds, which is what is
supposed unless the header says or another unit is told.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.checks import ACHIEVED_RATE, DRIFT, DROPPED_ITERATIONS, ENVIRONMENT, THROTTLING
from perf_pipeline.metrics.foreign.form import MAKE_AGAIN, Form, Load, read_text, shown
from perf_pipeline.metrics.foreign.spectrum import Tick, spectrum_histogram
from perf_pipeline.metrics.foreign.told import UNITS_PER_MS, Told
from perf_pipeline.metrics.histogram import WindowedHistogram

SUPPOSED_UNIT = "ms"
MOST_BYTES = 4_000_000
"""A spectrum of a thousand ticks for each halving of the distance to 100 % is smaller."""
NO_TIME_AXIS = "a percentile spectrum has no time axis: neither drift nor halves of a run can be seen in it"

_HEADER = re.compile(
    r'"?Value"?(?:\((\w+)\))?"?[\s,]+"?Percentile"?[\s,]+"?TotalCount"?[\s,]+"?1/\(1-Percentile\)"?\s*'
)
_ROW = re.compile(r"(\d+(?:\.(\d+))?)[\s,]+([\d.]+)[\s,]+(\d+)(?:[\s,]+(?:[\d.]+|inf|Infinity|\+Inf))?")
_CLOSING_LINES = 4
_SUB_BUCKETS = re.compile(r"SubBuckets\s*=\s*(\d+)")


def read_hgrm(path: Path, told: Told) -> Sequence[Load]:
    """The one load of a spectrum."""
    lines = read_text(path, MOST_BYTES).splitlines()
    headers = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line.strip())]
    if len(headers) != 1:
        what = f"holds {len(headers)} spectra: a file is the spectrum of one run"
        raise InputError(Problem(str(path), what, "keep each in a file of its own"))
    latency, unit = read_spectrum(path, lines, headers[0], told.unit)
    remarks = list(without_warm_up(told))
    if unit is None:
        remarks.append(f"values are taken to be in {SUPPOSED_UNIT}: --unit says else")
    return [
        Load(
            latency=latency,
            requests=round(float(latency.counts.sum())),
            errors=None,
            hold_s=told.hold_s,
            not_measured={} if told.hold_s else {ACHIEVED_RATE: "the length of the load is not in a spectrum: --hold"},
            remarks=tuple(remarks),
        )
    ]


def read_spectrum(
    path: Path, lines: Sequence[str], header: int, told_unit: str | None
) -> tuple[WindowedHistogram, str | None]:
    """The histogram of the table below the line with this index, and the unit of its values if that is known.

    Raises InputError naming the line that is no row of it, or what the rows contradict.
    """
    heading = _HEADER.fullmatch(lines[header].strip())
    unit = told_unit or (heading[1] if heading and heading[1] in UNITS_PER_MS else None)
    per_ms = UNITS_PER_MS[unit or SUPPOSED_UNIT]
    rows: list[re.Match[str]] = []
    end = header + 1
    for end in range(header + 1, len(lines)):
        if row := _ROW.fullmatch(lines[end].strip()):
            rows.append(row)
        elif lines[end].strip():
            break
    if end < len(lines) - 1 and not lines[end].startswith(("#", "-")) and not (rows and float(rows[-1][3]) >= 1):
        raise InputError(
            Problem(f"{path}:{end + 1}", f"is no row of a spectrum: {shown(lines[end].strip())}", MAKE_AGAIN)
        )
    closing = _SUB_BUCKETS.search("\n".join(lines[end : end + _CLOSING_LINES]))
    sub_buckets = int(closing[1]) if closing else None
    ticks = []
    for row in rows:
        value = float(row[1])
        digit = 10.0 ** -len(row[2] or "")
        # The record is as precise as half of its sub-buckets at worst, and the print as its last digit.
        width = max(digit, 2 * value / sub_buckets if sub_buckets else 0.0)
        ticks.append(Tick(value / per_ms, width / per_ms, float(row[3]), int(row[4])))
    try:
        return spectrum_histogram(ticks), unit
    except ValueError as error:
        raise InputError(Problem(str(path), f"its spectrum {error}", MAKE_AGAIN)) from error


def without_warm_up(told: Told) -> Sequence[str]:
    """What to say of a warm-up that a spectrum does not let be cut off."""
    if told.warmup_s:
        return (
            "a spectrum has no time axis, so that no warm-up could be cut off beyond what its load generator left out",
        )
    return ()


def has_spectrum(head: bytes) -> bool:
    """Whether the first part of a file holds the header of a spectrum."""
    return any(_HEADER.fullmatch(line.strip()) for line in head.decode("utf-8", "replace").splitlines())


def _is_hgrm(head: bytes) -> bool:
    return has_spectrum(head) and b"requests in " not in head and not head.lstrip().startswith(b"Running ")


_ALONE = "a percentile spectrum holds latencies alone"
_MISSING = dict.fromkeys(
    ("service_latency", "service_p99", "service_memory", "upstream_latency", "graphql_error_rate"), _ALONE
) | {"http_error_rate": "a percentile spectrum does not count errors"}
_NOT_MEASURED = {
    DRIFT: NO_TIME_AXIS,
    DROPPED_ITERATIONS: "a percentile spectrum does not count requests that were not started",
    THROTTLING: _ALONE,
    ENVIRONMENT: "a percentile spectrum does not say where it was made",
}

HGRM = Form("percentile spectrum", _is_hgrm, read_hgrm, _MISSING, _NOT_MEASURED)

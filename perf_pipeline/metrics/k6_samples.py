"""k6's CSV output, reduced to one histogram a sub-window and a handful of counts.

What belongs here: reading `k6.csv` or `k6.csv.gz` of one run. DuckDB does the whole reduction in one pass over the
file, so memory does not grow with its rows. What the numbers mean for a run is in `measured_run`.

Which rows count. Only rows of the k6 scenario `hold` do, by their `scenario` tag and never by time: warm-up and hold
overlap where answers are late [reference load-and-safety, section 4]. k6 stamps a sample at the END of its request, so
rows of the hold may be stamped after its end; they belong to it all the same.

Which sub-window a request falls in: that of its START, its end minus its duration. In an open model requests start on a
schedule, so every sub-window then holds the same share of the traffic, and a stall shows as slow requests where it
happened, not as an empty window before a full one. k6 leaves connecting out of `http_req_duration`, and files may be
stamped in whole seconds; a start that falls outside the hold by that little counts in its first or last sub-window. A
start that is further out says that the record's hold is not the one that k6 drove, and is a problem of the input.

Which latencies enter the histogram: those of answers with a status below 400. A request without an answer (status 0) or
with an error is counted in `failed`, because a fast error is no fast answer.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.lab.run_directory import Hold
from perf_pipeline.metrics.histogram import (
    BUCKET_RATIO,
    SMALLEST_MS,
    WindowedHistogram,
    bucket_edges_ms,
    window_histogram,
)
from perf_pipeline.metrics.recorded_csv import MEASURE_AGAIN, cut_off, find_recorded, read_header

FILE_NAMES = ("k6.csv", "k6.csv.gz")
HOLD_SCENARIO = "hold"
_COLUMNS = ("metric_name", "timestamp", "metric_value", "status")
_TOLERANCE_S = 2.0
"""A start may seem this far outside the hold: stamps in whole seconds, and a clock that is set while k6 runs."""

_SAMPLES = """
WITH numbered AS (
    SELECT row_number() OVER () AS row_number, *
    -- Buffers of 4 MB instead of 32: as fast, and half the memory, which then does not depend on the size of the file.
    FROM read_csv($path, columns=$columns, auto_detect=false, header=true, delim=',', quote='"', escape='"',
                  buffer_size=4_000_000)
), sample AS (
    SELECT *,
           TRY_CAST(metric_value AS DOUBLE) AS value,
           TRY_CAST(status AS INTEGER) AS status_code,
           coalesce(TRY_CAST(timestamp AS DOUBLE), epoch(TRY_CAST(timestamp AS TIMESTAMP))) AS stamp,
           -- 1e11 s is the year 5138, and 1e11 ms is 1973: the magnitude tells s, ms, us and ns apart.
           stamp / CASE WHEN stamp < 1e11 THEN 1 WHEN stamp < 1e14 THEN 1e3 WHEN stamp < 1e17 THEN 1e6 ELSE 1e9 END
               AS stamp_s,
           metric_name = 'http_req_duration' AS is_request,
           -- The system tag, or else the script's own in `extra_tags`: k=v&k=v, unescaped.
           scenario = $hold OR regexp_matches(scenario, '(^|&)scenario=' || $hold || '(&|$)') AS is_tagged_hold,
           -- k6 gives the script's own tags to no dropped iteration; it is stamped when it should have started.
           $own_tag AND metric_name = 'dropped_iterations'
               AND stamp_s >= CASE WHEN stamp_s = floor(stamp_s) THEN floor($start_s) ELSE $start_s END
               AND stamp_s <= $end_s + $tolerance_s AS is_dropped_in_hold,
           is_tagged_hold OR is_dropped_in_hold OR metric_name = 'hold_start' AS is_measured
    FROM numbered
    WHERE metric_name IN ('http_req_duration', 'dropped_iterations', 'graphql_errors', 'hold_start')
), checked AS (
    SELECT *,
           coalesce(isfinite(value) AND value >= 0 AND isfinite(stamp_s)
                    AND (NOT is_request OR status_code >= 0), false) AS valid,
           valid AND is_request AS counts_as_request,
           counts_as_request AND (status_code = 0 OR status_code >= 400) AS failed,
           stamp_s - value / 1000 AS start_s
    FROM sample
)
"""

_REDUCE = (
    _SAMPLES
    + """
SELECT metric_name, valid, failed,
       coalesce(is_measured, false) AS measured,
       CASE WHEN measured AND counts_as_request
            THEN greatest(0, least($windows - 1, floor((start_s - $start_s) / $sub_window_s)))::INTEGER
            ELSE 0 END AS sub_window,
       CASE WHEN measured AND counts_as_request AND NOT failed
            THEN floor(ln(greatest(value, $smallest_ms)) / ln($bucket_ratio))::INTEGER
            ELSE 0 END AS bucket,
       count(*) AS rows,
       sum(value) AS total,
       coalesce(max(start_s) FILTER (counts_as_request), '-inf'::DOUBLE) AS last_start_s,
       bool_and(stamp_s = floor(stamp_s)) AS in_whole_seconds,
       count(*) FILTER (counts_as_request AND start_s < $start_s - $tolerance_s) AS early,
       count(*) FILTER (counts_as_request AND start_s > $end_s + $tolerance_s) AS late
FROM checked
WHERE is_measured OR is_request
GROUP BY ALL
"""
)

_FIRST_INVALID = (
    _SAMPLES
    + """
SELECT row_number, metric_name, timestamp, metric_value, status
FROM checked
WHERE is_measured AND NOT valid
LIMIT 1
"""
)

_SCENARIOS = (
    _SAMPLES
    + """
SELECT coalesce(nullif(regexp_extract(scenario, '(?:^|&)scenario=([^&]*)', 1), ''), scenario, '(none)') AS named,
       count(*)
FROM checked
WHERE is_request
GROUP BY named ORDER BY count(*) DESC LIMIT 10
"""
)


@dataclass(frozen=True)
class K6Samples:
    """What k6 saw in the hold of one run."""

    latency: WindowedHistogram
    """Latency in ms of the answers with a status from 1 to 399, by the sub-window in which their request started."""
    requests: int
    """Requests that were started in the hold and ended, whatever came back."""
    failed: int
    """Requests of these without an answer, or with a status of 400 or more."""
    dropped_iterations: int
    """Iterations that k6 should have started in the hold and had no virtual user for."""
    graphql_answers: int
    """Answers whose body was looked at for GraphQL errors; 0 when the script does not look."""
    graphql_errors: int
    """Answers of these that carried an `errors` array."""
    hold_start_s: float | None
    """Start of the hold in unix seconds by k6's own clock, from the gauge `hold_start`; None when it is not there."""
    windows_with_requests: int
    """Sub-windows in which a request started, whatever came back."""
    load_end_s: tuple[float, float]
    """The unix seconds by k6's clock between which the last request of all its scenarios started."""


def find_k6_file(run: Path) -> Path:
    """The k6 file of a run directory. Raises InputError when there is none, or more than one."""
    path = find_recorded(run, FILE_NAMES)
    if path is None:
        raise InputError(
            Problem(str(run), "holds no k6.csv or k6.csv.gz", f"{MEASURE_AGAIN}; k6 run --out csv=k6.csv.gz")
        )
    return path


def read_k6_samples(path: Path, hold: Hold, sub_window_s: float, windows: int) -> K6Samples:
    """Reduce the rows of the hold in one pass; `windows` sub-windows of `sub_window_s` make up the hold.

    Raises InputError when the file is cut off, lacks a column, holds a value that is not a number >= 0, or holds no
    request of the hold, and when its hold is not the one given.
    """
    header = read_header(path, _COLUMNS)
    tagged = "scenario" if "scenario" in header else "extra_tags"
    if tagged not in header:
        what = "lacks the column scenario, and has no extra_tags with scenario=hold in it either"
        raise InputError(Problem(str(path), what, "run k6 with the system tag scenario; docs/run-directory.md"))
    file = {
        "path": str(path),
        # In the order of the file, under the names that the query knows; no type is guessed.
        "columns": {"scenario" if name == tagged else name: "VARCHAR" for name in header},
        "hold": HOLD_SCENARIO,
        "own_tag": tagged == "extra_tags",
        "start_s": hold.start,
        "end_s": hold.end,
        "tolerance_s": _TOLERANCE_S,
    }
    reduction = {
        "sub_window_s": sub_window_s,
        "windows": windows,
        "smallest_ms": SMALLEST_MS,
        "bucket_ratio": BUCKET_RATIO,
    }
    with duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False}) as database:
        try:
            groups = {
                name: np.ma.getdata(values)
                for name, values in database.execute(_REDUCE, file | reduction).fetchnumpy().items()
            }
            rows = {name: values[groups["measured"]] for name, values in groups.items()}
            if invalid := int(rows["rows"][~rows["valid"]].sum()):
                raise InputError(_invalid_row(path, database.execute(_FIRST_INVALID, file).fetchone(), invalid))
            if not (rows["metric_name"] == "http_req_duration").any():
                raise InputError(_no_request(path, database.execute(_SCENARIOS, file).fetchall()))
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise InputError(_unreadable(path, str(error))) from error
    samples = _samples_of(rows, windows, _load_end_s(groups))
    _check_hold(path, hold, samples, early=int(rows["early"].sum()), late=int(rows["late"].sum()))
    return samples


def _load_end_s(groups: dict[str, np.ndarray]) -> tuple[float, float]:
    """When the last request started; a stamp in whole seconds is as much as one too early."""
    request = groups["metric_name"] == "http_req_duration"
    last_s = float(groups["last_start_s"][request].max())
    return last_s, last_s + float(groups["in_whole_seconds"][request].all())


def _samples_of(rows: dict[str, np.ndarray], windows: int, load_end_s: tuple[float, float]) -> K6Samples:
    """The counts and the histogram in the groups of the hold."""
    counts, kind = rows["rows"], rows["metric_name"]
    request = kind == "http_req_duration"
    answered = request & ~rows["failed"]
    low_ms, high_ms = bucket_edges_ms(rows["bucket"][answered])
    latency = window_histogram(low_ms, high_ms, rows["sub_window"][answered], counts[answered], windows)
    starts = rows["total"][kind == "hold_start"] / counts[kind == "hold_start"]
    return K6Samples(
        latency=latency,
        requests=int(counts[request].sum()),
        failed=int(counts[request & rows["failed"]].sum()),
        dropped_iterations=round(rows["total"][kind == "dropped_iterations"].sum()),
        graphql_answers=int(counts[kind == "graphql_errors"].sum()),
        graphql_errors=round(rows["total"][kind == "graphql_errors"].sum()),
        hold_start_s=float(starts[0]) / 1000 if starts.size else None,
        windows_with_requests=np.unique(rows["sub_window"][request]).size,
        load_end_s=load_end_s,
    )


def _check_hold(path: Path, hold: Hold, samples: K6Samples, early: int, late: int) -> None:
    """Raise InputError when the hold that run.json names is not the one that k6 drove."""
    # Nothing of the hold can start before it. After it, late connections may: an overloaded service makes a few, and it
    # is for Gate 1 to judge it; that most of the hold is late only a wrong record explains.
    found = []
    if early or late > samples.requests / 2:
        side, count = ("before", early) if early else ("after", late)
        found.append(f"{count} of {samples.requests} requests started more than {_TOLERANCE_S:g} s {side} it")
    if samples.hold_start_s is not None and abs(samples.hold_start_s - hold.start) > _TOLERANCE_S:
        found.append(f"the gauge hold_start says that it began at {samples.hold_start_s:.3f}")
    if found:
        raise InputError(
            Problem(
                f"{path.with_name('run.json')}: hold",
                f"{hold.start:.3f} to {hold.end:.3f} does not fit {path.name}: {'; '.join(found)}",
                "hold.start and hold.end are unix seconds by the clock of k6's machine",
            )
        )


def _invalid_row(path: Path, row: tuple | None, count: int) -> Problem:
    number, metric, timestamp, value, status = row or ("?",) * 5
    return Problem(
        f"{path}: row {number}",
        f"not all are numbers >= 0: {metric} {value}, timestamp {timestamp}, status {status};"
        f" {count} such rows in the hold",
        MEASURE_AGAIN,
    )


def _no_request(path: Path, scenarios: list[tuple[str, int]]) -> Problem:
    found = ", ".join(f"{name} {count}" for name, count in scenarios) or "none"
    return Problem(
        str(path),
        f"holds no request of the hold; requests by k6 scenario: {found}",
        "the k6 scenario that is measured is named `hold`; if it is, the service or k6 never started: see logs/",
    )


def _unreadable(path: Path, error: str) -> Problem:
    """DuckDB's error as a problem of the file."""
    if "Unexpected end of GZIP stream" in error:
        return cut_off(path)
    line = re.search(r"CSV Error on Line: (\d+)", error)
    columns = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", error)
    what = (
        f"has {columns[2]} columns instead of {columns[1]}"
        if columns
        else "cannot be read as CSV: " + " ".join(error.partition("Possible")[0].split())[:300]
    )
    return Problem(f"{path}:{line[1]}" if line else str(path), what, MEASURE_AGAIN)

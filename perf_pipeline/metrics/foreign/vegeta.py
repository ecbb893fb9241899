"""vegeta's results: `vegeta encode --to csv` and `--to json`, plain or gzip.

What belongs here: how a row of them becomes a request. vegeta stamps a request when it starts it, and its latency ends
with the last byte of the body. A request fails without an answer (code 0), with a code from 400 on, and when vegeta
wrote an error beside it, such as a body that broke off.
"""

from collections.abc import Sequence
from pathlib import Path

from perf_pipeline.gates.checks import DROPPED_ITERATIONS, ENVIRONMENT, THROTTLING
from perf_pipeline.metrics.foreign.form import Form, Load, UnreadableForm, check_whole, open_plain
from perf_pipeline.metrics.foreign.request_rows import NUMBER, RequestRows, plain_lines, read_source, reduce_requests
from perf_pipeline.metrics.foreign.told import Told

_FIELDS = (
    "timestamp", "code", "latency", "bytes_out", "bytes_in", "error",
    "body", "attack", "seq", "method", "url", "headers",
)  # fmt: skip
"""Columns of the CSV, which has no header. Older versions end with `attack` or `seq`."""
_FEWEST_FIELDS = 6

_ATTACKS = """
    SELECT number, 'request' AS kind,
           coalesce(TRY_CAST(stamp AS DOUBLE) / 1e9, epoch(TRY_CAST(stamp AS TIMESTAMPTZ))) AS stamp_s,
           TRY_CAST(latency AS DOUBLE) / 1e6 AS value,
           TRY_CAST(code AS INTEGER) AS status_code,
           coalesce(status_code = 0 OR status_code >= 400 OR error <> '', false) AS failed,
           CAST(NULL AS VARCHAR) AS k6_scenario,
           coalesce(isfinite(value) AND value >= 0 AND isfinite(stamp_s) AND status_code >= 0, false) AS valid,
           concat('timestamp ', coalesce(stamp, 'missing'), ', latency ', coalesce(latency, 'missing'), ', code ',
                  coalesce(code, 'missing')) AS shown
    FROM (ROWS)
"""


def read_vegeta_csv(path: Path, told: Told) -> Sequence[Load]:
    """The one load of vegeta results in CSV."""
    check_whole(path)
    with open_plain(path) as file:
        columns = file.readline().count(b",") + 1
    # An error with a comma in it stands in quotes, and only in newer files with all of their columns.
    names = _FIELDS[: min(columns, len(_FIELDS))]
    source = read_source(path, "$columns", "header=false, delim=',', quote='\"', escape='\"'")
    rows = f"SELECT {NUMBER} AS number, timestamp AS stamp, code, latency, error FROM {source}"  # noqa: S608  constants
    parameters = {"path": str(path), "columns": dict.fromkeys(names, "VARCHAR")}
    return [reduce_requests(RequestRows(path, _ATTACKS.replace("ROWS", rows), True, parameters=parameters), told)]


def read_vegeta_json(path: Path, told: Told) -> Sequence[Load]:
    """The one load of vegeta results in JSON."""
    check_whole(path)
    lines = plain_lines(path)
    rows = f"""
        SELECT number, found[1] AS stamp, found[2] AS code, found[3] AS latency, found[4] AS error
        FROM (SELECT {NUMBER} AS number,
                     json_extract_string(line, ['$.timestamp', '$.code', '$.latency', '$.error']) AS found
              FROM {lines} WHERE line <> '')
    """  # noqa: S608  constants of this module
    return [reduce_requests(RequestRows(path, _ATTACKS.replace("ROWS", rows), True, lines, {"path": str(path)}), told)]


def _is_csv(head: bytes) -> bool:
    fields = head.split(b"\n", 1)[0].split(b",")
    # Nanoseconds since 1970, a status code, nanoseconds, and two sizes.
    numbers = fields[:5]
    return (
        len(fields) >= _FEWEST_FIELDS
        and all(field.isdigit() for field in numbers)
        and len(fields[0]) >= 18
        and len(fields[1]) <= 3
    )


def _is_json(head: bytes) -> bool:
    first = head.lstrip().split(b"\n", 1)[0]
    return first.startswith(b"{") and all(key in first for key in (b'"attack":', b'"latency":', b'"timestamp":'))


def _is_gob(head: bytes) -> bool:
    return not head.startswith(b"{") and all(name in head[:400] for name in (b"Attack", b"Latency", b"BytesOut"))


def _is_report(head: bytes) -> bool:
    return head.lstrip().startswith(b'{"latencies":') and b'"99th"' in head


_OUTSIDE = "vegeta sees the service from outside"
_MISSING = dict.fromkeys(("service_latency", "service_p99", "service_memory", "upstream_latency"), _OUTSIDE) | {
    "graphql_error_rate": "vegeta does not look into the bodies of answers"
}
_NOT_MEASURED = {
    DROPPED_ITERATIONS: "vegeta does not count requests that it could not start; the achieved rate shows them",
    THROTTLING: _OUTSIDE,
    ENVIRONMENT: "vegeta's results do not say where they were made",
}

VEGETA_CSV = Form("vegeta CSV", _is_csv, read_vegeta_csv, _MISSING, _NOT_MEASURED)
VEGETA_JSON = Form("vegeta JSON", _is_json, read_vegeta_json, _MISSING, _NOT_MEASURED)
VEGETA_GOB = UnreadableForm(
    "vegeta's own binary results", _is_gob, "turn it into text: vegeta encode --to csv results.bin > results.csv"
)
VEGETA_REPORT = UnreadableForm(
    "a vegeta report", _is_report, "it holds a few percentiles: encode the results, vegeta encode --to csv results.bin"
)

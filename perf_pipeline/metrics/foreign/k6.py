"""k6's own outputs without a run.json: `--out csv` and `--out json`, plain or gzip.

What belongs here: how a line of them becomes a request. k6's CSV in a run directory, where run.json says what the hold
is, is read by `k6_samples`. Requests are the samples of `http_req_duration`, each stamped at its end; one fails without
an answer (status 0) or with a status from 400 on.
"""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates import wording
from perf_pipeline.gates.checks import ENVIRONMENT, THROTTLING
from perf_pipeline.metrics.foreign.form import Form, Load, UnreadableForm, check_whole, open_plain, shown
from perf_pipeline.metrics.foreign.request_rows import NUMBER, RequestRows, plain_lines, read_source, reduce_requests
from perf_pipeline.metrics.foreign.told import Told

_KINDS = {"http_req_duration": "request", "dropped_iterations": "dropped", "graphql_errors": "graphql"}
_NEEDED = ("metric_name", "timestamp", "metric_value", "status")

_SAMPLES = """
    SELECT number,
           CASE metric WHEN 'http_req_duration' THEN 'request' WHEN 'dropped_iterations' THEN 'dropped'
                       WHEN 'graphql_errors' THEN 'graphql' END AS kind,
           coalesce(TRY_CAST(stamp AS DOUBLE), epoch(TRY_CAST(stamp AS TIMESTAMPTZ))) AS raw_stamp,
           -- 1e11 s is the year 5138, and 1e11 ms is 1973: the magnitude tells s, ms, us and ns apart.
           raw_stamp / CASE WHEN raw_stamp < 1e11 THEN 1 WHEN raw_stamp < 1e14 THEN 1e3
                            WHEN raw_stamp < 1e17 THEN 1e6 ELSE 1e9 END AS stamp_s,
           TRY_CAST(text AS DOUBLE) AS value,
           TRY_CAST(status AS INTEGER) AS status_code,
           coalesce(kind = 'request' AND (status_code = 0 OR status_code >= 400), false) AS failed,
           nullif(tag, '') AS k6_scenario,
           coalesce(isfinite(value) AND value >= 0 AND isfinite(stamp_s)
                    AND (kind <> 'request' OR status_code >= 0), false) AS valid,
           concat(metric, ' ', coalesce(text, 'without a value'), ', time ', coalesce(stamp, 'missing'),
                  CASE WHEN kind = 'request' THEN concat(', status ', coalesce(status, 'missing')) END) AS shown
    FROM (ROWS)
    WHERE kind IS NOT NULL
"""


def read_k6_csv(path: Path, told: Told) -> Sequence[Load]:
    """The one load of k6's CSV output."""
    check_whole(path)
    header = _header(path)
    tag = "scenario" if "scenario" in header else "NULL"
    if "extra_tags" in header:
        # The script's own tag, where the system tag is switched off: k=v&k=v, unescaped.
        tag = f"coalesce(nullif({tag}, ''), regexp_extract(extra_tags, '(?:^|&)scenario=([^&]*)', 1))"
    source = read_source(path, "$columns", "header=true, delim=',', quote='\"', escape='\"'")
    rows = f"""
        SELECT {NUMBER} AS number, metric_name AS metric, timestamp AS stamp, metric_value AS text, status, {tag} AS tag
        FROM {source} WHERE metric_name IN ({", ".join(f"'{name}'" for name in _KINDS)})
    """  # noqa: S608  constants of this module
    parameters = {"path": str(path), "columns": dict.fromkeys(header, "VARCHAR")}
    return [reduce_requests(RequestRows(path, _SAMPLES.replace("ROWS", rows), False, parameters=parameters), told)]


def _header(path: Path) -> list[str]:
    """The names of the columns. Raises InputError when one is missing that is needed, or stands there twice."""
    with open_plain(path) as file:
        header = next(csv.reader([file.readline().decode("utf-8-sig", "replace")]), [])
    problems = []
    if missing := [name for name in _NEEDED if name not in header]:
        what = f"lacks {wording.counted(len(missing), 'column')}: {', '.join(missing)}; it has {', '.join(header)}"
        problems.append(Problem(f"{path}:1", shown(what, 300), "let k6 write them: it leaves out no column by default"))
    if doubled := sorted({name for name in header if header.count(name) > 1}):
        problems.append(Problem(f"{path}:1", f"has twice: {', '.join(doubled)}", "keep one of them"))
    if problems:
        raise InputError(problems)
    return header


def read_k6_json(path: Path, told: Told) -> Sequence[Load]:
    """The one load of k6's JSON output: a line for each sample, of which one in ten is of interest.

    Most of the others are told apart by how they begin in every k6 since 2019, so that they are never parsed; a line
    that begins otherwise is looked through.
    """
    check_whole(path)
    lines = plain_lines(path)
    prefix = '{"metric":"'
    begins = " OR ".join(f"starts_with(line, '{prefix}{name}\"')" for name in _KINDS)
    holds = " OR ".join(f"contains(line, '{name}')" for name in _KINDS)
    rows = f"""
        SELECT number, found[1] AS metric, found[3] AS stamp, found[4] AS text, found[5] AS status, found[6] AS tag
        FROM (SELECT number, json_extract_string(
                         line, ['$.metric', '$.type', '$.data.time', '$.data.value', '$.data.tags.status',
                                '$.data.tags.scenario']) AS found
              FROM (SELECT {NUMBER} AS number, line FROM {lines})
              -- A line that is neither sample nor definition is no JSON, and is looked at to say so.
              WHERE CASE WHEN starts_with(line, '{prefix}') THEN {begins}
                         ELSE {holds} OR NOT starts_with(line, '{{"') END
                    OR NOT ends_with(line, '}}'))
        WHERE found[2] = 'Point'
    """  # noqa: S608  constants of this module
    query = _SAMPLES.replace("ROWS", rows)
    return [reduce_requests(RequestRows(path, query, False, lines, {"path": str(path)}), told)]


def _is_csv(head: bytes) -> bool:
    header = head.split(b"\n", 1)[0]
    return b"metric_name" in header and b"metric_value" in header


def _is_json(head: bytes) -> bool:
    first = head.lstrip().split(b"\n", 1)[0]
    return b'"metric"' in first and re.match(rb'\{.*"type"\s*:\s*"(Metric|Point)"', first) is not None


def _is_summary(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"http_req_duration"' in head and b'"p(95)"' in head


_OUTSIDE = "k6 sees the service from outside"
_MISSING = dict.fromkeys(("service_latency", "service_p99", "service_memory", "upstream_latency"), _OUTSIDE) | {
    "graphql_error_rate": "the file has no sample of a k6 metric graphql_errors"
}
_NOT_MEASURED = {THROTTLING: _OUTSIDE, ENVIRONMENT: "k6's output does not say where it ran"}

K6_CSV = Form("k6 CSV", _is_csv, read_k6_csv, _MISSING, _NOT_MEASURED)
K6_JSON = Form("k6 JSON", _is_json, read_k6_json, _MISSING, _NOT_MEASURED)
K6_SUMMARY = UnreadableForm(
    "a k6 summary",
    _is_summary,
    "it holds a few percentiles and no distribution: run k6 with --out json=k6.json.gz or --out csv=k6.csv.gz",
)

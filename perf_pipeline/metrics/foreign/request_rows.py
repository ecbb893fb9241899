"""Files with a row for each request, reduced to one histogram a sub-window and a handful of counts.

What belongs here: the reduction that k6 and vegeta results share, in DuckDB, so that memory does not grow with the
file. What a row means is in the module of its form, which brings a query of these columns:

    number        row of the file, from 1
    kind          request, dropped (an iteration that was not started) or graphql (1: an answer carried errors)
    stamp_s       unix seconds
    value         latency in ms of a request, count or 1 of the others
    failed        whether a request failed
    k6_scenario   tag of the row; null when it has none
    valid         whether all of this could be read
    shown         the row in a problem's words

The hold. Rows of the k6 scenario `warmup` are never in it. Where rows are tagged `hold`, these are the hold, and a told
warm-up is not needed. Otherwise the hold begins a warm-up after the start of the load, by the time at which requests
were started. The start of the load is the earliest among the first 10,000 requests of the file: k6 and vegeta write
them in the order in which they ended, and none that began earlier ends much later. The hold ends when its told length
is over, or with the last request.

Stamps in whole seconds (k6's CSV by default) say in which second a request ended and no more. There a sub-window holds
what ended in it, and the first and the last second of the load, of which nobody knows how much was load, are left out.
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates import wording
from perf_pipeline.metrics.foreign.form import MAKE_AGAIN, Load, is_gzip, shown
from perf_pipeline.metrics.foreign.told import Told
from perf_pipeline.metrics.foreign.windows import sub_windows
from perf_pipeline.metrics.histogram import BUCKET_RATIO, SMALLEST_MS, bucket_edges_ms, window_histogram

HOLD_TAG = "hold"
WARM_UP_TAG = "warmup"
NUMBER = "$$number$$"
_BEFORE = -1
_FIRST_REQUESTS = 10_000
_SECONDS_OF_DOUBT = 2.0
"""A load that is stamped in whole seconds may have begun a second later and ended a second earlier than it seems."""
_SETTINGS: dict = {"threads": 1, "autoinstall_known_extensions": False, "TimeZone": "UTC"}


@dataclass(frozen=True)
class RequestRows:
    """How the rows of one file become the columns above."""

    path: Path
    query: str
    """SQL with these columns; NUMBER in it stands for the number of a row, which costs time where nobody asks."""
    stamped_at_start: bool
    """Whether a request is stamped at its start; otherwise at its end."""
    lines: str | None = None
    """SQL of the plain lines as `line`, where each has to be JSON: to find the one that is not."""
    parameters: Mapping[str, object] = field(default_factory=dict)

    def sql(self, numbered: bool = False) -> str:
        """The query, with or without the numbers of rows."""
        return self.query.replace(NUMBER, "row_number() OVER ()" if numbered else "0")


def read_source(path: Path, columns: str, options: str) -> str:
    """SQL that reads the rows of a CSV file, plain or gzip, without guessing anything.

    `columns` and `options` are SQL; the path is the parameter `path`.
    """
    packing = "gzip" if is_gzip(path) else "none"
    return (
        f"read_csv($path, columns={columns}, auto_detect=false, compression='{packing}', {options},"
        # Buffers of 4 MB instead of 32: as fast, and half the memory, which then does not depend on the file's size.
        " buffer_size=4_000_000)"
    )


def plain_lines(path: Path) -> str:
    """SQL that reads a file as lines, in the column `line`."""
    return read_source(path, "{line: 'VARCHAR'}", "header=false, delim='\x01', quote='', escape=''")


@dataclass(frozen=True)
class _Start:
    """What the first requests of a file say."""

    start_s: float
    whole_seconds: bool
    tagged: bool
    """Whether the hold is told by a tag."""


def reduce_requests(rows: RequestRows, told: Told) -> Load:
    """The hold of a file in one pass over it, and two where the tag of the hold turns up late.

    Raises InputError when the file is cut off, a row cannot be read, or the hold has no request.
    """
    with duckdb.connect(config=_SETTINGS) as database, _problems_of(rows, database):
        start = _look(rows, database)
        reduced = _reduce(rows, database, start, told)
        if not start.tagged and reduced.late_hold:
            start = _look(rows, database, tagged=True)
            reduced = _reduce(rows, database, start, told)
        return _load(rows, start, reduced, told)


def _look(rows: RequestRows, database: duckdb.DuckDBPyConnection, tagged: bool = False) -> _Start:
    """How the load begins: by the first requests of the file, or of its hold when that is told by a tag."""
    picked = f"k6_scenario = '{HOLD_TAG}'" if tagged else "true"
    (found,) = database.execute(
        f"""
        SELECT count(*), coalesce(bool_and(stamp_s = floor(stamp_s)), false),
               min(stamp_s) FILTER (k6_scenario IS DISTINCT FROM '{WARM_UP_TAG}'),
               min(stamp_s - value / 1000) FILTER (k6_scenario IS DISTINCT FROM '{WARM_UP_TAG}'),
               coalesce(bool_or(k6_scenario IN ('{HOLD_TAG}', '{WARM_UP_TAG}')), false)
        FROM (SELECT * FROM ({rows.sql()})
              WHERE kind = 'request' AND valid AND {picked} LIMIT {_FIRST_REQUESTS})
        """,  # noqa: S608  constants of this module and SQL of the forms
        rows.parameters,
    ).fetchall()
    count, whole, first_stamp_s, first_start_s, tag_seen = found
    if tag_seen and not tagged:
        by_tag = _look(rows, database, tagged=True)
        if math.isfinite(by_tag.start_s):
            return by_tag
    whole_seconds = bool(whole and count and not rows.stamped_at_start)
    at_stamp = whole_seconds or rows.stamped_at_start
    start_s = first_stamp_s if at_stamp else first_start_s
    return _Start(math.nan if start_s is None else start_s, whole_seconds, tagged)


@dataclass(frozen=True)
class _Reduced:
    """The groups of rows that a pass returned, and the window of the hold that it used."""

    groups: dict[str, np.ndarray]
    from_s: float
    to_s: float
    """Where the hold ends; inf when it ends with the load."""

    @property
    def late_hold(self) -> bool:
        """Whether rows tagged as the hold turned up."""
        return bool((self.groups["k6_scenario"] == HOLD_TAG).any())


def _reduce(rows: RequestRows, database: duckdb.DuckDBPyConnection, start: _Start, told: Told) -> _Reduced:
    warmup_s = 0.0 if start.tagged else told.warmup_s or 0.0
    # The second in which the load began is not all load where only seconds are known.
    from_s = start.start_s + warmup_s + start.whole_seconds
    to_s = math.inf if told.hold_s is None else from_s + told.hold_s
    measured = f"k6_scenario IS DISTINCT FROM '{WARM_UP_TAG}'"
    if start.tagged:
        # The script's own tags are not on dropped iterations; the time says whether they belong to the hold.
        measured = f"k6_scenario = '{HOLD_TAG}' OR (kind = 'dropped' AND k6_scenario IS NULL)"
    database.execute(
        f"""
        SELECT kind, valid, failed, coalesce(k6_scenario, '') AS k6_scenario,
               CASE WHEN NOT valid OR at_s < $from_s THEN {_BEFORE} ELSE floor(at_s - $from_s)::INTEGER END AS second,
               CASE WHEN kind = 'request' AND valid AND NOT failed
                    THEN floor(ln(greatest(value, $smallest_ms)) / ln($bucket_ratio))::INTEGER ELSE 0 END AS bucket,
               count(*) AS rows, coalesce(sum(value), 0) AS total, coalesce(max(at_s), 0) AS last_s
        FROM (SELECT *, CASE WHEN kind <> 'request' OR $at_stamp THEN stamp_s ELSE stamp_s - value / 1000 END AS at_s
              FROM ({rows.sql()}) WHERE {measured})
        WHERE NOT valid OR at_s < $until_s
        GROUP BY ALL
        """,  # noqa: S608  constants of this module and SQL of the forms
        {
            **rows.parameters,
            "from_s": from_s if math.isfinite(from_s) else 0.0,
            # Whether the load goes on tells whether the last second of the hold is all load.
            "until_s": to_s + start.whole_seconds,
            "at_stamp": rows.stamped_at_start or start.whole_seconds,
            "smallest_ms": SMALLEST_MS,
            "bucket_ratio": BUCKET_RATIO,
        },
    )
    groups = {name: np.ma.getdata(values) for name, values in database.fetchnumpy().items()}
    if invalid := int(groups["rows"][~groups["valid"].astype(bool)].sum()):
        raise InputError(_invalid_row(rows, database, measured, invalid))
    return _Reduced(groups, from_s, to_s)


def _load(rows: RequestRows, start: _Start, reduced: _Reduced, told: Told) -> Load:
    """The counts and the histogram of the hold in the groups that the query returned."""
    groups = reduced.groups
    request = groups["kind"] == "request"
    inside = groups["second"] != _BEFORE
    if start.tagged:
        # By tag, what seems to have begun before the first of them did not.
        inside = np.full(inside.shape, True)
    told_hold_s = told.hold_s
    if start.whole_seconds and request.any():
        ended_s = groups["last_s"][request].max()
        if 0 < reduced.to_s - ended_s <= _SECONDS_OF_DOUBT:
            # As long as was told, but for what cannot be seen in whole seconds.
            told_hold_s = None
        # Nor is the second in which the load ended.
        inside = inside & (groups["last_s"] < (ended_s if told_hold_s is None else reduced.to_s))
    counted = {name: values[inside] for name, values in groups.items()}
    request = counted["kind"] == "request"
    requests = int(counted["rows"][request].sum())
    if not requests:
        raise InputError(_empty_hold(rows, groups, start, told))
    hold_s = told_hold_s
    if hold_s is None:
        seconds = float(counted["last_s"][request].max()) - reduced.from_s
        # N requests have N - 1 gaps between them, and the hold one for each; whole seconds are whole.
        hold_s = math.floor(seconds) + 1.0 if start.whole_seconds else seconds * requests / max(requests - 1, 1)
        hold_s = max(hold_s, 1e-3)
    sub_window_s, windows = sub_windows(hold_s)
    answered = request & ~counted["failed"].astype(bool)
    low_ms, high_ms = bucket_edges_ms(counted["bucket"][answered])
    window = np.clip(counted["second"][answered] // sub_window_s, 0, windows - 1)
    failed = int(counted["rows"][request & counted["failed"].astype(bool)].sum())
    graphql = counted["kind"] == "graphql"
    return Load(
        latency=(
            window_histogram(low_ms, high_ms, window, counted["rows"][answered], windows) if answered.any() else None
        ),
        requests=requests,
        errors=failed,
        hold_s=hold_s,
        hold_start_s=reduced.from_s,
        sub_window_s=sub_window_s,
        # The last second of a hold may be a part of one.
        density=min(1.0, np.unique(counted["second"][request]).size / max(1, math.floor(hold_s))),
        dropped_iterations=round(counted["total"][counted["kind"] == "dropped"].sum()),
        answers_looked_at=int(counted["rows"][graphql].sum()),
        answers_with_errors=round(counted["total"][graphql].sum()),
        remarks=tuple(_remarks(counted, start, told)),
    )


def _remarks(counted: dict[str, np.ndarray], start: _Start, told: Told) -> Iterator[str]:
    """What a reader has to know of how the hold was found."""
    if start.tagged:
        if told.warmup_s:
            yield f"the k6 scenario `{HOLD_TAG}` is the hold by its tag; --warmup was not needed"
        return
    if told.warmup_s is None and not start.tagged:
        yield "no warm-up was cut off: --warmup was not given"
    if start.whole_seconds:
        yield (
            "time stamps are in whole seconds, so the first and the last second are left out; set"
            " K6_CSV_TIME_FORMAT=unix_micro for exact ones"
        )
    scenarios = sorted(set(counted["k6_scenario"][counted["kind"] == "request"]) - {""})
    if len(scenarios) > 1:
        yield f"requests of {len(scenarios)} k6 scenarios are judged together: {', '.join(scenarios)}"


def _empty_hold(rows: RequestRows, groups: dict[str, np.ndarray], start: _Start, told: Told) -> Problem:
    request = groups["kind"] == "request"
    requests = int(groups["rows"][request].sum())
    if not requests:
        return Problem(str(rows.path), "holds no request outside of a warm-up", MAKE_AGAIN)
    seconds = float(groups["last_s"][request].max()) - start.start_s
    return Problem(
        str(rows.path),
        f"holds no request of the hold: its load lasted {seconds:.3g} s, of which {told.warmup_s or 0:g} s are warm-up",
        "give a shorter --warmup, or measure for longer",
    )


def _invalid_row(rows: RequestRows, database: duckdb.DuckDBPyConnection, measured: str, count: int) -> Problem:
    """The first row that could not be read."""
    found = database.execute(
        f"SELECT number, shown FROM ({rows.sql(numbered=True)}) WHERE NOT valid AND ({measured}) LIMIT 1",  # noqa: S608  as above
        rows.parameters,
    ).fetchone()
    number, row = found or ("?", "")
    what = f"cannot be read: {shown(row, 300)}; {wording.counted(count, 'such row')} in the file"
    return Problem(f"{rows.path}: row {number}", what, MAKE_AGAIN)


@contextmanager
def _problems_of(rows: RequestRows, database: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Turn what DuckDB says of a file into a problem of that file."""
    try:
        yield
    except (duckdb.IOException, duckdb.InvalidInputException, duckdb.ConversionException) as error:
        text = str(error)
        if rows.lines and "JSON" in text:
            raise InputError(_no_json(rows, database)) from error
        line = re.search(r"CSV Error on Line: (\d+)", text)
        where = f"{rows.path}:{line[1]}" if line else str(rows.path)
        raise InputError(Problem(where, _what_duckdb_found(text), MAKE_AGAIN)) from error


def _what_duckdb_found(text: str) -> str:
    """What DuckDB says of a line, in the words of this project where it is one of the usual findings."""
    line = found[1] if (found := re.search(r"Original Line: (.*)", text)) else ""
    if "Invalid unicode" in text:
        return f"is not UTF-8: {shown(line, 100)}"
    if columns := re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text):
        return f"has {columns[2]} columns instead of {columns[1]}: {shown(line, 100)}"
    if "invalid state" in text:
        return "cannot be read as lines of text: quotes that never end, or ends of lines of two kinds"
    return f"cannot be read: {shown(' '.join(text.partition('Possible')[0].split()), 300)}"


def _no_json(rows: RequestRows, database: duckdb.DuckDBPyConnection) -> Problem:
    """The first line that is no JSON."""
    found = database.execute(
        f"""
        SELECT number, line FROM (SELECT row_number() OVER () AS number, line FROM {rows.lines})
        WHERE NOT json_valid(line) LIMIT 1
        """,  # noqa: S608  SQL of the forms
        rows.parameters,
    ).fetchone()
    number, line = found or ("?", "")
    return Problem(f"{rows.path}:{number}", f"is no JSON: {shown(line, 100)}", MAKE_AGAIN)

"""Prometheus series that a run recorded: gauges, counters and histograms over the hold.

What belongs here: reading `series.csv[.gz]`, `series.parquet` or `series.json[.gz]` (answers of Prometheus' API, see
`foreign.prometheus`) and making values of what was scraped. A value that cannot be made is a `Missing` that names the
file and the series, never a guess: a counter that goes back, a series that stops, two gauges where one is meant. What
the values mean for a metric is in `measured_run`.

Only scrapes inside the hold are used, so nothing of the warm-up can enter. The growth between two scrapes belongs to
the sub-window of the middle between them.
"""

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.evidence import Missing
from perf_pipeline.lab.run_directory import Hold
from perf_pipeline.metrics.foreign.prometheus import api_batches
from perf_pipeline.metrics.histogram import (
    FloatArray,
    WindowedHistogram,
    cumulative_differences,
    cumulative_edges_ms,
)
from perf_pipeline.metrics.recorded_csv import MEASURE_AGAIN, cut_off, find_recorded, read_header
from perf_pipeline.plan_metrics import GaugeSource, HistogramSource

FILE_NAMES = ("series.csv", "series.csv.gz", "series.parquet", "series.json", "series.json.gz")
CFS_PERIODS = "container_cpu_cfs_periods_total"
CFS_THROTTLED_PERIODS = "container_cpu_cfs_throttled_periods_total"

_COLUMNS = {
    "timestamp": pa.float64(),
    "name": pa.dictionary(pa.int32(), pa.string()),
    "labels": pa.dictionary(pa.int32(), pa.string()),
    "value": pa.float64(),
}
_COUNTERS = ("_bucket", "_count", "_total")
TELLING_REQUESTS = 5.0
"""Requests that an interval should count before it says that the load was there, or was over."""
_MOVED_REQUESTS, _MOVED_SHARE = 10.0, 0.01
"""How far a page that was not made in one piece may be from cumulative: requests, or a share of all of them."""


@dataclass(frozen=True)
class Series:
    """One series inside the hold, by time."""

    name: str
    labels: Mapping[str, str]
    times_s: FloatArray
    """(N,) unix seconds, rising."""
    values: FloatArray
    """(N,) as scraped, never nan."""

    def __str__(self) -> str:
        """The series as Prometheus writes it."""
        return self.name + _selector(self.labels)


@dataclass(frozen=True)
class ScrapedSeries:
    """What a run's series file holds of the names that were asked for, inside the hold."""

    file: str
    series: tuple[Series, ...]
    around: tuple[Series, ...]
    """Those that were asked for whole: before, in and after the hold."""
    known_names: frozenset[str]
    """Every name that the file holds, to tell a misspelling from a series that is not there."""

    def select(self, name: str, labels: Mapping[str, str]) -> list[Series]:
        """The series of a name that carry all of these labels."""
        return [series for series in self.series if series.name == name and labels.items() <= series.labels.items()]

    def not_there(self, name: str, labels: Mapping[str, str]) -> Missing:
        """Why a selection is empty."""
        others = [series for series in self.series if series.name == name]
        close = difflib.get_close_matches(name, self.known_names - {name}, n=3)
        if others:
            hint = f"; there is {others[0]}"
        elif name in self.known_names:
            hint = "; it was scraped outside the hold only"
        else:
            hint = f"; similar names: {', '.join(close)}" if close else ""
        return Missing(f"{self.file}: {name}{_selector(labels)} has no value in the hold{hint}")


def find_series_file(run: Path) -> Path | None:
    """The series file of a run directory, or None. Raises InputError when there is more than one."""
    return find_recorded(run, FILE_NAMES)


def read_series(path: Path, names: Collection[str], hold: Hold, around: Collection[str] = ()) -> ScrapedSeries:
    """Read the series of these names inside the hold, and those of `around` however far they reach.

    Raises InputError when the file is cut off, lacks a column, or holds a value that is not a number.
    """
    known: set[str] = set()
    kept = []
    wanted, whole = (pa.array(sorted(some), pa.string()) for some in (names, around))
    try:
        for batch in _batches(path):
            known.update(batch["name"].dictionary.to_pylist())
            inside = pc.and_(
                pc.is_in(batch["name"], value_set=wanted),
                pc.and_(pc.greater_equal(batch["timestamp"], hold.start), pc.less_equal(batch["timestamp"], hold.end)),
            )
            asked = pc.or_(inside, pc.is_in(batch["name"], value_set=whole))
            kept.append(pa.Table.from_batches([batch.filter(pc.and_(asked, pc.is_finite(batch["value"])))]))
    except pa.ArrowException as error:
        what = "cannot be read: " + " ".join(str(error).split())[:300]
        raise InputError(Problem(str(path), what, f"timestamp and value are numbers; {MEASURE_AGAIN}")) from error
    except OSError as error:
        if "Truncated" in str(error):
            raise InputError(cut_off(path)) from error
        raise InputError(Problem(str(path), f"cannot be read: {error}", MEASURE_AGAIN)) from error
    series = tuple(_split(pa.concat_tables(kept), path)) if kept else ()
    return ScrapedSeries(
        path.name,
        tuple(one for one in series if one.name in names),
        tuple(one for one in series if one.name in around),
        frozenset(name for name in known if name),
    )


def scrape_density(times_s: FloatArray, hold: Hold, interval_s: float) -> float:
    """Share of the scrapes that a hold should have, one an interval, that are there (0 to 1).

    A hold of n intervals holds at least n - 1 of them, wherever it begins between two. Scrapes that follow another
    within half an interval make up for nothing.
    """
    expected = max(1.0, np.floor(hold.seconds / interval_s) - 1)
    return float(min(1.0, len(_spaced(np.unique(times_s), interval_s / 2)) / expected))


def read_gauge(scraped: ScrapedSeries, source: GaugeSource) -> Series | Missing:
    """The one gauge that the source names."""
    labels = _labels(source)
    found = scraped.select(source.gauge, labels)
    if not found:
        return scraped.not_there(source.gauge, labels)
    if len(found) > 1:
        listed = ", ".join(str(series) for series in found[:3])
        return Missing(
            f"{scraped.file}: {len(found)} series answer to {source.gauge}{_selector(labels)}: {listed};"
            " name one with `labels` in the plan"
        )
    return found[0]


def read_histogram(
    scraped: ScrapedSeries, source: HistogramSource, hold: Hold, sub_window_s: float, windows: int
) -> tuple[WindowedHistogram, FloatArray] | Missing:
    """Requests by bucket and sub-window, summed over every label but `le`, and the (T,) times of its scrapes."""
    name, labels = f"{source.histogram}_bucket", _labels(source)
    found = scraped.select(name, labels)
    what = f"{scraped.file}: {name}{_selector(labels)}"
    if not found:
        return scraped.not_there(name, labels)
    edges = _upper_edges_s(found)
    if isinstance(edges, str):
        return Missing(f"{what} {edges}")
    times_s, growth = _growth(found)
    if isinstance(growth, str):
        return Missing(f"{scraped.file}: {growth}")
    if times_s.size < 2:
        return Missing(f"{what} was scraped only once in the hold")
    upper_s, bucket = np.unique(edges, return_inverse=True)
    by_bucket = np.zeros((times_s.size - 1, upper_s.size))
    np.add.at(by_bucket.T, bucket, growth.T)
    middle_s = (times_s[1:] + times_s[:-1]) / 2
    window = np.clip(((middle_s - hold.start) // sub_window_s).astype(np.int64), 0, windows - 1)
    cumulative = np.zeros((windows, upper_s.size))
    np.add.at(cumulative, window, by_bucket)
    nothing = np.zeros(upper_s.size)
    counts, _ = cumulative_differences(nothing, cumulative)
    requests = counts.sum()
    if not requests:
        return Missing(f"{what} counted no request in the hold")
    # Over the whole hold, where the requests that were in flight during one scrape have long been counted by the next.
    _, moved = cumulative_differences(nothing, cumulative.sum(axis=0))
    if moved > max(_MOVED_REQUESTS, _MOVED_SHARE * requests):
        return Missing(f"{what} is not cumulative: a bucket grew by {moved:g} more than the next larger one")
    low_ms, high_ms = cumulative_edges_ms(upper_s)
    return WindowedHistogram(low_ms, high_ms, counts), times_s


def throttled_share(scraped: ScrapedSeries, hold: Hold) -> float | None:
    """Share of the service's CPU periods in the hold that were throttled.

    None when that was not measured, or for less than half of the hold.
    """
    grown = []
    for name in (CFS_THROTTLED_PERIODS, CFS_PERIODS):
        times_s, growth = _growth(scraped.select(name, {"job": "service"}))
        if isinstance(growth, str) or not growth.size or times_s[-1] - times_s[0] < hold.seconds / 2:
            return None
        grown.append(float(growth.sum()))
    throttled, periods = grown
    # A group without a CPU limit has no periods: nothing was measured, which is not the same as nothing throttled.
    return min(1.0, throttled / periods) if periods else None


def counter_resets(scraped: ScrapedSeries) -> dict[str, int]:
    """By process, how often its counters went back in the hold; of several series of one, the largest number."""
    resets: dict[str, int] = {}
    for series in scraped.series:
        if series.name.endswith(_COUNTERS):
            process, back = series.labels.get("job", "service"), int((np.diff(series.values) < 0).sum())
            resets[process] = max(resets.get(process, 0), back)
    return resets


def load_end(scraped: ScrapedSeries, source: HistogramSource, hold: Hold) -> tuple[float, float] | str:
    """The times by the clock of the series between which the load ended, or why that is not known.

    It ended after the start of the last interval in which requests grew by half as much as is usual in the hold, and
    before the end of the next. An interval tells when it should have grown by a few at least.
    """
    name, labels = f"{source.histogram}_count", _labels(source)
    what = f"{name}{_selector(labels)}"
    found = [one for one in scraped.around if one.name == name and labels.items() <= one.labels.items()]
    times_s, growth = _growth(found)
    if isinstance(growth, str) or not growth.size:
        return f"{scraped.file} has no {what} that could be followed around the hold"
    counted = np.concatenate(([0.0], growth.sum(axis=1).cumsum()))
    from_hold, to_hold = np.interp((hold.start, hold.end), times_s, counted)
    if not (rate_per_s := (to_hold - from_hold) / hold.seconds):
        return f"{scraped.file}: {what} counted no request in the hold"
    telling = _spaced(times_s, TELLING_REQUESTS / rate_per_s)
    times_s, counted = times_s[telling], counted[telling]
    loaded = np.flatnonzero(np.diff(counted) >= rate_per_s * np.diff(times_s) / 2)
    if not loaded.size or loaded[-1] + 2 == len(times_s):
        return f"{scraped.file} ends before the load did"
    return float(times_s[loaded[-1]]), float(times_s[loaded[-1] + 2])


def _spaced(times_s: FloatArray, least_s: float) -> NDArray[np.int64]:
    """Which of (T,) rising times to take so that each is at least so long after the one before."""
    taken: list[int] = []
    for number, time_s in enumerate(times_s):
        if not taken or time_s - times_s[taken[-1]] >= least_s:
            taken.append(number)
    return np.array(taken, dtype=np.int64)


def _growth(found: list[Series]) -> tuple[FloatArray, FloatArray | str]:
    """The (T,) times at which any of N counters was scraped, and their (T - 1, N) growth between those times.

    A counter that appears later than others of its page began at 0. In place of the growth comes the reason why there
    is none: a counter that went back, or one that is no longer on its page.
    """
    times_s = np.unique(np.concatenate([series.times_s for series in found])) if found else np.empty(0)
    pages: dict[tuple[str | None, ...], tuple[float, float]] = {}
    for series in found:
        opened, closed = pages.get(_page(series), (np.inf, -np.inf))
        pages[_page(series)] = min(opened, series.times_s[0]), max(closed, series.times_s[-1])
    values = np.zeros((times_s.size, len(found)))
    for number, series in enumerate(found):
        opened, closed = pages[_page(series)]
        if series.times_s[-1] < closed:
            return times_s, f"{series} was last there at {series.times_s[-1]:.3f}, within the hold"
        if (back := np.flatnonzero(np.diff(series.values) < 0)).size:
            before, after = series.values[back[0] : back[0] + 2]
            return times_s, (
                f"{series} went back from {before:g} to {after:g} at {series.times_s[back[0] + 1]:.3f}, in the hold:"
                " its process was restarted"
            )
        first = 0.0 if series.times_s[0] > opened else series.values[0]
        # Between two scrapes of its own a counter keeps its value; what it grew by counts when it is seen again.
        seen = np.searchsorted(series.times_s, times_s, side="right")
        values[:, number] = np.concatenate(([first], series.values))[seen]
    return times_s, np.diff(values, axis=0)


def _page(series: Series) -> tuple[str | None, ...]:
    """What tells the pages apart that series were scraped from."""
    return series.labels.get("job"), series.labels.get("instance")


def _upper_edges_s(found: list[Series]) -> FloatArray | str:
    """The (N,) upper edges of N bucket series, or what is wrong with them."""
    sets: dict[str, set[float]] = {}
    edges = np.empty(len(found))
    for number, series in enumerate(found):
        try:
            edges[number] = float(series.labels["le"])
        except (KeyError, ValueError):
            return f"has a series without a number in le: {series}"
        others = {key: value for key, value in series.labels.items() if key != "le"}
        sets.setdefault(json.dumps(others, sort_keys=True), set()).add(edges[number])
    if len({frozenset(edges) for edges in sets.values()}) > 1:
        return "has series with different buckets, which cannot be added"
    if not np.isinf(edges).any():
        return "has no bucket le=+Inf"
    return edges


def _labels(source: GaugeSource | HistogramSource) -> dict[str, str]:
    return source.labels | ({"job": source.process} if source.process else {})


def _selector(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of the file in pieces, with the columns of `_COLUMNS`."""
    if ".json" in path.suffixes:
        yield from api_batches(path)
        return
    if path.suffix == ".parquet":
        if missing := [name for name in _COLUMNS if name not in pa.parquet.read_schema(path).names]:
            what = f"lacks the columns {', '.join(missing)}"
            raise InputError(Problem(str(path), what, "docs/run-directory.md names the columns"))
        with pa.parquet.ParquetFile(path, read_dictionary=["name", "labels"]) as file:
            for batch in file.iter_batches(columns=list(_COLUMNS)):
                yield batch.cast(pa.schema(_COLUMNS)) if batch.schema != pa.schema(_COLUMNS) else batch
        return
    read_header(path, list(_COLUMNS))
    convert = pa.csv.ConvertOptions(include_columns=list(_COLUMNS), column_types=_COLUMNS)
    compression = "gzip" if path.suffix == ".gz" else None
    with pa.input_stream(path, compression=compression) as stream:
        yield from pa.csv.open_csv(stream, convert_options=convert)


def _split(table: pa.Table, path: Path) -> Iterator[Series]:
    """One series for each name and labels, its samples by time."""
    table = table.unify_dictionaries().combine_chunks()
    if not table.num_rows:
        return
    names, labels = (table[column].chunk(0) for column in ("name", "labels"))
    name_code, label_code = (column.indices.to_numpy().astype(np.int64) for column in (names, labels))
    times_s, values = table["timestamp"].to_numpy(), table["value"].to_numpy()
    key = name_code * len(labels.dictionary) + label_code
    order = np.lexsort((times_s, key))
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        text = labels.dictionary[int(label_code[rows[0]])].as_py()
        try:
            parsed = json.loads(text)
            pairs = {str(name): str(value) for name, value in parsed.items()}
        except (ValueError, AttributeError) as error:
            what = f"labels are not a JSON object: {text[:100]}"
            raise InputError(Problem(str(path), what, 'for example {"job": "service"}')) from error
        yield Series(names.dictionary[int(name_code[rows[0]])].as_py(), pairs, times_s[rows], values[rows])

"""What the files of one run say about it and each of its metrics.

What belongs here: the meaning of each metric, in terms of what `k6_samples` and `series` read. Doing that for many runs
is in `extract`.

The achieved rate is the rate of requests *started* in the hold: every request tagged with the hold's k6 scenario,
divided by the length of the hold. In an open model k6 starts an iteration on schedule or drops it, so this is what k6
delivered, however late the answers came. Counting the requests that *ended* inside the hold, the only ones whose time
stamp lies in it, would charge the last answers of a slow service to the load generator.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.checks import CLOCK, RESTARTS
from perf_pipeline.gates.evidence import METRICS, ClockOffset, Missing
from perf_pipeline.lab.run_directory import RECORD_NAME, RunRecord, read_record
from perf_pipeline.metrics.histogram import FloatArray, WindowedHistogram
from perf_pipeline.metrics.k6_samples import K6Samples, find_k6_file, read_k6_samples
from perf_pipeline.metrics.series import (
    CFS_PERIODS,
    CFS_THROTTLED_PERIODS,
    FILE_NAMES,
    ScrapedSeries,
    counter_resets,
    find_series_file,
    load_end,
    read_gauge,
    read_histogram,
    read_series,
    scrape_density,
    throttled_share,
)
from perf_pipeline.plan_metrics import GaugeSource, HistogramSource

LONG_HOLD_S = 120
"""From this length on a hold is cut into sub-windows of 10 s, and of 1 s below it."""
RUN_DIRECTORY = "run directory"
"""Source of the runs that have a run.json."""


@dataclass(frozen=True)
class Measurement:
    """The value of one metric in one run: what `run_metric` holds of it."""

    value: float
    """Median in ms of a distribution, the number itself, or the share of errors."""
    requests: int | None = None
    errors: int | None = None
    log_bucket_width: float | None = None
    levels: FloatArray | None = None
    """(W,) the number, or the geometric mean in ms, in consecutive parts of the hold; nan where it is not known."""
    level_s: float | None = None
    """Length of these parts; None for the run's sub-windows."""
    series_density: float | None = None
    """Share of the expected scrapes that are there; of client latency, of seconds with requests."""


@dataclass
class MeasuredRun:
    """What the files of one run say."""

    record: RunRecord
    """Its target rate and its hold are nan where the source does not say them."""
    sub_window_s: float
    """nan when the source has no time axis; the one sub-window is then the whole hold."""
    windows: int
    metrics: dict[str, Measurement | Missing] = field(default_factory=dict)
    histograms: dict[str, WindowedHistogram] = field(default_factory=dict)
    """The distributions among the metrics."""
    achieved_rate_per_s: float | None = None
    dropped_iterations: int | None = None
    failed_share: float | None = None
    """Share of the hold's requests that got an error or no answer."""
    throttled_share: float | None = None
    counter_resets: dict[str, int] = field(default_factory=dict)
    """By process: how often its counters went back in the hold."""
    load_end_s: tuple[float, float] | None = None
    """The unix seconds by k6's clock between which its last request started."""
    clock_offset: ClockOffset | None = None
    not_measured: dict[str, str] = field(default_factory=dict)
    """By check of Gate 1 that the run's files cannot answer: why."""
    source: str = RUN_DIRECTORY
    """What the run was read from."""
    remarks: tuple[str, ...] = ()
    """What a reader has to know of how it was read, one sentence each."""


def measure_run(run: Path) -> MeasuredRun:
    """Measure one run directory; every metric of DESIGN is in it, in order, with its value or with why there is none.

    A run whose record says that it failed needs no other file. Raises InputError with every problem of the directory.
    """
    record = read_record(run)
    hold_s = record.hold.seconds
    if math.isinf(hold_s):
        raise InputError(
            Problem(f"{run / RECORD_NAME}: hold", "has no end", "hold.start and hold.end are unix seconds")
        )
    if record.status == "failed":
        reason = f"the run did not finish: {record.failure or 'its record does not say why'}"
        return MeasuredRun(record, *_sub_windows(hold_s), metrics=dict.fromkeys(METRICS, Missing(reason)))
    measured = MeasuredRun(record, *_sub_windows(hold_s))
    problems: list[Problem] = []
    for measure in (_measure_k6, _measure_series):
        try:
            measure(run, measured)
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    absent = Missing("the plan names no source for it", absent=True)
    measured.metrics = {metric: measured.metrics.get(metric, absent) for metric in METRICS}
    return measured


def _sub_windows(hold_s: float) -> tuple[float, int]:
    """Length in s and number of the sub-windows of a hold."""
    sub_window_s = 10.0 if hold_s >= LONG_HOLD_S else 1.0
    return sub_window_s, math.ceil(_seconds(hold_s) / sub_window_s)


def _seconds(hold_s: float) -> int:
    """Number of the seconds of a hold, the last of which may not be whole."""
    # A hold that is a hair longer than a whole number of them has no further one.
    return max(1, math.ceil(hold_s - 1e-6))


def _measure_k6(run: Path, measured: MeasuredRun) -> None:
    """What k6 saw: the rate, the dropped iterations, and the metrics whose source is k6."""
    sources, hold, path = measured.record.metrics, measured.record.hold, find_k6_file(run)
    seconds = _seconds(hold.seconds)
    samples = read_k6_samples(path, hold, 1.0, seconds)
    measured.achieved_rate_per_s = samples.requests / hold.seconds
    measured.dropped_iterations = samples.dropped_iterations
    measured.failed_share = samples.failed / samples.requests if samples.requests else None
    if sources.client_latency and samples.failed < samples.requests:
        # As many seconds as requests at random would fill; those of an open model fill more.
        expected = seconds * -math.expm1(-samples.requests / seconds)
        density = min(1.0, samples.windows_with_requests / expected)
        _add_distribution(measured, "client_latency", samples.latency, density)
    elif sources.client_latency:
        reason = f"{path.name}: each of the {samples.requests} requests of the hold failed"
        measured.metrics["client_latency"] = Missing(reason)
    if sources.http_error_rate:
        measured.metrics["http_error_rate"] = _error_rate(samples.failed, samples.requests)
    if sources.graphql_error_rate:
        measured.metrics["graphql_error_rate"] = _graphql_error_rate(samples, path)
    measured.load_end_s = samples.load_end_s


def _measure_series(run: Path, measured: MeasuredRun) -> None:
    """What was scraped: CPU throttling, and the metrics whose source is a series."""
    sources, hold = measured.record.metrics, measured.record.hold
    distributions = {
        name: source
        for name, source in (
            ("service_latency", sources.service_latency),
            ("upstream_latency", sources.upstream_latency),
        )
        if source
    }
    wanted = {CFS_PERIODS, CFS_THROTTLED_PERIODS, *(f"{source.histogram}_bucket" for source in distributions.values())}
    if sources.service_memory:
        wanted.add(sources.service_memory.gauge)
    path = find_series_file(run)
    if path:
        scraped = read_series(path, wanted, hold, {f"{source.histogram}_count" for source in distributions.values()})
        measured.throttled_share = throttled_share(scraped, hold)
        measured.counter_resets = counter_resets(scraped)
        _measure_clock(measured, scraped, list(distributions.values()))
        for name, source in distributions.items():
            _measure_distribution(measured, name, scraped, source)
        if sources.service_memory:
            measured.metrics["service_memory"] = _memory(measured, scraped, sources.service_memory)
    else:
        reason = Missing(f"{run.name} holds none of {', '.join(FILE_NAMES)}")
        measured.not_measured |= dict.fromkeys((RESTARTS, CLOCK), "no series were recorded")
        measured.metrics |= dict.fromkeys(distributions, reason)
        if sources.service_memory:
            measured.metrics["service_memory"] = reason
    if sources.service_p99:
        measured.metrics["service_p99"] = _p99(measured)


def _measure_clock(measured: MeasuredRun, scraped: ScrapedSeries, sources: Sequence[HistogramSource]) -> None:
    """The clock of the series against that of k6: by both, when did the load end?"""
    if not sources:
        measured.not_measured[CLOCK] = "no histogram of the series counts requests"
        return
    found, client = load_end(scraped, sources[0], measured.record.hold), measured.histograms.get("client_latency")
    if isinstance(found, str) or measured.load_end_s is None:
        measured.not_measured[CLOCK] = found if isinstance(found, str) else "k6 wrote no request"
        return
    # What k6 starts, the service counts when it has answered: as much later as an answer takes.
    slow_s = float(np.exp(client.over().log_quantiles(0.99))) / 1000 if client else 0.0
    low_s, high_s = found[0] - measured.load_end_s[1] - slow_s, found[1] - measured.load_end_s[0]
    measured.clock_offset = ClockOffset((low_s + high_s) / 2, low_s, high_s)


def _add_distribution(measured: MeasuredRun, name: str, by_second: WindowedHistogram, density: float) -> None:
    """Keep a distribution by sub-window, and its level by second."""
    whole = by_second.over()
    measured.histograms[name] = by_second.gathered(round(measured.sub_window_s))
    measured.metrics[name] = Measurement(
        value=float(np.exp(whole.log_quantiles(0.5))),
        requests=round(whole.requests),
        log_bucket_width=float(whole.log_widths(0.5)),
        levels=np.exp(by_second.mean_logs()),
        level_s=1.0,
        series_density=density,
    )


def _measure_distribution(measured: MeasuredRun, name: str, scraped: ScrapedSeries, source: HistogramSource) -> None:
    hold = measured.record.hold
    found = read_histogram(scraped, source, hold, 1.0, _seconds(hold.seconds))
    if isinstance(found, Missing):
        measured.metrics[name] = found
    else:
        histogram, times_s = found
        density = scrape_density(times_s, hold, measured.record.scrape_interval_s)
        _add_distribution(measured, name, histogram, density)


def _error_rate(errors: int, requests: int) -> Measurement:
    return Measurement(value=errors / requests, errors=errors, requests=requests)


def _graphql_error_rate(samples: K6Samples, path: Path) -> Measurement | Missing:
    if samples.graphql_answers:
        return _error_rate(samples.graphql_errors, samples.graphql_answers)
    return Missing(f"{path.name}: no sample of the k6 metric graphql_errors in the hold")


def _p99(measured: MeasuredRun) -> Measurement | Missing:
    """The 99th percentile of service_latency over the whole hold, and of each sub-window: never averaged."""
    latency = measured.metrics["service_latency"]
    if isinstance(latency, Missing):
        return latency
    histogram = measured.histograms["service_latency"]
    whole = histogram.over()
    windows = [histogram.window(number).log_quantiles(0.99) for number in range(measured.windows)]
    return Measurement(
        value=float(np.exp(whole.log_quantiles(0.99))),
        requests=latency.requests,
        log_bucket_width=float(whole.log_widths(0.99)),
        levels=np.exp(np.array(windows)),
        series_density=latency.series_density,
    )


def _memory(measured: MeasuredRun, scraped: ScrapedSeries, source: GaugeSource) -> Measurement | Missing:
    """Median of the last third of the hold: memory is a staircase, and its end counts [statistics, 4.2]."""
    series, hold = read_gauge(scraped, source), measured.record.hold
    if isinstance(series, Missing):
        return series
    if (series.values <= 0).any():
        return Missing(f"{scraped.file}: {series} was {series.values.min():g}, which is no amount of memory")
    late = series.values[series.times_s >= hold.end - hold.seconds / 3]
    if not late.size:
        return Missing(f"{scraped.file}: {series} has no value in the last third of the hold")
    seconds = _seconds(hold.seconds)
    second = np.clip((series.times_s - hold.start) // 1.0, 0, seconds - 1).astype(np.int64)
    levels = np.full(seconds, np.nan)
    levels[second] = series.values  # the last of each second
    return Measurement(
        value=float(np.median(late)),
        log_bucket_width=0.0,
        levels=levels,
        level_s=1.0,
        series_density=scrape_density(series.times_s, hold, measured.record.scrape_interval_s),
    )

"""What the files of one run say about it and each of its metrics.

What belongs here: the meaning of each metric, in terms of what `k6_samples` and `series` read. Doing that for many runs
is in `extract`.

The achieved rate is the rate of requests *started* in the hold: every request tagged with the hold's k6 scenario,
divided by the length of the hold. In an open model k6 starts an iteration on schedule or drops it, so this is what k6
delivered, however late the answers came. Counting the requests that *ended* inside the hold, the only ones whose time
stamp lies in it, would charge the last answers of a slow service to the load generator.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.evidence import METRICS, Missing
from perf_pipeline.lab.run_directory import RECORD_NAME, RunRecord, read_record
from perf_pipeline.metrics.histogram import FloatArray, WindowedHistogram
from perf_pipeline.metrics.k6_samples import K6Samples, find_k6_file, read_k6_samples
from perf_pipeline.metrics.series import (
    CFS_PERIODS,
    CFS_THROTTLED_PERIODS,
    FILE_NAMES,
    ScrapedSeries,
    find_series_file,
    read_gauge,
    read_histogram,
    read_series,
    scrape_density,
    throttled_share,
)
from perf_pipeline.plan import GaugeSource, HistogramSource

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
    """(W,) the number in each sub-window; nan where it is not known."""
    series_density: float | None = None


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
    throttled_share: float | None = None
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
    # A hold that is a hair longer than a whole number of them has no further one.
    return sub_window_s, max(1, math.ceil(hold_s / sub_window_s - 1e-6))


def _measure_k6(run: Path, measured: MeasuredRun) -> None:
    """What k6 saw: the rate, the dropped iterations, and the metrics whose source is k6."""
    sources, hold, path = measured.record.metrics, measured.record.hold, find_k6_file(run)
    samples = read_k6_samples(path, hold, measured.sub_window_s, measured.windows)
    measured.achieved_rate_per_s = samples.requests / hold.seconds
    measured.dropped_iterations = samples.dropped_iterations
    if sources.client_latency and samples.failed < samples.requests:
        _add_distribution(measured, "client_latency", samples.latency)
    elif sources.client_latency:
        reason = f"{path.name}: each of the {samples.requests} requests of the hold failed"
        measured.metrics["client_latency"] = Missing(reason)
    if sources.http_error_rate:
        measured.metrics["http_error_rate"] = _error_rate(samples.failed, samples.requests)
    if sources.graphql_error_rate:
        measured.metrics["graphql_error_rate"] = _graphql_error_rate(samples, path)


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
        scraped = read_series(path, wanted, hold)
        measured.throttled_share = throttled_share(scraped, hold)
        for name, source in distributions.items():
            _measure_distribution(measured, name, scraped, source)
        if sources.service_memory:
            measured.metrics["service_memory"] = _memory(measured, scraped, sources.service_memory)
    else:
        reason = Missing(f"{run.name} holds none of {', '.join(FILE_NAMES)}")
        measured.metrics |= dict.fromkeys(distributions, reason)
        if sources.service_memory:
            measured.metrics["service_memory"] = reason
    if sources.service_p99:
        measured.metrics["service_p99"] = _p99(measured)


def _add_distribution(
    measured: MeasuredRun, name: str, histogram: WindowedHistogram, density: float | None = None
) -> None:
    whole = histogram.over()
    measured.histograms[name] = histogram
    measured.metrics[name] = Measurement(
        value=float(np.exp(whole.log_quantiles(0.5))),
        requests=round(whole.requests),
        log_bucket_width=float(whole.log_widths(0.5)),
        series_density=density,
    )


def _measure_distribution(measured: MeasuredRun, name: str, scraped: ScrapedSeries, source: HistogramSource) -> None:
    hold = measured.record.hold
    found = read_histogram(scraped, source, hold, measured.sub_window_s, measured.windows)
    if isinstance(found, Missing):
        measured.metrics[name] = found
    else:
        histogram, times_s = found
        _add_distribution(measured, name, histogram, scrape_density(times_s, hold))


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
    window = np.clip((series.times_s - hold.start) // measured.sub_window_s, 0, measured.windows - 1)
    levels = np.full(measured.windows, np.nan)
    for number in np.unique(window).astype(int):
        levels[number] = np.median(series.values[window == number])
    return Measurement(
        value=float(np.median(late)),
        log_bucket_width=0.0,
        levels=levels,
        series_density=scrape_density(series.times_s, hold),
    )

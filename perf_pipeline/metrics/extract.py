"""From run directories to the tables of measured runs, and on to the evidence that the gates judge.

What belongs here: many runs at once, and the way in to this package: everything that others need of it is named here.
What one run's files say is in `measured_run`, the tables are in `tables`, what is made of them in `evidence`.
"""

import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.evidence import ERROR_RATES, Missing
from perf_pipeline.metrics.evidence import evidence
from perf_pipeline.metrics.foreign.results import ForeignResult, measure_result
from perf_pipeline.metrics.histogram import WindowedHistogram
from perf_pipeline.metrics.measured_run import MeasuredRun, measure_run
from perf_pipeline.metrics.tables import MetricTables, read_metrics, write_metrics
from perf_pipeline.progress import track
from perf_pipeline.warehouse import table_schema

__all__ = ["MetricTables", "evidence", "extract_runs", "read_metrics", "write_metrics"]

_READERS = 4
"""Runs that are read at once, where there are as many cores; each takes a core and tens of MB."""


def extract_runs(runs: Sequence[Path | ForeignResult]) -> MetricTables:
    """Measure run directories, and results of other load generators.

    A run whose record says that it failed needs no files and becomes a row without measurements. Raises InputError with
    every problem of every run at once.
    """
    problems: list[Problem] = []
    measured: dict[str, MeasuredRun] = {}
    first: dict[str, Path] = {}
    pool = ThreadPoolExecutor(min(_READERS, os.cpu_count() or 1))
    try:
        outcomes = zip(runs, pool.map(_measure_or_problems, runs), strict=True)
        for run, outcome in track(outcomes, len(runs), "Reading runs", label=lambda pair: pair[0].name):
            if isinstance(outcome, InputError):
                problems.extend(outcome.problems)
                continue
            path = run if isinstance(run, Path) else run.path
            for one in outcome:
                if (run_id := one.record.run_id) in measured:
                    what = f"has the run_id {run_id} of {first[run_id]}"
                    problems.append(Problem(str(path), what, "give each run its own id, or take one away"))
                else:
                    measured[run_id], first[run_id] = one, path
    finally:
        # Ctrl-C waits for the runs that are being read, not for all that are still to come.
        pool.shutdown(cancel_futures=True)
    if problems:
        raise InputError(problems)
    return _tables(list(measured.values()))


def _measure_or_problems(run: Path | ForeignResult) -> list[MeasuredRun] | InputError:
    try:
        return [measure_run(run)] if isinstance(run, Path) else measure_result(run)
    except InputError as error:
        return error


def _tables(measured: list[MeasuredRun]) -> MetricTables:
    histograms = [
        _histogram_rows(run.record.run_id, metric, histogram)
        for run in measured
        for metric, histogram in run.histograms.items()
    ]
    return MetricTables(
        run=pa.Table.from_pylist([_run_row(run) for run in measured], table_schema("run")),
        latency_histogram=(
            pa.concat_tables(histograms).unify_dictionaries()
            if histograms
            else table_schema("latency_histogram").empty_table()
        ),
        run_metric=pa.Table.from_pylist(list(_metric_rows(measured)), table_schema("run_metric")),
    )


def _run_row(measured: MeasuredRun) -> dict[str, object]:
    record, offset = measured.record, measured.clock_offset
    return record.model_dump(include=set(table_schema("run").names)) | {
        # Microseconds in whole numbers: what a timestamp is, without a time zone of this machine in between.
        "hold_start": None if math.isnan(record.hold.start) else round(record.hold.start * 1e6),
        "hold_s": _known(record.hold.seconds),
        "target_rate_per_s": _known(record.target_rate_per_s),
        "looks": record.design and list(record.design.looks),
        "paired": record.design and record.design.paired,
        "sub_window_s": _known(measured.sub_window_s),
        "sub_windows": measured.windows,
        "achieved_rate_per_s": measured.achieved_rate_per_s,
        "dropped_iterations": measured.dropped_iterations,
        "throttled_share": measured.throttled_share,
        "counter_resets": sorted(measured.counter_resets.items()),
        "clock_offset_s": offset and offset.estimate_s,
        "clock_offset_low_s": offset and offset.low_s,
        "clock_offset_high_s": offset and offset.high_s,
        "source": measured.source,
        "remarks": list(measured.remarks),
        "not_measured": sorted(measured.not_measured.items()),
        "environment": sorted(record.environment.items()),
    }


def _known(value: float) -> float | None:
    """A number as a table holds it, where one that a source does not say is null."""
    return None if math.isnan(value) else value


def _metric_rows(measured: list[MeasuredRun]) -> Iterable[dict[str, object]]:
    for run in measured:
        for metric, found in run.metrics.items():
            row: dict[str, object] = {"run_id": run.record.run_id, "metric": metric, "unit": _unit(metric)}
            if isinstance(found, Missing):
                yield row | {"status": "absent" if found.absent else "missing", "reason": found.reason}
            else:
                yield row | {"status": "measured"} | vars(found)


def _unit(metric: str) -> str:
    if metric in ERROR_RATES:
        return "share"
    return "bytes" if metric == "service_memory" else "ms"


def _histogram_rows(run_id: str, metric: str, histogram: WindowedHistogram) -> pa.Table:
    """The buckets that hold requests, as rows; the two names are stored once, not once a row."""
    window, bucket = np.nonzero(histogram.counts)
    same = pa.array(np.zeros(window.size, dtype=np.int32))
    return pa.table(
        [
            pa.DictionaryArray.from_arrays(same, pa.array([run_id])),
            pa.DictionaryArray.from_arrays(same, pa.array([metric])),
            pa.array(window.astype(np.int32)),
            pa.array(histogram.low_ms[bucket]),
            pa.array(histogram.high_ms[bucket]),
            *(
                pa.nulls(window.size, pa.int64())
                if counts is None
                else pa.array(np.rint(counts[window, bucket]).astype(np.int64))
                for counts in (histogram.counts, histogram.odd_counts)
            ),
        ],
        names=table_schema("latency_histogram").names,
    )

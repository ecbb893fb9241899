"""From the tables of measured runs to the values that the gates judge.

What belongs here: percentiles, shapes and levels of distributions, read from their histograms. Every percentile comes
from the counts of the window that it is about; none is merged or averaged from others.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from perf_pipeline.gates.evidence import (
    DISTRIBUTIONS,
    ERROR_RATES,
    PERCENTILES,
    SHAPE_POINTS,
    ClockOffset,
    Design,
    ErrorSample,
    LatencySample,
    Missing,
    NumberSample,
    RunEvidence,
    Sample,
)
from perf_pipeline.metrics.histogram import Histogram, WindowedHistogram, window_histogram
from perf_pipeline.metrics.tables import MetricTables

_PERCENTILE_SHARES = np.array(PERCENTILES) / 100
_SHAPE_SHARES = (np.arange(SHAPE_POINTS) + 0.5) / SHAPE_POINTS


def evidence(tables: MetricTables) -> list[RunEvidence]:
    """What the gates are given of each run, in the order of the table `run`."""
    runs = tables.run.to_pylist()
    windows = {run["run_id"]: (run["sub_windows"], _number(run["sub_window_s"])) for run in runs}
    histograms = dict(_histograms(tables, {run_id: count for run_id, (count, _) in windows.items()}))
    samples: dict[str, dict[str, Sample]] = {run_id: {} for run_id in windows}
    densities: dict[str, dict[str, float]] = {run_id: {} for run_id in windows}
    for row in tables.run_metric.to_pylist():
        run_id, metric = row["run_id"], row["metric"]
        samples[run_id][metric] = _sample(row, histograms.get((run_id, metric)), windows[run_id][1])
        if row["series_density"] is not None:
            densities[run_id][metric] = row["series_density"]
    return [
        RunEvidence(
            run_id=run["run_id"],
            version=run["version"],
            scenario=run["scenario"],
            repeat=run["repeat"],
            block=run["block"],
            failure=(run["failure"] or "the run did not finish") if run["status"] == "failed" else None,
            hold_s=_number(run["hold_s"]),
            target_rate_per_s=_number(run["target_rate_per_s"]),
            achieved_rate_per_s=run["achieved_rate_per_s"],
            dropped_iterations=run["dropped_iterations"],
            throttled_share=run["throttled_share"],
            environment=_identity(run),
            metrics=samples[run["run_id"]],
            series_density=densities[run["run_id"]],
            design=None if run["looks"] is None else Design(tuple(run["looks"]), bool(run["paired"])),
            arm=run["arm"] or "main",
            not_measured=dict(run["not_measured"] or ()),
            counter_resets=dict(run["counter_resets"] or ()),
            clock_offset=_clock_offset(run),
            service_digest=run["service_digest"],
        )
        for run in runs
    ]


def _number(value: float | None) -> float:
    """A number that a source does not say is null in a table, and nan for the gates."""
    return math.nan if value is None else value


def _identity(run: dict) -> dict[str, str]:
    """The environment of a run and its workload: other requests are as incomparable as another machine."""
    return dict(run["environment"]) | ({"workload": run["workload"]} if run["workload"] else {})


def _clock_offset(run: dict) -> ClockOffset | None:
    estimate_s, low_s, high_s = (run[f"clock_offset{part}_s"] for part in ("", "_low", "_high"))
    return None if estimate_s is None else ClockOffset(estimate_s, low_s, high_s)


def _histograms(tables: MetricTables, windows: dict[str, int]) -> Iterator[tuple[tuple[str, str], WindowedHistogram]]:
    """Every distribution by run and metric."""
    table = tables.latency_histogram
    if not table.num_rows:
        return
    run_ids, metrics = (
        table[name].dictionary_encode().unify_dictionaries().combine_chunks() for name in ("run_id", "metric")
    )
    key = run_ids.indices.to_numpy().astype(np.int64) * len(metrics.dictionary) + metrics.indices.to_numpy()
    names = ("bucket_low_ms", "bucket_high_ms", "sub_window", "count", "odd_count")
    columns = [table[name].to_numpy() for name in names]
    order = np.argsort(key, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        run_id = run_ids[int(rows[0])].as_py()
        low_ms, high_ms, window, count, odd = (column[rows] for column in columns)
        # Null is nan here: of a distribution whose seconds are not known apart, or that an older table holds.
        known = None if np.isnan(odd.astype(np.float64)).any() else odd
        histogram = window_histogram(low_ms, high_ms, window, count, windows[run_id], known)
        yield (run_id, metrics[int(rows[0])].as_py()), histogram


def _sample(row: dict, histogram: WindowedHistogram | None, sub_window_s: float) -> Sample:
    if row["status"] != "measured":
        return Missing(row["reason"], absent=row["status"] == "absent")
    if row["metric"] in ERROR_RATES:
        return ErrorSample(errors=row["errors"], requests=row["requests"])
    level_s = sub_window_s if row["level_s"] is None else row["level_s"]
    if row["metric"] not in DISTRIBUTIONS:
        return NumberSample(row["value"], np.array(row["levels"]), level_s, row["log_bucket_width"])
    if histogram is None:
        return Missing("latency_histogram holds no row of it")
    sample = latency_sample(histogram, sub_window_s)
    if row["levels"] is None:
        return sample
    return replace(sample, levels=np.log(np.array(row["levels"])), sub_window_s=level_s)


def latency_sample(histogram: WindowedHistogram, sub_window_s: float) -> LatencySample:
    """A distribution over the hold as the gates see it, its levels those of the sub-windows of the histogram."""
    whole = histogram.over()
    windows = histogram.counts.shape[0]
    # The middle one of an odd number of sub-windows belongs to the first half.
    second_half = np.arange(windows) >= (windows + 1) // 2
    return LatencySample(
        requests=whole.requests,
        log_quantiles=whole.log_quantiles(_PERCENTILE_SHARES),
        log_bucket_width=whole.log_widths(_PERCENTILE_SHARES),
        shape=whole.log_quantiles(_SHAPE_SHARES),
        half_shapes=_shapes(histogram.over(~second_half), histogram.over(second_half)),
        alternate_shapes=_shapes(*histogram.alternate()),
        # Without a time axis the one sub-window is no point in time: a level by itself says nothing of drift.
        levels=np.full(windows, np.nan) if math.isnan(sub_window_s) else histogram.mean_logs(),
        sub_window_s=sub_window_s,
    )


def _shapes(first: Histogram, second: Histogram) -> np.ndarray:
    """(2, S) shapes of two parts of a run."""
    return np.array([part.log_quantiles(_SHAPE_SHARES) for part in (first, second)])

"""Gate 1: the checks of one metric of a run.

What belongs here: whether the metric is there, whole, fine enough, and had settled. The estimate of a slope is in
`drift`, that of steps in `steps`.
"""

import math
from collections.abc import Iterator

import numpy as np

from perf_pipeline.gates import checks, wording
from perf_pipeline.gates.checks import against, checked, not_measured
from perf_pipeline.gates.drift import slope
from perf_pipeline.gates.evidence import (
    DISTRIBUTIONS,
    PERCENTILES,
    FloatArray,
    LatencySample,
    NumberSample,
    RunEvidence,
)
from perf_pipeline.gates.findings import CheckStatus, RunCheck
from perf_pipeline.gates.policy import Policy, RunValidityLimits
from perf_pipeline.gates.samples import fault_of, metric_of
from perf_pipeline.gates.steps import find_steps


def checks_of_metric(run: RunEvidence, metric: str, policy: Policy) -> Iterator[RunCheck]:
    """Every check of one metric that the run has a source for, in the order in which people read them."""
    limits, sample = policy.run_validity, metric_of(run, metric)
    fault = fault_of(metric, sample)
    yield _present(metric, fault, limits)
    if fault is not None:
        return
    if metric in limits.series_density.metrics:
        yield _series_density(metric, run.series_density.get(metric), limits)
    if isinstance(sample, LatencySample | NumberSample):
        yield _resolution(metric, sample, policy)
        levels = sample.levels if isinstance(sample, LatencySample) else _log(sample.levels)
        yield _drift(metric, levels, sample.sub_window_s, limits)
        yield _steps(metric, levels, sample.sub_window_s, limits)


def _present(metric: str, fault: str | None, limits: RunValidityLimits) -> RunCheck:
    status: CheckStatus = "fail" if fault else "pass"
    message = f"{metric} is missing: {fault}" if fault else f"{metric} is there"
    return checked(checks.METRIC_PRESENT, metric, status, message, limits.missing_metric.on_fail)


def _series_density(metric: str, density: float | None, limits: RunValidityLimits) -> RunCheck:
    rule = limits.series_density
    if density is None or not math.isfinite(density):
        message = f"how much of the hold {metric} was recorded in was not measured"
        return not_measured(checks.SERIES_DENSITY, metric, message, rule.on_not_measured, limit=rule.min_share)
    status: CheckStatus = "pass" if density >= rule.min_share else "fail"
    what = "seconds with requests" if metric == "client_latency" else "scrapes"
    message = f"{wording.share(density)} of the {what} of {metric} are there (limit {wording.share(rule.min_share)})"
    return checked(checks.SERIES_DENSITY, metric, status, message, rule.on_fail,
                   value=density, limit=rule.min_share, unit="share")  # fmt: skip


def _resolution(metric: str, sample: LatencySample | NumberSample, policy: Policy) -> RunCheck:
    """A bucket wider than the zone; Gate 3 compares the percentiles that were read from finer ones."""
    zone = policy.change.zone[metric]
    widths = np.atleast_1d(np.expm1(sample.log_bucket_width))
    widest, coarse = float(widths.max()), widths > zone
    width = f"up to {wording.share(widest)} wide" if math.isfinite(widest) else "without an upper edge"
    message = f"{metric} is read from histogram buckets {width}"
    if coarse.any():
        where = ""
        if metric in DISTRIBUTIONS and not coarse.all():
            named = [f"p{PERCENTILES[number]:g}" for number in np.flatnonzero(coarse)]
            where = f" at {wording.named(named)} of {len(PERCENTILES)} percentiles"
        message = f"{message}, wider than the zone{where}"
    return checked(checks.RESOLUTION, metric, "fail" if coarse.any() else "pass", message,
                   policy.run_validity.histogram_resolution.on_fail,
                   value=widest if math.isfinite(widest) else None, limit=zone, unit="ratio")  # fmt: skip


def _drift(metric: str, levels: FloatArray, sub_window_s: float, limits: RunValidityLimits) -> RunCheck:
    """Three answers on whether the level had settled; "fail" only when the slope's whole interval lies beyond."""
    rule = limits.drift
    unit = f"ratio per {rule.per_s:g} s"
    there = int(np.isfinite(levels).sum())
    if there == 0:
        return _no_levels(checks.DRIFT, metric, rule.zone, unit, rule.on_not_measured)
    found = slope(levels, sub_window_s, rule.confidence, rule.min_sub_windows)
    if found is None:
        message = f"whether {metric} drifts cannot be told from {there} sub-windows of {sub_window_s:g} s"
        return RunCheck(checks.DRIFT, metric, "cannot tell", None, rule.zone, unit, message)
    steady = math.log1p(rule.zone) / rule.per_s
    drifting = max(steady, math.log1p(rule.min_change) / (len(levels) * sub_window_s))
    status = against(found.low, found.high, steady, drifting)
    change, low, high = (_ratio(value * rule.per_s) for value in (found.estimate, found.low, found.high))
    verb = {"pass": "is steady", "fail": "is drifting", "cannot tell": "may be drifting"}[status]
    rate = f"{wording.ratio(change)} per {rule.per_s:g} s ({wording.interval(metric, low, high)})"
    return checked(checks.DRIFT, metric, status, f"{metric} {verb}: {rate}", rule.on_fail[metric],
                   value=change if math.isfinite(change) else None, limit=rule.zone, unit=unit)  # fmt: skip


def _steps(metric: str, levels: FloatArray, sub_window_s: float, limits: RunValidityLimits) -> RunCheck:
    """Three answers on whether there was one level; "fail" only when the interval of a step lies wholly beyond."""
    rule = limits.steps
    there, zone = int(np.isfinite(levels).sum()), math.log1p(rule.zone)
    if there == 0:
        return _no_levels(checks.STEPS, metric, rule.zone, "ratio", rule.on_not_measured)
    found = find_steps(levels, sub_window_s, rule.confidence, rule.min_sub_windows, zone)
    if found is None:
        message = f"whether {metric} makes steps cannot be told from {there} sub-windows of {sub_window_s:g} s"
        return RunCheck(checks.STEPS, metric, "cannot tell", None, rule.zone, "ratio", message)
    largest = max(found.steps, key=lambda step: max(step.low, -step.high), default=None)
    if largest is not None and max(largest.low, -largest.high) > zone:
        change, low, high = (_ratio(value) for value in (largest.estimate, largest.low, largest.high))
        message = (
            f"{metric} makes a step of {wording.ratio(change)} ({wording.interval(metric, low, high)}) "
            f"{largest.at_s:.0f} s into the hold"
        )
        return checked(checks.STEPS, metric, "fail", message, rule.on_fail[metric],
                       value=change if math.isfinite(change) else None, limit=rule.zone, unit="ratio")  # fmt: skip
    status: CheckStatus = "pass" if found.reach <= zone else "cannot tell"
    verb = "keeps one level" if status == "pass" else "may make a step"
    message = f"{metric} {verb}: a change that lasts is at most {wording.size(metric, _ratio(found.reach))}"
    return RunCheck(checks.STEPS, metric, status, None, rule.zone, "ratio", message)


def _no_levels(check: str, metric: str, limit: float, unit: str, then: str) -> RunCheck:
    return not_measured(check, metric, f"{metric} has no level by sub-window", then, limit=limit, unit=unit)


def _log(values: FloatArray) -> FloatArray:
    """Natural logarithms; nan where a value has none."""
    return np.log(values, out=np.full(values.shape, np.nan), where=values > 0)


def _ratio(log_change: float) -> float:
    """A log change as a ratio minus 1; inf where the number is too large to write."""
    return math.expm1(log_change) if log_change < 700 else math.inf

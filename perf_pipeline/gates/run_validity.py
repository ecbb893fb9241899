"""Gate 1: is this run valid?

What belongs here: the checks of single runs, and what follows from each by the policy. A check answers pass, fail,
cannot tell or not measured; only a failure, or a "not measured" that the policy does not accept, has a consequence.
The estimate of a slope is in `drift`, the comparison of environments in `environment`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from perf_pipeline.gates import wording
from perf_pipeline.gates.drift import slope
from perf_pipeline.gates.environment import EnvironmentFindings
from perf_pipeline.gates.evidence import (
    METRICS,
    FloatArray,
    LatencySample,
    Missing,
    NumberSample,
    RunEvidence,
)
from perf_pipeline.gates.findings import CheckStatus, RunCheck, RunStatus, RunValidity
from perf_pipeline.gates.policy import Policy, RunValidityLimits
from perf_pipeline.gates.samples import copied_runs, fault_of, metric_of

Consequence: TypeAlias = Literal["none", "drop metric", "set aside"]

FINISHED = "finished"
ACHIEVED_RATE = "achieved rate"
DROPPED_ITERATIONS = "dropped iterations"
THROTTLING = "CPU throttling"
ENVIRONMENT = "environment"
COPY = "own measurements"
METRIC_PRESENT = "metric present"
SERIES_DENSITY = "series density"
RESOLUTION = "histogram resolution"
DRIFT = "drift"


def check_runs(
    runs: Sequence[RunEvidence], environments: EnvironmentFindings, policy: Policy
) -> tuple[RunValidity, ...]:
    """Check every run, in the order given; the runs are those of one comparison, with a run_id each."""
    originals = copied_runs(runs)
    return tuple(
        _validity(
            run,
            tuple(_with_cause(check, run) for check in _checks(run, environments, originals.get(run.run_id), policy)),
        )
        for run in runs
    )


def _with_cause(check: RunCheck, run: RunEvidence) -> RunCheck:
    """The check, with why the run's source cannot answer it where that is so."""
    cause = run.not_measured.get(check.check)
    return replace(check, message=f"{check.message}: {cause}") if cause and check.status == "not measured" else check


def _validity(run: RunEvidence, checks: tuple[RunCheck, ...]) -> RunValidity:
    dropped = {check.metric for check in checks if check.consequence == "drop metric"}
    status: RunStatus = "metric dropped" if dropped else "passed"
    decisive = [check for check in checks if check.consequence != "none"]
    if any(check.consequence == "set aside" for check in checks):
        status = "set aside"
        decisive = [check for check in decisive if check.consequence == "set aside"]
    return RunValidity(
        run_id=run.run_id,
        version=run.version,
        scenario=run.scenario,
        repeat=run.repeat,
        status=status,
        reason="; ".join(dict.fromkeys(check.message for check in decisive)),
        dropped_metrics=tuple(metric for metric in METRICS if metric in dropped),
        checks=checks,
    )


def _checks(
    run: RunEvidence, environments: EnvironmentFindings, original: str | None, policy: Policy
) -> Iterator[RunCheck]:
    limits = policy.run_validity
    yield _finished(run)
    yield _achieved_rate(run, limits)
    yield _dropped_iterations(run, limits)
    yield from _throttling(run, limits)
    yield _environment(run, environments, limits)
    yield _copy(original, limits)
    for metric in METRICS:
        sample = metric_of(run, metric)
        if isinstance(sample, Missing) and sample.absent:
            continue
        fault = fault_of(metric, sample)
        yield _present(metric, fault, limits)
        if fault is not None:
            continue
        if metric in limits.series_density.metrics:
            yield _series_density(metric, run.series_density.get(metric), limits)
        if isinstance(sample, LatencySample | NumberSample):
            yield _resolution(metric, sample, policy.change.zone[metric])
            yield _drift(metric, sample, limits)


def _finished(run: RunEvidence) -> RunCheck:
    if run.failure is None:
        return RunCheck(FINISHED, None, "pass", None, None, "", "the run finished")
    return RunCheck(FINISHED, None, "fail", None, None, "", f"did not finish: {run.failure}", "set aside")


def _achieved_rate(run: RunEvidence, limits: RunValidityLimits) -> RunCheck:
    rule, achieved, target = limits.achieved_rate, run.achieved_rate_per_s, run.target_rate_per_s
    if achieved is None or not math.isfinite(achieved) or not target > 0:
        message = "the achieved rate was not measured"
        return _not_measured(ACHIEVED_RATE, None, rule.max_deviation, message, rule.on_not_measured)
    deviation = achieved / target - 1
    # 98 of 100 is 2 % less; in floating point it is a little more than that.
    status: CheckStatus = "pass" if abs(deviation) <= rule.max_deviation + 1e-9 else "fail"
    message = (
        f"reached {achieved:.4g} of {target:.4g} requests/s "
        f"({wording.ratio(deviation)}; limit {wording.share(rule.max_deviation)})"
    )
    return _checked(ACHIEVED_RATE, None, status, deviation, rule.max_deviation, "ratio", message, rule.on_fail)


def _dropped_iterations(run: RunEvidence, limits: RunValidityLimits) -> RunCheck:
    rule, dropped, asked_for = limits.dropped_iterations, run.dropped_iterations, run.target_rate_per_s * run.hold_s
    if dropped is None or not asked_for > 0:
        message = "dropped iterations were not counted"
        return _not_measured(DROPPED_ITERATIONS, None, rule.max_share, message, rule.on_not_measured)
    lost = dropped / asked_for
    status: CheckStatus = "pass" if lost <= rule.max_share else "fail"
    message = f"{dropped} of {asked_for:.0f} iterations were dropped ({wording.share(lost)})"
    return _checked(DROPPED_ITERATIONS, None, status, lost, rule.max_share, "share", message, rule.on_fail)


def _throttling(run: RunEvidence, limits: RunValidityLimits) -> Iterator[RunCheck]:
    rule, throttled = limits.throttling, run.throttled_share
    if throttled is None or not math.isfinite(throttled):
        message = "CPU throttling was not measured"
        yield _not_measured(THROTTLING, None, rule.max_share, message, rule.on_not_measured)
        return
    failed = throttled > rule.max_share
    message = f"CPU throttled in {wording.share(throttled)} of periods (limit {wording.share(rule.max_share)})"
    if failed and rule.on_fail == "drop metrics":
        for metric in rule.drops:
            if not (isinstance(sample := metric_of(run, metric), Missing) and sample.absent):
                yield RunCheck(THROTTLING, metric, "fail", throttled, rule.max_share, "share", message, "drop metric")
        return
    consequence: Consequence = "set aside" if failed and rule.on_fail == "set aside" else "none"
    status: CheckStatus = "fail" if failed else "pass"
    yield RunCheck(THROTTLING, None, status, throttled, rule.max_share, "share", message, consequence)


def _environment(run: RunEvidence, environments: EnvironmentFindings, limits: RunValidityLimits) -> RunCheck:
    rule = limits.environment
    if run.run_id in environments.unknown:
        message = "the run does not say in which environment it ran"
        return _not_measured(ENVIRONMENT, None, None, message, rule.on_not_measured)
    if run.scenario in environments.apart:
        # The run itself is sound: it is the comparison that is not, and Gate 3 says so.
        return RunCheck(ENVIRONMENT, None, "fail", None, None, "", environments.apart[run.scenario])
    difference = environments.deviating.get(run.run_id)
    status: CheckStatus = "fail" if difference else "pass"
    message = difference or "same environment as the scenario's other runs"
    return _checked(ENVIRONMENT, None, status, None, None, "", message, rule.on_fail)


def _copy(original: str | None, limits: RunValidityLimits) -> RunCheck:
    status: CheckStatus = "fail" if original else "pass"
    message = f"holds the measurements of {original}: a copy is no repeat" if original else "measurements of its own"
    return _checked(COPY, None, status, None, None, "", message, limits.copies.on_fail)


def _present(metric: str, fault: str | None, limits: RunValidityLimits) -> RunCheck:
    status: CheckStatus = "fail" if fault else "pass"
    message = f"{metric} is missing: {fault}" if fault else f"{metric} is there"
    return _checked(METRIC_PRESENT, metric, status, None, None, "", message, limits.missing_metric.on_fail)


def _series_density(metric: str, density: float | None, limits: RunValidityLimits) -> RunCheck:
    rule = limits.series_density
    if density is None or not math.isfinite(density):
        message = f"how many scrapes of {metric} are there was not measured"
        return _not_measured(SERIES_DENSITY, metric, rule.min_share, message, rule.on_not_measured)
    status: CheckStatus = "pass" if density >= rule.min_share else "fail"
    message = f"{wording.share(density)} of the scrapes of {metric} are there (limit {wording.share(rule.min_share)})"
    return _checked(SERIES_DENSITY, metric, status, density, rule.min_share, "share", message, rule.on_fail)


def _resolution(metric: str, sample: LatencySample | NumberSample, zone: float) -> RunCheck:
    """A bucket wider than the zone is on record here; Gate 3 widens the interval of what was read from it."""
    widest = math.expm1(float(np.max(sample.log_bucket_width)))
    coarse = widest > zone
    width = f"up to {wording.share(widest)} wide" if math.isfinite(widest) else "without an upper edge"
    message = f"{metric} is read from histogram buckets {width}{', wider than the zone' if coarse else ''}"
    value = widest if math.isfinite(widest) else None
    return RunCheck(RESOLUTION, metric, "fail" if coarse else "pass", value, zone, "ratio", message)


def _drift(metric: str, sample: LatencySample | NumberSample, limits: RunValidityLimits) -> RunCheck:
    """Three answers on whether the level had settled; "fail" only when the slope's whole interval lies beyond."""
    rule = limits.drift
    unit = f"ratio per {rule.per_s:g} s"
    levels = sample.levels if isinstance(sample, LatencySample) else _log(sample.levels)
    there = int(np.isfinite(levels).sum())
    if there == 0:
        message = f"{metric} has no level by sub-window"
        return _not_measured(DRIFT, metric, rule.zone, message, rule.on_not_measured)
    found = slope(levels, sample.sub_window_s, rule.confidence, rule.min_sub_windows)
    if found is None:
        message = f"whether {metric} drifts cannot be told from {there} sub-windows of {sample.sub_window_s:g} s"
        return RunCheck(DRIFT, metric, "cannot tell", None, rule.zone, unit, message)
    steady = math.log1p(rule.zone) / rule.per_s
    drifting = max(steady, math.log1p(rule.min_change) / (len(levels) * sample.sub_window_s))
    status: CheckStatus = "cannot tell"
    if -steady < found.low and found.high < steady:
        status = "pass"
    elif found.low > drifting or found.high < -drifting:
        status = "fail"
    change, low, high = (_ratio(value * rule.per_s) for value in (found.estimate, found.low, found.high))
    verb = {"pass": "is steady", "fail": "is drifting", "cannot tell": "may be drifting"}[status]
    rate = f"{wording.ratio(change)} per {rule.per_s:g} s ({wording.interval(metric, low, high)})"
    value = change if math.isfinite(change) else None
    return _checked(DRIFT, metric, status, value, rule.zone, unit, f"{metric} {verb}: {rate}", rule.on_fail[metric])


def _checked(
    check: str,
    metric: str | None,
    status: CheckStatus,
    value: float | None,
    limit: float | None,
    unit: str,
    message: str,
    on_fail: str,
) -> RunCheck:
    consequence = _consequence(on_fail) if status == "fail" else "none"
    return RunCheck(check, metric, status, value, limit, unit, message, consequence)


def _not_measured(check: str, metric: str | None, limit: float | None, message: str, then: str) -> RunCheck:
    return RunCheck(check, metric, "not measured", None, limit, "", message, _consequence(then))


def _consequence(then: str) -> Consequence:
    """The policy's word as the finding's: `keep` is no consequence."""
    return "set aside" if then == "set aside" else "drop metric" if then == "drop metric" else "none"


def _log(values: FloatArray) -> FloatArray:
    """Natural logarithms; nan where a value has none."""
    return np.log(values, out=np.full(values.shape, np.nan), where=values > 0)


def _ratio(log_change: float) -> float:
    """A log change as a ratio minus 1; inf where the number is too large to write."""
    return math.expm1(log_change) if log_change < 700 else math.inf

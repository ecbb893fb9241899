"""Gate 1: the checks of a run as a whole.

What belongs here: whether the run met its load, undisturbed, in the environment and with the build that it is compared
in. Checks of one metric of it are in `metric_checks`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from perf_pipeline.gates import checks, wording
from perf_pipeline.gates.checks import against, checked, not_measured
from perf_pipeline.gates.environment import EnvironmentFindings
from perf_pipeline.gates.evidence import Missing, RunEvidence
from perf_pipeline.gates.findings import CheckStatus, RunCheck
from perf_pipeline.gates.policy import ClockLimits, RunValidityLimits, ThrottlingLimits
from perf_pipeline.gates.samples import metric_of


@dataclass(frozen=True)
class AmongOthers:
    """What only the other runs of the comparison tell about a run, by run_id."""

    environments: EnvironmentFindings
    copies: Mapping[str, str] = field(default_factory=dict)
    """The run that the run holds the measurements of."""
    builds: Mapping[str, str] = field(default_factory=dict)
    """How the build that it tested differs from that of its version's other runs."""


def checks_of_run(run: RunEvidence, others: AmongOthers, limits: RunValidityLimits) -> Iterator[RunCheck]:
    """Every check of the run as a whole, in the order in which people read them."""
    yield _finished(run)
    yield _achieved_rate(run, limits)
    yield _dropped_iterations(run, limits)
    yield from _throttling(run, limits)
    yield _restarts(run, limits)
    yield from _clock(run, limits)
    yield _environment(run, others.environments, limits)
    yield _build(run, others.builds.get(run.run_id), limits)
    yield _copy(others.copies.get(run.run_id), limits)


def _finished(run: RunEvidence) -> RunCheck:
    status: CheckStatus = "fail" if run.failure else "pass"
    message = f"did not finish: {run.failure}" if run.failure else "the run finished"
    return checked(checks.FINISHED, None, status, message, "set aside")


def _achieved_rate(run: RunEvidence, limits: RunValidityLimits) -> RunCheck:
    rule, achieved, target = limits.achieved_rate, run.achieved_rate_per_s, run.target_rate_per_s
    if achieved is None or not math.isfinite(achieved) or not target > 0:
        message = "the achieved rate was not measured"
        return not_measured(checks.ACHIEVED_RATE, None, message, rule.on_not_measured, limit=rule.max_deviation)
    deviation = achieved / target - 1
    # 98 of 100 is 2 % less; in floating point it is a little more than that.
    status: CheckStatus = "pass" if abs(deviation) <= rule.max_deviation + 1e-9 else "fail"
    message = (
        f"reached {achieved:.4g} of {target:.4g} requests/s "
        f"({wording.ratio(deviation)}; limit {wording.share(rule.max_deviation)})"
    )
    return checked(checks.ACHIEVED_RATE, None, status, message, rule.on_fail,
                   value=deviation, limit=rule.max_deviation, unit="ratio")  # fmt: skip


def _dropped_iterations(run: RunEvidence, limits: RunValidityLimits) -> RunCheck:
    rule, dropped, asked_for = limits.dropped_iterations, run.dropped_iterations, run.target_rate_per_s * run.hold_s
    if dropped is None or not asked_for > 0:
        message = "dropped iterations were not counted"
        return not_measured(checks.DROPPED_ITERATIONS, None, message, rule.on_not_measured, limit=rule.max_share)
    lost = dropped / asked_for
    status: CheckStatus = "pass" if lost <= rule.max_share else "fail"
    message = f"{dropped} of {asked_for:.0f} iterations were dropped ({wording.share(lost)})"
    return checked(checks.DROPPED_ITERATIONS, None, status, message, rule.on_fail,
                   value=lost, limit=rule.max_share, unit="share")  # fmt: skip


def _throttling(run: RunEvidence, limits: RunValidityLimits) -> Iterator[RunCheck]:
    rule, throttled = limits.throttling, run.throttled_share
    if throttled is None or not math.isfinite(throttled):
        message = "CPU throttling was not measured"
        yield not_measured(checks.THROTTLING, None, message, rule.on_not_measured, limit=rule.max_share)
        return
    message = f"CPU throttled in {wording.share(throttled)} of periods (limit {wording.share(rule.max_share)})"
    status: CheckStatus = "fail" if throttled > rule.max_share else "pass"
    yield from _costing_metrics(run, checks.THROTTLING, status, message, rule, throttled, rule.max_share, "share")


def _restarts(run: RunEvidence, limits: RunValidityLimits) -> RunCheck:
    rule, resets = limits.restarts, run.counter_resets
    if not resets:
        message = "whether a process started again in the hold was not measured"
        return not_measured(checks.RESTARTS, None, message, rule.on_not_measured, limit=0.0)
    restarted = sorted(process for process, times in resets.items() if times)
    status: CheckStatus = "fail" if restarted else "pass"
    message = f"no counter of {wording.named(sorted(resets))} went back"
    if restarted:
        message = f"counters of {wording.named(restarted)} went back in the hold: started again"
    return checked(checks.RESTARTS, None, status, message, rule.on_fail,
                   value=float(sum(resets.values())), limit=0.0, unit="restarts")  # fmt: skip


def _clock(run: RunEvidence, limits: RunValidityLimits) -> Iterator[RunCheck]:
    """Whether the seconds that were scraped are those of the hold, which k6 defines."""
    rule, offset = limits.clock, run.clock_offset
    limit_s = rule.max_share * run.hold_s
    if offset is None or not math.isfinite(limit_s):
        message = "whether the series and k6 agree on the time was not measured"
        yield not_measured(checks.CLOCK, None, message, rule.on_not_measured, limit=limit_s, unit="s")
        return
    status = against(offset.low_s, offset.high_s, limit_s)
    found = f"{offset.estimate_s:+.2f} s ({offset.low_s:+.2f} s to {offset.high_s:+.2f} s)"
    verb = {"pass": "agree on the time", "fail": "do not agree on the time", "cannot tell": "may not agree on the time"}
    message = f"the series and k6 {verb[status]}: {found}; limit {limit_s:.2g} s"
    yield from _costing_metrics(run, checks.CLOCK, status, message, rule, offset.estimate_s, limit_s, "s")


def _costing_metrics(
    run: RunEvidence,
    check: str,
    status: CheckStatus,
    message: str,
    rule: ThrottlingLimits | ClockLimits,
    value: float,
    limit: float,
    unit: str,
) -> Iterator[RunCheck]:
    """One finding, or one for each metric that the run loses by it."""
    lost = rule.drops if status == "fail" else []
    lost = [metric for metric in lost if not (isinstance(found := metric_of(run, metric), Missing) and found.absent)]
    for metric in lost:
        yield RunCheck(check, metric, status, value, limit, unit, message, "drop metric")
    if not lost:
        yield checked(check, None, status, message, rule.on_fail, value=value, limit=limit, unit=unit)


def _environment(run: RunEvidence, environments: EnvironmentFindings, limits: RunValidityLimits) -> RunCheck:
    rule = limits.environment
    if run.run_id in environments.unknown:
        message = "the run does not say in which environment it ran"
        return not_measured(checks.ENVIRONMENT, None, message, rule.on_not_measured)
    if run.scenario in environments.apart:
        # The run itself is sound: it is the comparison that is not, and Gate 3 says so.
        return RunCheck(checks.ENVIRONMENT, None, "fail", None, None, "", environments.apart[run.scenario])
    if difference := environments.deviating.get(run.run_id):
        return checked(checks.ENVIRONMENT, None, "fail", difference, rule.on_fail)
    if unsaid := [key for key in rule.expected_keys if key not in run.environment]:
        message = f"the run's environment is equal in what it says, and does not say {wording.named(unsaid)}"
        return not_measured(checks.ENVIRONMENT, None, message, rule.on_not_measured)
    return checked(checks.ENVIRONMENT, None, "pass", "same environment as the scenario's other runs", rule.on_fail)


def _build(run: RunEvidence, difference: str | None, limits: RunValidityLimits) -> RunCheck:
    rule = limits.build
    if run.service_digest is None:
        message = "the run does not say which build of the service it tested"
        return not_measured(checks.BUILD, None, message, rule.on_not_measured)
    message = difference or "same build as the version's other runs"
    return checked(checks.BUILD, None, "fail" if difference else "pass", message, rule.on_fail)


def _copy(original: str | None, limits: RunValidityLimits) -> RunCheck:
    status: CheckStatus = "fail" if original else "pass"
    message = f"holds the measurements of {original}: a copy is no repeat" if original else "measurements of its own"
    return checked(checks.COPY, None, status, message, limits.copies.on_fail)

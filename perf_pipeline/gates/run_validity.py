"""Gate 1: is this run valid?

What belongs here: which checks are made, and what becomes of a run by them. A check answers pass, fail, cannot tell or
not measured; only a failure, or a "not measured" that the policy does not accept, has a consequence. The checks
themselves are in `run_checks` and `metric_checks`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perf_pipeline.gates.environment import EnvironmentFindings, other_builds
from perf_pipeline.gates.evidence import METRICS, Missing, RunEvidence
from perf_pipeline.gates.findings import RunCheck, RunStatus, RunValidity
from perf_pipeline.gates.metric_checks import checks_of_metric
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.run_checks import AmongOthers, checks_of_run
from perf_pipeline.gates.samples import copied_runs, metric_of


def check_runs(
    runs: Sequence[RunEvidence], environments: EnvironmentFindings, policy: Policy
) -> tuple[RunValidity, ...]:
    """Check every run, in the order given; the runs are those of one comparison, with a run_id each."""
    others = AmongOthers(environments, copied_runs(runs), other_builds(runs))
    return tuple(_validity(run, tuple(_checks(run, others, policy))) for run in runs)


def _checks(run: RunEvidence, others: AmongOthers, policy: Policy) -> Iterator[RunCheck]:
    """Every check of a run, with why the run's source cannot answer it where that is so."""
    for check in _all_checks(run, others, policy):
        cause = run.not_measured.get(check.check)
        unanswered = cause is not None and check.status == "not measured"
        yield replace(check, message=f"{check.message}: {cause}") if unanswered else check


def _all_checks(run: RunEvidence, others: AmongOthers, policy: Policy) -> Iterator[RunCheck]:
    yield from checks_of_run(run, others, policy.run_validity)
    for metric in METRICS:
        if not (isinstance(sample := metric_of(run, metric), Missing) and sample.absent):
            yield from checks_of_metric(run, metric, policy)


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

"""Gate 3: has the new version changed?

What belongs here: what is compared with what, and what cannot be compared and why. The comparisons themselves are in
`log_change` (distributions and numbers) and `rate_change` (error rates).
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from perf_pipeline.gates import wording
from perf_pipeline.gates.comparison import Comparison, not_comparable
from perf_pipeline.gates.environment import EnvironmentFindings
from perf_pipeline.gates.evidence import (
    ERROR_RATES,
    METRICS,
    ErrorSample,
    LatencySample,
    Missing,
    NumberSample,
    RunEvidence,
    Sample,
)
from perf_pipeline.gates.findings import Agreement, RunValidity
from perf_pipeline.gates.log_change import compare_logs
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.rate_change import compare_rates
from perf_pipeline.gates.samples import SampleKey, UsableSamples, metric_of


def compare_versions(
    runs: Sequence[RunEvidence],
    baseline: str,
    candidate: str,
    validity: Sequence[RunValidity],
    agreement: Sequence[Agreement],
    environments: EnvironmentFindings,
    usable: UsableSamples,
    policy: Policy,
) -> tuple[Comparison, ...]:
    """Compare every metric in every scenario that either version was run in, scenarios by name, metrics in order."""
    found = {finding.run_id: finding for finding in validity}
    agreed = {(one.version, one.scenario, one.metric): one for one in agreement}
    by_scenario: dict[str, list[RunEvidence]] = {}
    for run in runs:
        by_scenario.setdefault(run.scenario, []).append(run)
    questions = [(scenario, metric) for scenario in sorted(by_scenario) for metric in METRICS]
    sides = {
        (scenario, metric): [usable.get((version, scenario, metric), ()) for version in (baseline, candidate)]
        for scenario, metric in questions
    }
    refusals: dict[tuple[str, str], Comparison] = {}
    for scenario, metric in questions:
        keys = (baseline, scenario, metric), (candidate, scenario, metric)
        of_sides = sides[scenario, metric]
        reason, absent = _without_source(by_scenario[scenario], metric)
        reason = (
            reason
            or environments.apart.get(scenario)
            or _too_few_runs(by_scenario[scenario], keys, of_sides, found, policy)
            or _disagreement([agreed[key] for key in keys if key in agreed], policy)
        )
        if reason:
            repeats = len(of_sides[0]), len(of_sides[1])
            refusals[scenario, metric] = not_comparable(scenario, metric, reason, repeats, absent)
    comparable = len(questions) - len(refusals)
    return tuple(
        refusals.get(question) or _compare(*question, sides[question], policy, comparable) for question in questions
    )


def _compare(
    scenario: str, metric: str, sides: Sequence[Sequence[tuple[str, Sample]]], policy: Policy, comparisons: int
) -> Comparison:
    """Compare the samples of two sides by their kind; Gate 1 has seen to it that a metric has one kind."""
    samples = [[sample for _, sample in side] for side in sides]
    if metric in ERROR_RATES:
        counts = [[sample for sample in side if isinstance(sample, ErrorSample)] for side in samples]
        return compare_rates(scenario, metric, counts[0], counts[1], policy, comparisons)
    logs = [[sample for sample in side if isinstance(sample, LatencySample | NumberSample)] for side in samples]
    return compare_logs(scenario, metric, logs[0], logs[1], policy, comparisons)


def _without_source(members: Sequence[RunEvidence], metric: str) -> tuple[str | None, bool]:
    """The reason when no run has a source for the metric: it was never asked for."""
    samples = [metric_of(run, metric) for run in members]
    reasons = [sample.reason for sample in samples if isinstance(sample, Missing) and sample.absent]
    return (reasons[0], True) if len(reasons) == len(samples) else (None, False)


def _too_few_runs(
    members: Sequence[RunEvidence],
    keys: Sequence[SampleKey],
    sides: Sequence[Sequence[tuple[str, Sample]]],
    found: Mapping[str, RunValidity],
    policy: Policy,
) -> str | None:
    """Which side has too few usable runs, and where the others went."""
    needed = policy.change.min_runs_per_side
    reasons = []
    for (version, _, metric), side in zip(keys, sides, strict=True):
        if len(side) >= needed:
            continue
        of_version = [run for run in members if run.version == version]
        kept = {run_id for run_id, _ in side}
        causes = Counter(_cause(run, metric, found[run.run_id]) for run in of_version if run.run_id not in kept)
        text = f"{version} has {len(side)} usable of {wording.counted(len(of_version), 'run')}, {needed} are needed"
        lost = ", ".join(f"{number} {cause}" for cause, number in sorted(causes.items()))
        reasons.append(f"{text}: {lost}" if lost else text)
    return "; ".join(reasons) or None


def _cause(run: RunEvidence, metric: str, found: RunValidity) -> str:
    """Why the metric of a run is not used, in a few words."""
    if found.status == "set aside":
        checks = dict.fromkeys(check.check for check in found.checks if check.consequence == "set aside")
        return f"set aside by {' and '.join(checks)}"
    sample = metric_of(run, metric)
    if isinstance(sample, Missing):
        return f"without it ({sample.reason})"
    checks = dict.fromkeys(
        check.check for check in found.checks if check.metric == metric and check.consequence == "drop metric"
    )
    return f"lost it to {' and '.join(checks)}" if checks else "whose value is no number"


def _disagreement(sides: Sequence[Agreement], policy: Policy) -> str | None:
    """Which side's repeats do not agree, or too few to say where the policy asks for a word."""
    reasons = [f"repeats of {side.version} disagree: {side.message}" for side in sides if side.status == "disagree"]
    if policy.repeat_agreement.on_too_few_to_say == "not comparable":
        reasons.extend(
            f"{side.repeats} repeats of {side.version} are too few to say whether they agree: {side.message}"
            for side in sides
            if side.status == "too few to say"
        )
    return "; ".join(reasons) or None

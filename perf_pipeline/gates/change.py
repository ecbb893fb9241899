"""Gate 3: has the new version changed?

What belongs here: what is compared with what, and what cannot be compared and why. The comparisons themselves are in
`log_change` (distributions and numbers) and `rate_change` (error rates).
"""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from perf_pipeline.gates import wording
from perf_pipeline.gates.comparison import FOR_PAIRS, Comparison, Standing, not_comparable
from perf_pipeline.gates.environment import EnvironmentFindings
from perf_pipeline.gates.evidence import (
    ERROR_RATES,
    METRICS,
    ErrorSample,
    LatencySample,
    Missing,
    NumberSample,
    RunEvidence,
)
from perf_pipeline.gates.findings import Agreement, RunValidity
from perf_pipeline.gates.log_change import Measured, compare_logs, measure
from perf_pipeline.gates.looks import look_at
from perf_pipeline.gates.moderation import Prior, Spread, fit_prior
from perf_pipeline.gates.paired import Side, designed_in_pairs, pairs
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.rate_change import compare_rates
from perf_pipeline.gates.samples import SampleKey, UsableSamples, metric_of

Sides: TypeAlias = tuple[Side, Side]
"""Baseline and candidate."""
Question: TypeAlias = tuple[str, str]
"""scenario, metric"""
LogSample: TypeAlias = LatencySample | NumberSample


def compare_versions(
    runs: Sequence[RunEvidence],
    baseline: str,
    candidate: str,
    validity: Sequence[RunValidity],
    agreement: Sequence[Agreement],
    environments: EnvironmentFindings,
    usable: UsableSamples,
    policy: Policy,
    earlier: Mapping[str, Sequence[Spread]],
) -> tuple[Comparison, ...]:
    """Compare every metric in every scenario that either version was run in, scenarios by name, metrics in order.

    `earlier` holds, by metric, the spreads that earlier campaigns of the same plan found; they only say how large noise
    usually is.
    """
    found = {finding.run_id: finding for finding in validity}
    agreed = {(one.version, one.scenario, one.metric): one for one in agreement}
    by_scenario = scenarios_of(runs)
    questions = list(itertools.product(by_scenario, METRICS))
    designed = {name for name, members in by_scenario.items() if designed_in_pairs(members, policy)}
    paired = {
        (scenario, metric) for scenario, metric in questions if scenario in designed and metric not in ERROR_RATES
    }
    sides: dict[Question, Sides] = {}
    refusals: dict[Question, Comparison] = {}
    for question in questions:
        scenario, metric = question
        members = by_scenario[scenario]
        keys = (baseline, *question), (candidate, *question)
        both = usable.get(keys[0], ()), usable.get(keys[1], ())
        source, absent = _without_source(members, metric)
        refused = source or environments.apart.get(scenario)
        lacking = _too_few_runs(members, keys, both, found, policy)
        if question in paired and not lacking:
            both = pairs(*both, {run.run_id: run.block for run in members})
            lacking = _too_few_pairs(len(both[0]), policy)
        reason = refused or lacking or _disagreement([agreed[key] for key in keys if key in agreed], policy)
        if reason:
            may_come = refused is None and lacking is not None
            repeats = len(both[0]), len(both[1])
            refusals[question] = not_comparable(*question, reason, repeats, absent=absent, open_to_repeats=may_come)
        else:
            sides[question] = both
    return _compared(questions, by_scenario, sides, paired, refusals, earlier, policy)


def _compared(
    questions: Sequence[Question],
    by_scenario: Mapping[str, Sequence[RunEvidence]],
    sides: Mapping[Question, Sides],
    paired: Collection[Question],
    refusals: Mapping[Question, Comparison],
    earlier: Mapping[str, Sequence[Spread]],
    policy: Policy,
) -> tuple[Comparison, ...]:
    """The comparisons that can be made, each with what it takes over from the campaign, and the others as refused."""
    tail = (1 - policy.change.confidence) / 2
    looks = {name: look_at(members, policy.change.looks.spending, tail) for name, members in by_scenario.items()}
    measured = {
        question: measure(question[1], _logs(both[0]), _logs(both[1]), policy, question in paired)
        for question, both in sides.items()
        if question[1] not in ERROR_RATES
    }
    priors = _priors(measured, earlier, policy)

    def compare(question: Question) -> Comparison:
        scenario, metric = question
        standing = Standing(len(sides), looks[scenario], priors.get(metric), question in paired)
        if question in measured:
            return compare_logs(scenario, metric, measured[question], policy, standing)
        counts = [[one for _, one in side if isinstance(one, ErrorSample)] for side in sides[question]]
        return compare_rates(scenario, metric, counts[0], counts[1], policy, standing)

    return tuple(refusals.get(question) or compare(question) for question in questions)


def scenarios_of(runs: Sequence[RunEvidence]) -> dict[str, list[RunEvidence]]:
    """The runs of each scenario, scenarios by name."""
    by_scenario: dict[str, list[RunEvidence]] = {}
    for run in sorted(runs, key=lambda run: run.scenario):
        by_scenario.setdefault(run.scenario, []).append(run)
    return by_scenario


def _priors(
    measured: Mapping[Question, Measured], earlier: Mapping[str, Sequence[Spread]], policy: Policy
) -> dict[str, Prior]:
    """The prior of each metric that enough scenarios, now or earlier, say something about."""
    limits = policy.change.moderation
    if not limits.enabled:
        return {}
    spreads: dict[str, list[Spread]] = {}
    for (_, metric), one in measured.items():
        spreads.setdefault(metric, list(earlier.get(metric, ()))).append(one.spread)
    return {metric: fit_prior(some) for metric, some in spreads.items() if len(some) >= limits.min_scenarios}


def _logs(side: Side) -> list[LogSample]:
    """The samples that have logarithms; Gate 1 has seen to it that a metric has one kind."""
    return [sample for _, sample in side if isinstance(sample, LatencySample | NumberSample)]


def _too_few_pairs(number: int, policy: Policy) -> str | None:
    needed = policy.change.min_runs_per_side
    if number >= needed:
        return None
    return f"{wording.counted(number, 'block')} with a usable run of each version, {needed} {FOR_PAIRS}"


def _without_source(members: Sequence[RunEvidence], metric: str) -> tuple[str | None, bool]:
    """The reason when no run has a source for the metric: it was never asked for."""
    samples = [metric_of(run, metric) for run in members]
    reasons = [sample.reason for sample in samples if isinstance(sample, Missing) and sample.absent]
    return (reasons[0], True) if len(reasons) == len(samples) else (None, False)


def _too_few_runs(
    members: Sequence[RunEvidence],
    keys: Sequence[SampleKey],
    sides: Sides,
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

"""What another policy makes of the same runs: which verdicts change, and at which gate the two part.

What belongs here: judging measured runs by two policies, and holding the two judgements against each other. How that is
shown is in `report.policy_table`. No statistics: every reason is read off what the gates said themselves.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perf_pipeline.gates import wording
from perf_pipeline.gates.findings import Agreement, Judgement, RunValidity, Verdict, VerdictName
from perf_pipeline.gates.policy import Policy
from perf_pipeline.judge import judge_tables, read_folder
from perf_pipeline.metrics.foreign.told import NOTHING_TOLD, Told


@dataclass(frozen=True)
class LimitChange:
    """A limit that the two policies set differently."""

    limit: str
    """Its path in the policy file, such as `change.zone.client_latency`."""
    before: object
    after: object
    """With before, as the file has it; None where it has none."""


@dataclass(frozen=True)
class VerdictChange:
    """A verdict that is another one under the second policy."""

    before: Verdict
    after: Verdict
    reasons: tuple[str, ...]
    """Why, one part of a sentence each, in the order of the gates: each begins with the gate that it is about."""


@dataclass(frozen=True)
class PolicyDiff:
    """Two judgements of the same runs."""

    before: Judgement
    after: Judgement
    limits: tuple[LimitChange, ...]
    verdicts: tuple[VerdictChange, ...]
    """The verdicts that change, in the order of the judgement."""
    compared: int
    """Verdicts on metrics that were measured, changed or not."""

    @property
    def moves(self) -> Mapping[tuple[VerdictName, VerdictName], int]:
        """How many verdicts changed from which to which, the most frequent first."""
        counts = Counter((change.before.verdict, change.after.verdict) for change in self.verdicts)
        return dict(counts.most_common())


def diff_folder(
    folder: Path,
    baseline: str,
    candidate: str,
    before: Policy,
    after: Policy,
    told: Told = NOTHING_TOLD,
    pattern: str | None = None,
) -> PolicyDiff:
    """Judge the runs below a folder by two policies; they are read once. As for `judge.judge_folder`."""
    tables, _ = read_folder(folder, (baseline, candidate), told, pattern)
    one, other = (judge_tables(tables, baseline, candidate, policy) for policy in (before, after))
    return diff_judgements(one, other, tuple(changed_limits(before, after)))


def changed_limits(before: Policy, after: Policy) -> Iterator[LimitChange]:
    """The limits that two policies set differently, in the order of the file. Their names and versions are none."""
    old, new = dict(_limits(before.model_dump(mode="json"))), dict(_limits(after.model_dump(mode="json")))
    for limit in dict.fromkeys([*old, *new]):
        if limit not in ("name", "version") and old.get(limit) != new.get(limit):
            yield LimitChange(limit, old.get(limit), new.get(limit))


def _limits(section: Mapping[str, object], path: str = "") -> Iterator[tuple[str, object]]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _limits(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def diff_judgements(before: Judgement, after: Judgement, limits: tuple[LimitChange, ...] = ()) -> PolicyDiff:
    """What changes from one judgement to another one of the same runs."""
    old = {(verdict.scenario, verdict.metric): verdict for verdict in before.verdicts}
    pairs = [(old[verdict.scenario, verdict.metric], verdict) for verdict in after.verdicts if not verdict.absent]
    changed = tuple(
        VerdictChange(one, other, tuple(_reasons(before, after, one, other)))
        for one, other in pairs
        if one.verdict != other.verdict
    )
    return PolicyDiff(before, after, limits, changed, len(pairs))


def _reasons(before: Judgement, after: Judgement, one: Verdict, other: Verdict) -> Iterator[str]:
    """Why a verdict changed: every gate at which the two judgements part, and what Gate 3 says where only it does."""
    found = [*_at_gate_1(before, after, other), *_at_gate_2(before, after, one, other), *_at_gate_3(one, other)]
    yield from found or [f"Gate 3: {one.reason}; now {other.reason}"]


def _at_gate_1(before: Judgement, after: Judgement, verdict: Verdict) -> Iterator[str]:
    """The runs that only one of the policies compares, by what the other has against the first of them."""
    runs = [
        (one, other)
        for one, other in zip(_by_id(before), _by_id(after), strict=True)
        if one.scenario == verdict.scenario and _usable(one, verdict.metric) != _usable(other, verdict.metric)
    ]
    lost = [other for one, other in runs if _usable(one, verdict.metric)]
    won = [one for one, other in runs if _usable(other, verdict.metric)]
    if lost:
        yield f"Gate 1: no longer compares {_runs(lost)}: {lost[0].reason}"
    if won:
        yield f"Gate 1: now compares {_runs(won)}, left out before: {won[0].reason}"


def _by_id(judgement: Judgement) -> list[RunValidity]:
    return sorted(judgement.runs, key=lambda run: run.run_id)


def _usable(run: RunValidity, metric: str) -> bool:
    return run.status != "set aside" and metric not in run.dropped_metrics


def _runs(runs: list[RunValidity]) -> str:
    return f"{wording.counted(len(runs), 'run')} ({wording.named(run.run_id for run in runs)})"


def _at_gate_2(before: Judgement, after: Judgement, one: Verdict, other: Verdict) -> Iterator[str]:
    """The repeats that only one of the policies refuses."""
    old, new = _refused(before, one), _refused(after, other)
    if won := [agreement for version, agreement in old.items() if version not in new]:
        yield f"Gate 2: no longer refuses the repeats of {_repeats(won)}"
    if lost := [agreement for version, agreement in new.items() if version not in old]:
        yield f"Gate 2: now refuses the repeats of {_repeats(lost)}"


def _refused(judgement: Judgement, verdict: Verdict) -> Mapping[str, Agreement]:
    """By version, what Gate 2 found where nothing was compared; too few repeats to say are refused by some policies."""
    if verdict.verdict != "not comparable":
        return {}
    return {
        one.version: one
        for one in judgement.agreement
        if (one.scenario, one.metric) == (verdict.scenario, verdict.metric) and one.status != "agree"
    }


def _repeats(refused: list[Agreement]) -> str:
    return " and ".join(f"{one.version} ({one.status}: {_found(one)})" for one in refused)


def _found(agreement: Agreement) -> str:
    if agreement.value is None or agreement.limit is None:
        return agreement.message
    return f"{agreement.statistic} {wording.share(agreement.value)}, limit {wording.share(agreement.limit)}"


def _at_gate_3(one: Verdict, other: Verdict) -> Iterator[str]:
    """Zone and interval of two verdicts that both have them."""
    if "not comparable" in (one.verdict, other.verdict):
        return
    metric = other.metric
    zones = [_interval(metric, verdict.zone_low, verdict.zone_high) for verdict in (one, other)]
    if zones[0] != zones[1]:
        yield f"Gate 3: the zone is {zones[1]}, and was {zones[0]}"
    said = [_interval_at(verdict) for verdict in (one, other)]
    if said[0] != said[1]:
        yield f"Gate 3: the interval is {said[1]}, and was {said[0]}"


def _interval_at(verdict: Verdict) -> str:
    """An interval with where it is and what its width rests on."""
    rests_on = [f"{verdict.df:.3g} degrees of freedom"] if verdict.df is not None else []
    if verdict.prior_df is not None:
        rests_on.append(f"{verdict.prior_df:.3g} of them lent by other scenarios")
    if verdict.tail is not None:
        rests_on.append(f"{100 * (1 - 2 * verdict.tail):.4g} %")
    at = wording.at_percentile(verdict.deciding_percentile)
    return f"{_interval(verdict.metric, verdict.low, verdict.high)}{at} ({', '.join(rests_on)})".replace(" ()", "")


def _interval(metric: str, low: float | None, high: float | None) -> str:
    return "unbounded" if low is None or high is None else wording.interval(metric, low, high)

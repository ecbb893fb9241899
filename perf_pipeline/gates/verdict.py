"""From the evidence of runs to the judgement of a comparison: the three gates, one after the other.

What belongs here: the order of the gates, what each hands on, and the questions that cannot be asked. Everything is a
pure function of its arguments: the same evidence and policy give the same judgement, in whatever order the runs come.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perf_pipeline.gates import wording
from perf_pipeline.gates.against_itself import AA_ARM, arm_of, judge_arm
from perf_pipeline.gates.change import compare_versions, scenarios_of
from perf_pipeline.gates.comparison import Comparison
from perf_pipeline.gates.decision import decide
from perf_pipeline.gates.environment import EnvironmentFindings, compare_environments
from perf_pipeline.gates.evidence import METRICS, Design, Missing, RunEvidence
from perf_pipeline.gates.findings import Agreement, Judgement, Pooled, RunValidity, Verdict
from perf_pipeline.gates.looks import notes_on_looks
from perf_pipeline.gates.moderation import Spread
from perf_pipeline.gates.past import earlier_spreads
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.pooled import judge_negative_control, pool
from perf_pipeline.gates.repeat_agreement import check_agreement
from perf_pipeline.gates.run_validity import check_runs
from perf_pipeline.gates.samples import SampleKey, metric_of, usable_samples


class QuestionError(ValueError):
    """The comparison that was asked for cannot be made of these runs at all."""

    def __init__(self, what: str, versions: Sequence[str]) -> None:
        """Say what is wrong; `versions` are those that the runs hold, sorted."""
        self.what = what
        self.versions = tuple(versions)
        super().__init__(f"{what}; the runs hold {', '.join(versions) or 'no version'}")


def judge(
    evidence: Sequence[RunEvidence],
    baseline: str,
    candidate: str,
    policy: Policy,
    earlier: Sequence[Sequence[RunEvidence]] = (),
) -> Judgement:
    """Judge a candidate against a baseline. Runs of other versions are left out of everything.

    Runs of the baseline in the A/A arm are judged in a comparison of their own. `earlier` holds the runs of earlier
    campaigns of the same plan, one sequence each: they say how large noise usually is, and nothing about the versions.
    Raises QuestionError when a version has no run, when both are the same, or when two runs share an id.
    """
    _check_question(evidence, baseline, candidate)
    runs = sorted((run for run in evidence if run.version in (baseline, candidate)), key=lambda run: run.run_id)
    past = earlier_spreads(earlier, policy)
    main = _gates([run for run in runs if run.arm != AA_ARM], baseline, candidate, policy, past)
    aa_arm = None
    if any(run.arm == AA_ARM and run.version == baseline for run in runs):
        name, both = arm_of(runs, baseline)
        again = _gates(both, baseline, name, policy, past)
        aa_arm = judge_arm(baseline, again.verdicts, again.validity, again.agreement, again.pooled, policy)
    control = judge_negative_control(main.comparisons, policy)
    decision = decide(
        baseline, candidate, main.verdicts, main.validity, main.pooled, control, policy, aa_arm, main.agreement
    )
    return Judgement(
        baseline=baseline,
        candidate=candidate,
        policy_name=policy.name,
        policy_version=policy.version,
        decision=decision,
        verdicts=main.verdicts,
        runs=main.validity,
        agreement=main.agreement,
        pooled=main.pooled,
        negative_control=control,
        notes=(*_notes_on_gate_1(main), *_notes_on_gate_3(main)),
        looks=_looks(main.runs),
        aa_arm=aa_arm,
    )


@dataclass(frozen=True)
class _Gated:
    """What the three gates found in the runs of two versions."""

    runs: Sequence[RunEvidence]
    environments: EnvironmentFindings
    validity: tuple[RunValidity, ...]
    agreement: tuple[Agreement, ...]
    comparisons: tuple[Comparison, ...]
    pooled: tuple[Pooled, ...]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(comparison.verdict for comparison in self.comparisons)


def _gates(
    runs: Sequence[RunEvidence],
    baseline: str,
    candidate: str,
    policy: Policy,
    earlier: Mapping[str, Sequence[Spread]],
) -> _Gated:
    environments = compare_environments(runs, baseline, candidate, policy.run_validity.environment.ignored_keys)
    validity = check_runs(runs, environments, policy)
    usable = usable_samples(runs, validity)
    agreement = check_agreement(usable, _asked_for(runs, baseline, candidate), policy)
    comparisons = compare_versions(
        runs, baseline, candidate, validity, agreement, environments, usable, policy, earlier
    )
    return _Gated(runs, environments, validity, agreement, comparisons, pool(comparisons, policy))


def _looks(runs: Sequence[RunEvidence]) -> tuple[int, ...]:
    """The looks that every run names."""
    designs = {run.design or Design() for run in runs}
    return designs.pop().looks if len(designs) == 1 else ()


def _check_question(evidence: Sequence[RunEvidence], baseline: str, candidate: str) -> None:
    versions = sorted({run.version for run in evidence if run.arm != AA_ARM})
    if baseline == candidate:
        raise QuestionError(f"{baseline} cannot be compared with itself", versions)
    if missing := [version for version in (baseline, candidate) if version not in versions]:
        raise QuestionError(f"there is no run of {' or '.join(missing)}", versions)
    if twice := [run_id for run_id, number in Counter(run.run_id for run in evidence).items() if number > 1]:
        raise QuestionError(f"several runs are called {wording.named(sorted(twice))}", versions)


def _asked_for(runs: Sequence[RunEvidence], baseline: str, candidate: str) -> list[SampleKey]:
    """The versions, scenarios and metrics for which some run has a source, in reading order."""
    asked = {
        (run.version, run.scenario, metric)
        for run in runs
        for metric in METRICS
        if not (isinstance(sample := metric_of(run, metric), Missing) and sample.absent)
    }
    return [
        key
        for scenario in sorted({run.scenario for run in runs})
        for metric in METRICS
        for version in (baseline, candidate)
        if (key := (version, scenario, metric)) in asked
    ]


def _notes_on_gate_1(gated: _Gated) -> Iterator[str]:
    """What is true of the environment as a whole, and what Gate 1 could not check."""
    runs, validity, environments = gated.runs, gated.validity, gated.environments
    for scenario, message in sorted(environments.apart.items()):
        yield f"{scenario}: {message}; nothing in it is comparable."
    yield from _same_build(runs)
    if environments.deviating:
        number = len(environments.deviating)
        yield f"{wording.counted(number, 'run')} ran in another environment than the others of their scenario."
    for status, verb in (("not measured", "was not measured"), ("cannot tell", "could not be told")):
        unanswered = Counter(
            name for run in validity for name in {check.check for check in run.checks if check.status == status}
        )
        for name, number in sorted(unanswered.items()):
            causes = sorted({run.not_measured[name] for run in runs if name in run.not_measured})
            why = f" ({'; '.join(causes)})" if causes and status == "not measured" else ""
            yield f"Gate 1: {name} {verb} in {number} of {wording.counted(len(validity), 'run')}{why}."


def _same_build(runs: Sequence[RunEvidence]) -> Iterator[str]:
    """That both versions were one build: a comparison that can only find nothing."""
    builds: dict[str, set[str | None]] = {}
    for run in runs:
        builds.setdefault(run.version, set()).add(run.service_digest)
    sides = list(builds.values())
    if len(sides) == 2 and sides[0] == sides[1] and None not in sides[0]:
        yield "Both versions are the same build of the service: whatever differs between them, it is not the build."


def _notes_on_gate_3(gated: _Gated) -> Iterator[str]:
    """What comparisons took over from the campaign: its looks, and what scenarios lend each other."""
    looks = _looks(gated.runs)
    at = Counter({one.scenario: one.look for one in gated.verdicts if one.look}.values())
    if looks and at:
        reached = (f"{wording.counted(number, 'scenario')} at look {look}" for look, number in sorted(at.items()))
        yield f"Looks at {', '.join(map(str, looks))} repeats were planned: {', '.join(reached)}."
    yield from notes_on_looks(scenarios_of(gated.runs))
    lent: dict[str, float] = {}
    for one in gated.verdicts:
        if one.prior_df is not None:
            lent[one.metric] = max(one.prior_df, lent.get(one.metric, 0.0))
    if lent:
        worth = ", ".join(f"{metric} {df:.1f}" for metric, df in lent.items())
        yield f"Scenarios lend each other what they know about noise, worth these degrees of freedom: {worth}."

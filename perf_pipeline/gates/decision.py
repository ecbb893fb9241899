"""The answer for the whole comparison, in words that take ten seconds to read.

What belongs here: from verdicts to one answer, its headline, and what is known and not known. It adds no statistics but
one: whether both sides lost runs to Gate 1 equally often.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perf_pipeline.gates import wording
from perf_pipeline.gates.evidence import METRICS, NEGATIVE_CONTROL
from perf_pipeline.gates.findings import (
    Agreement,
    Answer,
    ArmAgainstItself,
    Decision,
    NegativeControl,
    Pooled,
    RunValidity,
    Verdict,
)
from perf_pipeline.gates.open_questions import itself, of_scenarios, open_questions
from perf_pipeline.gates.policy import Policy


class _Hiding(NamedTuple):
    """What may hide a regression."""

    headline: str
    """With the numbers or the places."""
    clause: str
    """In short, for the list of what is not known."""


def decide(
    baseline: str,
    candidate: str,
    verdicts: Sequence[Verdict],
    runs: Sequence[RunValidity],
    pooled: Sequence[Pooled],
    control: NegativeControl,
    policy: Policy,
    aa_arm: ArmAgainstItself | None = None,
    agreement: Sequence[Agreement] = (),
) -> Decision:
    """The decision: regression, no regression, or not enough evidence.

    A regression of any metric but the negative control decides. Without one, "no regression" needs a control and an A/A
    arm that did not move, sides that lost runs to Gate 1 equally often, no comparison that may hide a regression, and
    enough comparisons that ended equivalent or improved. What moved although it cannot have is said before anything
    else.
    """
    suspicions = list(_suspicions(control, aa_arm))
    asked_for = [verdict for verdict in verdicts if verdict.metric != NEGATIVE_CONTROL and not verdict.absent]
    regressed = [verdict for verdict in asked_for if verdict.verdict == "regression"]
    decided = [verdict for verdict in asked_for if verdict.verdict in ("equivalent", "improvement")]
    hidden = [
        *_lopsided_loss(baseline, candidate, runs, policy),
        *_may_hide_a_regression(baseline, candidate, asked_for, agreement, policy),
    ]
    enough = bool(asked_for) and len(decided) >= policy.decision.min_decided_share * len(asked_for)
    answer: Answer
    if regressed:
        answer, headline = "regression", _regression(baseline, candidate, regressed, asked_for)
    elif enough and not suspicions and not hidden:
        answer, headline = "no regression", _no_regression(baseline, candidate, asked_for)
    else:
        answer = "not enough evidence"
        headline = (
            f"Not enough evidence to compare {candidate} with {baseline}: {_shortfall(asked_for, decided, policy)}"
        )
        if not suspicions:
            headline = "; ".join([headline, *(one.headline for one in hidden)])
    if suspicions:
        headline = f"{' '.join(suspicions)} Something other than the version changed. {headline}"
    return Decision(
        answer=answer,
        headline=f"{headline}.",
        known=tuple(_known(asked_for, runs, pooled, control, aa_arm)),
        not_known=tuple(
            open_questions((baseline, candidate), verdicts, runs, control, [one.clause for one in hidden], aa_arm)
        ),
        exit_code=1 if answer == "regression" else 0,
    )


def _suspicions(control: NegativeControl, aa_arm: ArmAgainstItself | None) -> Iterator[str]:
    """What moved although no version can have moved it, one sentence each."""
    if aa_arm and aa_arm.status == "moved":
        yield f"{itself(aa_arm.baseline)} {aa_arm.message}."
    if control.status == "moved":
        yield f"The negative control {control.metric} {control.message}."


def _regression(baseline: str, candidate: str, regressed: Sequence[Verdict], asked_for: Sequence[Verdict]) -> str:
    worst = max(regressed, key=lambda one: (_zones_beyond(one), one.scenario))
    where = f"{worst.metric}{wording.at_percentile(worst.deciding_percentile)} in {worst.scenario}"
    tally = f"{len(regressed)} of {wording.counted(len(asked_for), 'comparison')} regressed"
    return f"{candidate} is worse than {baseline}: {where} {_interval(worst)}; {tally}"


def _no_regression(baseline: str, candidate: str, asked_for: Sequence[Verdict]) -> str:
    comparisons = wording.counted(len(asked_for), "comparison")
    return f"No regression found in {candidate} against {baseline}: of {comparisons} {_tally(asked_for)}"


def _shortfall(asked_for: Sequence[Verdict], decided: Sequence[Verdict], policy: Policy) -> str:
    if not asked_for:
        return "no metric was asked for"
    return (
        f"{len(decided)} of {wording.counted(len(asked_for), 'comparison')} are answered, "
        f"{wording.share(policy.decision.min_decided_share)} are needed; none regressed"
    )


def _known(
    asked_for: Sequence[Verdict],
    runs: Sequence[RunValidity],
    pooled: Sequence[Pooled],
    control: NegativeControl,
    aa_arm: ArmAgainstItself | None,
) -> Iterator[str]:
    """What the evidence supports, changes first."""
    by_metric = {metric: [verdict for verdict in asked_for if verdict.metric == metric] for metric in METRICS}
    for name, verb in (("regression", "regressed"), ("improvement", "improved")):
        for metric, mine in by_metric.items():
            if changed := [verdict for verdict in mine if verdict.verdict == name]:
                most = max(changed, key=_zones_beyond)
                where = f"most{wording.at_percentile(most.deciding_percentile)} in {most.scenario}"
                yield f"{metric} {verb} in {of_scenarios(changed, mine)}, {where}: {_interval(most)}."
    for metric, mine in by_metric.items():
        if equivalent := [verdict for verdict in mine if verdict.verdict == "equivalent"]:
            zone = wording.size(metric, equivalent[0].zone_high or 0.0)
            everywhere = " at every percentile" if equivalent[0].percentiles else ""
            yield f"{metric} stayed within ±{zone}{everywhere} in {of_scenarios(equivalent, mine)}."
        together = [one for one in pooled if one.metric == metric and one.scenarios > 1]
        if together and metric != NEGATIVE_CONTROL:
            changes = ", ".join(_pooled_change(one) for one in together)
            worst = max(together, key=lambda one: one.worst_estimate)
            yield (
                f"Over {together[0].scenarios} scenarios {metric} changed by {changes}; the worst scenario is "
                f"{worst.worst_scenario} with {wording.change(metric, worst.worst_estimate)}."
            )
            yield (
                f"In scenarios in general, of which these are a sample, {metric} changes by "
                f"{', '.join(_in_general(one) for one in together)}."
            )
            if names := list(dict.fromkeys(change.scenario for one in together for change in one.changed)):
                yield (
                    f"{metric} differs from no change at all, if only by little, in {wording.named(names)}, even when "
                    "every scenario is asked at once."
                )
    if control.status in ("quiet", "moved"):
        was = "was " if control.status == "quiet" else ""
        yield f"The negative control {control.metric} {was}{control.message}."
    if aa_arm and aa_arm.status in ("quiet", "moved"):
        yield f"{itself(aa_arm.baseline)} {aa_arm.message}."
    status = Counter(run.status for run in runs)
    yield (
        f"Of {wording.counted(len(runs), 'run')} {status['passed']} passed Gate 1, {status['metric dropped']} lost a "
        f"metric and {status['set aside']} were set aside."
    )


def _lopsided_loss(baseline: str, candidate: str, runs: Sequence[RunValidity], policy: Policy) -> Iterator[_Hiding]:
    """Whether one side lost runs or metrics to Gate 1 more often than chance explains (Fisher's exact test).

    A version that breaks its own runs would otherwise be judged by those that happened to survive.
    """
    counts = []
    for version in (baseline, candidate):
        mine = [run.status != "passed" for run in runs if run.version == version]
        counts.append((sum(mine), len(mine) - sum(mine)))
    if counts[0][0] == counts[1][0] == 0:
        return
    from scipy.stats import fisher_exact  # here, because it takes longer to import than all gates together

    if fisher_exact(counts).pvalue >= policy.decision.lost_runs_alpha:
        return
    more = max(
        (baseline, candidate), key=lambda version: counts[version == candidate][0] / sum(counts[version == candidate])
    )
    yield _Hiding(
        f"Gate 1 took runs or metrics from {counts[1][0]} of {sum(counts[1])} runs of {candidate} "
        f"and from {counts[0][0]} of {sum(counts[0])} of {baseline}, too uneven for chance",
        f"Gate 1 took more from {more} than chance explains",
    )


def _may_hide_a_regression(
    baseline: str, candidate: str, asked_for: Sequence[Verdict], agreement: Sequence[Agreement], policy: Policy
) -> Iterator[_Hiding]:
    """Comparisons without an answer in which the candidate alone looks worse, each kind as part of a sentence.

    A candidate that crashes in one scenario leaves nothing to compare there, one that is slow by fits and starts has
    repeats that disagree, and a change that is too large for its noise ends inconclusive. None of these is an answer,
    and none may be outvoted by the comparisons that have one.
    """
    fewest = policy.change.min_runs_per_side
    disagree = {(one.version, one.scenario, one.metric) for one in agreement if one.status == "disagree"}
    silent = [one for one in asked_for if one.verdict == "not comparable"]
    lost = [one for one in silent if one.candidate_repeats < fewest <= one.baseline_repeats]
    apart = [
        one
        for one in silent
        if (candidate, one.scenario, one.metric) in disagree and (baseline, one.scenario, one.metric) not in disagree
    ]
    beyond = [
        one
        for one in asked_for
        if one.verdict == "inconclusive" and None not in (one.low, one.zone_high) and one.low > one.zone_high  # type: ignore[operator]
    ]
    for some, words, short in (
        (
            lost,
            f"{candidate} has too few usable runs, and {baseline} enough, in",
            f"{candidate} alone has too few usable runs",
        ),
        (
            apart,
            f"repeats of {candidate} disagree, and those of {baseline} do not, in",
            f"repeats of {candidate} alone disagree",
        ),
        (
            beyond,
            "an interval lies wholly beyond the zone, if not surely among so many comparisons, in",
            "an interval lies wholly beyond the zone",
        ),
    ):
        if some:
            yield _Hiding(f"{words} {_places(some)}", f"{short} in {wording.counted(len(some), 'comparison')}")


def _places(some: Sequence[Verdict]) -> str:
    """`browse (client_latency, service_p99), search (service_p99)`: the scenarios, each with its metrics."""
    by_scenario: dict[str, list[str]] = {}
    for one in some:
        by_scenario.setdefault(one.scenario, []).append(one.metric)
    return wording.named(f"{scenario} ({wording.named(metrics)})" for scenario, metrics in by_scenario.items())


def _zones_beyond(verdict: Verdict) -> float:
    """How many zones the nearer limit of a change lies away from no change, which ranks unlike metrics."""
    low, high = verdict.low or 0.0, verdict.high or 0.0
    near = low if verdict.verdict == "regression" else -high
    return near / (verdict.zone_high or 1.0)


def _tally(verdicts: Sequence[Verdict]) -> str:
    """`8 are equivalent, 2 are inconclusive`, in the order of certainty."""
    counts: Counter[str] = Counter(verdict.verdict for verdict in verdicts)
    words = {
        "equivalent": ("is equivalent", "are equivalent"),
        "improvement": ("improved", "improved"),
        "inconclusive": ("is inconclusive", "are inconclusive"),
        "not comparable": ("is not comparable", "are not comparable"),
    }
    return ", ".join(f"{counts[name]} {verb[counts[name] > 1]}" for name, verb in words.items() if counts[name])


def _interval(verdict: Verdict) -> str:
    low, high, estimate = verdict.low or 0.0, verdict.high or 0.0, verdict.estimate or 0.0
    return f"{wording.change(verdict.metric, estimate)} ({wording.interval(verdict.metric, low, high)})"


def _pooled_change(pooled: Pooled) -> str:
    """`+0.4 % (-0.3 % to +1.1 %) at p50`."""
    interval = wording.interval(pooled.metric, pooled.low, pooled.high)
    at = "" if pooled.statistic == "value" else f" at {pooled.statistic}"
    return f"{wording.change(pooled.metric, pooled.estimate)} ({interval}){at}"


def _in_general(pooled: Pooled) -> str:
    """`-0.9 % to +1.7 % at p50`."""
    at = "" if pooled.statistic == "value" else f" at {pooled.statistic}"
    return f"{wording.interval(pooled.metric, pooled.general_low or 0.0, pooled.general_high or 0.0)}{at}"

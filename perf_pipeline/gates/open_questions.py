"""What a comparison leaves open, in clauses that fit a first screen.

What belongs here: which questions stay open, why in a few words, and what it would take. The numbers behind each are in
the verdict, the run or the agreement that it speaks of; here they would hide the cause.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from perf_pipeline.gates import checks, wording
from perf_pipeline.gates.comparison import disagreeing, in_short, lacks_pairs, needs_finer_buckets, outlook
from perf_pipeline.gates.evidence import METRICS, NEGATIVE_CONTROL
from perf_pipeline.gates.findings import ArmAgainstItself, NegativeControl, RunValidity, Verdict

_LOST = {
    checks.FINISHED: ("a run did not come to its end", "read its logs"),
    checks.RESTARTS: ("a process started again within the hold", "find out why in its logs"),
    checks.DROPPED_ITERATIONS: (
        "the load generator could not start its requests in time, as the machine was busy or the service too slow",
        "measure on a quiet machine or at a lower rate",
    ),
    checks.ACHIEVED_RATE: (
        "the load was not shown to be the one asked for",
        "look at the load generator, or ask for a lower rate",
    ),
    checks.ENVIRONMENT: ("the environment was not that of the other runs", "measure on equal machines"),
    checks.BUILD: ("one version was the name of several builds", "name each build by itself"),
    checks.COPY: ("measurements were those of other runs", "measure each repeat"),
    checks.ANSWERED: ("the service refused most requests", "find out why in its logs"),
    checks.THROTTLING: ("the CPU of the service was throttled", "give it more"),
    checks.CLOCK: ("clocks did not agree", "set them by one source"),
    checks.DRIFT: ("the service had not settled", "warm up for longer"),
}
"""Why runs are set aside or lose metrics and what helps, by the check that did it; of several the first counts."""


def open_questions(
    versions: tuple[str, str],
    verdicts: Sequence[Verdict],
    runs: Sequence[RunValidity],
    control: NegativeControl,
    hiding: Sequence[str],
    aa_arm: ArmAgainstItself | None,
) -> Iterator[str]:
    """What the evidence leaves open and what it would take, a sentence each; what explains the others comes first.

    `hiding` says where the candidate alone lacks answers, in clauses.
    """
    asked_for = [verdict for verdict in verdicts if verdict.metric != NEGATIVE_CONTROL and not verdict.absent]
    missing = [verdict for verdict in asked_for if verdict.verdict == "not comparable"]
    unsettled = [verdict for verdict in asked_for if verdict.verdict == "inconclusive"]
    if missing or unsettled or hiding:
        yield from _lost(runs, missing)
    if hiding:
        yield f"What is missing may be what changed: {', '.join(hiding)}."
    yield from _not_comparable(versions, missing, asked_for)
    coarse = [verdict for verdict in unsettled if needs_finer_buckets(verdict.reason)]
    if coarse:
        yield f"{_which(coarse, asked_for)}: finer histogram buckets would settle it, more repeats would not."
    if noisy := [verdict for verdict in unsettled if verdict not in coarse]:
        yield f"{_which(noisy, asked_for)}: {_takes(noisy)}."
    if control.status == "cannot tell":
        yield f"The negative control {control.metric} {_before_numbers(control.message)}."
    if aa_arm and aa_arm.status == "cannot tell":
        yield f"{itself(aa_arm.baseline)} {_before_numbers(aa_arm.message)}."
    if control.status == "absent" and aa_arm is None:
        yield "Whether the environment favoured a side: there is no negative control."
    yield from _absent(verdicts)


def itself(baseline: str) -> str:
    """What an A/A arm compares."""
    return f"{baseline} against itself (A/A)"


def _lost(runs: Sequence[RunValidity], missing: Sequence[Verdict]) -> Iterator[str]:
    """The commonest reason why runs were set aside, and why they lost what is missing; and what helps."""
    gone = {(verdict.scenario, verdict.metric) for verdict in missing}
    whole = [run for run in runs if run.status == "set aside"]
    in_part = [
        run
        for run in runs
        if run.status == "metric dropped" and any((run.scenario, metric) in gone for metric in run.dropped_metrics)
    ]
    sentences = [(whole, "set aside", f"{'was' if len(whole) == 1 else 'were'} set aside")]
    sentences.append((in_part, "drop metric", "lost metrics"))
    for lost, consequence, what in sorted(sentences, key=lambda one: -len(one[0])):
        if lost:
            cause, number = Counter(_cause(run, consequence) for run in lost).most_common(1)[0]
            why, remedy = _LOST.get(cause, (f"Gate 1 found fault with {cause or 'them'}", "read what it says of them"))
            of_them = f", {number} of them" if number < len(lost) else ""
            yield f"{len(lost)} of {wording.counted(len(runs), 'run')} {what}{of_them} because {why}: {remedy}."


def _cause(run: RunValidity, consequence: str) -> str:
    """The check that cost a run: of several, the one that explains the others; empty when none is named."""
    decisive = [check.check for check in run.checks if check.consequence == consequence]
    return next((check for check in _LOST if check in decisive), decisive[0] if decisive else "")


def _not_comparable(
    versions: tuple[str, str], missing: Sequence[Verdict], asked_for: Sequence[Verdict]
) -> Iterator[str]:
    """Why comparisons could not be made: those for want of runs, then those of repeats that disagree, then the rest."""
    few = [verdict for verdict in missing if verdict.open_to_repeats]
    apart = [verdict for verdict in missing if verdict not in few and disagreeing(verdict.reason)]
    others = [verdict for verdict in missing if verdict not in few and verdict not in apart]
    for some, several in ((few, "too few usable runs are left"), (others, "")):
        if some:
            reasons = list(dict.fromkeys(in_short(verdict.reason) for verdict in some))
            reason = reasons[0] if len(reasons) == 1 else f"in {some[0].scenario} {reasons[0]}"
            if several and len(some) > 1 and not any(map(lacks_pairs, reasons)):
                reason = several
            yield f"{_which(some, asked_for)}: {reason}."
    by_versions: dict[tuple[str, ...], list[Verdict]] = {}
    for verdict in apart:
        said = disagreeing(verdict.reason)
        by_versions.setdefault(tuple(one for one in versions if one in said) or said, []).append(verdict)
    for named, mine in sorted(by_versions.items(), key=lambda one: len(one[0])):
        itself_too = "the service itself" if len(named) > 1 else f"{named[0]} itself"
        yield (
            f"{_which(mine, asked_for)}: repeats of {' and '.join(named)} disagree, "
            f"so the lab, or {itself_too}, is not the same from run to run."
        )


def _absent(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Metrics that were never asked for, by their reason."""
    by_reason: dict[str, list[str]] = {}
    for metric in METRICS:
        mine = [verdict for verdict in verdicts if verdict.metric == metric]
        if mine and metric != NEGATIVE_CONTROL and all(verdict.absent for verdict in mine):
            by_reason.setdefault(mine[0].reason, []).append(metric)
    for reason, metrics in by_reason.items():
        yield f"{wording.named(metrics)}: {reason}."


def _which(some: Sequence[Verdict], asked_for: Sequence[Verdict]) -> str:
    """`client_latency could not be compared in 2 of 2 scenarios`, `a, b and 2 more are inconclusive (7 of 10 ...)`."""
    metrics = [metric for metric in METRICS if any(verdict.metric == metric for verdict in some)]
    several = len(metrics) > 1
    open_ended = f"{'are' if several else 'is'} inconclusive"
    what = open_ended if some[0].verdict == "inconclusive" else "could not be compared"
    if several:
        return f"{wording.named(metrics)} {what} ({len(some)} of {wording.counted(len(asked_for), 'comparison')})"
    return f"{metrics[0]} {what} in {of_scenarios(some, [one for one in asked_for if one.metric == metrics[0]])}"


def of_scenarios(some: Sequence[Verdict], every: Sequence[Verdict]) -> str:
    """`graph-1 (1 of 5 scenarios)`, or `3 of 5 scenarios`."""
    text = f"{len(some)} of {wording.counted(len(every), 'scenario')}"
    return f"{some[0].scenario} ({text})" if len(some) == 1 and len(every) > 1 else text


def _takes(unsettled: Sequence[Verdict]) -> str:
    """What would settle inconclusive comparisons."""
    if len(unsettled) == 1:
        return outlook(unsettled[0].repeats_to_settle)
    known = [verdict.repeats_to_settle for verdict in unsettled if verdict.repeats_to_settle is not None]
    if not known:
        return "no practical number of repeats would settle them if estimates and noise stay as they are"
    rest = len(unsettled) - len(known)
    others = f", and no practical number the other {rest if rest > 1 else 'one'}" if rest else ""
    them = "them" if not rest else f"{len(known)} of them"
    return f"about {max(known)} repeats per version would settle {them}{others} if estimates and noise stay as they are"


def _before_numbers(message: str) -> str:
    """`may have moved` of `may have moved: its median changed by ...`."""
    return message.split(": ")[0]

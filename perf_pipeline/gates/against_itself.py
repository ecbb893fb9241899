"""The A/A arm: the baseline measured a second time in the place of a candidate.

What belongs here: what it says when the same gates judge a version against itself. Whatever moves there is not the
version: it is the environment, the harness, or chance more often than promised.
"""

from collections.abc import Sequence
from dataclasses import replace

from perf_pipeline.gates import wording
from perf_pipeline.gates.evidence import DISTRIBUTIONS, NUMBERS, RunEvidence
from perf_pipeline.gates.findings import Agreement, ArmAgainstItself, Pooled, RunValidity, Verdict
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.pooled import MEDIAN, ControlStatus, against_limit

AA_ARM = "aa"


def arm_of(runs: Sequence[RunEvidence], baseline: str) -> tuple[str, list[RunEvidence]]:
    """What the second arm is called, and the runs of both, the second arm's under that name."""
    name = f"{baseline} (A/A)"
    of_baseline = (run for run in runs if run.version == baseline)
    return name, [replace(run, version=name) if run.arm == AA_ARM else run for run in of_baseline]


def judge_arm(
    baseline: str,
    verdicts: tuple[Verdict, ...],
    runs: tuple[RunValidity, ...],
    agreement: tuple[Agreement, ...],
    pooled: tuple[Pooled, ...],
    policy: Policy,
) -> ArmAgainstItself:
    """Has anything moved that cannot have?

    It moved when any verdict says so, or when the pooled interval of a median or of a number lies wholly beyond the
    limit of the negative control; it is quiet when all of those lie wholly inside. Otherwise nobody can tell.
    """
    status, message = _found(verdicts, pooled, policy.negative_control.max_pooled_change)
    return ArmAgainstItself(baseline, status, message, verdicts, runs, agreement, pooled)


def _found(verdicts: Sequence[Verdict], pooled: Sequence[Pooled], limit: float) -> tuple[ControlStatus, str]:
    level = {
        one: against_limit(one, limit)
        for one in pooled
        if one.metric in NUMBERS or (one.metric in DISTRIBUTIONS and one.statistic == MEDIAN)
    }
    asked_for = [verdict for verdict in verdicts if not verdict.absent]
    comparisons = wording.counted(len(asked_for), "comparison")
    if moved := [verdict for verdict in asked_for if verdict.verdict in ("regression", "improvement")]:
        where = f"{moved[0].metric} in {moved[0].scenario}"
        return "moved", f"moved in {len(moved)} of {comparisons}: {where}, {moved[0].reason}"
    if shifted := [one for one, status in level.items() if status == "moved"]:
        return "moved", f"moved: {_said(shifted[0])}, wholly beyond {wording.share(limit)}"
    if doubtful := [one for one, status in level.items() if status == "cannot tell"]:
        return "cannot tell", f"may have moved: {_said(doubtful[0])}; quiet is wholly within {wording.share(limit)}"
    return ("quiet", f"was quiet in {comparisons}") if level else ("cannot tell", "could not be compared")


def _said(pooled: Pooled) -> str:
    """`client_latency at p50 changed by +3.1 % (+2.2 % to +4.0 %) over 5 scenarios`."""
    at = f" at {pooled.statistic}" if pooled.metric in DISTRIBUTIONS else ""
    return (
        f"{pooled.metric}{at} changed by {wording.change(pooled.metric, pooled.estimate)} "
        f"({wording.interval(pooled.metric, pooled.low, pooled.high)}) over "
        f"{wording.counted(pooled.scenarios, 'scenario')}"
    )

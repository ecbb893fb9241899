"""What experiments count in judgements.

What belongs here: judging simulated runs and telling one kind of answer from another. The questions are in
`experiments` and `designs`.
"""

from collections.abc import Iterable, Sequence

from perf_pipeline.gates.evidence import FloatArray, RunEvidence
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from perf_pipeline.simulation.campaign import Campaign
from perf_pipeline.simulation.evidence import evidence
from perf_pipeline.simulation.truth import Truth

BASELINE, CANDIDATE = Campaign.baseline, Campaign.candidate


def verdicts_on(truth: Truth, policy: Policy) -> list[Verdict]:
    """The verdicts on what is so, without a look at levels over time."""
    return verdicts_of(evidence(truth, with_levels=False), policy)


def verdicts_of(runs: Sequence[RunEvidence], policy: Policy) -> list[Verdict]:
    """The verdicts on every metric that has a source."""
    return asked_for(judge(runs, BASELINE, CANDIDATE, policy).verdicts)


def asked_for(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Without metrics that have no source."""
    return [one for one in verdicts if not one.absent]


def changed(verdict: Verdict) -> bool:
    """Whether a regression or an improvement is called."""
    return verdict.verdict in ("regression", "improvement")


def without_zero(verdict: Verdict) -> bool:
    """Whether any simultaneous band, or the interval of a single value, excludes no change."""
    if verdict.percentiles:
        return any(one.band_low > 0 or one.band_high < 0 for one in verdict.percentiles)
    return (verdict.low or 0.0) > 0 or (verdict.high or 0.0) < 0


def covered(verdict: Verdict, expected: FloatArray) -> tuple[float, float]:
    """How many of a verdict's pointwise intervals hold the true changes (ratios), and how many there are."""
    if verdict.percentiles:
        pairs = zip(verdict.percentiles, expected, strict=True)
        return float(sum(one.low <= true <= one.high for one, true in pairs)), float(len(expected))
    if verdict.low is None or verdict.high is None:
        return 0.0, 0.0
    return float(verdict.low <= expected[0] <= verdict.high), 1.0


def share_of(answers: Iterable[bool]) -> tuple[float, float]:
    """How many are true, and how many there are."""
    answers = list(answers)
    return float(sum(answers)), float(len(answers))


def total(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The sum of hits, and the sum of tries."""
    hits, tries = 0.0, 0.0
    for hit, tried in pairs:
        hits, tries = hits + hit, tries + tried
    return hits, tries

"""What the gates find: the dataclasses that they hand on to the report, the warehouse and the JSON output.

What belongs here: results as plain values. Changes are ratios minus 1 (+0.10 is 10 % more) except for error rates,
where they are differences of shares. `None` means that the value does not exist, and `message` or `reason` says why.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

CheckStatus: TypeAlias = Literal["pass", "fail", "cannot tell", "not measured"]
RunStatus: TypeAlias = Literal["passed", "metric dropped", "set aside"]
AgreementStatus: TypeAlias = Literal["agree", "disagree", "too few to say"]
VerdictName: TypeAlias = Literal["equivalent", "regression", "improvement", "inconclusive", "not comparable"]
Answer: TypeAlias = Literal["regression", "no regression", "not enough evidence"]


@dataclass(frozen=True)
class RunCheck:
    """One check of Gate 1 on one run, or on one metric of it."""

    check: str
    metric: str | None
    status: CheckStatus
    value: float | None
    limit: float | None
    unit: str
    message: str
    consequence: Literal["none", "drop metric", "set aside"] = "none"
    """What the check did to the run: "none" unless it failed, or could not be measured where the policy asks for it."""


@dataclass(frozen=True)
class RunValidity:
    """Gate 1: is this run valid?"""

    run_id: str
    version: str
    scenario: str
    repeat: int
    status: RunStatus
    reason: str
    """Why it was set aside or lost metrics; empty when it passed."""
    dropped_metrics: tuple[str, ...]
    checks: tuple[RunCheck, ...]


@dataclass(frozen=True)
class Agreement:
    """Gate 2: do the repeats of one version, scenario and metric agree?"""

    version: str
    scenario: str
    metric: str
    status: AgreementStatus
    statistic: str
    """Name of the statistic, such as "log Wasserstein distance" or "coefficient of variation"."""
    value: float | None
    limit: float | None
    repeats: int
    within: float | None
    """Distance between two halves of one run, the scale that repeats are held against (distributions)."""
    most_influential_run: str | None
    """The run that stands furthest from the others, named and never dropped."""
    message: str


@dataclass(frozen=True)
class PercentileChange:
    """Relative change at one percentile: pointwise interval and simultaneous band."""

    p: float
    estimate: float
    low: float
    high: float
    band_low: float
    band_high: float
    baseline_ms: float
    candidate_ms: float
    df: float | None = None
    """Degrees of freedom of the pointwise interval."""


@dataclass(frozen=True)
class Verdict:
    """Gate 3: did this metric change in this scenario?"""

    scenario: str
    metric: str
    verdict: VerdictName
    reason: str
    estimate: float | None
    low: float | None
    high: float | None
    """With low, the interval that decided: the simultaneous band for a distribution's regression or improvement, the
    pointwise interval otherwise. None where it is unbounded."""
    zone_low: float | None
    zone_high: float | None
    smallest_detectable: float | None
    """The smallest worsening that would be called a regression in 8 of 10 such comparisons."""
    repeats_to_settle: int | None
    """Repeats per version that would settle an inconclusive verdict if the noise stays as it is; None if none would."""
    deciding_percentile: float | None
    """For a distribution, the percentile that estimate, low and high belong to."""
    percentiles: tuple[PercentileChange, ...]
    baseline_value: float | None
    candidate_value: float | None
    """With baseline_value, the geometric mean over runs at the deciding percentile; of error rates the share."""
    unit: str
    """Of the values: ms, bytes or share (of requests)."""
    baseline_repeats: int
    candidate_repeats: int
    df: float | None
    """Degrees of freedom of the interval; None for error rates without any error, whose limits are exact."""
    absent: bool = False
    """True when the plan names no source for the metric: it was never asked for."""
    prior_df: float | None = None
    """How many of df were lent by the other scenarios of the campaign; None where variances are not moderated."""
    paired: bool = False
    """True when the runs of one block were compared as pairs; repeats then count pairs."""
    look: int | None = None
    """Which of the looks that were planned beforehand this is, from 1; None where one look was planned."""
    tail: float | None = None
    """Probability that the interval leaves on each side: 0.025 at 95 %, and less where several looks were planned."""
    open_to_repeats: bool = False
    """True when more repeats may bring the answer that is missing."""


@dataclass(frozen=True)
class ScenarioChange:
    """A scenario whose change differs from none even when all scenarios are asked at once."""

    scenario: str
    estimate: float
    p_value: float
    """Adjusted for the number of scenarios (Holm 1979)."""


@dataclass(frozen=True)
class Pooled:
    """One statistic of one metric over all comparable scenarios, each with equal weight."""

    metric: str
    statistic: str
    """What was pooled, such as "p50", "p95", "value"."""
    estimate: float
    low: float
    high: float
    """With low, what holds for these scenarios."""
    df: float
    scenarios: int
    worst_scenario: str
    worst_estimate: float
    general_low: float | None = None
    general_high: float | None = None
    """With general_low, what holds for scenarios in general, of which these are a sample; None for fewer than two."""
    between_scenarios: float | None = None
    """Standard deviation of the true changes between scenarios, ratio; None for fewer than two."""
    changed: tuple[ScenarioChange, ...] = ()
    """Which scenarios changed, the most certain first."""


@dataclass(frozen=True)
class NegativeControl:
    """The metric that no version of the service can change, judged the same way."""

    metric: str
    status: Literal["quiet", "moved", "cannot tell", "absent"]
    estimate: float | None
    low: float | None
    high: float | None
    message: str


@dataclass(frozen=True)
class ArmAgainstItself:
    """The baseline measured a second time in the place of a candidate (A/A), judged by the same gates."""

    baseline: str
    status: Literal["quiet", "moved", "cannot tell"]
    message: str
    verdicts: tuple[Verdict, ...]
    runs: tuple[RunValidity, ...]
    """Gate 1 on the runs of both, those of the second arm under the version "<baseline> (A/A)"."""
    agreement: tuple[Agreement, ...]
    pooled: tuple[Pooled, ...]


@dataclass(frozen=True)
class Decision:
    """The answer to "is the new version slower?" in one word and one sentence."""

    answer: Answer
    headline: str
    known: tuple[str, ...]
    """What the evidence supports, one sentence each."""
    not_known: tuple[str, ...]
    """What it leaves open, and what it would take, one sentence each."""
    exit_code: int
    """Exit code of the command line without --require-evidence."""


@dataclass(frozen=True)
class Judgement:
    """Everything that the three gates say about one comparison."""

    baseline: str
    candidate: str
    policy_name: str
    policy_version: str
    decision: Decision
    verdicts: tuple[Verdict, ...]
    runs: tuple[RunValidity, ...]
    agreement: tuple[Agreement, ...]
    pooled: tuple[Pooled, ...]
    negative_control: NegativeControl
    notes: tuple[str, ...] = field(default_factory=tuple)
    """Statements about the campaign as a whole, such as an environment that differs between the sides."""
    looks: tuple[int, ...] = ()
    """Repeats per version at which the campaign was to be judged, fixed before its first run; empty for one look."""
    aa_arm: ArmAgainstItself | None = None
    """None when the campaign has no A/A arm."""

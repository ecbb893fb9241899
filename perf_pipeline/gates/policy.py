"""The policy: every limit that the gates use, as one versioned value.

What belongs here: the model of a policy file and nothing else. The limits themselves, each with its meaning and its
source, are in `policies/*.yaml`; a policy names every limit, so that a file alone says how a verdict came about.
Reading files is the caller's.

Shares and zones are ratios (0.02 is 2 %), times are seconds.
"""

from collections.abc import Callable
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from perf_pipeline.gates.evidence import DISTRIBUTIONS, METRICS, NUMBERS, PERCENTILES

Metric: TypeAlias = Literal[
    "client_latency",
    "service_latency",
    "service_p99",
    "service_memory",
    "http_error_rate",
    "graphql_error_rate",
    "upstream_latency",
]
OnRun: TypeAlias = Literal["set aside", "keep"]
"""What a check does to a run; `keep` leaves the finding on record and the run in the comparison."""
OnMetric: TypeAlias = Literal["set aside", "drop metric", "keep"]
"""What a check of one metric does: set the whole run aside, leave that metric of it out, or nothing."""

Spending: TypeAlias = Literal["pocock", "obrien-fleming"]
"""How looks share the probability of error: nearly alike, or hardly any of it before the last."""

Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
Confidence: TypeAlias = Annotated[float, Field(ge=0.5, lt=1)]


def _names_all(expected: tuple[str, ...]) -> Callable[[dict], dict]:
    """A validator: a mapping by metric says something about each of the expected metrics and about no other."""

    def check(value: dict) -> dict:
        if missing := [metric for metric in expected if metric not in value]:
            raise ValueError(f"says nothing about {', '.join(missing)}")
        if surplus := [metric for metric in value if metric not in expected]:
            raise ValueError(f"cannot say anything about {', '.join(surplus)}")
        return value

    return check


def _percentiles_are_compared(value: list[float]) -> list[float]:
    if unknown := [percentile for percentile in value if percentile not in PERCENTILES]:
        raise ValueError(f"not among the percentiles that are compared: {', '.join(f'{p:g}' for p in unknown)}")
    return value


class _Limits(BaseModel):
    """A section of a policy: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AchievedRateLimits(_Limits):
    """Gate 1: did the load arrive at its target rate?"""

    max_deviation: Share = Field(description="largest |achieved / target - 1|, ratio")
    on_fail: OnRun
    on_not_measured: OnRun


class DroppedIterationLimits(_Limits):
    """Gate 1: did the load generator leave out requests that it should have sent?"""

    max_share: Share = Field(description="dropped iterations as a share of target rate x hold")
    on_fail: OnRun
    on_not_measured: OnRun


class _DroppingLimits(_Limits):
    """A check of the run that may cost it some metrics."""

    on_fail: Literal["set aside", "drop metrics", "keep"]
    drops: list[Metric] = Field(description="metrics that a run that fails loses; empty unless on_fail drops metrics")
    on_not_measured: OnRun

    @model_validator(mode="after")
    def _drops_something(self) -> Self:
        if (self.on_fail == "drop metrics") != bool(self.drops):
            raise ValueError("drops names metrics exactly when on_fail is 'drop metrics'")
        return self


class ThrottlingLimits(_DroppingLimits):
    """Gate 1: was the service's CPU throttled?"""

    max_share: Share = Field(description="share of CPU periods that were throttled in the hold")


class EnvironmentLimits(_Limits):
    """Gate 1: did both sides run in the same environment?"""

    ignored_keys: list[str] = Field(description="keys of the environment that may differ from run to run")
    expected_keys: list[str] = Field(description="keys that an identity has; without one of them it is not known")
    on_fail: OnRun = Field(description="for a run in another environment than the runs it is compared with")
    on_not_measured: OnRun

    @model_validator(mode="after")
    def _expects_what_it_looks_at(self) -> Self:
        if both := sorted(set(self.ignored_keys) & set(self.expected_keys)):
            raise ValueError(f"a key cannot be expected and ignored: {', '.join(both)}")
        return self


class BuildLimits(_Limits):
    """Gate 1: is the service the build that the other runs of its version tested?"""

    on_fail: OnRun
    on_not_measured: OnRun


class RestartLimits(_Limits):
    """Gate 1: did a process start again inside the hold, so that its counters went back?"""

    on_fail: OnRun
    on_not_measured: OnRun


class ClockLimits(_DroppingLimits):
    """Gate 1: do the series and k6 agree on the time?"""

    max_share: Share = Field(description="largest difference between the clocks, as a share of the hold")


class CopyLimits(_Limits):
    """Gate 1: does the run hold measurements of its own, or those of another run?"""

    on_fail: OnRun


class SeriesDensityLimits(_Limits):
    """Gate 1: are the scrapes that a metric is read from there?"""

    min_share: Share = Field(description="scrapes in the hold as a share of those expected")
    metrics: list[Metric] = Field(description="metrics that are read from series")
    on_fail: OnMetric
    on_not_measured: OnMetric


class DriftLimits(_Limits):
    """Gate 1: had the metric settled?"""

    zone: Share = Field(description="largest change per `per_s` that counts as steady, ratio")
    per_s: float = Field(gt=0, description="seconds over which the zone is stated")
    min_change: Share = Field(description="smallest change over the hold itself that can count as drift, ratio")
    confidence: Confidence = Field(description="two-sided confidence of the slope's interval")
    min_sub_windows: int = Field(ge=4, description="with fewer sub-windows the answer is 'cannot tell'")
    on_fail: Annotated[dict[str, OnMetric], AfterValidator(_names_all((*DISTRIBUTIONS, *NUMBERS)))]
    on_not_measured: OnMetric


class StepLimits(_Limits):
    """Gate 1: did the metric keep one level?"""

    zone: Share = Field(description="largest difference between two levels of the hold that counts as none, ratio")
    confidence: Confidence = Field(description="two-sided confidence of a step's size, over all places it may be at")
    min_sub_windows: int = Field(ge=8, description="with fewer sub-windows the answer is 'cannot tell'")
    on_fail: Annotated[dict[str, OnMetric], AfterValidator(_names_all((*DISTRIBUTIONS, *NUMBERS)))]
    on_not_measured: OnMetric


class ResolutionLimits(_Limits):
    """Gate 1: are the histogram buckets that a metric is read from finer than its zone?"""

    on_fail: OnMetric


class MissingMetricLimits(_Limits):
    """Gate 1: is a metric there that the plan names a source for?"""

    on_fail: OnMetric


class RunValidityLimits(_Limits):
    """Gate 1: is this run valid?"""

    achieved_rate: AchievedRateLimits
    dropped_iterations: DroppedIterationLimits
    throttling: ThrottlingLimits
    environment: EnvironmentLimits
    build: BuildLimits
    restarts: RestartLimits
    clock: ClockLimits
    copies: CopyLimits
    missing_metric: MissingMetricLimits
    series_density: SeriesDensityLimits
    histogram_resolution: ResolutionLimits
    drift: DriftLimits
    steps: StepLimits


class RepeatAgreementLimits(_Limits):
    """Gate 2: do the repeats agree?"""

    ratio_limit: float = Field(gt=0, description="distributions: times the distance that noise explains")
    floor_share_of_zone: Share = Field(description="differences below this share of the zone are always fine")
    carried_cv: Share | None = Field(
        description="distributions beyond that: coefficient of variation that Gate 3 can carry; null for none"
    )
    max_cv: Share = Field(description="numbers: largest coefficient of variation, ratio")
    max_dispersion: float = Field(ge=1, description="error rates: largest Pearson chi-square per degree of freedom")
    confidence: Confidence = Field(description="one-sided confidence of the limits of a spread")
    on_too_few_to_say: Literal["compare", "not comparable"]


class ModerationLimits(_Limits):
    """Gate 3: do the scenarios of a metric lend each other what they know about noise?"""

    enabled: bool
    min_scenarios: int = Field(ge=2, description="with fewer scenarios every one stands for itself")
    guard_quantile: Confidence = Field(
        description="quantile of F beyond which a scenario counts as noisier than the others and stands for itself"
    )


class LookLimits(_Limits):
    """Gate 3: how several looks, planned beforehand, share the probability of error."""

    spending: Spending


class ChangeLimits(_Limits):
    """Gate 3: did the version change?"""

    zone: Annotated[dict[str, Annotated[float, Field(gt=0, le=1)]], AfterValidator(_names_all(METRICS))] = Field(
        description="smallest change that counts: a ratio, and for error rates a difference of shares"
    )
    confidence: Confidence = Field(description="two-sided confidence of intervals and bands")
    campaign_confidence: Confidence = Field(
        description="probability that a campaign in which nothing changed has no regression and no improvement"
    )
    min_runs_per_side: int = Field(ge=2, description="valid runs that each side needs")
    moderation: ModerationLimits
    paired: Literal["when designed", "never"] = Field(description="whether runs of one block are compared as pairs")
    looks: LookLimits
    noise_floor: Share = Field(description="smallest run-to-run standard deviation that is believed, ratio")
    power: Confidence = Field(description="probability that the smallest detectable change is found")
    max_repeats_named: int = Field(ge=2, description="more repeats than this are never proposed")


class NegativeControlLimits(_Limits):
    """The metric that no version of the service can change."""

    max_pooled_change: Share = Field(description="the pooled median must not lie wholly beyond this, ratio")


class PooledLimits(_Limits):
    """All scenarios together."""

    percentiles: Annotated[list[float], AfterValidator(_percentiles_are_compared)] = Field(
        min_length=1, description="percentiles of distributions that are pooled"
    )


class DecisionLimits(_Limits):
    """The answer for the whole comparison."""

    min_decided_share: float = Field(
        ge=0, le=1, description="share of comparisons that must be equivalent or improved to say 'no regression'"
    )
    lost_runs_alpha: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="'no regression' needs p >= this in the test that both sides lose runs to Gate 1 equally often"
    )


class Policy(_Limits):
    """A policy: the limits of every gate, under a name and a version."""

    name: str = Field(min_length=1)
    version: str = Field(min_length=1)
    run_validity: RunValidityLimits
    repeat_agreement: RepeatAgreementLimits
    change: ChangeLimits
    pooled: PooledLimits
    negative_control: NegativeControlLimits
    decision: DecisionLimits

    def agreement_floor(self, metric: str) -> float:
        """The spread of repeats that Gate 2 always accepts, in the unit of the metric's zone."""
        return self.repeat_agreement.floor_share_of_zone * self.change.zone[metric]

"""What the gates judge: the measurements of runs, as plain values.

What belongs here: the dataclasses that the gates take in. `metrics.extract` fills them from measured runs, and
`simulation` from a known truth. Latencies are natural logarithms of milliseconds, because every comparison is a ratio.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

DISTRIBUTIONS = ("client_latency", "service_latency", "upstream_latency")
NUMBERS = ("service_p99", "service_memory")
ERROR_RATES = ("http_error_rate", "graphql_error_rate")
NEGATIVE_CONTROL = "upstream_latency"
METRICS = (
    "client_latency",
    "service_latency",
    "service_p99",
    "service_memory",
    "http_error_rate",
    "graphql_error_rate",
    "upstream_latency",
)
"""Every metric, in the order in which people read them."""

PERCENTILES = (*(5.0 * step for step in range(1, 20)), 97.5, 99.0)
"""The percentiles at which distributions are compared (reference: 21 points, Gate 3)."""

SHAPE_POINTS = 200
"""Quantiles of a shape: at (i + 0.5) / 200, so that a Wasserstein distance is a mean of absolute differences."""


@dataclass(frozen=True)
class LatencySample:
    """One latency distribution of one run over its hold.

    P = len(PERCENTILES), S = SHAPE_POINTS, W = sub-windows of the hold.
    """

    requests: float
    log_quantiles: FloatArray
    """(P,) ln ms at PERCENTILES."""
    log_bucket_width: FloatArray
    """(P,) ln(upper / lower edge) of the source's histogram bucket that each percentile fell in; inf if unbounded."""
    shape: FloatArray
    """(S,) ln ms at the shape points, whole hold."""
    half_shapes: FloatArray
    """(2, S) first and second half of the hold; nan where a half is empty."""
    alternate_shapes: FloatArray
    """(2, S) even and odd seconds, or sub-windows where seconds are not known apart; nan where there are none."""
    levels: FloatArray
    """(W,) mean ln ms of each sub-window; nan where it is empty."""
    sub_window_s: float
    """Length of the sub-windows of `levels`; nan when the source has no time axis."""


@dataclass(frozen=True)
class NumberSample:
    """One positive number of one run: `service_p99` in ms, `service_memory` in bytes."""

    value: float
    levels: FloatArray
    """(W,) the number in each sub-window of the hold; nan where it is not known."""
    sub_window_s: float
    log_bucket_width: float = 0.0
    """ln(upper / lower edge) of the histogram bucket that the number was read from; 0 when it was read exactly."""


@dataclass(frozen=True)
class ErrorSample:
    """Errors among requests of one run over its hold."""

    errors: int
    requests: int


@dataclass(frozen=True)
class Missing:
    """A metric that a run does not have. `absent` when the plan names no source; otherwise it should be there."""

    reason: str
    absent: bool = False


Sample: TypeAlias = LatencySample | NumberSample | ErrorSample | Missing


@dataclass(frozen=True)
class Design:
    """What was fixed before the first run: it may shape the analysis, because no result could have shaped it."""

    looks: tuple[int, ...] = ()
    """Repeats per version at which the campaign is judged, rising; empty for one look at the end."""
    paired: bool = False
    """True when runs of one block are analysed as pairs."""


@dataclass(frozen=True)
class ClockOffset:
    """The clock of the series minus the clock of k6 in s, with the limits between which the data put it."""

    estimate_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class RunEvidence:
    """Everything that the gates know of one run. None means not measured, nan that a source does not say it."""

    run_id: str
    version: str
    scenario: str
    repeat: int
    block: int
    failure: str | None
    """Why the run did not finish (k6 ended with an error, the service died); None when it did."""
    hold_s: float
    target_rate_per_s: float
    achieved_rate_per_s: float | None
    dropped_iterations: int | None
    throttled_share: float | None
    """Share of CPU periods of the service that were throttled in the hold."""
    environment: Mapping[str, str]
    """Identity of the environment: node, cpu_model, kernel, cpus, k6, ... Never holds what differs by version."""
    metrics: Mapping[str, Sample]
    series_density: Mapping[str, float] = field(default_factory=dict)
    """By metric: share of the scrapes expected in the hold that are there; of client_latency, seconds with requests."""
    design: Design | None = None
    """None when the harness did not say: one look, unpaired."""
    arm: str = "main"
    """aa for runs of the baseline that stand in for a candidate: what is called a change when nothing changed?"""
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """By check of Gate 1 that the run's source cannot answer: why, such as "an .hgrm spectrum has no time axis"."""
    counter_resets: Mapping[str, int] = field(default_factory=dict)
    """By process: how often its counters went back in the hold, because it started again. Empty when not measured."""
    clock_offset: ClockOffset | None = None
    service_digest: str | None = None
    """What the service was made of; equal in all runs of a version and scenario, or it was changed in between."""

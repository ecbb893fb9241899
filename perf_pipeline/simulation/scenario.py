"""One scenario with a known truth: what its metrics are like, and what the candidate changed in them.

What belongs here: the description of a scenario, as values. What happens to single runs is in `campaign`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from perf_pipeline.simulation.run_effects import RunEffects, Seconds, Shift
from perf_pipeline.simulation.shapes import LogNormal, Shape

BUCKET_RATIO_OF_K6 = 1.005
"""Upper / lower edge of the buckets into which `metrics` puts the latencies that k6 saw."""


@dataclass(frozen=True)
class Latency:
    """A latency distribution."""

    median_ms: float
    shape: Shape = field(default_factory=LogNormal)
    effects: RunEffects = field(default_factory=RunEffects)
    seconds: Seconds = field(default_factory=Seconds)
    bucket_ratio: float = BUCKET_RATIO_OF_K6
    """Upper / lower edge of the buckets that it is read from; k6's own is fixed."""


@dataclass(frozen=True)
class Memory:
    """Memory of the service over a hold."""

    level_bytes: float = 2e8
    effects: RunEffects = field(default_factory=lambda: RunEffects(level=0.01))
    """Of these only the level, the block and the law: memory has no spread and no tail."""
    seconds: Seconds = field(default_factory=lambda: Seconds(sd=0.002, autocorrelation=0.9))


@dataclass(frozen=True)
class Errors:
    """An error rate whose counts scatter more than chance alone explains."""

    rate: float = 0.0
    """Expected errors per request."""
    variance: float = 0.0
    """Of the factor (gamma, mean 1) by which a run's own rate differs from the expected one; 0 leaves chance alone."""


@dataclass(frozen=True)
class Scenario:
    """What is measured under one workload and configuration, in the baseline, and what the candidate changes.

    A metric that is not described is absent: the plan names no source for it. `service_p99` is the 99th percentile of
    `service_latency`, and there whenever that is.
    """

    name: str
    rate_per_s: float = 100.0
    latencies: Mapping[str, Latency] = field(default_factory=dict)
    """By metric: client_latency, service_latency, upstream_latency."""
    memory: Memory | None = None
    errors: Mapping[str, Errors] = field(default_factory=dict)
    """By metric: http_error_rate, graphql_error_rate."""
    changes: Mapping[str, Shift] = field(default_factory=dict)
    """By metric, latencies and service_memory (of which only the level): what the candidate changed."""
    rate_changes: Mapping[str, float] = field(default_factory=dict)
    """By error rate: what the candidate added to it."""


_EFFECTS, _SHAPE, _NO_ERRORS = RunEffects(), LogNormal(), Errors()


def every_metric(
    name: str = "everything",
    rate_per_s: float = 100.0,
    effects: RunEffects = _EFFECTS,
    shape: Shape = _SHAPE,
    errors: Errors = _NO_ERRORS,
    changes: Mapping[str, Shift] | None = None,
    rate_changes: Mapping[str, float] | None = None,
) -> Scenario:
    """A scenario with all seven metrics, alike in noise and shape: a start for scenarios of one's own."""
    medians_ms = {"client_latency": 12.0, "service_latency": 9.0, "upstream_latency": 5.0}
    return Scenario(
        name=name,
        rate_per_s=rate_per_s,
        latencies={
            metric: Latency(median_ms, shape, effects, Seconds(0.01), 1.005 if metric == "client_latency" else 1.02)
            for metric, median_ms in medians_ms.items()
        },
        memory=Memory(effects=RunEffects(level=effects.level / 2, block=effects.block / 2, law=effects.law)),
        errors={"http_error_rate": errors, "graphql_error_rate": errors},
        changes=changes or {},
        rate_changes=rate_changes or {},
    )

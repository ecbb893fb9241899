"""What is so in each run of a campaign, before anything is measured.

What belongs here: drawing run effects, the noise of seconds and the rates of errors from a campaign's description.
Nothing here depends on how it is measured: `evidence` adds the noise of finitely many requests to it, and
`run_directories` draws the requests themselves.

Each metric has a stream of random numbers of its own, so that describing one more metric changes nothing in the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from perf_pipeline.gates.evidence import DISTRIBUTIONS, ERROR_RATES, METRICS, PERCENTILES, FloatArray
from perf_pipeline.simulation.campaign import Campaign, Incident, RunKey
from perf_pipeline.simulation.run_effects import RunEffects, Seconds, Shift, draw, draw_seconds
from perf_pipeline.simulation.scenario import Scenario
from perf_pipeline.simulation.shapes import Shape, tail_curve

_NO_CHANGE = Shift()


@dataclass(frozen=True)
class LatencyTruth:
    """One latency metric in the n runs that have it: ln latency = level + stretch x g(z) + tail x h(z) + second.

    z is a request's normal score, g the curve of the scenario's shape, h the tail curve.
    """

    rows: NDArray[np.int64]
    """(n,) numbers of these runs."""
    shapes: tuple[Shape, ...]
    """n shapes."""
    level: FloatArray
    """(n,) ln ms of the median."""
    stretch: FloatArray
    """(n,) around the median; 1 is the shape as it is described."""
    tail: FloatArray
    """(n,) at p99."""
    seconds: FloatArray
    """(n, T) what is added in each second of the hold; (n, 1) of zeros where nothing ever is."""
    bucket_ratio: FloatArray
    """(n,) upper / lower edge of the buckets that it is read from."""

    def of(self, row: int) -> "LatencyTruth":
        """The same for one run, by its number."""
        at = int(np.flatnonzero(self.rows == row)[0])
        only = slice(at, at + 1)
        return LatencyTruth(
            self.rows[only], self.shapes[only], self.level[only], self.stretch[only], self.tail[only],
            self.seconds[only], self.bucket_ratio[only],
        )  # fmt: skip

    def log_latency(self, scores: FloatArray) -> FloatArray:
        """(n, ...) ln ms at (n, ...) normal scores, without what seconds add."""
        curves = np.empty_like(scores)
        for shape in dict.fromkeys(self.shapes):
            mine = np.array([one == shape for one in self.shapes])
            curves[mine] = shape.curve(scores[mine])
        level, stretch, tail = (
            values.reshape(-1, *(1,) * (scores.ndim - 1)) for values in (self.level, self.stretch, self.tail)
        )
        logs = level + stretch * curves
        return logs + tail * tail_curve(scores) if self.tail.any() else logs


@dataclass(frozen=True)
class MemoryTruth:
    """Memory in the n runs that have it."""

    rows: NDArray[np.int64]
    log_bytes: FloatArray
    """(n, T) one value for each second of the hold."""


@dataclass(frozen=True)
class ErrorTruth:
    """One error rate in the n runs that have it."""

    rows: NDArray[np.int64]
    rates: FloatArray
    """(n,) expected errors per request of each run."""


@dataclass(frozen=True)
class Truth:
    """What is so in each of the R runs of a campaign."""

    campaign: Campaign
    seed: int
    scenarios: tuple[Scenario, ...]
    """R scenarios, of which runs share."""
    runs: tuple[RunKey, ...]
    requests: NDArray[np.int64]
    """(R,) requests that were started in the hold."""
    latencies: Mapping[str, LatencyTruth]
    memory: MemoryTruth
    errors: Mapping[str, ErrorTruth]
    noise: Mapping[tuple[str, str], float]
    """By scenario and metric: the factor by which its run effects were multiplied."""

    def incident(self, row: int) -> Incident:
        """What befell a run."""
        return self.campaign.incident(self.runs[row])


def draw_truth(campaign: Campaign, seed: int) -> Truth:
    """Draw what is so in each run; the same campaign and seed give the same truth."""
    described = list(campaign.runs())
    scenarios, runs = zip(*described, strict=True)
    noise: dict[tuple[str, str], float] = {}
    latencies = {
        metric: _draw_latency(campaign, scenarios, runs, metric, generator(seed, metric), noise)
        for metric in DISTRIBUTIONS
        if any(metric in scenario.latencies for scenario in campaign.scenarios)
    }
    started = [scenario.rate_per_s * campaign.hold_s * campaign.incident(run).load_share for scenario, run in described]
    return Truth(
        campaign=campaign,
        seed=seed,
        scenarios=scenarios,
        runs=runs,
        requests=np.rint(started).astype(np.int64),
        latencies=latencies,
        memory=_draw_memory(campaign, scenarios, runs, generator(seed, "service_memory"), noise),
        errors={
            metric: _draw_errors(campaign, scenarios, runs, metric, generator(seed, metric))
            for metric in ERROR_RATES
            if any(metric in scenario.errors for scenario in campaign.scenarios)
        },
        noise=noise,
    )


def generator(seed: int, metric: str, measured: bool = False) -> np.random.Generator:
    """The random numbers of one metric: of its truth, or of its measurement."""
    return np.random.default_rng([seed, METRICS.index(metric), int(measured)])


def log_change(scenario: Scenario, metric: str) -> FloatArray:
    """(P,) what the candidate changed in ln latency at PERCENTILES; (1,) of a number."""
    if metric == "service_p99":
        return log_change(scenario, "service_latency")[[PERCENTILES.index(99.0)]]
    change = scenario.changes.get(metric, _NO_CHANGE)
    if metric == "service_memory":
        return np.array([change.level])
    scores = ndtri(np.array(PERCENTILES) / 100)
    return (
        change.level + change.spread * scenario.latencies[metric].shape.curve(scores) + change.tail * tail_curve(scores)
    )


def _draw_latency(
    campaign: Campaign,
    scenarios: Sequence[Scenario],
    runs: Sequence[RunKey],
    metric: str,
    rng: np.random.Generator,
    noise: dict[tuple[str, str], float],
) -> LatencyTruth:
    rows = np.array([row for row, scenario in enumerate(scenarios) if metric in scenario.latencies])
    mine = [scenarios[row] for row in rows]
    described = [scenario.latencies[metric] for scenario in mine]
    keys = [runs[row] for row in rows]
    effects = _draw_effects(campaign, metric, mine, keys, [one.effects for one in described], rng, noise)
    shifts = [
        (
            scenario.changes.get(metric, _NO_CHANGE) if key.version == campaign.candidate else _NO_CHANGE,
            campaign.incident(key).shifts.get(metric, _NO_CHANGE),
        )
        for scenario, key in zip(mine, keys, strict=True)
    ]
    level, spread, tail = (
        effects[part] + np.array([getattr(change, part) + getattr(incident, part) for change, incident in shifts])
        for part in ("level", "spread", "tail")
    )
    return LatencyTruth(
        rows=rows,
        shapes=tuple(one.shape for one in described),
        level=np.log([one.median_ms for one in described]) + level,
        stretch=1 + spread,
        tail=tail,
        seconds=_draw_levels(campaign, metric, keys, [one.seconds for one in described], rng),
        bucket_ratio=np.array([one.bucket_ratio for one in described]),
    )


def _draw_memory(
    campaign: Campaign,
    scenarios: Sequence[Scenario],
    runs: Sequence[RunKey],
    rng: np.random.Generator,
    noise: dict[tuple[str, str], float],
) -> MemoryTruth:
    metric = "service_memory"
    described = {row: scenario.memory for row, scenario in enumerate(scenarios) if scenario.memory}
    if not described:
        return MemoryTruth(np.empty(0, dtype=np.int64), np.empty((0, campaign.hold_s)))
    rows, memories = list(described), list(described.values())
    mine, keys = [scenarios[row] for row in rows], [runs[row] for row in rows]
    effects = _draw_effects(campaign, metric, mine, keys, [one.effects for one in memories], rng, noise)
    changed = [
        campaign.incident(key).shifts.get(metric, _NO_CHANGE).level
        + (scenario.changes.get(metric, _NO_CHANGE).level if key.version == campaign.candidate else 0.0)
        for scenario, key in zip(mine, keys, strict=True)
    ]
    level = np.log([one.level_bytes for one in memories]) + effects["level"] + np.array(changed)
    seconds = _draw_levels(campaign, metric, keys, [one.seconds for one in memories], rng)
    return MemoryTruth(np.array(rows), np.broadcast_to(level[:, None] + seconds, (len(rows), campaign.hold_s)))


def _draw_errors(
    campaign: Campaign, scenarios: Sequence[Scenario], runs: Sequence[RunKey], metric: str, rng: np.random.Generator
) -> ErrorTruth:
    rows = [row for row, scenario in enumerate(scenarios) if metric in scenario.errors]
    described = [scenarios[row].errors[metric] for row in rows]
    rates = np.array([one.rate for one in described])
    rates += [
        scenarios[row].rate_changes.get(metric, 0.0) if runs[row].version == campaign.candidate else 0.0 for row in rows
    ]
    variance = np.array([one.variance for one in described])
    shape = 1 / np.where(variance > 0, variance, 1.0)
    factor = np.where(variance > 0, rng.gamma(shape) / shape, 1.0)
    return ErrorTruth(np.array(rows), np.clip(rates * factor, 0.0, 1.0))


def _draw_effects(
    campaign: Campaign,
    metric: str,
    scenarios: Sequence[Scenario],
    runs: Sequence[RunKey],
    effects: Sequence[RunEffects],
    rng: np.random.Generator,
    noise: dict[tuple[str, str], float],
) -> dict[str, FloatArray]:
    """(n,) level, spread and tail of n runs: what each has of its own, and what the runs of a block share."""
    names = list(dict.fromkeys(scenario.name for scenario in scenarios))
    spread = campaign.differing_noise
    factors = np.exp(spread * rng.standard_normal(len(names)) - spread**2 / 2)
    noise.update({(name, metric): float(factor) for name, factor in zip(names, factors, strict=True)})
    number = {name: position for position, name in enumerate(names)}
    scenario_of = np.array([number[scenario.name] for scenario in scenarios])
    block_of = np.array([run.repeat - 1 for run in runs])
    drawn = {part: np.zeros(len(runs)) for part in ("level", "spread", "tail")}
    for law in dict.fromkeys(one.law for one in effects):
        mine = np.array([one.law == law for one in effects])
        own = draw(rng, law, (3, len(runs)))
        shared = draw(rng, law, (len(names), campaign.repeats))[scenario_of, block_of]
        for values, part in zip(own, drawn, strict=True):
            drawn[part] += np.where(mine, values * [getattr(one, part) for one in effects], 0.0)
        drawn["level"] += np.where(mine, shared * [one.block for one in effects], 0.0)
    return {part: values * factors[scenario_of] for part, values in drawn.items()}


def _draw_levels(
    campaign: Campaign, metric: str, runs: Sequence[RunKey], seconds: Sequence[Seconds], rng: np.random.Generator
) -> FloatArray:
    """(n, T) what each second of n runs adds to ln level: noise, drift, steps; (n, 1) of zeros where nothing does."""
    incidents = [campaign.incident(run) for run in runs]
    moving = any(metric in incident.drifts or metric in incident.steps for incident in incidents)
    if not moving and not any(one.sd for one in seconds):
        return np.zeros((len(runs), 1))
    levels = np.zeros((len(runs), campaign.hold_s))
    for kind in dict.fromkeys(seconds):
        mine = np.array([one == kind for one in seconds])
        levels[mine] = draw_seconds(rng, kind, int(mine.sum()), campaign.hold_s)
    times_s = np.arange(campaign.hold_s) + 0.5
    for row, incident in enumerate(incidents):
        if metric in incident.drifts:
            levels[row] += incident.drifts[metric] / 240 * (times_s - campaign.hold_s / 2)
        if metric in incident.steps:
            step = incident.steps[metric]
            levels[row] += np.where(times_s > step.at_share * campaign.hold_s, step.size, 0.0)
    return levels

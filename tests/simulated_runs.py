"""Runs with a known truth, as the gates take them in. Shared by the tests of the gates.

A latency is log-normal. A run shifts its level and stretches its spread; within the run, quantiles carry the noise of
finitely many requests (a Brownian bridge divided by the density), and levels by sub-window carry AR(1) noise.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import yaml
from scipy.special import ndtri

from perf_pipeline.files import project_file
from perf_pipeline.gates.evidence import (
    DISTRIBUTIONS,
    METRICS,
    PERCENTILES,
    SHAPE_POINTS,
    ClockOffset,
    ErrorSample,
    LatencySample,
    Missing,
    NumberSample,
    RunEvidence,
    Sample,
)
from perf_pipeline.gates.policy import Policy

SUB_WINDOW_S = 10.0
ENVIRONMENT = {"cpu_model": "model A", "kernel": "6.1", "k6": "1.1.0"}

_SHAPE = (np.arange(SHAPE_POINTS) + 0.5) / SHAPE_POINTS
_AT = np.array(PERCENTILES) / 100
_GRID = np.unique(np.concatenate((_SHAPE, _AT)))
_SHAPE_INDEX, _AT_INDEX = np.searchsorted(_GRID, _SHAPE), np.searchsorted(_GRID, _AT)
_Z = ndtri(_GRID)
_DENSITY = np.exp(-(_Z**2) / 2) / np.sqrt(2 * np.pi)


@cache
def _policy_text(name: str) -> str:
    """The policy as JSON, which is read a hundred times faster than YAML."""
    path = project_file("perf_pipeline") / "gates" / "policies" / f"{name}.yaml"
    return json.dumps(yaml.safe_load(path.read_text(encoding="utf-8")))


def policy(name: str = "default", **changes: object) -> Policy:
    """A built-in policy; `change__noise_floor=0.002` changes one limit of it."""
    data = json.loads(_policy_text(name))
    for dotted, value in changes.items():
        *sections, key = dotted.split("__")
        place = data
        for section in sections:
            place = place[section]
        if key not in place:
            raise KeyError(dotted)
        place[key] = value
    return Policy.model_validate(data)


def latency(
    rng: np.random.Generator,
    *,
    median_ms: float = 12.0,
    sigma: float = 0.4,
    run_cv: float = 0.02,
    shift: float = 0.0,
    requests: int = 20_000,
    sub_windows: int = 24,
    sub_window_s: float = SUB_WINDOW_S,
    drift_per_240_s: float = 0.0,
    bucket_width: float = 0.005,
) -> LatencySample:
    """One run's latency. `shift` is a ratio of every percentile; `run_cv` the standard deviation between runs."""
    level = np.log(median_ms) + np.log1p(shift) + run_cv * rng.standard_normal()
    spread = sigma * (1 + run_cv * rng.standard_normal())

    def quantiles(count: float) -> np.ndarray:
        steps = rng.standard_normal(len(_GRID) + 1) * np.sqrt(np.diff(np.concatenate(([0.0], _GRID, [1.0]))))
        walk = np.cumsum(steps)
        bridge = walk[:-1] - _GRID * walk[-1]
        return level + spread * (_Z + bridge / np.sqrt(count) / _DENSITY)

    whole = quantiles(requests)
    halves = [quantiles(requests / 2)[_SHAPE_INDEX] for _ in range(4)]
    times = (np.arange(sub_windows) + 0.5) * sub_window_s
    noise = 0.003 * rng.standard_normal(sub_windows)
    return LatencySample(
        requests=float(requests),
        log_quantiles=whole[_AT_INDEX],
        log_bucket_width=np.full(len(PERCENTILES), bucket_width),
        shape=whole[_SHAPE_INDEX],
        half_shapes=np.stack(halves[:2]),
        alternate_shapes=np.stack(halves[2:]),
        levels=level + noise + np.log1p(drift_per_240_s) / 240 * (times - times.mean()),
        sub_window_s=sub_window_s,
    )


def number(
    rng: np.random.Generator,
    mean: float,
    *,
    run_cv: float = 0.02,
    shift: float = 0.0,
    sub_windows: int = 24,
    drift_per_240_s: float = 0.0,
) -> NumberSample:
    """One run's number, such as memory in bytes."""
    value = mean * (1 + shift) * np.exp(run_cv * rng.standard_normal())
    times = (np.arange(sub_windows) + 0.5) * SUB_WINDOW_S
    trend = np.log1p(drift_per_240_s) / 240 * (times - times.mean())
    return NumberSample(float(value), value * np.exp(trend + 0.002 * rng.standard_normal(sub_windows)), SUB_WINDOW_S)


def run(
    rng: np.random.Generator,
    version: str,
    scenario: str,
    repeat: int,
    *,
    shifts: Mapping[str, float] | None = None,
    run_cv: float = 0.02,
    error_rate: float = 0.0,
) -> RunEvidence:
    """A run of every metric but `graphql_error_rate`, which is absent; `shifts` are ratios by metric."""
    by = dict.fromkeys(METRICS, 0.0) | dict(shifts or {})
    metrics: dict[str, Sample] = {
        metric: latency(rng, median_ms=median_ms, run_cv=run_cv, shift=by[metric])
        for metric, median_ms in zip(DISTRIBUTIONS, (12.0, 9.0, 5.0), strict=True)
    }
    metrics["service_p99"] = number(rng, 30.0, run_cv=run_cv, shift=by["service_p99"])
    metrics["service_memory"] = number(rng, 2e8, run_cv=run_cv / 2, shift=by["service_memory"])
    errors = int(rng.poisson(20_000 * (error_rate + by["http_error_rate"])))
    metrics["http_error_rate"] = ErrorSample(errors, 20_000)
    metrics["graphql_error_rate"] = Missing("the plan names no source", absent=True)
    return RunEvidence(
        run_id=f"{version}-{scenario}-r{repeat:02d}",
        version=version,
        scenario=scenario,
        repeat=repeat,
        block=repeat,
        failure=None,
        hold_s=240.0,
        target_rate_per_s=100.0,
        achieved_rate_per_s=99.9,
        dropped_iterations=0,
        throttled_share=0.0,
        environment=ENVIRONMENT,
        metrics=metrics,
        series_density=dict.fromkeys((*DISTRIBUTIONS, "service_p99", "service_memory"), 1.0),
        counter_resets={"service": 0, "upstream": 0},
        clock_offset=ClockOffset(0.0, -0.05, 0.05),
        service_digest=f"digest of {version}",
    )


def campaign(
    seed: int = 1,
    *,
    scenarios: Iterable[str] = ("browse", "search"),
    repeats: int = 5,
    shifts: Mapping[str, float] | None = None,
    run_cv: float = 0.02,
    error_rate: float = 0.0,
) -> list[RunEvidence]:
    """The runs of 1.0 and 1.1 in every scenario; `shifts` are what 1.1 changed, as ratios by metric."""
    rng = np.random.default_rng(seed)
    return [
        run(
            rng,
            version,
            scenario,
            repeat,
            shifts=shifts if version == "1.1" else None,
            run_cv=run_cv,
            error_rate=error_rate,
        )
        for scenario in scenarios
        for version in ("1.0", "1.1")
        for repeat in range(1, repeats + 1)
    ]


def with_metric(evidence: RunEvidence, metric: str, sample: Sample) -> RunEvidence:
    """The run with one of its samples replaced."""
    return replace(evidence, metrics={**evidence.metrics, metric: sample})

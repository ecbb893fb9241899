"""From what is so in each run to what the gates take in, without making a single request.

What belongs here: the noise of measuring. The empirical quantile at p of n independent requests is the curve of ln
latency at the normal score z + B(p) / (sqrt(n) phi(z)), with B a Brownian bridge (Csorgo and Revesz 1978): the bridge
is what uniform order statistics do, and only the curve bends, which it does exactly. Two hundred normal numbers so
stand for a hundred thousand requests, and a campaign of 500 runs takes a fraction of a second. Tests hold this against
`run_directories`, where requests are drawn one by one.

What is left out: requests that a restart or another clock hides, because Gate 1 loses what they would distort; levels
over time carry sampling noise of their own, not that of the quantiles; and histograms are read as if the requests in a
bucket lay where they are, not spread evenly over it.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from perf_pipeline.gates.evidence import (
    METRICS,
    PERCENTILES,
    SHAPE_POINTS,
    ClockOffset,
    ErrorSample,
    FloatArray,
    LatencySample,
    Missing,
    NumberSample,
    RunEvidence,
    Sample,
)
from perf_pipeline.metrics.measured_run import LONG_HOLD_S
from perf_pipeline.simulation.campaign import Campaign
from perf_pipeline.simulation.shapes import Shape, moments
from perf_pipeline.simulation.truth import LatencyTruth, Truth, draw_truth, generator

FROM_SERIES = ("service_latency", "service_p99", "service_memory", "upstream_latency")
"""Metrics that are scraped rather than seen by k6."""

_OF_SERVICE = {"service_latency", "service_p99"}
"""Of these, what counters of the service tell."""

_SHAPE_SHARES = (np.arange(SHAPE_POINTS) + 0.5) / SHAPE_POINTS
_SHARES = np.unique(np.concatenate((_SHAPE_SHARES, np.array(PERCENTILES) / 100)))
_AT_SHAPE = np.searchsorted(_SHARES, _SHAPE_SHARES)
_AT_PERCENTILES = np.searchsorted(_SHARES, np.array(PERCENTILES) / 100)
_SCORES = ndtri(_SHARES)
_DENSITY = np.exp(-(_SCORES**2) / 2) / np.sqrt(2 * np.pi)
_P99 = PERCENTILES.index(99.0)


def simulate(campaign: Campaign, seed: int, with_levels: bool = True) -> list[RunEvidence]:
    """What the gates are given of a campaign, in the order of `Campaign.runs`; the same seed gives the same runs.

    Without levels by sub-window nobody can ask for drift, and judging takes a quarter of the time.
    """
    return evidence(draw_truth(campaign, seed), with_levels)


def evidence(truth: Truth, with_levels: bool = True) -> list[RunEvidence]:
    """What the gates are given of runs in which this is so."""
    sub_window_s = 10 if truth.campaign.hold_s >= LONG_HOLD_S else 1
    window_of = np.arange(truth.campaign.hold_s) // sub_window_s
    samples: list[dict[str, Sample]] = [{} for _ in truth.runs]
    answered = truth.requests.copy()
    for metric, errors in truth.errors.items():
        # GraphQL errors are looked for in answers, so the order of the metrics matters: http_error_rate comes first.
        counts = generator(truth.seed, metric, measured=True).binomial(answered[errors.rows], errors.rates)
        for row, count in zip(errors.rows, counts, strict=True):
            samples[row][metric] = ErrorSample(int(count), int(answered[row]))
        if metric == "http_error_rate":
            answered[errors.rows] -= counts
    for metric, latency in truth.latencies.items():
        rng = generator(truth.seed, metric, measured=True)
        measured = _measure_latency(rng, latency, answered[latency.rows], window_of, with_levels)
        for row, found in zip(latency.rows, measured, strict=True):
            samples[row] |= {metric: found[0]} | ({"service_p99": found[1]} if metric == "service_latency" else {})
    for row, memory in zip(truth.memory.rows, _measure_memory(truth, with_levels), strict=True):
        samples[row]["service_memory"] = memory
    return [_run_evidence(truth, row, found) for row, found in enumerate(samples)]


def _measure_latency(
    rng: np.random.Generator,
    truth: LatencyTruth,
    requests: NDArray[np.int64],
    window_of: NDArray[np.int64],
    with_levels: bool,
) -> Iterator[tuple[LatencySample, NumberSample]]:
    """The distribution of each run, and its 99th percentile as a number."""
    windows, seconds = int(window_of[-1]) + 1, np.arange(len(window_of))
    # The four kinds of seconds: of the first or second half, even or odd. All parts of a run that the gates compare are
    # made of them, so that their noise adds up to that of the whole.
    kind = 2 * (window_of >= (windows + 1) // 2) + seconds % 2
    share = np.bincount(kind, minlength=4) / len(seconds)
    noise = _bridges(rng, requests, share)
    parts = [_part(truth, noise, share, np.isin(kind, kinds), kinds) for kinds in _PARTS]
    whole, first, second, even, odds = (
        part if at is None else part[:, at] for part, at in zip(parts, (None, *[_AT_SHAPE] * 4), strict=True)
    )
    levels, p99_levels = (np.full((len(requests), number), np.nan) for number in (len(seconds), windows))
    if with_levels:
        levels, p99_levels = _levels(rng, truth, requests, window_of)
    for row in range(len(requests)):
        log_quantiles, width = whole[row, _AT_PERCENTILES], float(np.log(truth.bucket_ratio[row]))
        yield (
            LatencySample(
                requests=float(requests[row]),
                log_quantiles=log_quantiles,
                log_bucket_width=np.full(len(PERCENTILES), width),
                shape=whole[row, _AT_SHAPE],
                half_shapes=np.stack((first[row], second[row])),
                alternate_shapes=np.stack((even[row], odds[row])),
                levels=levels[row],
                sub_window_s=1.0,
            ),
            NumberSample(float(np.exp(log_quantiles[_P99])), p99_levels[row], len(seconds) / windows, width),
        )


_PARTS: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3), (0, 1), (2, 3), (0, 2), (1, 3))
"""The kinds of seconds in a whole hold, its first and second half, its even and odd seconds."""


def _bridges(rng: np.random.Generator, requests: NDArray[np.int64], share: FloatArray) -> FloatArray:
    """(n, 4, G) noise of normal scores in each kind of seconds of n runs; 0 where a hold has none of a kind."""
    steps = rng.standard_normal((len(requests), len(share), len(_SHARES) + 1))
    steps *= np.sqrt(np.diff(_SHARES, prepend=0.0, append=1.0))
    walk = np.cumsum(steps, axis=2)
    bridge = walk[..., :-1] - walk[..., -1:] * _SHARES
    counts = np.maximum(requests[:, None] * share, 1.0)
    return np.where(share > 0, 1 / np.sqrt(counts), 0.0)[..., None] * (bridge / _DENSITY)


def _part(
    truth: LatencyTruth, noise: FloatArray, share: FloatArray, seconds: NDArray[np.bool_], kinds: Sequence[int]
) -> FloatArray:
    """(n, G) ln quantiles of the seconds of some kinds; nan where there are none."""
    weight = share[list(kinds)]
    if not weight.sum():
        return np.full((len(noise), len(_SHARES)), np.nan)
    mixed = np.einsum("k,nkg->ng", weight / weight.sum(), noise[:, list(kinds)])
    logs = truth.log_latency(_SCORES + mixed)
    if truth.seconds.shape[1] == 1:
        return logs
    levels = truth.seconds[:, seconds]
    return logs + levels.mean(axis=1)[:, None] + levels.var(axis=1)[:, None] * _broadening(truth.shapes)


def _broadening(shapes: Sequence[Shape]) -> FloatArray:
    """(n, G) by how much each ln quantile moves per variance of the level over time.

    A mixture of the same density f at levels of variance v has the distribution F + v f' / 2 to second order, so that
    its quantiles move by -(v / 2) f' / f.
    """
    each = {}
    for shape in dict.fromkeys(shapes):
        slope = shape.slope(_SCORES)
        each[shape] = (_SCORES + shape.bend(_SCORES) / slope) / slope / 2
    return np.stack([each[shape] for shape in shapes])


def _levels(
    rng: np.random.Generator, truth: LatencyTruth, requests: NDArray[np.int64], window_of: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """(n, T) mean ln ms of each second, and (n, W) the 99th percentile of each sub-window in ms."""
    moment = np.array([moments(shape) for shape in truth.shapes]).T[..., None]
    curve_mean, tail_mean, curve_variance, tail_variance, covariance = moment
    stretch, tail = truth.stretch[:, None], truth.tail[:, None]
    mean = truth.level[:, None] + stretch * curve_mean + tail * tail_mean
    variance = stretch**2 * curve_variance + 2 * stretch * tail * covariance + tail**2 * tail_variance
    per_second = np.maximum(requests / len(window_of), 1.0)[:, None]
    noise = np.sqrt(variance / per_second) * rng.standard_normal((len(requests), len(window_of)))
    in_window = np.bincount(window_of)
    at_p99 = np.sqrt(0.99 * 0.01 / (per_second * in_window)) / _DENSITY[_AT_PERCENTILES[_P99]]
    scores = _SCORES[_AT_PERCENTILES[_P99]] + at_p99 * rng.standard_normal((len(requests), len(in_window)))
    p99 = np.exp(truth.log_latency(scores) + _window_means(truth.seconds, window_of))
    return mean + truth.seconds + noise, p99


def _window_means(seconds: FloatArray, window_of: NDArray[np.int64]) -> FloatArray:
    """(n, W) means of (n, T) seconds over sub-windows; (n, 1) of zeros stay as they are."""
    if seconds.shape[1] == 1:
        return seconds
    starts = np.flatnonzero(np.diff(window_of, prepend=-1))
    return np.add.reduceat(seconds, starts, axis=1) / np.bincount(window_of)


def _measure_memory(truth: Truth, with_levels: bool) -> Iterator[NumberSample]:
    """Memory as `metrics` reads it: the median of the last third of the hold, and the value of each second."""
    values = np.exp(truth.memory.log_bytes)
    levels = values if with_levels else np.full(values.shape, np.nan)
    late = np.arange(truth.campaign.hold_s) + 0.5 >= truth.campaign.hold_s * 2 / 3
    for row, value in enumerate(np.median(values[:, late], axis=1)):
        yield NumberSample(float(value), levels[row], 1.0)


def _run_evidence(truth: Truth, row: int, samples: Mapping[str, Sample]) -> RunEvidence:
    campaign, scenario, run = truth.campaign, truth.scenarios[row], truth.runs[row]
    incident, requests = truth.incident(row), int(truth.requests[row])
    restarted = incident.restart_at_share is not None
    errors = samples.get("http_error_rate")
    failed = errors.errors if isinstance(errors, ErrorSample) else 0
    absent = Missing("the plan names no source for it", absent=True)
    metrics = {metric: samples.get(metric, absent) for metric in METRICS}
    if incident.failure:
        metrics = dict.fromkeys(METRICS, Missing(f"the run did not finish: {incident.failure}"))
    elif restarted:
        metrics |= dict.fromkeys(_OF_SERVICE & samples.keys(), Missing("the counters of its process went back"))
    density = {metric: incident.scrape_share for metric in FROM_SERIES if metric in samples}
    if "client_latency" in samples:
        density["client_latency"] = min(1.0, requests / campaign.hold_s)
    return RunEvidence(
        run_id=run.run_id,
        version=run.version,
        scenario=run.scenario,
        repeat=run.repeat,
        block=run.repeat,
        failure=incident.failure,
        hold_s=float(campaign.hold_s),
        target_rate_per_s=scenario.rate_per_s,
        achieved_rate_per_s=None if incident.failure else requests / campaign.hold_s,
        dropped_iterations=None if incident.failure else round(scenario.rate_per_s * campaign.hold_s) - requests,
        failed_share=None if incident.failure else failed / requests,
        throttled_share=None if incident.failure or restarted else campaign.throttled(run),
        environment=campaign.environment_of(run),
        metrics=metrics,
        series_density={} if incident.failure else density,
        design=campaign.design,
        arm=run.arm,
        counter_resets={} if incident.failure else {"service": int(restarted), "upstream": 0},
        clock_offset=None if incident.failure or restarted else _around(incident.clock_offset_s),
        service_digest=campaign.build_of(run),
    )


def _around(offset_s: float) -> ClockOffset:
    """The offset of a clock, as scrapes a second apart tell it."""
    return ClockOffset(offset_s, offset_s - 1.0, offset_s + 1.0)

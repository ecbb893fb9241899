"""What runs that are not judged say about noise: earlier campaigns of a plan, or a pilot.

What belongs here: how much runs of one version and scenario vary, over all versions of a campaign. What Gate 3 makes of
it is in `moderation`, what a plan can expect from it in `power`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from perf_pipeline.gates.against_itself import AA_ARM
from perf_pipeline.gates.change import scenarios_of
from perf_pipeline.gates.environment import compare_environments
from perf_pipeline.gates.error_rates import rate, rate_difference
from perf_pipeline.gates.evidence import (
    ERROR_RATES,
    METRICS,
    ErrorSample,
    FloatArray,
    LatencySample,
    NumberSample,
    RunEvidence,
)
from perf_pipeline.gates.intervals import simultaneous_tail
from perf_pipeline.gates.log_change import samples_of
from perf_pipeline.gates.moderation import Spread, spread_of
from perf_pipeline.gates.paired import Side, designed_in_pairs, pairs
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.power import ErrorNoise, Noise, NoiseKey
from perf_pipeline.gates.run_validity import check_runs
from perf_pipeline.gates.samples import usable_samples


def earlier_spreads(earlier: Sequence[Sequence[RunEvidence]], policy: Policy) -> dict[str, list[Spread]]:
    """By metric, how much the runs that Gate 1 lets through varied in each scenario of each earlier campaign."""
    spreads: dict[str, list[Spread]] = {}
    for number, runs in enumerate(earlier if policy.change.moderation.enabled else (), start=1):
        for _, metric, samples, floor in _samples(runs, policy):
            spreads.setdefault(metric, []).append(replace(spread_of(samples, floor), earlier=number))
    return spreads


def noise_of(runs: Sequence[RunEvidence], policy: Policy) -> dict[NoiseKey, Noise | ErrorNoise]:
    """By scenario and metric, the noise that the runs of a campaign show, whatever their versions: for `power`."""
    tail = (1 - policy.change.confidence) / 2
    noise: dict[NoiseKey, Noise | ErrorNoise] = {}
    for scenario, metric, samples, floor in _samples(runs, policy):
        spread = spread_of(samples, floor)
        # A difference of two runs varies twice as much as one.
        sd = np.sqrt(spread.variance / (2 if len(samples) == 1 else 1))
        noise[scenario, metric] = Noise(sd, simultaneous_tail(samples, tail) / tail)
    for scenario, metric, sides, _ in _sides(runs, policy):
        if metric in ERROR_RATES:
            rates = [rate([sample for _, sample in side if isinstance(sample, ErrorSample)]) for side in sides]
            errors, requests = (sum(getattr(one, of) for one in rates) for of in ("errors", "requests"))
            scatter = max(rate_difference(one, one, policy.change.confidence).dispersion for one in rates)
            number = sum(one.runs for one in rates)
            noise[scenario, metric] = ErrorNoise(errors / requests, requests / number, scatter)
    return noise


def _samples(
    runs: Sequence[RunEvidence], policy: Policy
) -> Iterator[tuple[str, str, tuple[FloatArray, ...], FloatArray]]:
    """Scenario, metric, the samples of logs that its runs make, and their noise floor."""
    for scenario, metric, sides, paired in _sides(runs, policy):
        if metric not in ERROR_RATES:
            logs = [[one for _, one in side if isinstance(one, LatencySample | NumberSample)] for side in sides]
            yield scenario, metric, *samples_of(metric, logs, policy, paired)


def _sides(runs: Sequence[RunEvidence], policy: Policy) -> Iterator[tuple[str, str, Sequence[Side], bool]]:
    """Scenario, metric, the usable runs of every version that has two or more, and whether they come in pairs.

    Where the design asks for pairs they are those of the first two versions.
    """
    runs = sorted((run for run in runs if run.arm != AA_ARM), key=lambda run: run.run_id)
    versions = sorted({run.version for run in runs})
    if not versions:
        return
    environments = compare_environments(runs, versions[0], versions[-1], policy.run_validity.environment.ignored_keys)
    usable = usable_samples(runs, check_runs(runs, environments, policy))
    for scenario, members in scenarios_of(runs).items():
        for metric in METRICS:
            sides: Sequence[Side] = [usable.get((version, scenario, metric), ()) for version in versions]
            sides = [side for side in sides if len(side) > 1]
            paired = designed_in_pairs(members, policy) and len(sides) > 1 and metric not in ERROR_RATES
            if paired:
                sides = pairs(sides[0], sides[1], {run.run_id: run.block for run in members})
            if sides and min(map(len, sides)) > 1:
                yield scenario, metric, sides, paired

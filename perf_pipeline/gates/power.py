"""What a campaign can see before it is run: from the noise between runs that is known of it.

What belongs here: from noise and repeats to the smallest change that would be found, the chance that nothing changed is
called equivalent, and the repeats that would take. Where noise comes from is in `past`.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.special import fdtri, gammaincinv, ndtr, stdtrit

from perf_pipeline.gates.error_rates import Rate, rate_difference
from perf_pipeline.gates.evidence import Design, FloatArray
from perf_pipeline.gates.intervals import Difference
from perf_pipeline.gates.looks import tail_at
from perf_pipeline.gates.moderation import Prior, Spread, fit_prior
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.sensitivity import smallest_detectable, smallest_detectable_rate

NoiseKey: TypeAlias = tuple[str, str]
"""scenario, metric"""

_KNOWN_DF = 1e6
"""Degrees of freedom of a variance that is taken as known."""
_LUCK = 256
"""Equally likely values that an estimated variance is averaged over."""


@dataclass(frozen=True)
class Noise:
    """How much runs of one version differ in a distribution or a number."""

    sd: FloatArray
    """(P,) standard deviation between runs, in logs: 0.02 is a coefficient of variation of 2 %."""
    band_share: float = 1.0
    """Tail of the band that holds for all P statistics, as a share of that of one interval: 1 if they move together."""


@dataclass(frozen=True)
class ErrorNoise:
    """How errors occur in the runs of one version."""

    rate: float
    """Errors per request."""
    requests: float
    """Of one run."""
    dispersion: float = 1.0
    """Variance of the counts as a multiple of the Poisson variance."""


@dataclass(frozen=True)
class Sight:
    """What one comparison of a planned campaign can see."""

    scenario: str
    metric: str
    smallest_detectable: float | None
    """The worsening that is called a regression with the policy's power: a ratio, of error rates a share; None if none
    can be."""
    equivalent_chance: float
    """Probability that it ends as equivalent when nothing changed."""
    repeats_needed: int | None
    """The fewest repeats per version that bring that chance up to the policy's power; None beyond the most it names."""


def what_can_be_seen(
    noise: Mapping[NoiseKey, Noise | ErrorNoise], repeats: int, policy: Policy, design: Design | None = None
) -> tuple[Sight, ...]:
    """What each comparison of a campaign with so many repeats per version can see, in the order of `noise`.

    The noise is taken as known and as what it will be. Where several looks are designed, this is what the last of them
    sees, and needs, at its tail. The chance of "equivalent" is that of the noisiest percentile: the others rarely stray
    without it.
    """
    design = design or Design()
    tail = (1 - policy.change.confidence) / 2
    if len(design.looks) > 1:
        tail = tail_at(design.looks[-1], design.looks, policy.change.looks.spending, tail)
    share = (1 - policy.change.campaign_confidence) / (1 - policy.change.confidence) / max(len(noise), 1)
    priors = _priors(noise, policy)
    return tuple(
        _rate_sight(key, one, repeats, policy, tail, share)
        if isinstance(one, ErrorNoise)
        else _log_sight(key, one, repeats, policy, tail, share, priors.get(key[1]), design.paired)
        for key, one in noise.items()
    )


def _priors(noise: Mapping[NoiseKey, Noise | ErrorNoise], policy: Policy) -> dict[str, tuple[Prior, int]]:
    """By metric, how much noise differs between its scenarios, and how many these are, where there are enough."""
    limits = policy.change.moderation
    spreads: dict[str, list[Spread]] = {}
    for (_, metric), one in noise.items():
        if isinstance(one, Noise):
            spreads.setdefault(metric, []).append(Spread(one.sd**2, _KNOWN_DF))
    return {
        metric: (fit_prior(some), len(some))
        for metric, some in spreads.items()
        if limits.enabled and len(some) >= limits.min_scenarios
    }


def _log_sight(
    key: NoiseKey,
    noise: Noise,
    repeats: int,
    policy: Policy,
    tail: float,
    share: float,
    prior: tuple[Prior, int] | None,
    paired: bool,
) -> Sight:
    scenario, metric = key
    edge = math.log1p(policy.change.zone[metric])
    sd = np.maximum(noise.sd, math.log1p(policy.change.noise_floor))
    joint = tail * noise.band_share

    def planned(runs: int) -> tuple[Difference, Prior | None]:
        """The difference that so many repeats would make, before the other scenarios lend it anything."""
        sizes = (runs,) if paired else (runs, runs)
        variances = tuple(sd**2 * (2 / len(sizes)) for _ in sizes)
        zero = np.zeros_like(sd)
        bare = Difference(zero, variances, sizes, np.zeros(sd.shape, dtype=bool), zero)
        if prior is None:
            return bare, None
        typical, scenarios = prior
        most = float(scenarios * sum(size - 1 for size in sizes))
        return bare, Prior(typical.variance * (2 / len(sizes)), min(typical.df, most), most)

    def chance(runs: int) -> float:
        return _chance_of_equivalent(*planned(runs), edge, tail, policy.change.moderation.guard_quantile)

    bare, lent = planned(repeats)
    expected = bare if lent is None else replace(bare, prior_df=np.full_like(sd, lent.df), most_df=lent.most_df)
    detectable = smallest_detectable(expected, edge, joint, joint * share, np.zeros_like(sd), policy.change.power)
    seen = math.expm1(detectable) if detectable < 700 else None
    return Sight(scenario, metric, seen, chance(repeats), _fewest(chance, policy))


def _chance_of_equivalent(
    difference: Difference, prior: Prior | None, edge: float, tail: float, guard_quantile: float
) -> float:
    """The probability that the interval of a difference that is 0 lies inside the zone, at the noisiest statistic.

    Averaged over what the variance may be estimated as: its own estimate is chi-square, and the prior adds what it is
    worth, with the same guard as in `moderation`.
    """
    df = float(sum(size - 1 for size in difference.sizes))
    scale = sum(1 / size for size in difference.sizes)
    true = difference.common_variance
    luck = 2 * gammaincinv(df / 2, (np.arange(_LUCK) + 0.5) / _LUCK) / df
    own = true * luck[:, None]
    reach = stdtrit(df, 1 - tail) * np.sqrt(own * scale)
    if prior is not None:
        shrunk = (prior.df * prior.variance + df * own) / (prior.df + df)
        lent = stdtrit(min(df + prior.df, max(prior.most_df, df)), 1 - tail) * np.sqrt(shrunk * scale)
        alone = (own > prior.variance * fdtri(df, prior.df, guard_quantile)) & (reach > lent)
        reach = np.where(alone, reach, lent)
    inside = np.maximum(2 * ndtr((edge - reach) / np.sqrt(true * scale)) - 1, 0.0)
    return float(inside.mean(axis=0).min())


def _rate_sight(key: NoiseKey, noise: ErrorNoise, repeats: int, policy: Policy, tail: float, share: float) -> Sight:
    scenario, metric = key
    zone = policy.change.zone[metric]

    def side(runs: int) -> Rate:
        df = runs - 1 if noise.rate else 0
        requests = noise.requests * runs
        return Rate(noise.rate * requests, requests, runs, noise.dispersion * df, df)

    def chance(runs: int) -> float:
        found = rate_difference(side(runs), side(runs), 1 - 2 * tail)
        room = zone - found.high
        error = math.sqrt(2 * noise.dispersion * noise.rate / side(runs).requests)
        return float(room > 0) if error == 0 else max(0.0, float(2 * ndtr(room / error) - 1))

    planned = side(repeats)
    found = rate_difference(planned, planned, 1 - 2 * tail)
    detectable = max(
        smallest_detectable_rate(planned, planned, found, edge, one, policy.change.power)
        for edge, one in ((zone, tail), (0.0, tail * share))
    )
    return Sight(scenario, metric, detectable, chance(repeats), _fewest(chance, policy))


def _fewest(chance: Callable[[int], float], policy: Policy) -> int | None:
    """The fewest repeats that bring the chance up to the policy's power; more repeats never lower it."""
    candidates = range(policy.change.min_runs_per_side, policy.change.max_repeats_named + 1)
    position = bisect_left(candidates, True, key=lambda runs: chance(runs) >= policy.change.power)
    return candidates[position] if position < len(candidates) else None

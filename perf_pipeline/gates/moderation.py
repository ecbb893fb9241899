"""Variance moderation: what the noise of the other scenarios says about the noise of one.

What belongs here: the prior that the variances of one metric over the scenarios of a campaign make (empirical Bayes,
Smyth 2004), and what it does to a difference. Five runs a side know a variance to within a factor of two or three; tens
of scenarios of the same metric know together how large it usually is, and how much it differs between scenarios.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import digamma, fdtri, polygamma

from perf_pipeline.gates.evidence import FloatArray
from perf_pipeline.gates.intervals import Difference


@dataclass(frozen=True)
class Spread:
    """How much the runs of one scenario vary in P statistics of a metric."""

    variance: FloatArray
    """(P,) of one run, in logs squared, positive."""
    df: float
    earlier: int = 0
    """Which earlier campaign it is of, from 1; 0 for the one that is judged."""


LEVEL_FROM = 8
"""As many scenarios of the campaign that is judged tell by themselves how large its noise is."""


@dataclass(frozen=True)
class Prior:
    """What the scenarios of a metric say about a variance before its runs are looked at."""

    variance: FloatArray
    """(P,) the typical variance of one run, in logs squared."""
    df: float
    """What that is worth in degrees of freedom, in one scenario: the more alike the scenarios are, the more."""
    most_df: float
    """As many as the runs of all scenarios that it rests on have together."""


def spread_of(samples: Sequence[FloatArray], noise_floor: FloatArray) -> Spread:
    """The spread of the runs of a scenario: (n, P) logs of each side, or of differences of pairs; n >= 2 each.

    Sides weigh by 1 / n, as in the standard error of their difference: where the side with fewer runs is the noisier
    one, a variance pooled by degrees of freedom hardly sees it, and a prior made of such would be several times smaller
    than the `common_variance` that it moderates. With equal n both ways of pooling are the same.
    """
    sizes = [len(sample) for sample in samples]
    variance = sum(sample.var(axis=0, ddof=1) / len(sample) for sample in samples) / sum(1 / size for size in sizes)
    return Spread(np.maximum(variance, noise_floor**2 * (2 if len(samples) == 1 else 1)), _pooled_df(sizes))


def fit_prior(spreads: Sequence[Spread]) -> Prior:
    """The prior of a metric from at least two scenarios (fitFDist of limma: Smyth 2004, section 6.2).

    If a scenario's variance has degrees of freedom d and is drawn from s0^2 d0 / chi-square(d0), the logs of the
    estimated variances have a mean that knows s0 and a variance of trigamma(d / 2) + trigamma(d0 / 2). What the spread
    of the logs exceeds trigamma(d / 2) by is averaged over the P statistics, so that a metric has one d0.

    From `LEVEL_FROM` scenarios of the campaign that is judged on, s0 rests on them alone: a lab that was quieter in an
    earlier campaign must not shorten the intervals of this one. What earlier ones then lend is d0, how much scenarios
    differ from each other within a campaign. With fewer, all are taken as if they were of one campaign.
    """
    campaigns = np.array([spread.earlier for spread in spreads])
    if (campaigns == 0).sum() < LEVEL_FROM:
        campaigns = np.zeros_like(campaigns)
    logs = np.log([spread.variance for spread in spreads])
    halves = np.array([[spread.df / 2] for spread in spreads])
    centred = logs - digamma(halves) + np.log(halves)
    of_campaign = [campaigns == one for one in np.unique(campaigns)]
    # What its own mean takes out of the scatter of a campaign, chance takes out too.
    squares = sum(((centred[own] - centred[own].mean(axis=0)) ** 2).sum(axis=0) for own in of_campaign)
    chance = sum(float(polygamma(1, halves[own]).mean()) * (own.sum() - 1) for own in of_campaign)
    differing = float((squares - chance).mean()) / (len(spreads) - len(of_campaign))
    now = campaigns == 0
    most = float(2 * halves[now].sum())
    mean = centred[now].mean(axis=0)
    if differing <= 0:
        return Prior(np.exp(mean), most, most)
    df = 2 * _trigamma_inverse(differing)
    return Prior(np.exp(mean + digamma(df / 2) - np.log(df / 2)), min(df, most), most)


def moderate(difference: Difference, prior: Prior, guard_quantile: float, tail: float) -> Difference:
    """The difference with variances drawn towards the prior, each by what it knows itself.

    A scenario that is truly noisier than the others must not borrow their calm: where its variance exceeds what chance
    explains (the `guard_quantile` of F), and its own interval at `tail` is the wider one, its own stands. A noise floor
    is never undercut.
    """
    own = difference.common_variance
    shrunk = (prior.df * prior.variance + difference.own_df * own) / (prior.df + difference.own_df)
    factor = np.where(difference.floored, np.maximum(shrunk, own), shrunk) / own
    moderated = replace(
        difference,
        variances=tuple(variance * factor for variance in difference.variances),
        prior_df=np.full_like(own, prior.df),
        most_df=prior.most_df,
    )
    noisier = own > prior.variance * fdtri(_pooled_df(difference.sizes), prior.df, guard_quantile)
    alone = noisier & (difference.reach(tail) > moderated.reach(tail))
    return replace(
        moderated,
        variances=tuple(variance * np.where(alone, 1.0, factor) for variance in difference.variances),
        prior_df=np.where(alone, 0.0, prior.df),
    )


def _pooled_df(sizes: Sequence[int]) -> float:
    """The degrees of freedom of variances that are pooled by 1 / n, where they are alike (Satterthwaite 1946)."""
    return sum(1 / size for size in sizes) ** 2 / sum(1 / (size**2 * (size - 1)) for size in sizes)


def _trigamma_inverse(value: float) -> float:
    """The x > 0 with trigamma(x) = value > 0 (Newton's method, Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step < 1e-10 * x:
            break
    return x

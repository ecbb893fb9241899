"""The rules of other systems, for the same runs.

What belongs here: what each of them would say of one latency metric of one scenario: is there a change? Each rule is
written after its published source, without filters and scores around it, and is given the kind of values that its users
feed it. The true split between baseline and candidate is told to those that would otherwise search for it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from scipy.special import ndtri, stdtr
from scipy.stats import mannwhitneyu

from perf_pipeline.gates.evidence import SHAPE_POINTS, FloatArray, LatencySample

Side: TypeAlias = Sequence[LatencySample]
CallsAChange: TypeAlias = Callable[[Side, Side, np.random.Generator], bool]

RESAMPLES = 1000
POINT_S = 10.0
"""Between two points of a series that Kayenta is given."""
_MEDIAN = SHAPE_POINTS // 2


def kayenta(baseline: Side, candidate: Side, _: np.random.Generator) -> bool:
    """Kayenta's metric classification (spinnaker/kayenta, MannWhitneyClassifier and NetflixACAJudge).

    Asymptotic 98 % Mann-Whitney interval of the shift between the points of two series, with continuity correction: a
    metric is High or Low when the interval lies beyond a quarter of the Hodges-Lehmann estimate. The points are levels
    over 10 s, of all repeats in a row.
    """
    control, experiment = (np.exp(np.concatenate([_points(one) for one in side])) for side in (baseline, candidate))
    shifts = np.sort(np.subtract.outer(experiment, control), axis=None)
    pairs = len(shifts)
    reach = ndtri(0.99) * np.sqrt(pairs * (len(control) + len(experiment) + 1) / 12) + 0.5
    low, high = (shifts[int(np.clip(pairs / 2 + sign * reach, 0, pairs - 1))] for sign in (-1, 1))
    beyond = 0.25 * abs(float(np.median(shifts)))
    return bool(low > beyond or high < -beyond)


def benchstat(baseline: Side, candidate: Side, _: np.random.Generator) -> bool:
    """Go's benchstat (golang/perf, benchmath AssumeNothing): exact Mann-Whitney test at 5 % on one value a run."""
    return bool(mannwhitneyu(_medians(baseline), _medians(candidate), method="exact").pvalue < 0.05)


def otava(baseline: Side, candidate: Side, _: np.random.Generator) -> bool:
    """Apache Otava's significance test (apache/otava, TTestSignificanceTester and its defaults): t test, p < 0.001.

    Student's, with standard deviations that are divided by n, as the source computes them; no least magnitude.
    """
    left, right = _medians(baseline), _medians(candidate)
    n, m = len(left), len(right)
    df = n + m - 2
    pooled = ((n - 1) * left.var() + (m - 1) * right.var()) / df
    t = abs(right.mean() - left.mean()) / np.sqrt(pooled * (1 / n + 1 / m))
    return bool(2 * stdtr(df, -t) < 0.001)


def pooled_requests(baseline: Side, candidate: Side, _: np.random.Generator) -> bool:
    """The Mann-Whitney test at 5 % over all requests of all runs, as load-test scripts do.

    The probability that a request of the candidate is slower is read from the shapes of the runs, the variance is that
    of so many independent requests.
    """
    shapes = [np.sort(np.concatenate([one.shape for one in side])) for side in (baseline, candidate)]
    requests = [sum(one.requests for one in side) for side in (baseline, candidate)]
    slower = float(np.searchsorted(shapes[0], shapes[1]).mean()) / len(shapes[0])
    deviation = np.sqrt((requests[0] + requests[1] + 1) / (12 * requests[0] * requests[1]))
    return bool(abs(slower - 0.5) > ndtri(0.975) * deviation)


def percentile_bootstrap(baseline: Side, candidate: Side, rng: np.random.Generator) -> bool:
    """The 95 % percentile bootstrap of the difference of mean log medians, resampling runs (Efron 1979)."""
    means = []
    for side in (baseline, candidate):
        medians = np.log(_medians(side))
        means.append(medians[rng.integers(0, len(medians), (RESAMPLES, len(medians)))].mean(axis=1))
    low, high = np.quantile(means[1] - means[0], [0.025, 0.975])
    return bool(low > 0 or high < 0)


PEERS: Mapping[str, CallsAChange] = {
    "Kayenta, Mann-Whitney rule": kayenta,
    "benchstat, Mann-Whitney on runs": benchstat,
    "Otava, t rule": otava,
    "Mann-Whitney over pooled requests": pooled_requests,
    "percentile bootstrap over runs": percentile_bootstrap,
}
"""By name, in the order of the table."""


def _points(one: LatencySample) -> FloatArray:
    """(W,) mean ln latency of each 10 s."""
    levels = round(POINT_S / one.sub_window_s)
    return one.levels[: len(one.levels) // levels * levels].reshape(-1, levels).mean(axis=1)


def _medians(side: Side) -> FloatArray:
    """(n,) median latency of each run in ms."""
    return np.array([np.exp(one.shape[_MEDIAN - 1 : _MEDIAN + 1].mean()) for one in side])

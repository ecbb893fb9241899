"""Gate 2: do the repeats agree?

What belongs here: how far the repeats of one version, scenario and metric lie apart, and whether that is too far. A
repeat that stands apart is named, never dropped. What runs are repeats of each other is decided by Gate 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.special import gammaincinv

from perf_pipeline.gates import wording
from perf_pipeline.gates.error_rates import pearson_residuals
from perf_pipeline.gates.evidence import (
    DISTRIBUTIONS,
    ERROR_RATES,
    ErrorSample,
    FloatArray,
    LatencySample,
    NumberSample,
    Sample,
)
from perf_pipeline.gates.findings import Agreement, AgreementStatus
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.samples import SampleKey, UsableSamples

WASSERSTEIN = "log Wasserstein distance"
CV = "coefficient of variation"
DISPERSION = "dispersion of counts"

HALVES_TO_WHOLES = 0.71
"""Distance of two whole runs as a multiple of that of two halves of one, when nothing but sampling tells them apart:
1 / sqrt(2), because a half holds half of the requests."""

_LARGEST_CV_NAMED = 10.0

OneSample = TypeVar("OneSample", LatencySample, NumberSample, ErrorSample)


@dataclass(frozen=True)
class _Spread:
    """How far repeats lie apart, against how far they may."""

    value: float
    limit: float
    without: FloatArray
    """(n,) the spread of the others without each repeat, which names the most influential one; empty if none is."""
    influence: Callable[[int], str]
    """What a repeat does to the spread, in words."""
    message: str
    within: float | None = None


def check_agreement(usable: UsableSamples, keys: Sequence[SampleKey], policy: Policy) -> tuple[Agreement, ...]:
    """Check the repeats of each version, scenario and metric in `keys`; those without a usable run have 0 repeats."""
    return tuple(_agreement(key, usable.get(key, ()), policy) for key in keys)


def _agreement(key: SampleKey, repeats: Sequence[tuple[str, Sample]], policy: Policy) -> Agreement:
    version, scenario, metric = key
    samples = [sample for _, sample in repeats]
    statistic = WASSERSTEIN if metric in DISTRIBUTIONS else DISPERSION if metric in ERROR_RATES else CV
    if len(samples) < 2:
        message = f"{wording.counted(len(samples), 'repeat')} cannot agree or disagree"
        return Agreement(
            version, scenario, metric, "too few to say", statistic, None, None, len(samples), None, None, message
        )
    if statistic == WASSERSTEIN:
        status, spread = _distributions(metric, _of(LatencySample, samples), policy)
    elif statistic == CV:
        status, spread = _numbers(metric, _of(NumberSample, samples), policy)
    else:
        status, spread = _error_rates(metric, _of(ErrorSample, samples), policy)
    influential, message = _most_influential(spread), spread.message
    if influential is not None:
        message = f"{message}; {repeats[influential][0]} stands furthest from the others{spread.influence(influential)}"
    return Agreement(
        version, scenario, metric, status, statistic, spread.value, spread.limit, len(samples), spread.within,
        None if influential is None else repeats[influential][0], message,
    )  # fmt: skip


def _distributions(metric: str, samples: Sequence[LatencySample], policy: Policy) -> tuple[AgreementStatus, _Spread]:
    """Typical distance between repeats against that between parts of one run: mean |difference of ln quantiles|."""
    limits = policy.repeat_agreement
    shapes = np.stack([sample.shape for sample in samples])
    distances = np.abs(shapes[:, None, :] - shapes[None, :, :]).mean(axis=2)
    between, deviation = _median_pair(distances), _deviation(distances)
    halves = _typical_distance([sample.half_shapes for sample in samples])
    seconds = _typical_distance([sample.alternate_shapes for sample in samples])
    within = seconds if halves is None else halves
    explained = HALVES_TO_WHOLES * limits.ratio_limit * (within or 0.0)
    limit = float(max(explained, np.log1p(policy.agreement_floor(metric))))
    low, high = _spread_factors(len(samples) - 1, limits.confidence)
    message = f"repeats typically lie {_percent(between)} apart (limit {_percent(limit)}; {_parts(halves, seconds)})"
    status: AgreementStatus = "agree"
    if between > limit and limits.carried_cv is None:
        # Where parts of a run are not known, nothing says how far apart noise alone would put repeats.
        status = "disagree" if between * low > limit and within is not None else "too few to say"
    elif between > limit and limits.carried_cv is not None:
        lower, upper = _cv(deviation * low), _cv(deviation * high)
        status = _three_answers(lower, upper, limits.carried_cv)
        message = (
            f"{message}; that is a spread of {wording.share(_cv(deviation))} between runs, with confidence "
            f"{_bounds(lower, upper)}, of which the interval of a change carries {wording.share(limits.carried_cv)}"
        )
    return status, _Spread(
        float(np.expm1(between)),
        float(np.expm1(limit)),
        _deviations_without(distances),
        lambda number: _influence(distances, number, _percent(_median_pair(_without(distances, number)))),
        message,
        None if within is None else float(np.expm1(within)),
    )


def _numbers(metric: str, samples: Sequence[NumberSample], policy: Policy) -> tuple[AgreementStatus, _Spread]:
    """Coefficient of variation of positive numbers, from the spread of their logs, with its confidence limits."""
    limits = policy.repeat_agreement
    logs = np.log([sample.value for sample in samples])
    spread = float(logs.std(ddof=1))
    low, high = _spread_factors(len(samples) - 1, limits.confidence)
    value, lower, upper = (_cv(spread * factor) for factor in (1.0, low, high))
    message = (
        f"{metric} varies by {wording.share(value)} between repeats "
        f"(with confidence {_bounds(lower, upper)}; limit {wording.share(limits.max_cv)})"
    )
    distances = np.abs(logs[:, None] - logs[None, :])
    without = _deviations_without(distances)
    return _three_answers(lower, upper, limits.max_cv), _Spread(
        value,
        limits.max_cv,
        without,
        lambda number: _influence(distances, number, wording.share(_cv(without[number]))),
        message,
    )


def _error_rates(metric: str, samples: Sequence[ErrorSample], policy: Policy) -> tuple[AgreementStatus, _Spread]:
    """Pearson chi-square per degree of freedom of the counts, against the limit or a quarter of the absolute zone."""
    limits = policy.repeat_agreement
    errors = np.array([float(sample.errors) for sample in samples])
    requests = np.array([float(sample.requests) for sample in samples])
    value = _dispersion(errors, requests)
    number = range(len(samples)) if len(samples) > 2 else ()
    without = np.array([_dispersion(np.delete(errors, i), np.delete(requests, i)) for i in number])
    highest, zone = float((errors / requests).max()), policy.change.zone[metric]
    if highest < zone:
        message = f"every rate is below the zone ({wording.share(highest)} at most)"
        return "agree", _Spread(value, limits.max_dispersion, np.empty(0), str, message)
    # The variance of a rate is dispersion x rate / requests: the dispersion at which it reaches the floor's square.
    harmless = policy.agreement_floor(metric) ** 2 * float(requests.mean()) / (errors.sum() / requests.sum())
    limit = max(limits.max_dispersion, harmless)
    low, _ = _spread_factors(len(samples) - 1, limits.confidence)
    status: AgreementStatus = "agree"
    if value > limit:
        status = "disagree" if value * low**2 > limit else "too few to say"
    message = f"error counts scatter with {value:.3g} times the variance of chance (limit {limit:.3g})"
    return status, _Spread(value, limit, without, lambda number: f"; without it {without[number]:.3g} times", message)


def _of(kind: type[OneSample], samples: Sequence[Sample]) -> list[OneSample]:
    """The samples of one kind: Gate 1 has left out those of another."""
    return [sample for sample in samples if isinstance(sample, kind)]


def _median_pair(distances: FloatArray) -> float:
    """Median of the distances of all pairs; a (n, n) symmetric matrix with n >= 2."""
    return float(np.median(distances[np.triu_indices(len(distances), k=1)]))


def _deviation(distances: FloatArray) -> float:
    """The standard deviation that (n, n) distances stand for: exactly that of n levels where nothing else differs."""
    runs = len(distances)
    return float(np.sqrt((distances**2).sum() / (2 * runs * (runs - 1))))


def _typical_distance(parts: Sequence[FloatArray]) -> float | None:
    """Median over runs of the distance between the (2, S) shapes of two parts of each; None where none has both."""
    distances = np.array([np.abs(one[0] - one[1]).mean() for one in parts])
    known = distances[np.isfinite(distances)]
    return float(np.median(known)) if len(known) else None


def _without(distances: FloatArray, number: int) -> FloatArray:
    """The (n - 1, n - 1) distances of the others."""
    return np.delete(np.delete(distances, number, axis=0), number, axis=1)


def _deviations_without(distances: FloatArray) -> FloatArray:
    """(n,) standard deviations of the others without each repeat; empty for two, which are equally far."""
    number = range(len(distances) if len(distances) > 2 else 0)
    return np.array([_deviation(_without(distances, one)) for one in number])


def _most_influential(spread: _Spread) -> int | None:
    """Which repeat the spread falls most without; None of two, and where all are equal."""
    return int(spread.without.argmin()) if len(spread.without) and spread.without.max() > 0 else None


def _influence(distances: FloatArray, number: int, left: str) -> str:
    """How far away a repeat is, typically, and what is left without it."""
    return f", {_percent(float(np.median(np.delete(distances[number], number))))} away; without it {left}"


def _three_answers(lower: float, upper: float, limit: float) -> AgreementStatus:
    return "agree" if upper <= limit else "disagree" if lower > limit else "too few to say"


def _spread_factors(df: int, confidence: float) -> tuple[float, float]:
    """Factors from a standard deviation of normal values to its one-sided lower and upper limits (chi-square)."""
    low, high = (float(np.sqrt(df / (2 * gammaincinv(df / 2, level)))) for level in (confidence, 1 - confidence))
    return low, high


def _dispersion(errors: FloatArray, requests: FloatArray) -> float:
    """Pearson chi-square per degree of freedom."""
    return float((pearson_residuals(errors, requests) ** 2).sum()) / (len(errors) - 1)


def _cv(log_spread: float) -> float:
    """Coefficient of variation of log-normal values with this standard deviation of logs."""
    return float(np.sqrt(np.expm1(min(log_spread, 25.0) ** 2)))


def _bounds(lower: float, upper: float) -> str:
    # Two or three repeats bound a spread from below only: an upper limit of thousands of percent says nothing.
    if upper > _LARGEST_CV_NAMED:
        return f"at least {wording.share(lower)}"
    return f"between {wording.share(lower)} and {wording.share(upper)}"


def _parts(halves: float | None, seconds: float | None) -> str:
    """How far apart parts of one run lie: movement inside runs sets halves apart, and odd and even seconds little."""
    if halves is None and seconds is None:
        return "how far apart parts of one run lie is not known"
    known = (("halves", halves), ("odd and even seconds", seconds))
    return f"of one run {', '.join(f'{name} {_percent(value)}' for name, value in known if value is not None)}"


def _percent(log_distance: float) -> str:
    return wording.share(float(np.expm1(log_distance)))

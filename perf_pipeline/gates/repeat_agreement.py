"""Gate 2: do the repeats agree?

What belongs here: how far the repeats of one version, scenario and metric lie apart, and whether that is too far. A
repeat that stands apart is named, never dropped. What runs are repeats of each other is decided by Gate 1.
"""

from collections.abc import Sequence
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
    furthest: int | None
    """Which repeat stands furthest from the others."""
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
    furthest = repeats[spread.furthest][0] if spread.furthest is not None else None
    message = spread.message if furthest is None else f"{spread.message}; {furthest} stands furthest from the others"
    return Agreement(
        version, scenario, metric, status, statistic, spread.value, spread.limit, len(samples), spread.within,
        furthest, message,
    )  # fmt: skip


def _distributions(metric: str, samples: Sequence[LatencySample], policy: Policy) -> tuple[AgreementStatus, _Spread]:
    """Typical distance between repeats against that between halves of a run: mean |difference of ln quantiles|."""
    limits = policy.repeat_agreement
    shapes = np.stack([sample.shape for sample in samples])
    distances = np.abs(shapes[:, None, :] - shapes[None, :, :]).mean(axis=2)
    between = _median_pair(distances)
    halves = np.array([np.abs(sample.half_shapes[0] - sample.half_shapes[1]).mean() for sample in samples])
    known = halves[np.isfinite(halves)]
    within = float(np.median(known)) if len(known) else None
    floor = np.log1p(policy.agreement_floor(metric))
    limit = float(max(HALVES_TO_WHOLES * limits.ratio_limit * (within or 0.0), floor))
    status: AgreementStatus = "agree"
    if between > limit:
        low, _ = _spread_factors(len(samples) - 1, limits.confidence)
        # Where halves of a run are not known, nothing says how far apart noise alone would put repeats.
        status = "disagree" if between * low > limit and within is not None else "too few to say"
    furthest = _furthest(distances.sum(axis=1))
    message = f"repeats typically lie {_percent(between)} apart (limit {_percent(limit)})"
    if within is None:
        message = f"{message}; how far apart halves of one run lie is not known"
    if furthest is not None:
        rest = np.delete(np.delete(distances, furthest, axis=0), furthest, axis=1)
        message = f"{message}, without the furthest {_percent(_median_pair(rest))}"
    return status, _Spread(
        float(np.expm1(between)),
        float(np.expm1(limit)),
        furthest,
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
    status: AgreementStatus = "too few to say"
    if upper <= limits.max_cv:
        status = "agree"
    elif lower > limits.max_cv:
        status = "disagree"
    # Two or three repeats bound a spread from below only: an upper limit of thousands of percent says nothing.
    bounds = f"between {wording.share(lower)} and {wording.share(upper)}"
    if upper > _LARGEST_CV_NAMED:
        bounds = f"at least {wording.share(lower)}"
    message = (
        f"{metric} varies by {wording.share(value)} between repeats "
        f"(with confidence {bounds}; limit {wording.share(limits.max_cv)})"
    )
    others = np.array([abs(log - np.median(np.delete(logs, i))) for i, log in enumerate(logs)])
    return status, _Spread(value, limits.max_cv, _furthest(others), message)


def _error_rates(metric: str, samples: Sequence[ErrorSample], policy: Policy) -> tuple[AgreementStatus, _Spread]:
    """Pearson chi-square per degree of freedom of the counts, against the limit or a quarter of the absolute zone."""
    limits = policy.repeat_agreement
    errors = np.array([float(sample.errors) for sample in samples])
    requests = np.array([float(sample.requests) for sample in samples])
    residuals = pearson_residuals(errors, requests)
    df = len(samples) - 1
    value = float((residuals**2).sum()) / df
    highest = float((errors / requests).max())
    zone = policy.change.zone[metric]
    if highest < zone:
        message = f"every rate is below the zone ({wording.share(highest)} at most)"
        return "agree", _Spread(value, limits.max_dispersion, None, message)
    # The variance of a rate is dispersion x rate / requests: the dispersion at which it reaches the floor's square.
    harmless = policy.agreement_floor(metric) ** 2 * float(requests.mean()) / (errors.sum() / requests.sum())
    limit = max(limits.max_dispersion, harmless)
    low, _ = _spread_factors(df, limits.confidence)
    status: AgreementStatus = "agree"
    if value > limit:
        status = "disagree" if value * low**2 > limit else "too few to say"
    message = f"error counts scatter with {value:.3g} times the variance of chance (limit {limit:.3g})"
    return status, _Spread(value, limit, _furthest(np.abs(residuals)), message)


def _of(kind: type[OneSample], samples: Sequence[Sample]) -> list[OneSample]:
    """The samples of one kind: Gate 1 has left out those of another."""
    return [sample for sample in samples if isinstance(sample, kind)]


def _median_pair(distances: FloatArray) -> float:
    """Median of the distances of all pairs; a (n, n) symmetric matrix with n >= 2."""
    return float(np.median(distances[np.triu_indices(len(distances), k=1)]))


def _furthest(distance: FloatArray) -> int | None:
    """Which of the repeats stands furthest; None of two, which are equally far, and none where all are equal."""
    return int(distance.argmax()) if len(distance) > 2 and distance.max() > 0 else None


def _spread_factors(df: int, confidence: float) -> tuple[float, float]:
    """Factors from a standard deviation of normal values to its one-sided lower and upper limits (chi-square)."""
    low, high = (float(np.sqrt(df / (2 * gammaincinv(df / 2, level)))) for level in (confidence, 1 - confidence))
    return low, high


def _cv(log_spread: float) -> float:
    """Coefficient of variation of log-normal values with this standard deviation of logs."""
    return float(np.sqrt(np.expm1(min(log_spread, 25.0) ** 2)))


def _percent(log_distance: float) -> str:
    return wording.share(float(np.expm1(log_distance)))

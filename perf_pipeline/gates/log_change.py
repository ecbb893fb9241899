"""Gate 3 for distributions and single numbers: differences of logs against a zone of ratios.

What belongs here: the verdict of one latency distribution or one positive number in one scenario. The unit is the run,
never the request. Intervals and bands are in `intervals`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perf_pipeline.gates import wording
from perf_pipeline.gates.comparison import Comparison, not_comparable, outlook, unit
from perf_pipeline.gates.evidence import DISTRIBUTIONS, PERCENTILES, FloatArray, LatencySample, NumberSample
from perf_pipeline.gates.findings import PercentileChange, Verdict, VerdictName
from perf_pipeline.gates.intervals import Difference, difference, simultaneous_tail
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.sensitivity import fewest_repeats, smallest_detectable


@dataclass(frozen=True)
class _Judged:
    """The P statistics of a metric, each with its interval and its band in logs, against the zone [-edge, edge]."""

    difference: Difference
    low: FloatArray
    high: FloatArray
    band_low: FloatArray
    band_high: FloatArray
    edge: float
    resolved: NDArray[np.bool_]
    """(P,) False where histogram buckets are wider than the zone."""

    @property
    def protrusion(self) -> FloatArray:
        """(P,) how far each pointwise interval reaches out of the zone; negative inside it."""
        return np.maximum(self.high, -self.low) - self.edge

    @property
    def open(self) -> NDArray[np.bool_]:
        """(P,) where more repeats could bring an answer and have not yet."""
        return (self.protrusion >= 0) & self.resolved

    @property
    def worse(self) -> NDArray[np.bool_]:
        """(P,) where the simultaneous band lies wholly above the zone."""
        return self.band_low > self.edge

    @property
    def better(self) -> NDArray[np.bool_]:
        """(P,) where the simultaneous band lies wholly below the zone."""
        return self.band_high < -self.edge

    @property
    def name(self) -> VerdictName:
        """Inside everywhere, point by point, or wholly beyond somewhere, even in the simultaneous band."""
        if self.worse.any():
            return "regression"
        if self.better.any():
            return "improvement"
        return "equivalent" if (self.protrusion < 0).all() else "inconclusive"

    @property
    def deciding(self) -> int:
        """The statistic furthest beyond the zone, or the one that reaches out of it furthest, or most nearly."""
        if self.name == "regression":
            return int(self.band_low.argmax())
        if self.name == "improvement":
            return int(self.band_high.argmin())
        return int(
            np.where(self.open, self.protrusion, -np.inf).argmax() if self.open.any() else self.protrusion.argmax()
        )


def compare_logs(
    scenario: str,
    metric: str,
    baseline: Sequence[LatencySample | NumberSample],
    candidate: Sequence[LatencySample | NumberSample],
    policy: Policy,
) -> Comparison:
    """Compare one distribution at each percentile, or one number; each side has at least two runs of the same kind.

    A histogram does not say where in a bucket its requests were. Rounding to a bucket of width w leaves a standard
    deviation of w / sqrt(12) (Sheppard) that equal repeats cannot disprove. A bucket wider than the zone can hide a
    whole change: there the interval is widened by the buckets of both sides, so that it can lie beyond the zone but
    never inside it.
    """
    limits = policy.change
    (logs_b, widths_b), (logs_c, widths_c) = _logs(baseline), _logs(candidate)
    edge = math.log1p(limits.zone[metric])
    widths = np.maximum(widths_b, widths_c)
    resolved = widths <= edge
    noise_floor = np.maximum(np.where(resolved, widths, 0.0) / math.sqrt(12), math.log1p(limits.noise_floor))
    blur = np.where(resolved, 0.0, widths_b + widths_c)
    change = difference(logs_b, logs_c, noise_floor)
    single = (1 - limits.confidence) / 2
    joint = simultaneous_tail(logs_b, logs_c, noise_floor, limits.confidence)
    (low, high), (band_low, band_high) = change.limits(single), change.limits(joint)
    judged = _Judged(change, low - blur, high + blur, band_low - blur, band_high + blur, edge, resolved)
    if judged.name == "inconclusive" and not resolved.any():
        reason = f"{_unresolved(metric, judged)}: a change of {_zone(metric, judged)} cannot be seen in them"
        return not_comparable(scenario, metric, reason, (len(baseline), len(candidate)))
    repeats = None
    if judged.name == "inconclusive":
        repeats = _repeats_to_settle(judged, blur, single, joint, limits.max_repeats_named)
    detectable = smallest_detectable(change, edge, joint, blur, limits.power)
    values = np.exp(logs_b.mean(axis=0)), np.exp(logs_c.mean(axis=0))
    return Comparison(_verdict(scenario, metric, judged, values, detectable, repeats), change, resolved)


def _logs(samples: Sequence[LatencySample | NumberSample]) -> tuple[FloatArray, FloatArray]:
    """(n, P) logs of n runs, and (P,) the widest histogram bucket that each was read from, in logs."""
    values = [
        sample.log_quantiles if isinstance(sample, LatencySample) else np.array([math.log(sample.value)])
        for sample in samples
    ]
    widths = [np.atleast_1d(sample.log_bucket_width) for sample in samples]
    return np.stack(values), np.stack(widths).max(axis=0)


def _repeats_to_settle(judged: _Judged, blur: FloatArray, single: float, joint: float, most: int) -> int | None:
    change = judged.difference

    def settles(runs: int) -> bool:
        planned = replace(change, baseline_runs=runs, candidate_runs=runs)
        low, high = planned.limits(single)
        if ((low - blur > -judged.edge) & (high + blur < judged.edge)).all():
            return True
        band_low, band_high = planned.limits(joint)
        return bool(((band_low - blur > judged.edge) | (band_high + blur < -judged.edge)).any())

    return fewest_repeats(settles, change.baseline_runs, change.candidate_runs, most)


def _verdict(
    scenario: str,
    metric: str,
    judged: _Judged,
    values: tuple[FloatArray, FloatArray],
    detectable: float,
    repeats: int | None,
) -> Verdict:
    at, change, (values_b, values_c) = judged.deciding, judged.difference, values
    low, high = _shown(judged)
    percentiles = _percentiles(metric)
    return Verdict(
        scenario=scenario,
        metric=metric,
        verdict=judged.name,
        reason=_reason(metric, judged, repeats),
        estimate=_ratio(change.estimate[at]),
        low=_finite(_ratio(low[at])),
        high=_finite(_ratio(high[at])),
        zone_low=_ratio(-judged.edge),
        zone_high=_ratio(judged.edge),
        smallest_detectable=_finite(_ratio(detectable)),
        repeats_to_settle=repeats,
        deciding_percentile=percentiles[at],
        percentiles=tuple(
            PercentileChange(
                p=percentile,
                estimate=_ratio(change.estimate[i]),
                low=_ratio(judged.low[i]),
                high=_ratio(judged.high[i]),
                band_low=_ratio(judged.band_low[i]),
                band_high=_ratio(judged.band_high[i]),
                baseline_ms=float(values_b[i]),
                candidate_ms=float(values_c[i]),
            )
            for i, percentile in enumerate(percentiles)
            if percentile is not None and math.isfinite(_ratio(judged.band_high[i]))
        ),
        baseline_value=float(values_b[at]),
        candidate_value=float(values_c[at]),
        unit=unit(metric),
        baseline_repeats=change.baseline_runs,
        candidate_repeats=change.candidate_runs,
        df=float(change.df[at]),
    )


def _reason(metric: str, judged: _Judged, repeats: int | None) -> str:
    """Why the verdict is what it is: the deciding interval against the zone, in words."""
    at, zone, everywhere = judged.deciding, _zone(metric, judged), metric in DISTRIBUTIONS
    text = f"{_where(metric, at)}: {_found(metric, judged, at)}"
    if judged.difference.floored[at]:
        text = f"{text}; repeats agree to within what can be resolved, so that a noise floor stands in for their spread"
    match judged.name:
        case "equivalent":
            closest = " at every percentile, closest to its edge" if everywhere else ""
            return f"inside the zone of ±{zone}{closest}: {text}"
        case "inconclusive" if not judged.open.any():
            return (
                f"inside the zone of ±{zone} but for what cannot be seen: {_unresolved(metric, judged)}; "
                "finer buckets would settle it, more repeats would not"
            )
        case "inconclusive":
            over = _ratio(judged.high[at]) - _ratio(judged.edge)
            under = _ratio(-judged.edge) - _ratio(judged.low[at])
            crossed = "both edges" if min(over, under) >= 0 else "the edge"
            others = int(judged.open.sum()) - 1
            also = f", as do {wording.counted(others, 'percentile')} more" if others else ""
            return (
                f"{text} crosses {crossed} of the zone of ±{zone} by {wording.size(metric, max(over, under))}{also}; "
                f"{outlook(repeats)}"
            )
    beyond = judged.worse if judged.name == "regression" else judged.better
    text = f"{text}, wholly beyond the zone of ±{zone}"
    if everywhere:
        text = f"{text}, as at {int(beyond.sum())} of {len(beyond)} percentiles"
    if judged.worse.any() and judged.better.any():
        best = int(judged.band_high.argmin())
        text = f"{text}; at the same time {_where(metric, best)} improved: {_found(metric, judged, best)}"
    return text


def _shown(judged: _Judged) -> tuple[FloatArray, FloatArray]:
    """The limits that decide: the band for a change beyond the zone, the pointwise interval otherwise."""
    if judged.name in ("regression", "improvement"):
        return judged.band_low, judged.band_high
    return judged.low, judged.high


def _found(metric: str, judged: _Judged, at: int) -> str:
    """An estimate with the limits that decide: `+3.1 % (+1.0 % to +5.2 %)`."""
    low, high = _shown(judged)
    estimate = wording.change(metric, _ratio(judged.difference.estimate[at]))
    return f"{estimate} ({wording.interval(metric, _ratio(low[at]), _ratio(high[at]))})"


def _where(metric: str, at: int) -> str:
    return f"{metric}{wording.at_percentile(_percentiles(metric)[at])}"


def _zone(metric: str, judged: _Judged) -> str:
    return wording.size(metric, _ratio(judged.edge))


def _unresolved(metric: str, judged: _Judged) -> str:
    """Which histogram buckets are too wide, in words."""
    coarse = [wording.at_percentile(_percentiles(metric)[i]).strip() for i in np.flatnonzero(~judged.resolved)]
    everywhere = not judged.resolved.any()
    where = "" if everywhere else f" {wording.named(coarse)}"
    return f"histogram buckets of {metric} are wider than the zone{where}"


def _percentiles(metric: str) -> tuple[float | None, ...]:
    return PERCENTILES if metric in DISTRIBUTIONS else (None,)


def _ratio(log_change: float) -> float:
    """A log change as a ratio minus 1; inf where it is unbounded or too large for a number."""
    return math.expm1(log_change) if log_change < 700 else math.inf


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

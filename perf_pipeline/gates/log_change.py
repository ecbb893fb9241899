"""Gate 3 for distributions and single numbers: differences of logs against a zone of ratios.

What belongs here: the verdict of one latency distribution or one positive number in one scenario. The unit is the run,
never the request. Intervals and bands are in `intervals`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perf_pipeline.gates import wording
from perf_pipeline.gates.comparison import ALONE, FINER_BUCKETS, Comparison, Standing, not_comparable, outlook, unit
from perf_pipeline.gates.evidence import DISTRIBUTIONS, PERCENTILES, FloatArray, LatencySample, NumberSample
from perf_pipeline.gates.findings import PercentileChange, Verdict
from perf_pipeline.gates.intervals import difference, simultaneous_tail
from perf_pipeline.gates.moderation import Spread, moderate, spread_of
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.sensitivity import fewest_repeats, smallest_detectable
from perf_pipeline.gates.zone import Placement, place


@dataclass(frozen=True)
class Measured:
    """What the runs say about the P statistics of a metric, before other scenarios are asked."""

    samples: tuple[FloatArray, ...]
    """(n, P) logs of baseline and candidate, or the one sample of the differences of their pairs."""
    values: tuple[FloatArray, FloatArray]
    """(P,) geometric means of baseline and candidate."""
    runs: tuple[int, int]
    edge: float
    """The zone in logs is [-edge, edge]."""
    noise_floor: FloatArray
    """(P,) the smallest standard deviation of one run that is believed, in logs."""
    resolved: NDArray[np.bool_]
    """(P,) False where histogram buckets are wider than the zone."""
    blur: FloatArray
    """(P,) by how much buckets that are not resolved widen an interval on each side."""

    @property
    def spread(self) -> Spread:
        """How much the runs vary, for the prior of the metric."""
        return spread_of(self.samples, self.noise_floor)


def measure(
    metric: str,
    baseline: Sequence[LatencySample | NumberSample],
    candidate: Sequence[LatencySample | NumberSample],
    policy: Policy,
    paired: bool = False,
) -> Measured:
    """Measure one distribution at each percentile, or one number; each side has at least two runs of the same kind.

    A histogram does not say where in a bucket its requests were. Rounding to a bucket of width w leaves a standard
    deviation of w / sqrt(12) (Sheppard) that equal repeats cannot disprove. A bucket wider than the zone can hide a
    whole change: there the interval is widened by the buckets of both sides, so that it can lie beyond the zone but
    never inside it.
    """
    (logs_b, widths_b), (logs_c, widths_c) = _logs(baseline), _logs(candidate)
    samples, noise_floor = samples_of(metric, (baseline, candidate), policy, paired)
    edge = math.log1p(policy.change.zone[metric])
    resolved = np.maximum(widths_b, widths_c) <= edge
    return Measured(
        samples=samples,
        values=(np.exp(logs_b.mean(axis=0)), np.exp(logs_c.mean(axis=0))),
        runs=(len(logs_b), len(logs_c)),
        edge=edge,
        noise_floor=noise_floor,
        resolved=resolved,
        blur=np.where(resolved, 0.0, widths_b + widths_c),
    )


def samples_of(
    metric: str, sides: Sequence[Sequence[LatencySample | NumberSample]], policy: Policy, paired: bool
) -> tuple[tuple[FloatArray, ...], FloatArray]:
    """(n, P) logs of each side, or of the differences of the pairs that two sides make in the same order.

    Beside them the (P,) smallest standard deviation of one run that is believed: what rounding to the widest bucket
    leaves, or the policy's noise floor.
    """
    logs, widths = zip(*map(_logs, sides), strict=True)
    widest = np.max(widths, axis=0)
    rounding = np.where(widest <= math.log1p(policy.change.zone[metric]), widest, 0.0) / math.sqrt(12)
    floor = np.maximum(rounding, math.log1p(policy.change.noise_floor))
    return ((logs[1] - logs[0],) if paired else logs), floor


def compare_logs(
    scenario: str, metric: str, measured: Measured, policy: Policy, standing: Standing = ALONE
) -> Comparison:
    """The verdict on what was measured.

    Where noise is large against the zone, the zone no longer keeps chance out, and among the hundreds of comparisons of
    a campaign some interval lies beyond it although nothing changed. A change therefore also has to differ from 0 in a
    band that Bonferroni's rule widens for all comparisons. Where noise is small, that asks for nothing more than lying
    beyond the zone does.
    """
    limits, edge, blur, resolved = policy.change, measured.edge, measured.blur, measured.resolved
    single = standing.tail(limits)
    change = difference(measured.samples, measured.noise_floor)
    if standing.prior is not None:
        change = moderate(change, standing.prior, limits.moderation.guard_quantile, single)
    joint = simultaneous_tail(measured.samples, single, float(change.prior_df.min()))
    campaign = joint * standing.campaign_share(limits)
    tails = (single, joint, campaign)
    placed = place(change, blur, tails, edge, resolved)
    if placed.name == "inconclusive" and not resolved.any():
        reason = f"{_unresolved(metric, placed)}: a change of {_zone(metric, placed)} cannot be seen in them"
        return not_comparable(scenario, metric, reason, measured.runs)
    repeats = None
    if placed.name == "inconclusive":
        repeats = fewest_repeats(
            lambda runs: place(change.with_runs(runs), blur, tails, edge, resolved).name != "inconclusive",
            *measured.runs,
            limits.max_repeats_named,
        )
    detectable = smallest_detectable(change, edge, joint, campaign, blur, limits.power)
    return Comparison(
        _verdict(scenario, metric, placed, measured, standing, single, detectable, repeats), change, resolved
    )


def _logs(samples: Sequence[LatencySample | NumberSample]) -> tuple[FloatArray, FloatArray]:
    """(n, P) logs of n runs, and (P,) the widest histogram bucket that each was read from, in logs."""
    values = [
        sample.log_quantiles if isinstance(sample, LatencySample) else np.array([math.log(sample.value)])
        for sample in samples
    ]
    widths = [np.atleast_1d(sample.log_bucket_width) for sample in samples]
    return np.stack(values), np.stack(widths).max(axis=0)


def _verdict(
    scenario: str,
    metric: str,
    placed: Placement,
    measured: Measured,
    standing: Standing,
    tail: float,
    detectable: float,
    repeats: int | None,
) -> Verdict:
    at, change, (values_b, values_c) = placed.deciding, placed.difference, measured.values
    low, high = _shown(placed)
    percentiles = _percentiles(metric)
    reason = _reason(metric, placed, repeats)
    if change.floored[at]:
        reason = f"{reason}; repeats agree to within what can be resolved, a noise floor stands in for their spread"
    return Verdict(
        scenario=scenario,
        metric=metric,
        verdict=placed.name,
        reason=reason,
        estimate=_ratio(change.estimate[at]),
        low=_finite(_ratio(low[at])),
        high=_finite(_ratio(high[at])),
        zone_low=_ratio(-placed.edge),
        zone_high=_ratio(placed.edge),
        smallest_detectable=_finite(_ratio(detectable)),
        repeats_to_settle=repeats,
        deciding_percentile=percentiles[at],
        percentiles=tuple(
            PercentileChange(
                p=percentile,
                estimate=_ratio(change.estimate[i]),
                low=_ratio(placed.low[i]),
                high=_ratio(placed.high[i]),
                band_low=_ratio(placed.band_low[i]),
                band_high=_ratio(placed.band_high[i]),
                baseline_ms=float(values_b[i]),
                candidate_ms=float(values_c[i]),
                df=float(change.df[i]),
            )
            for i, percentile in enumerate(percentiles)
            if percentile is not None and math.isfinite(_ratio(placed.band_high[i]))
        ),
        baseline_value=float(values_b[at]),
        candidate_value=float(values_c[at]),
        unit=unit(metric),
        baseline_repeats=measured.runs[0],
        candidate_repeats=measured.runs[1],
        df=float(change.df[at]),
        prior_df=None if standing.prior is None else float(change.df[at] - change.own_df[at]),
        paired=standing.paired,
        look=standing.look.number if standing.look else None,
        tail=tail,
        open_to_repeats=placed.name == "inconclusive" and bool((placed.open | placed.above | placed.below).any()),
    )


def _reason(metric: str, placed: Placement, repeats: int | None) -> str:
    """Why the verdict is what it is: the deciding interval against the zone, in words."""
    at, zone, everywhere = placed.deciding, _zone(metric, placed), metric in DISTRIBUTIONS
    text = f"{_where(metric, at)}: {_found(metric, placed, at)}"
    match placed.name:
        case "equivalent":
            closest = " at every percentile, closest to its edge" if everywhere else ""
            return f"inside the zone of ±{zone}{closest}: {text}"
        case "inconclusive" if placed.above[at] or placed.below[at]:
            return (
                f"{text} lies beyond the zone of ±{zone} taken alone, but a change that uncertain turns up by chance "
                f"among all comparisons of the campaign; {outlook(repeats)}"
            )
        case "inconclusive" if not placed.open.any():
            return (
                f"inside the zone of ±{zone} but for what cannot be seen: {_unresolved(metric, placed)}; "
                f"{FINER_BUCKETS}"
            )
        case "inconclusive":
            over = _ratio(placed.high[at]) - _ratio(placed.edge)
            under = _ratio(-placed.edge) - _ratio(placed.low[at])
            crossed = "both edges" if min(over, under) >= 0 else "the edge"
            others = int(placed.open.sum()) - 1
            also = f", as do {wording.counted(others, 'percentile')} more" if others else ""
            return (
                f"{text} crosses {crossed} of the zone of ±{zone} by {wording.size(metric, max(over, under))}{also}; "
                f"{outlook(repeats)}"
            )
    beyond = placed.worse if placed.name == "regression" else placed.better
    text = f"{text}, wholly beyond the zone of ±{zone}"
    if everywhere:
        text = f"{text}, as at {int(beyond.sum())} of {len(beyond)} percentiles"
    if placed.name == "improvement" and (placed.high > placed.edge).any():
        doubtful = int(placed.high.argmax())
        text = f"{text}; whether {_where(metric, doubtful)} regressed is not known"
    if placed.worse.any() and placed.better.any():
        best = int(placed.band_high.argmin())
        text = f"{text}; at the same time {_where(metric, best)} improved: {_found(metric, placed, best)}"
    return text


def _shown(placed: Placement) -> tuple[FloatArray, FloatArray]:
    """The limits that decide: the band for a change beyond the zone, the pointwise interval otherwise."""
    if placed.name in ("regression", "improvement"):
        return placed.band_low, placed.band_high
    return placed.low, placed.high


def _found(metric: str, placed: Placement, at: int) -> str:
    """An estimate with the limits that decide: `+3.1 % (+1.0 % to +5.2 %)`."""
    low, high = _shown(placed)
    estimate = wording.change(metric, _ratio(placed.difference.estimate[at]))
    return f"{estimate} ({wording.interval(metric, _ratio(low[at]), _ratio(high[at]))})"


def _where(metric: str, at: int) -> str:
    return f"{metric}{wording.at_percentile(_percentiles(metric)[at])}"


def _zone(metric: str, placed: Placement) -> str:
    return wording.size(metric, _ratio(placed.edge))


def _unresolved(metric: str, placed: Placement) -> str:
    """Which histogram buckets are too wide, in words."""
    coarse = [wording.at_percentile(_percentiles(metric)[i]).strip() for i in np.flatnonzero(~placed.resolved)]
    everywhere = not placed.resolved.any()
    where = "" if everywhere else f" {wording.named(coarse)}"
    return f"histogram buckets of {metric} are wider than the zone{where}"


def _percentiles(metric: str) -> tuple[float | None, ...]:
    return PERCENTILES if metric in DISTRIBUTIONS else (None,)


def _ratio(log_change: float) -> float:
    """A log change as a ratio minus 1; inf where it is unbounded or too large for a number."""
    return math.expm1(log_change) if log_change < 700 else math.inf


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""All scenarios together: small changes that no single scenario could show, and the negative control.

What belongs here: equal-weight means of the scenarios' changes. Weights by inverse variance would come from variances
that rest on a handful of runs, and their intervals would miss the truth one time in four.
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import stdtr, stdtrit

from perf_pipeline.gates import wording
from perf_pipeline.gates.comparison import Comparison, in_short
from perf_pipeline.gates.evidence import DISTRIBUTIONS, NEGATIVE_CONTROL, NUMBERS, PERCENTILES, FloatArray
from perf_pipeline.gates.findings import NegativeControl, Pooled, ScenarioChange
from perf_pipeline.gates.policy import Policy

MEDIAN = "p50"
_MEDIAN = 50.0

ControlStatus: TypeAlias = Literal["quiet", "moved", "cannot tell"]


def pool(comparisons: Sequence[Comparison], policy: Policy) -> tuple[Pooled, ...]:
    """Every distribution at the policy's percentiles, and every number, over the scenarios that could be compared."""
    pooled = [
        _pool(comparisons, metric, percentile, policy.change.confidence)
        for metric in DISTRIBUTIONS
        for percentile in policy.pooled.percentiles
    ]
    pooled.extend(_pool(comparisons, metric, None, policy.change.confidence) for metric in NUMBERS)
    return tuple(one for one in pooled if one is not None)


def judge_negative_control(comparisons: Sequence[Comparison], policy: Policy) -> NegativeControl:
    """Has the metric moved that no version of the service can change?

    It moved when any scenario's verdict says so, or when the interval of its pooled median lies wholly beyond the
    policy's limit; it is quiet when that interval lies wholly inside. Otherwise nobody can tell.
    """
    mine = [one.verdict for one in comparisons if one.verdict.metric == NEGATIVE_CONTROL]
    if all(verdict.absent for verdict in mine):
        return NegativeControl(NEGATIVE_CONTROL, "absent", None, None, None, "there is no negative control")
    median = _pool(comparisons, NEGATIVE_CONTROL, _MEDIAN, policy.change.confidence)
    estimate, low, high = (median.estimate, median.low, median.high) if median else (None, None, None)
    limit = policy.negative_control.max_pooled_change
    over_all = "" if median is None else (
        f"its median over {wording.counted(median.scenarios, 'scenario')} changed by "
        f"{wording.change(NEGATIVE_CONTROL, median.estimate)} "
        f"({wording.interval(NEGATIVE_CONTROL, median.low, median.high)})"
    )  # fmt: skip
    moved = [verdict for verdict in mine if verdict.verdict in ("regression", "improvement")]
    if moved:
        message = f"moved in {len(moved)} of {wording.counted(len(mine), 'scenario')}: {moved[0].reason}"
        return NegativeControl(NEGATIVE_CONTROL, "moved", estimate, low, high, message)
    if median is None:
        message = f"could not be compared: {in_short(mine[0].reason)}"
        return NegativeControl(NEGATIVE_CONTROL, "cannot tell", None, None, None, message)
    status = against_limit(median, limit)
    if status == "moved":
        message = f"moved: {over_all}, wholly beyond {wording.share(limit)}"
        return NegativeControl(NEGATIVE_CONTROL, "moved", estimate, low, high, message)
    if status == "quiet":
        return NegativeControl(NEGATIVE_CONTROL, "quiet", estimate, low, high, f"quiet: {over_all}")
    message = f"may have moved: {over_all}; quiet is wholly within {wording.share(limit)}"
    return NegativeControl(NEGATIVE_CONTROL, "cannot tell", estimate, low, high, message)


def against_limit(pooled: Pooled, limit: float) -> ControlStatus:
    """Whether a pooled change lies wholly within the limit, a ratio, wholly beyond it, or across it."""
    edge_low = 1 / (1 + limit) - 1
    if pooled.low > limit or pooled.high < edge_low:
        return "moved"
    return "quiet" if edge_low < pooled.low and pooled.high < limit else "cannot tell"


def _pool(comparisons: Sequence[Comparison], metric: str, percentile: float | None, confidence: float) -> Pooled | None:
    """The mean of the scenarios' log changes of one statistic; None where no scenario has one.

    *These* scenarios: their errors add (Satterthwaite 1946), and no more degrees of freedom than their runs have. In
    *general*: the scenarios are a sample, and their changes differ by more than errors; its interval is never the
    shorter one.
    """
    at = 0 if percentile is None else PERCENTILES.index(percentile)
    rows = [
        (one.verdict.scenario, one.difference, at)
        for one in comparisons
        if one.verdict.metric == metric and one.difference is not None and one.resolved is not None and one.resolved[at]
    ]
    if not rows:
        return None
    names = [name for name, _, _ in rows]
    estimates, errors, dfs, own_dfs = (
        np.array([float(getattr(change, of)[at]) for _, change, at in rows])
        for of in ("estimate", "standard_error", "df", "own_df")
    )
    number, mean, variances = len(rows), float(estimates.mean()), errors**2
    df = min(float(variances.sum() ** 2 / (variances**2 / dfs).sum()), float(own_dfs.sum()))
    level = (1 + confidence) / 2
    reach = float(stdtrit(df, level)) * math.sqrt(float(variances.sum())) / number
    worst = int(estimates.argmax())
    general: tuple[float, float] | None = None
    between = None
    if number > 1:
        spread = float(estimates.var(ddof=1))
        in_general = max(reach, float(stdtrit(number - 1, level)) * math.sqrt(spread / number))
        general = math.expm1(mean - in_general), math.expm1(mean + in_general)
        between = math.expm1(math.sqrt(max(0.0, spread - float(variances.mean()))))
    p_values = holm(2 * stdtr(dfs, -np.abs(estimates) / errors))
    changed = [
        ScenarioChange(names[i], math.expm1(float(estimates[i])), float(p_values[i]))
        for i in np.argsort(p_values, kind="stable")
        if p_values[i] <= 1 - confidence
    ]
    return Pooled(
        metric=metric,
        statistic="value" if percentile is None else f"p{percentile:g}",
        estimate=math.expm1(mean),
        low=math.expm1(mean - reach),
        high=math.expm1(mean + reach),
        df=df,
        scenarios=number,
        worst_scenario=names[worst],
        worst_estimate=math.expm1(float(estimates[worst])),
        general_low=general[0] if general else None,
        general_high=general[1] if general else None,
        between_scenarios=between,
        changed=tuple(changed),
    )


def holm(p_values: FloatArray) -> FloatArray:
    """(n,) p values that may be read one by one although n questions were asked (Holm 1979).

    statsmodels has the same, and takes a second to import.
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted

"""All scenarios together: small changes that no single scenario could show, and the negative control.

What belongs here: equal-weight means of the scenarios' changes. Weights by inverse variance would come from variances
that rest on a handful of runs, and their intervals would miss the truth one time in four.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from perf_pipeline.gates import wording
from perf_pipeline.gates.comparison import Comparison
from perf_pipeline.gates.evidence import DISTRIBUTIONS, NEGATIVE_CONTROL, NUMBERS, PERCENTILES
from perf_pipeline.gates.findings import NegativeControl, Pooled
from perf_pipeline.gates.policy import Policy

_MEDIAN = 50.0


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
        message = f"could not be compared: {mine[0].reason}"
        return NegativeControl(NEGATIVE_CONTROL, "cannot tell", None, None, None, message)
    edge_low, edge_high = 1 / (1 + limit) - 1, limit
    if median.low > edge_high or median.high < edge_low:
        message = f"moved: {over_all}, wholly beyond {wording.share(limit)}"
        return NegativeControl(NEGATIVE_CONTROL, "moved", estimate, low, high, message)
    if edge_low < median.low and median.high < edge_high:
        return NegativeControl(NEGATIVE_CONTROL, "quiet", estimate, low, high, f"quiet: {over_all}")
    message = f"may have moved: {over_all}; quiet is wholly within {wording.share(limit)}"
    return NegativeControl(NEGATIVE_CONTROL, "cannot tell", estimate, low, high, message)


def _pool(comparisons: Sequence[Comparison], metric: str, percentile: float | None, confidence: float) -> Pooled | None:
    """The mean of the scenarios' log changes of one statistic (Satterthwaite 1946); None where no scenario has one."""
    at = 0 if percentile is None else PERCENTILES.index(percentile)
    rows = [
        (
            one.verdict.scenario,
            one.difference.estimate[at],
            one.difference.standard_error[at] ** 2,
            one.difference.df[at],
        )
        for one in comparisons
        if one.verdict.metric == metric and one.difference is not None and one.resolved is not None and one.resolved[at]
    ]
    if not rows:
        return None
    names = [name for name, _, _, _ in rows]
    estimates, variances, dfs = (np.array(column) for column in list(zip(*rows, strict=True))[1:])
    mean = float(estimates.mean())
    error = math.sqrt(float(variances.sum())) / len(rows)
    df = float(variances.sum() ** 2 / (variances**2 / dfs).sum())
    reach = float(stdtrit(df, (1 + confidence) / 2)) * error
    worst = int(estimates.argmax())
    return Pooled(
        metric=metric,
        statistic="value" if percentile is None else f"p{percentile:g}",
        estimate=math.expm1(mean),
        low=math.expm1(mean - reach),
        high=math.expm1(mean + reach),
        df=df,
        scenarios=len(rows),
        worst_scenario=names[worst],
        worst_estimate=math.expm1(float(estimates[worst])),
    )

"""What a comparison could have seen, and how many repeats it would take to see more.

What belongs here: the smallest worsening that would have been called a regression, and the number of repeats that would
settle an inconclusive comparison. Both suppose that the noise between runs stays what it was.
"""

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri, stdtrit

from perf_pipeline.gates.error_rates import Rate, RateDifference
from perf_pipeline.gates.evidence import FloatArray
from perf_pipeline.gates.intervals import Difference


def smallest_detectable(
    difference: Difference, edge: float, tail: float, campaign_tail: float, blur: FloatArray, power: float
) -> float:
    """The log change of all P statistics alike that is called a regression with probability `power`.

    A regression needs one statistic whose lower limit at probability `tail`, lowered by its (P,) `blur`, lies above the
    zone's `edge`, and at `campaign_tail` above 0: a change of edge + (t_tail + t_power) x standard error, or of
    (t_campaign + t_power) x standard error if that is more. The lower quartile over the statistics is taken: the least
    of them would promise too much, because the smallest of many estimated errors is too small, and any one statistic
    suffices. inf when too few statistics can show a regression at all.
    """
    alone, in_campaign, luck = (stdtrit(difference.df, level) for level in (1 - tail, 1 - campaign_tail, power))
    needed = blur + np.maximum(edge + alone * difference.standard_error, in_campaign * difference.standard_error)
    return float(np.quantile(needed + luck * difference.standard_error, 0.25, method="higher"))


def smallest_detectable_rate(
    baseline: Rate, candidate: Rate, difference: RateDifference, edge: float, tail: float, power: float
) -> float:
    """The increase of an error rate whose lower limit lies above `edge` with probability `power`. Share of requests.

    Solves increase = edge + k x standard error, where the standard error grows with the candidate's rate.
    """
    levels = np.array([1 - tail, power])
    quantiles = (stdtrit(difference.df, levels) if difference.df else ndtri(levels)).sum()
    scale = float(quantiles) ** 2 * difference.dispersion
    still = scale * baseline.value * (1 / baseline.requests + 1 / candidate.requests)
    growing = scale / candidate.requests
    # (increase - edge)^2 = still + growing x increase
    half = edge + growing / 2
    return half + float(np.sqrt(half**2 - edge**2 + still))


def fewest_repeats(settles: Callable[[int], bool], baseline_runs: int, candidate_runs: int, most: int) -> int | None:
    """The fewest repeats per side that settle a comparison; None when more than `most` would be needed.

    `settles(n)` says whether n runs on each side would; once true it stays true, because intervals only get shorter.
    """
    first = max(baseline_runs, candidate_runs) + (baseline_runs == candidate_runs)
    candidates = range(first, most + 1)
    position = bisect_left(candidates, True, key=settles)
    return candidates[position] if position < len(candidates) else None

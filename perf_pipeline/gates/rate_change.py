"""Gate 3 for error rates: a difference of shares against an absolute zone.

What belongs here: the verdict of one error rate in one scenario. A relative zone would be of no use: 5 % of a rate near
zero can never be shown. The interval is in `error_rates`.
"""

from collections.abc import Sequence

from perf_pipeline.gates import wording
from perf_pipeline.gates.comparison import ALONE, Comparison, Standing, outlook, unit
from perf_pipeline.gates.error_rates import Rate, RateDifference, rate, rate_difference
from perf_pipeline.gates.evidence import ErrorSample
from perf_pipeline.gates.findings import Verdict, VerdictName
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.sensitivity import fewest_repeats, smallest_detectable_rate

NONE_SEEN = 3.0
"""Without any error in n requests the rate is below 3 / n with one-sided 95 % confidence (-ln 0.05 = 2.996)."""


def compare_rates(
    scenario: str,
    metric: str,
    baseline: Sequence[ErrorSample],
    candidate: Sequence[ErrorSample],
    policy: Policy,
    standing: Standing = ALONE,
) -> Comparison:
    """Compare one error rate; each side has at least two runs with requests.

    As in `log_change`, a change also has to differ from 0 in an interval that Bonferroni's rule widens for all
    comparisons of the campaign. Runs are never compared as pairs: a block that has no errors says nothing about them.
    """
    limits = policy.change
    side_b, side_c = rate(baseline), rate(candidate)
    zone = limits.zone[metric]
    tail = standing.tail(limits)
    alone = 1 - 2 * tail
    in_campaign = 1 - 2 * tail * standing.campaign_share(limits)
    found = rate_difference(side_b, side_c, alone)
    name = _name(found, rate_difference(side_b, side_c, in_campaign), zone)

    def settles(runs: int) -> bool:
        planned_b = _with_runs(side_b, runs / len(baseline), runs)
        planned_c = _with_runs(side_c, runs / len(candidate), runs)
        by_itself, together = (rate_difference(planned_b, planned_c, confidence) for confidence in (alone, in_campaign))
        return _name(by_itself, together, zone) != "inconclusive"

    repeats = None
    if name == "inconclusive":
        repeats = fewest_repeats(settles, len(baseline), len(candidate), limits.max_repeats_named)
    return Comparison(
        Verdict(
            scenario=scenario,
            metric=metric,
            verdict=name,
            reason=_reason(metric, name, side_b, side_c, found, zone, repeats),
            estimate=found.estimate,
            low=found.low,
            high=found.high,
            zone_low=-zone,
            zone_high=zone,
            smallest_detectable=max(
                smallest_detectable_rate(side_b, side_c, found, edge, (1 - confidence) / 2, limits.power)
                for edge, confidence in ((zone, alone), (0.0, in_campaign))
            ),
            repeats_to_settle=repeats,
            deciding_percentile=None,
            percentiles=(),
            baseline_value=side_b.value,
            candidate_value=side_c.value,
            unit=unit(metric),
            baseline_repeats=len(baseline),
            candidate_repeats=len(candidate),
            df=float(found.df) if found.df else None,
            look=standing.look.number if standing.look else None,
            tail=tail,
            open_to_repeats=name == "inconclusive",
        )
    )


def _name(found: RateDifference, in_campaign: RateDifference, zone: float) -> VerdictName:
    if found.low > zone and in_campaign.low > 0:
        return "regression"
    if found.high < -zone and in_campaign.high < 0:
        return "improvement"
    return "equivalent" if -zone < found.low and found.high < zone else "inconclusive"


def _with_runs(side: Rate, factor: float, runs: int) -> Rate:
    """The side as it would be with that many runs of the same rate, size and scatter."""
    df = runs - 1 if side.df else 0
    return Rate(
        errors=side.errors * factor,
        requests=side.requests * factor,
        runs=runs,
        chi_square=side.chi_square * df / side.df if side.df else 0.0,
        df=df,
    )


def _reason(
    metric: str, name: VerdictName, side_b: Rate, side_c: Rate, found: RateDifference, zone: float, repeats: int | None
) -> str:
    counts = (
        f"{side_c.errors:.0f} errors in {side_c.requests:.0f} requests against "
        f"{side_b.errors:.0f} in {side_b.requests:.0f}"
    )
    interval = f"{wording.change(metric, found.estimate)} ({wording.interval(metric, found.low, found.high)})"
    text = f"{metric}: {interval}, from {counts}"
    if side_b.errors == side_c.errors == 0:
        fewest = min(side_b.requests, side_c.requests)
        text = (
            f"{text}; no error in {fewest:.0f} requests means a rate below {wording.share(NONE_SEEN / fewest)} (3 / n)"
        )
    edges = f"the zone of ±{wording.size(metric, zone)}"
    if name == "equivalent":
        return f"inside {edges}; {text}"
    if name == "inconclusive" and (found.low > zone or found.high < -zone):
        return (
            f"{text}, beyond {edges} taken alone, but a change that uncertain turns up by chance among all comparisons "
            f"of the campaign; {outlook(repeats)}"
        )
    if name == "inconclusive":
        further = wording.size(metric, max(found.high, -found.low) - zone)
        return f"{text}, crosses {edges} by {further}; {outlook(repeats)}"
    return f"{text}, wholly beyond {edges}"

"""Judgements for the tests of the report: deterministic, in the shape and size of real ones.

The demo shop compared in two scenarios, with five repeats of each version, in five outcomes, and a campaign of fifty
scenarios. The verdicts follow from the numbers by the rules of the gates, so that the texts are true of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from perf_pipeline.gates.evidence import METRICS, NEGATIVE_CONTROL, PERCENTILES
from perf_pipeline.gates.findings import (
    Agreement,
    ArmAgainstItself,
    Decision,
    Judgement,
    NegativeControl,
    PercentileChange,
    Pooled,
    RunCheck,
    RunValidity,
    ScenarioChange,
    Verdict,
    VerdictName,
)
from perf_pipeline.report.context import ReportContext
from perf_pipeline.report.run_curves import MANY_CURVES, RunCurve

BASELINE, CANDIDATE = "1.0.0", "1.1.0"
REPEATS = 5
T, BAND = 2.306, 3.2  # 95 % points at 8 degrees of freedom: of t, and of the largest |t| over the percentiles
DISTRIBUTION_ZONE = (1 / 1.1 - 1, 0.1)
NUMBER_ZONE = (1 / 1.05 - 1, 0.05)
ERROR_ZONE = (-0.0005, 0.0005)
GRAPHQL_ABSENT = "the plan names no source"

QUIET = "quiet: its median over 2 scenarios changed by +0.1 % (-0.7 % to +0.9 %)"

CONTEXT = ReportContext(
    title="Demo shop",
    facts=(
        ("Service", "demo shop, a small HTTP API"),
        ("Plan", "examples/demo/plan.yaml"),
        ("Workload", "3fa91c07be52d4e8, 18,204 requests of 611 users"),
        ("Load", "120 requests/s, 10 s warm-up, 20 s hold"),
        ("Repeats", "5 per version and scenario, in randomised blocks"),
        ("Load generator", "k6 1.1.0"),
        ("Environment", "local, 2 CPUs, Linux 6.1"),
        ("Measured", "2026-11-30 04:00 to 04:11 UTC"),
    ),
    reproduce="perf-pipeline compare examples/demo/plan.yaml --baseline 1.0.0 --candidate 1.1.0",
    policy_limits=(
        ("Zone, latency percentiles", "−9.1 % to +10 %"),
        ("Zone, single numbers", "−4.8 % to +5 %"),
        ("Zone, error rates", "±0.05 points"),
        ("Achieved rate", "within 2 % of the target"),
        ("Drift", "at most 2 % per 4 min"),
        ("CPU throttled", "at most 5 % of periods"),
        ("Repeats agree, distributions", "log Wasserstein distance at most 2.5 %, or 1.5 times that within a run"),
        ("Repeats agree, numbers", "coefficient of variation below 15 %"),
    ),
)


def regression() -> Judgement:
    """1.1.0 is slower in both scenarios; one run lost a metric, one was set aside."""
    verdicts = (
        *shop_scenario("browse", 4.1, lambda p: 0.21 * smooth_step(p, 35, 80), 0.011),
        *shop_scenario("products", 7.8, lambda p: 0.02 + 0.125 * smooth_step(p, 55, 97), 0.019, memory_shift=0.021),
    )
    return judgement(
        verdicts,
        answer_headline=(
            "regression",
            "1.1.0 is worse than 1.0.0: service_latency at p80 in browse +23.6 % (+20.1 % to +27.3 %);"
            " 4 of 10 comparisons regressed.",
        ),
        runs=with_troubles(runs_of(("browse", "products"))),
        control=NegativeControl("upstream_latency", "quiet", 0.0012, -0.0068, 0.0093, QUIET),
    )


def no_regression() -> Judgement:
    """Nothing changed and the evidence says so; one number has too few repeats to tell."""
    verdicts = (
        *shop_scenario("browse", 4.1, lambda p: 0.004, 0.009),
        *shop_scenario("products", 7.8, lambda p: -0.006 + 0.01 * smooth_step(p, 40, 99), 0.010, p99_noise=0.021),
    )
    return judgement(
        verdicts,
        answer_headline=(
            "no regression",
            "No regression found in 1.1.0 against 1.0.0: of 10 comparisons 9 are equivalent, 1 is inconclusive.",
        ),
    )


def not_enough_evidence() -> Judgement:
    """Noise is too large for an answer, and repeats of one side disagree."""
    noisy = (
        *shop_scenario("browse", 4.1, lambda p: 0.05, 0.031, p99_noise=0.09),
        *shop_scenario("products", 7.8, lambda p: 0.03, 0.037, p99_noise=0.08),
    )
    reason = "repeats of 1.1.0 disagree: repeats typically lie 7.9 % apart (limit 2.5 %)"
    verdicts = tuple(
        not_comparable(verdict, reason)
        if (verdict.scenario, verdict.metric) == ("products", "client_latency")
        else verdict
        for verdict in noisy
    )
    found = judgement(
        verdicts,
        answer_headline=(
            "not enough evidence",
            "Not enough evidence to compare 1.1.0 with 1.0.0: 4 of 10 comparisons are answered, 50 % are needed; none"
            " regressed.",
        ),
    )
    agreement = tuple(
        replace(item, status="disagree", value=0.079, message="repeats typically lie 7.9 % apart (limit 2.5 %)")
        if (item.version, item.scenario, item.metric) == (CANDIDATE, "products", "client_latency")
        else item
        for item in found.agreement
    )
    return replace(found, agreement=agreement)


def control_moved() -> Judgement:
    """What no version can change has changed: the harness favours a side, and nothing is compared."""
    reason = "1.0.0 and 1.1.0 ran in different environments (cpu_model)"
    verdicts = tuple(
        verdict if verdict.absent or verdict.metric == "upstream_latency" else not_comparable(verdict, reason)
        for scenario, level in (("browse", 4.1), ("products", 7.8))
        for verdict in shop_scenario(scenario, level, lambda p: 0.12, 0.012, upstream_shift=0.143)
    )
    return judgement(
        verdicts,
        answer_headline=(
            "not enough evidence",
            "The negative control upstream_latency moved in 2 of 2 scenarios."
            " Something other than the version changed.",
        ),
        control=NegativeControl(
            "upstream_latency",
            "moved",
            0.143,
            0.128,
            0.158,
            "moved in 2 of 2 scenarios: upstream_latency at p10: +14.4 % (+13.2 % to +15.6 %)",
        ),
        notes=("browse: 1.0.0 and 1.1.0 ran in different environments (cpu_model); nothing in it is comparable.",),
    )


def baseline_differs_from_itself() -> Judgement:
    """A paired campaign at its second look, whose A/A arm moved: the lab favours the side that comes later."""
    found = no_regression()
    verdicts = tuple(
        verdict if verdict.absent else replace(verdict, look=2, tail=0.0061, paired=True, prior_df=3.1)
        for verdict in found.verdicts
    )
    moved = shop_scenario("browse", 4.1, lambda p: 0.16 * smooth_step(p, 35, 80), 0.011)
    names = ("browse", "products")
    arm = ArmAgainstItself(
        baseline=BASELINE,
        status="moved",
        message="moved in 2 of 12 comparisons: client_latency in browse, wholly beyond the zone",
        verdicts=(*moved, *shop_scenario("products", 7.8, lambda p: 0.004, 0.010)),
        runs=runs_of(names),
        agreement=(),
        pooled=(),
    )
    pooled = tuple(
        replace(
            item,
            general_low=item.low - 0.012,
            general_high=item.high + 0.012,
            changed=(ScenarioChange("browse", 0.019, 0.0004),) if item.metric == "service_latency" else (),
        )
        for item in found.pooled
    )
    itself = "1.0.0 against itself (A/A) moved in 2 of 12 comparisons: client_latency in browse"
    known = "In scenarios in general, of which these are a sample, client_latency changes by -2.9 % to +3.1 % at p50."
    decision = replace(
        found.decision,
        answer="not enough evidence",
        headline=f"{itself}. Something other than the version changed.",
        known=(known, *found.decision.known),
    )
    return replace(found, decision=decision, verdicts=verdicts, pooled=pooled, looks=(5, 8, 12), aa_arm=arm)


def everything_set_aside() -> Judgement:
    """No run was valid: the load generator never reached its rate."""
    reason = "1.0.0 has 0 usable of 5 runs, 2 are needed: 5 set aside by achieved rate"
    verdicts = tuple(
        verdict if verdict.absent else not_comparable(verdict, reason, repeats=0)
        for scenario, level in (("browse", 4.1), ("products", 7.8))
        for verdict in shop_scenario(scenario, level, lambda p: 0.0, 0.01)
    )
    runs = tuple(
        run_set_aside(run, "achieved rate", -0.43, 0.02, "reached 68.4 of 120 requests/s (-43.0 %; limit 2 %)")
        for run in runs_of(("browse", "products"))
    )
    return judgement(
        verdicts,
        answer_headline=(
            "not enough evidence",
            "Not enough evidence to compare 1.1.0 with 1.0.0: 0 of 10 comparisons are answered, 50 % are needed; none"
            " regressed.",
        ),
        runs=runs,
        agreement=(),
        pooled=(),
        control=NegativeControl(
            "upstream_latency", "cannot tell", None, None, None, "could not be compared: no run was valid"
        ),
    )


def many_scenarios(count: int = 50, metrics: Sequence[str] = METRICS[:5] + METRICS[6:]) -> Judgement:
    """A campaign of many scenarios with every verdict in it."""
    verdicts: list[Verdict] = []
    for number in range(count):
        wave = math.sin(number * 1.7)
        scenario = shop_scenario(
            f"graph-{number // 5 + 1:02d}-config-{number % 5 + 1}",
            3.0 + number * 0.4,
            lambda p, wave=wave, number=number: 0.02 * wave + (0.19 * smooth_step(p, 50, 90) if number == 17 else 0.0),  # type: ignore[misc]
            0.008 + 0.022 * (1 + wave) / 2,
            p99_noise=0.05,
            memory_shift=-0.12 if number % 23 == 4 else 0.0,
        )
        if number in (7, 8, 31):
            scenario = tuple(
                not_comparable(verdict, "1.1.0 has 2 usable of 5 runs, 3 are needed", 2) for verdict in scenario
            )
        verdicts += [verdict for verdict in scenario if verdict.metric in metrics]
    names = tuple(dict.fromkeys(verdict.scenario for verdict in verdicts))
    runs = runs_of(names)
    runs = tuple(
        run_set_aside(run, "achieved rate", -0.29, 0.02, "reached 85.2 of 120 requests/s (-29.0 %; limit 2 %)")
        if run.scenario in (names[7], names[8], names[31]) and run.version == CANDIDATE and run.repeat > 2
        else run
        for run in runs
    )
    return judgement(
        tuple(verdicts),
        answer_headline=(
            "regression",
            "1.1.0 is slower than 1.0.0 in graph-04-config-3: client and service latency, service p99.",
        ),
        runs=runs,
    )


def shop_scenario(
    scenario: str,
    median_ms: float,
    shift: Callable[[float], float],
    noise: float,
    *,
    p99_noise: float = 0.017,
    memory_shift: float = 0.004,
    upstream_shift: float = 0.001,
) -> tuple[Verdict, ...]:
    """The seven verdicts of one scenario: `shift(p)` is the change at percentile p, `noise` its standard error."""
    return (
        distribution(scenario, "client_latency", median_ms + 0.6, shift, noise),
        distribution(scenario, "service_latency", median_ms, lambda p: 1.12 * shift(p), noise * 0.8),
        number(scenario, "service_p99", 3.3 * median_ms, 1.12 * shift(99), p99_noise, "ms"),
        number(scenario, "service_memory", 61.3 * 2**20, memory_shift, 0.008, "bytes"),
        error_rate(scenario, "http_error_rate", 0.0012, 0.00004, 0.00011),
        replace(
            not_comparable(error_rate(scenario, "graphql_error_rate", 0, 0, 0), GRAPHQL_ABSENT, repeats=0), absent=True
        ),
        distribution(scenario, "upstream_latency", 2.0, lambda p: upstream_shift, 0.006),
    )


def distribution(
    scenario: str, metric: str, median_ms: float, shift: Callable[[float], float], noise: float
) -> Verdict:
    """A distribution judged percentile by percentile."""
    zone_low, zone_high = DISTRIBUTION_ZONE
    points = []
    for place, p in enumerate(PERCENTILES):
        log_change = math.log1p(shift(p)) + 0.15 * noise * math.sin(place * 1.3)
        error = noise * (0.75 + 1.1 * (p / 100) ** 6)
        baseline = median_ms * math.exp(0.5 * normal_quantile(p / 100))
        points.append(
            PercentileChange(
                p=p,
                estimate=math.expm1(log_change),
                low=math.expm1(log_change - T * error),
                high=math.expm1(log_change + T * error),
                band_low=math.expm1(log_change - BAND * error),
                band_high=math.expm1(log_change + BAND * error),
                baseline_ms=baseline,
                candidate_ms=baseline * math.exp(log_change),
            )
        )
    name: VerdictName
    if any(point.band_low > zone_high for point in points):
        name, decides = "regression", max(points, key=lambda point: point.band_low)
    elif any(point.band_high < zone_low for point in points):
        name, decides = "improvement", min(points, key=lambda point: point.band_high)
    else:
        decides = max(points, key=lambda point: max(point.high - zone_high, zone_low - point.low))
        name = "equivalent" if zone_low <= decides.low and decides.high <= zone_high else "inconclusive"
    with_band = name in ("regression", "improvement")
    return Verdict(
        scenario=scenario,
        metric=metric,
        verdict=name,
        reason=REASONS[name],
        estimate=decides.estimate,
        low=decides.band_low if with_band else decides.low,
        high=decides.band_high if with_band else decides.high,
        zone_low=zone_low,
        zone_high=zone_high,
        smallest_detectable=math.expm1(math.log1p(zone_high) + (BAND + 0.89) * noise * 1.3),
        repeats_to_settle=settle(decides.low, decides.high, zone_low, zone_high) if name == "inconclusive" else None,
        deciding_percentile=decides.p,
        percentiles=tuple(points),
        baseline_value=decides.baseline_ms,
        candidate_value=decides.candidate_ms,
        unit="ms",
        baseline_repeats=REPEATS,
        candidate_repeats=REPEATS,
        df=7.4,
    )


def number(scenario: str, metric: str, level: float, shift: float, noise: float, unit: str) -> Verdict:
    """A positive number: one interval of the relative change."""
    log_change = math.log1p(shift)
    low, high = math.expm1(log_change - T * noise), math.expm1(log_change + T * noise)
    detectable = math.expm1(math.log1p(NUMBER_ZONE[1]) + (T + 0.89) * noise)
    return single(scenario, metric, shift, low, high, NUMBER_ZONE, level, level * (1 + shift), unit, detectable)


def error_rate(scenario: str, metric: str, level: float, shift: float, noise: float) -> Verdict:
    """An error rate: one interval of the difference of shares."""
    low, high = shift - T * noise, shift + T * noise
    detectable = ERROR_ZONE[1] + (T + 0.89) * noise
    return single(scenario, metric, shift, low, high, ERROR_ZONE, level, level + shift, "ratio", detectable)


def single(
    scenario: str,
    metric: str,
    estimate: float,
    low: float,
    high: float,
    zone: tuple[float, float],
    baseline: float,
    candidate: float,
    unit: str,
    detectable: float,
) -> Verdict:
    """One interval against its zone."""
    name: VerdictName = "inconclusive"
    if zone[0] <= low and high <= zone[1]:
        name = "equivalent"
    elif low > zone[1]:
        name = "regression"
    elif high < zone[0]:
        name = "improvement"
    return Verdict(
        scenario=scenario,
        metric=metric,
        verdict=name,
        reason=REASONS[name],
        estimate=estimate,
        low=low,
        high=high,
        zone_low=zone[0],
        zone_high=zone[1],
        smallest_detectable=detectable,
        repeats_to_settle=settle(low, high, *zone) if name == "inconclusive" else None,
        deciding_percentile=None,
        percentiles=(),
        baseline_value=baseline,
        candidate_value=candidate,
        unit=unit,
        baseline_repeats=REPEATS,
        candidate_repeats=REPEATS,
        df=7.6,
    )


REASONS: dict[VerdictName, str] = {
    "equivalent": "inside the zone",
    "regression": "wholly beyond the zone",
    "improvement": "wholly beyond the zone",
    "inconclusive": "crosses the edge of the zone",
}


def not_comparable(verdict: Verdict, reason: str, repeats: int = REPEATS) -> Verdict:
    """The verdict as it is when a gate before has ruled the metric out."""
    return replace(
        verdict,
        verdict="not comparable",
        reason=reason,
        estimate=None,
        low=None,
        high=None,
        smallest_detectable=None,
        repeats_to_settle=None,
        deciding_percentile=None,
        percentiles=(),
        baseline_value=None if repeats == 0 else verdict.baseline_value,
        candidate_value=None if repeats == 0 else verdict.candidate_value,
        baseline_repeats=repeats,
        candidate_repeats=repeats,
        df=None,
    )


CHECKS = (
    RunCheck("finished", None, "pass", None, None, "", "finished"),
    RunCheck(
        "achieved rate", None, "pass", -0.0019, 0.02, "ratio", "reached 119.8 of 120 requests/s (-0.2 %; limit 2 %)"
    ),
    RunCheck("dropped iterations", None, "pass", 0.0, 0.02, "ratio", "0 of 2400 iterations were dropped (0 %)"),
    RunCheck("drift", "client_latency", "pass", 0.004, 0.02, "ratio per 240 s", "client_latency is steady"),
    RunCheck("drift", "service_memory", "cannot tell", 0.011, 0.02, "ratio per 240 s", "service_memory may drift"),
    RunCheck("CPU throttling", None, "not measured", None, 0.05, "ratio", "CPU throttling was not measured"),
)


def runs_of(scenarios: Sequence[str]) -> tuple[RunValidity, ...]:
    """Five valid runs of each version in each scenario."""
    return tuple(
        RunValidity(
            run_id=f"{version}-{scenario}-r{repeat:02d}",
            version=version,
            scenario=scenario,
            repeat=repeat,
            status="passed",
            reason="",
            dropped_metrics=(),
            checks=CHECKS,
        )
        for repeat in range(1, REPEATS + 1)
        for scenario in scenarios
        for version in (BASELINE, CANDIDATE)
    )


def run_set_aside(run: RunValidity, check: str, value: float, limit: float, message: str) -> RunValidity:
    """The run with one failed check that sets it aside."""
    checks = tuple(
        replace(item, status="fail", value=value, limit=limit, message=message, consequence="set aside")
        if item.check == check
        else item
        for item in run.checks
    )
    return replace(run, status="set aside", reason=message, checks=checks)


def with_troubles(runs: tuple[RunValidity, ...]) -> tuple[RunValidity, ...]:
    """The runs, one of them set aside and one that lost a metric."""
    climbing = "service_memory drifts: +6.1 % per 240 s (+4.7 % to +7.5 %)"
    drifting = "service_latency drifts: +3.4 % per 240 s (+2.2 % to +4.6 %)"
    changed = []
    for run in runs:
        if run.run_id == "1.1.0-products-r04":
            check = RunCheck("drift", "service_memory", "fail", 0.061, 0.02, "per 4 min", climbing, "set aside")
            run = replace(run, status="set aside", reason=climbing, checks=(*run.checks, check))
        elif run.run_id == "1.0.0-browse-r02":
            check = RunCheck("drift", "service_latency", "fail", 0.034, 0.02, "per 4 min", drifting, "drop metric")
            run = replace(
                run,
                status="metric dropped",
                reason=drifting,
                dropped_metrics=("service_latency",),
                checks=(*run.checks, check),
            )
        changed.append(run)
    return tuple(changed)


def judgement(
    verdicts: tuple[Verdict, ...],
    *,
    answer_headline: tuple[str, str],
    runs: tuple[RunValidity, ...] | None = None,
    agreement: tuple[Agreement, ...] | None = None,
    pooled: tuple[Pooled, ...] | None = None,
    control: NegativeControl | None = None,
    notes: tuple[str, ...] = (),
) -> Judgement:
    """A judgement around the verdicts, with what the gates say about them."""
    answer, headline = answer_headline
    scenarios = tuple(dict.fromkeys(verdict.scenario for verdict in verdicts))
    return Judgement(
        baseline=BASELINE,
        candidate=CANDIDATE,
        policy_name="default",
        policy_version="1",
        decision=Decision(
            answer=answer,  # type: ignore[arg-type]
            headline=headline,
            known=known(verdicts),
            not_known=not_known(verdicts),
            exit_code=1 if answer == "regression" else 0,
        ),
        verdicts=verdicts,
        runs=runs_of(scenarios) if runs is None else runs,
        agreement=agreements(verdicts) if agreement is None else agreement,
        pooled=pooled_over(verdicts) if pooled is None else pooled,
        negative_control=control or NegativeControl("upstream_latency", "quiet", 0.0009, -0.0071, 0.0088, QUIET),
        notes=notes,
    )


def known(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """What the evidence supports, of what was asked for."""
    verdicts = asked_for(verdicts)
    sentences = [
        f"{verdict.metric} regressed in {verdict.scenario}: {100 * (verdict.estimate or 0):+.1f} %, beyond the zone."
        for verdict in verdicts
        if verdict.verdict == "regression"
    ]
    for name in ("equivalent", "improvement"):
        if count := sum(verdict.verdict == name for verdict in verdicts):
            sentences.append(f"{count} of {len(verdicts)} comparisons: {name}.")
    return tuple(sentences)


def not_known(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """What the evidence leaves open."""
    asked = asked_for(verdicts)
    sentences = [
        f"{verdict.metric} is inconclusive in {verdict.scenario}: between {100 * (verdict.low or 0):+.1f} % and"
        f" {100 * (verdict.high or 0):+.1f} %; about {verdict.repeats_to_settle} repeats per version would settle it."
        for verdict in asked
        if verdict.verdict == "inconclusive"
    ]
    if count := sum(verdict.verdict == "not comparable" for verdict in asked):
        sentences.append(f"{count} of {len(asked)} comparisons could not be made.")
    if any(verdict.absent for verdict in verdicts):
        sentences.append(f"graphql_error_rate: {GRAPHQL_ABSENT}.")
    return tuple(sentences)


def asked_for(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """What the gates count: neither what is absent nor the negative control."""
    return [verdict for verdict in verdicts if not verdict.absent and verdict.metric != NEGATIVE_CONTROL]


def agreements(verdicts: Sequence[Verdict]) -> tuple[Agreement, ...]:
    """Repeats that agree, except that five are too few to say for the number with the largest spread."""
    found = []
    for verdict in verdicts:
        if verdict.absent:
            continue
        for version in (BASELINE, CANDIDATE):
            shape = verdict.unit == "ms" and verdict.metric != "service_p99"
            few = verdict.metric == "service_p99"
            found.append(
                Agreement(
                    version=version,
                    scenario=verdict.scenario,
                    metric=verdict.metric,
                    status="too few to say" if few else "agree",
                    statistic="log Wasserstein distance" if shape else "coefficient of variation",
                    value=0.013 if shape else 0.041,
                    limit=0.025 if shape else 0.15,
                    repeats=REPEATS,
                    within=0.009 if shape else None,
                    most_influential_run=f"{version}-{verdict.scenario}-r03",
                    message="service_p99 varies by 4.1 % between repeats (between 2.5 % and 11.8 %; limit 15 %)"
                    if few
                    else "repeats typically lie 1.3 % apart (limit 2.5 %)",
                )
            )
    return tuple(found)


def pooled_over(verdicts: Sequence[Verdict]) -> tuple[Pooled, ...]:
    """Equal-weight means over the comparable scenarios."""
    found = []
    for metric in METRICS:
        compared = [verdict for verdict in verdicts if verdict.metric == metric and verdict.estimate is not None]
        if not compared:
            continue
        for statistic, p in (("p50", 50.0), ("p95", 95.0)) if compared[0].percentiles else (("value", None),):
            changes = {
                verdict.scenario: next(
                    (point.estimate for point in verdict.percentiles if point.p == p), verdict.estimate
                )
                for verdict in compared
            }
            mean = sum(value or 0.0 for value in changes.values()) / len(changes)
            half = T * (0.0002 if compared[0].unit == "ratio" else 0.011) / math.sqrt(len(changes))
            worst = max(changes, key=lambda name: changes[name] or 0.0)
            found.append(
                Pooled(
                    metric, statistic, mean, mean - half, mean + half, 11.2, len(changes), worst, changes[worst] or 0.0
                )
            )
    return tuple(found)


def smooth_step(p: float, start: float, end: float) -> float:
    """0 below `start`, 1 above `end`, smooth between."""
    x = min(1.0, max(0.0, (p - start) / (end - start)))
    return x * x * (3 - 2 * x)


def normal_quantile(share: float) -> float:
    """Rough quantile of the standard normal distribution, good enough for a picture."""
    return (share**0.135 - (1 - share) ** 0.135) / 0.1975


def settle(low: float, high: float, zone_low: float, zone_high: float) -> int:
    """Repeats until the interval, shrinking around its middle, no longer crosses an edge."""
    middle, half = (low + high) / 2, (high - low) / 2
    distance = min(abs(zone_high - middle), abs(middle - zone_low))
    return max(REPEATS + 1, math.ceil(REPEATS * (half / max(distance, 0.004)) ** 2))


def curves_for(found: Judgement) -> tuple[RunCurve, ...]:
    """Runs that scatter around what the verdicts say, every metric of every run."""
    verdicts = {(verdict.scenario, verdict.metric): verdict for verdict in found.verdicts if not verdict.absent}
    curves = []
    every = max(1, math.ceil(len(found.runs) * 6 / MANY_CURVES))  # as `curves_of` thins them
    for place, run in enumerate(found.runs):
        for (scenario, metric), verdict in verdicts.items():
            if scenario != run.scenario:
                continue
            off = 0.025 * math.sin(2.3 * place + len(metric))
            candidate = run.version == found.candidate
            points = verdict.percentiles
            level = (verdict.candidate_value if candidate else verdict.baseline_value) or 1.0
            climbs = 0.004 if run.status == "set aside" else 0.0
            hold = range(12 // every)
            curves.append(
                RunCurve(
                    run_id=run.run_id,
                    scenario=scenario,
                    metric=metric,
                    version=run.version,
                    repeat=run.repeat,
                    percentiles=tuple(
                        (point.candidate_ms if candidate else point.baseline_ms) * (1 + off * (0.5 + point.p / 100))
                        if place_of % every == 0
                        else math.nan
                        for place_of, point in enumerate(points)
                    ),
                    value=math.nan if points else level * (1 + off),
                    levels=()
                    if verdict.unit == "ratio"
                    else tuple(
                        level * (1 + off + climbs * part + 0.006 * math.sin(place + 1.9 * part)) for part in hold
                    ),
                    hold_s=20.0,
                )
            )
    return tuple(curves)


OUTCOMES: dict[str, Callable[[], Judgement]] = {
    "regression": regression,
    "no_regression": no_regression,
    "not_enough_evidence": not_enough_evidence,
    "control_moved": control_moved,
    "baseline_differs_from_itself": baseline_differs_from_itself,
    "everything_set_aside": everything_set_aside,
}

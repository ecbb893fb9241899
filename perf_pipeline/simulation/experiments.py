"""Experiments: campaigns with a known truth, judged, and what the verdicts got right and wrong.

What belongs here: one function for each question about the gates. It simulates one campaign from a seed, judges it and
counts; `claims` says how large which count may be, and `bench/calibration.py` repeats them. The gates are asked through
`judge` alone. Campaigns that were designed before their first run (looks, pairs, an A/A arm) are in `designs`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtri, stdtrit

from perf_pipeline.gates.evidence import METRICS, NEGATIVE_CONTROL, FloatArray, LatencySample, NumberSample, RunEvidence
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from perf_pipeline.simulation.campaign import Campaign, Incident, RunKey, named
from perf_pipeline.simulation.counting import changed, covered, share_of, total, verdicts_of, verdicts_on, without_zero
from perf_pipeline.simulation.evidence import evidence, simulate
from perf_pipeline.simulation.peers import PEERS
from perf_pipeline.simulation.rates import Counts
from perf_pipeline.simulation.run_effects import Law, RunEffects, Seconds, Shift, draw_seconds
from perf_pipeline.simulation.scenario import Errors, Latency, Memory, Scenario
from perf_pipeline.simulation.shapes import Bimodal, HeavyTail, LogNormal
from perf_pipeline.simulation.truth import Truth, draw_truth, log_change

SCENARIOS = 50
"""Of one campaign."""
FEW_SCENARIOS = 20
"""Of one campaign that asks about single runs and repeats, or about peers."""
RATE_PER_S = 500.0
"""Over a hold of 240 s: 120,000 requests a run."""
DIFFERING_NOISE = 0.4
"""Log-normal spread of the run effects' size between scenarios."""


def coverage(seed: int, policy: Policy, repeats: int, law: Law) -> Counts:
    """How often pointwise intervals hold the true change, of percentiles and of a number; also the noisiest tenth."""
    effects = RunEffects(level=0.02, spread=0.02, law=law)
    scenario = Scenario(
        "s",
        RATE_PER_S,
        {"client_latency": Latency(12.0, effects=effects)},
        Memory(effects=effects),
        changes={"client_latency": Shift(level=0.03), "service_memory": Shift(level=-0.02)},
    )
    truth = draw_truth(Campaign(named(scenario, SCENARIOS), repeats, differing_noise=DIFFERING_NOISE), seed)
    verdicts = verdicts_on(truth, policy)
    everywhere: list[tuple[float, float]] = []
    noisiest: list[tuple[float, float]] = []
    for metric in scenario.changes:
        expected = np.expm1(log_change(scenario, metric))
        held = {one.scenario: covered(one, expected) for one in verdicts if one.metric == metric}
        everywhere.extend(held.values())
        noisiest.extend(held[name] for name in _noisiest(truth, metric))
    return {"covered": total(everywhere), "covered in the noisiest tenth": total(noisiest)}


def nothing_changed(seed: int, policy: Policy) -> Counts:
    """How often a change is called where nothing changed, by metric and in a whole campaign; and any band without 0."""
    return called(verdicts_on(draw_truth(unchanged_campaign(), seed), policy))


def at_the_edge(seed: int, policy: Policy) -> Counts:
    """How often a change exactly as large as the zone is called equivalent, or a regression, by metric."""
    return called_at_the_edge(verdicts_on(draw_truth(edge_campaign(policy), seed), policy))


def unchanged_campaign() -> Campaign:
    """A campaign in which nothing changed, with every kind of scenario.

    Three shapes, run effects on level, spread and tail, errors that are absent, rare or come in bursts.
    """
    effects = RunEffects(level=0.03, spread=0.03, tail=0.03)
    shapes, errors = (LogNormal(), Bimodal(), HeavyTail()), (Errors(), Errors(1e-4), Errors(0.002, 0.2))
    scenarios = tuple(
        Scenario(
            f"s{number:03d}",
            RATE_PER_S,
            {
                "client_latency": Latency(12.0, shapes[number % 3], effects),
                "service_latency": Latency(9.0, shapes[number % 3], effects),
                NEGATIVE_CONTROL: Latency(5.0, effects=RunEffects(level=0.01)),
            },
            Memory(effects=RunEffects(level=0.02)),
            {"http_error_rate": errors[number // 3 % 3], "graphql_error_rate": errors[number // 9 % 3]},
        )
        for number in range(SCENARIOS)
    )
    return Campaign(scenarios, differing_noise=DIFFERING_NOISE)


def called(verdicts: Sequence[Verdict]) -> Counts:
    """Changes that are called in a campaign, by metric and at all, and distributions with a band without 0."""
    asked = [one for one in verdicts if one.metric != NEGATIVE_CONTROL]
    counts = {
        metric: share_of(changed(one) for one in asked if one.metric == metric)
        for metric in METRICS
        if metric != NEGATIVE_CONTROL
    }
    return counts | {
        "campaign": share_of([any(map(changed, asked))]),
        "band without 0": share_of(without_zero(one) for one in asked if one.percentiles),
    }


def edge_campaign(policy: Policy) -> Campaign:
    """A campaign in which every metric changed by exactly its zone.

    In every other scenario only the tail of the latency lies at the edge, so that p99 alone stands against a wrong
    "equivalent".
    """
    zone = {metric: float(np.log1p(edge)) for metric, edge in policy.change.zone.items()}
    effects = RunEffects(level=0.02, spread=0.01, tail=0.02)
    scenario = Scenario(
        "s",
        RATE_PER_S,
        {"client_latency": Latency(12.0, effects=effects), "service_latency": Latency(9.0, effects=effects)},
        Memory(effects=RunEffects(level=0.02)),
        {"http_error_rate": Errors(0.002, 0.05)},
        rate_changes={"http_error_rate": policy.change.zone["http_error_rate"]},
    )
    numbers = {"service_latency": Shift(level=zone["service_p99"]), "service_memory": Shift(zone["service_memory"])}
    kinds = (Shift(level=zone["client_latency"]), Shift(tail=zone["client_latency"]))
    scenarios = tuple(
        replace(one, changes={**numbers, "client_latency": kinds[number % 2]})
        for number, one in enumerate(named(scenario, SCENARIOS))
    )
    return Campaign(scenarios, differing_noise=DIFFERING_NOISE)


def called_at_the_edge(verdicts: Sequence[Verdict]) -> Counts:
    """What is called where the truth lies on the edge, by metric."""
    return {
        f"{metric} {name}": share_of(one.verdict == name for one in verdicts if one.metric == metric)
        for metric in ("client_latency", "service_p99", "service_memory", "http_error_rate")
        for name in ("equivalent", "regression")
    }


def equivalence(seed: int, policy: Policy, run_cv: float) -> Counts:
    """How often a distribution is equivalent when nothing changed, beside Welch's interval and the true variances."""
    scenario = Scenario("s", 2000.0, {"client_latency": Latency(12.0, effects=RunEffects(level=run_cv))})
    truth = draw_truth(Campaign(named(scenario, SCENARIOS), differing_noise=DIFFERING_NOISE), seed)
    runs = evidence(truth, with_levels=False)
    edge = float(np.log1p(policy.change.zone["client_latency"]))
    welch = known = 0
    for one in truth.campaign.scenarios:
        sides = _sides(runs, one.name)
        difference = sides[1].mean(axis=0) - sides[0].mean(axis=0)
        parts = [side.var(axis=0, ddof=1) / len(side) for side in sides]
        df = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
        reach = stdtrit(df, 0.975) * np.sqrt(sum(parts))
        welch += bool((np.abs(difference) + reach < edge).all())
        true_error = run_cv * truth.noise[one.name, "client_latency"] * np.sqrt(2 / truth.campaign.repeats)
        known += bool((np.abs(difference) + ndtri(0.975) * true_error < edge).all())
    verdicts = verdicts_of(runs, policy)
    return {
        "equivalent": share_of(one.verdict == "equivalent" for one in verdicts),
        "Welch": (float(welch), float(SCENARIOS)),
        "known variance": (float(known), float(SCENARIOS)),
    }


def worse_everywhere(seed: int, policy: Policy, change: float, run_cv: float) -> Counts:
    """How often a change of all percentiles alike is called a regression."""
    effects = RunEffects(level=run_cv)
    changes = {"client_latency": Shift(level=float(np.log1p(change)))}
    scenario = Scenario("s", RATE_PER_S, {"client_latency": Latency(12.0, effects=effects)}, changes=changes)
    verdicts = verdicts_on(draw_truth(Campaign(named(scenario, SCENARIOS)), seed), policy)
    return {"regression": share_of(one.verdict == "regression" for one in verdicts)}


def drift(seed: int, policy: Policy, autocorrelation: float, second_sd: float, per_240_s: float = 0.0) -> Counts:
    """How often 240 levels of one second each cost a run its metric, or the run, in Gate 1."""
    runs = simulate(Campaign(named(Scenario("s", memory=Memory()), FEW_SCENARIOS)), seed, with_levels=False)
    rng = np.random.default_rng([seed, 1])
    noise = draw_seconds(rng, Seconds(second_sd, autocorrelation), len(runs), 240)
    levels = np.exp(19.0 + noise + np.log1p(per_240_s) / 240 * (np.arange(240) - 119.5))
    judged = judge(
        [
            replace(run, metrics={**run.metrics, "service_memory": NumberSample(2e8 + row, levels[row], 1.0)})
            for row, run in enumerate(runs)
        ],
        "1.0",
        "1.1",
        policy,
    )
    failed = [
        any(check.metric == "service_memory" and check.consequence != "none" for check in run.checks)
        for run in judged.runs
    ]
    return {"failed": (float(sum(failed)), float(len(failed)))}


def outlier(seed: int, policy: Policy, shift: float, run_cv: float) -> Counts:
    """How often Gate 2 names the one repeat of five that is shifted, and how often the repeats are said to disagree."""
    effects = RunEffects(level=run_cv)
    scenario = Scenario("s", RATE_PER_S, {"client_latency": Latency(12.0, effects=effects)}, Memory(effects=effects))
    scenarios = named(scenario, FEW_SCENARIOS)
    rng = np.random.default_rng([seed, 1])
    shifts = {metric: Shift(level=float(np.log1p(shift))) for metric in ("client_latency", "service_memory")}
    odd_ones = {
        RunKey(version, one.name, int(rng.integers(1, 6))): Incident(shifts=shifts)
        for one in scenarios
        for version in ("1.0", "1.1")
    }
    runs = simulate(Campaign(scenarios, incidents=odd_ones), seed, with_levels=False)
    odd_ids = {run.run_id for run in odd_ones}
    agreement = [one for one in judge(runs, "1.0", "1.1", policy).agreement if one.metric in shifts]
    named_ones = [one.most_influential_run in odd_ids for one in agreement]
    disagree = [one.status == "disagree" for one in agreement]
    return {
        "named": (float(sum(named_ones)), float(len(agreement))),
        "disagree": (float(sum(disagree)), float(len(agreement))),
    }


def error_rates(seed: int, policy: Policy, errors_per_run: float, variance: float) -> Counts:
    """How often the interval of an error rate's difference excludes 0 when nothing changed."""
    errors = Errors(errors_per_run / (RATE_PER_S * 240), variance)
    verdicts = verdicts_on(
        draw_truth(Campaign(named(Scenario("s", RATE_PER_S, errors={"http_error_rate": errors}), SCENARIOS)), seed),
        policy,
    )
    found = [one for one in verdicts if one.low is not None and one.high is not None]
    return {"excludes 0": share_of(without_zero(one) for one in found)}


def against_peers(seed: int, policy: Policy, change: float, run_cv: float, second_sd: float = 0.02) -> Counts:
    """How often the gates and each of the peers call a change, on the same runs."""
    latency = Latency(12.0, effects=RunEffects(level=run_cv), seconds=Seconds(second_sd, 0.5))
    changes = {"client_latency": Shift(level=float(np.log1p(change)))}
    scenario = Scenario("s", RATE_PER_S, {"client_latency": latency}, changes=changes)
    truth = draw_truth(Campaign(named(scenario, FEW_SCENARIOS)), seed)
    runs, verdicts = evidence(truth), verdicts_on(truth, policy)
    rng = np.random.default_rng([seed, 1])
    counts = {
        "perf_pipeline": share_of(changed(one) for one in verdicts),
        "perf_pipeline, a band without 0": share_of(without_zero(one) for one in verdicts),
    }
    samples = [[_samples(runs, one.scenario, version) for version in ("1.0", "1.1")] for one in verdicts]
    for name, calls_a_change in PEERS.items():
        called = [calls_a_change(baseline, candidate, rng) for baseline, candidate in samples]
        counts[name] = (float(sum(called)), float(len(called)))
    return counts


def _noisiest(truth: Truth, metric: str) -> list[str]:
    """The tenth of the scenarios whose runs truly differ most in this metric."""
    by_noise = sorted((factor, name) for (name, of), factor in truth.noise.items() if of == metric)
    return [name for _, name in by_noise[-max(1, len(by_noise) // 10) :]]


def _samples(runs: Sequence[RunEvidence], scenario: str, version: str) -> list[LatencySample]:
    of_side = (run for run in runs if run.scenario == scenario and run.version == version)
    samples = (run.metrics["client_latency"] for run in of_side)
    return [sample for sample in samples if isinstance(sample, LatencySample)]


def _sides(runs: Sequence[RunEvidence], scenario: str) -> list[FloatArray]:
    """(n, P) ln quantiles of the runs of each side."""
    return [np.stack([one.log_quantiles for one in _samples(runs, scenario, side)]) for side in ("1.0", "1.1")]

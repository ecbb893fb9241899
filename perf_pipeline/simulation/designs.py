"""Experiments on campaigns that were designed before their first run: looks, pairs, an A/A arm.

What belongs here: one function for each question, as in `experiments`. Looks are taken as a harness takes them: after
each one, scenarios that are settled are measured no more.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from perf_pipeline.gates.evidence import Design, RunEvidence
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.looks import settled
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from perf_pipeline.simulation import experiments
from perf_pipeline.simulation.campaign import Campaign, Incident, named
from perf_pipeline.simulation.counting import (
    BASELINE,
    CANDIDATE,
    asked_for,
    covered,
    share_of,
    total,
    verdicts_of,
)
from perf_pipeline.simulation.evidence import evidence, simulate
from perf_pipeline.simulation.rates import Counts
from perf_pipeline.simulation.run_effects import RunEffects, Shift
from perf_pipeline.simulation.scenario import Latency, Memory, Scenario
from perf_pipeline.simulation.truth import draw_truth, log_change

LOOKS = (5, 8, 12)


def looks_nothing_changed(seed: int, policy: Policy) -> Counts:
    """`experiments.nothing_changed` in looks; and the runs of each scenario as a share of those of the last look."""
    verdicts, spent = _in_looks(experiments.unchanged_campaign(), seed, policy)
    return {**experiments.called(verdicts), "runs spent": spent}


def looks_at_the_edge(seed: int, policy: Policy) -> Counts:
    """`experiments.at_the_edge` in looks."""
    verdicts, spent = _in_looks(experiments.edge_campaign(policy), seed, policy)
    return {**experiments.called_at_the_edge(verdicts), "runs spent": spent}


def looks_at_latency(seed: int, policy: Policy, change: float, run_cv: float) -> Counts:
    """The same for client latency alone, changed by so much at all percentiles: runs spent, and what they answer."""
    changes = {"client_latency": Shift(level=float(np.log1p(change)))}
    latency = Latency(12.0, effects=RunEffects(level=run_cv))
    scenario = Scenario("s", experiments.RATE_PER_S, {"client_latency": latency}, changes=changes)
    campaign = Campaign(named(scenario, experiments.SCENARIOS), differing_noise=experiments.DIFFERING_NOISE)
    verdicts, spent = _in_looks(campaign, seed, policy)
    fixed = verdicts_of(simulate(replace(campaign, repeats=LOOKS[-1]), seed, with_levels=False), policy)
    return {
        "runs spent": spent,
        "answered": share_of(one.verdict != "inconclusive" for one in verdicts),
        "answered by a fixed number": share_of(one.verdict != "inconclusive" for one in fixed),
    }


def paired(seed: int, policy: Policy, block: float) -> Counts:
    """Pairs by block: how often intervals hold the true change, and equivalent with and without pairing.

    Runs vary by 3 % of their own; those of a block share a further effect of the size `block`.
    """
    effects = RunEffects(level=0.03, block=block)
    scenario = Scenario(
        "s",
        experiments.RATE_PER_S,
        {"client_latency": Latency(12.0, effects=effects)},
        Memory(effects=RunEffects(level=0.01, block=block / 3)),
        changes={"client_latency": Shift(level=0.01), "service_memory": Shift(level=-0.01)},
    )
    campaign = Campaign(
        named(scenario, experiments.SCENARIOS),
        repeats=8,
        differing_noise=experiments.DIFFERING_NOISE,
        design=Design(paired=True),
    )
    runs = evidence(draw_truth(campaign, seed), with_levels=False)
    verdicts = verdicts_of(runs, policy)
    apart = verdicts_of([replace(run, design=None) for run in runs], policy)
    held = [covered(one, np.expm1(log_change(scenario, one.metric))) for one in verdicts]
    return {
        "covered": total(held),
        "equivalent": _equivalent(verdicts),
        "equivalent without pairs": _equivalent(apart),
    }


def arm_against_itself(seed: int, policy: Policy, bias: float) -> Counts:
    """How often the A/A arm moves in a campaign, when its runs are slower by so much than those of the main arm.

    With a bias of 0 every "moved" is wrong. Otherwise the harness favours one side in every run, as a fixed order does.
    """
    campaign = replace(experiments.unchanged_campaign(), aa_arm=True)
    slower = Incident(shifts={"client_latency": Shift(level=float(np.log1p(bias)))})
    incidents = {run: slower for _, run in campaign.runs() if run.arm == "aa"}
    runs = simulate(replace(campaign, incidents=incidents), seed, with_levels=False)
    arm = judge(runs, BASELINE, CANDIDATE, policy).aa_arm
    return {"moved": share_of([arm is not None and arm.status == "moved"])}


def _in_looks(campaign: Campaign, seed: int, policy: Policy) -> tuple[list[Verdict], tuple[float, float]]:
    """The last verdicts of a campaign that is judged in looks, and its runs beside those of a fixed number."""
    design = Design(looks=LOOKS)
    runs = simulate(replace(campaign, repeats=LOOKS[-1], design=design), seed, with_levels=False)
    repeats = {scenario.name: LOOKS[0] for scenario in campaign.scenarios}
    judgement = judge(_first(runs, repeats), BASELINE, CANDIDATE, policy)
    for look, following in pairwise(LOOKS):
        done = settled(judgement)
        # What stopped once stays as it is, whatever later looks at the others teach about noise.
        going_on = [name for name, number in repeats.items() if number == look and name not in done]
        repeats |= dict.fromkeys(going_on, following)
        judgement = judge(_first(runs, repeats), BASELINE, CANDIDATE, policy)
    return asked_for(judgement.verdicts), (float(sum(repeats.values())), float(LOOKS[-1] * len(repeats)))


def _first(runs: Sequence[RunEvidence], repeats: dict[str, int]) -> list[RunEvidence]:
    return [run for run in runs if run.repeat <= repeats[run.scenario]]


def _equivalent(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    return share_of(one.verdict == "equivalent" for one in verdicts)

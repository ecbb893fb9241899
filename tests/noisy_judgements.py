"""Judgements of runs on busy machines, made by the real gates from simulated runs: real sentences at full length.

Beside the hand-written ones of `report_judgements`, whose sentences are short. The names are those of the demo.
"""

from dataclasses import replace
from functools import cache

from perf_pipeline.gates.evidence import Missing, RunEvidence
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.verdict import judge
from perf_pipeline.simulation.campaign import Campaign, Incident, RunKey
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.run_effects import RunEffects, Shift
from perf_pipeline.simulation.scenario import every_metric
from tests.simulated_runs import policy

BASELINE, CANDIDATE = "1.0.0", "1.1.0"
SCENARIOS = ("browse", "products")
FEW_STARTED = Incident(load_share=0.91)
"""A tenth of the requests could not be started."""


@cache
def busy_machine() -> Judgement:
    """Two scenarios of which 8 of 20 runs were set aside; what is left disagrees, and the clock was not measured."""
    repeats = {(BASELINE, "browse"): (2, 4), (BASELINE, "products"): (1, 5), (CANDIDATE, "browse"): (1, 3),
               (CANDIDATE, "products"): (2, 3)}  # fmt: skip
    lost = [(*side, repeat) for side, some in repeats.items() for repeat in some]
    return _judged(SCENARIOS, lost, RunEffects(level=0.5), seed=3)


@cache
def candidate_hardly_starts() -> Judgement:
    """Every way of not knowing at once: the candidate alone lost nearly all its runs, both sides disagree elsewhere."""
    lost = [(CANDIDATE, name, repeat) for name in ("browse", "search") for repeat in (1, 2, 3, 4)]
    names = ("browse", "products", "search", "a-scenario-with-quite-a-long-name-as-real-ones-have", "checkout")
    return _judged(names, lost, RunEffects(level=0.35, tail=0.3), seed=4)


@cache
def large_busy_machine() -> Judgement:
    """Twenty scenarios; a third of the runs were set aside."""
    names = tuple(f"graph-{number:02d}" for number in range(20))
    versions = (BASELINE, CANDIDATE)
    lost = [
        (version, name, 1 + (place + repeat) % 5)
        for place, name in enumerate(names)
        for version in versions
        for repeat in range(1 + place % 3)
    ]
    return _judged(names, lost, RunEffects(level=0.15), seed=5)


def _judged(scenarios: tuple[str, ...], lost: list[tuple[str, str, int]], effects: RunEffects, seed: int) -> Judgement:
    """The candidate is 10 % slower, and no pair of runs is alike."""
    slower = {metric: Shift(level=0.1) for metric in ("client_latency", "service_latency")}
    campaign = Campaign(
        tuple(every_metric(name, effects=effects, changes=slower) for name in scenarios),
        baseline=BASELINE,
        candidate=CANDIDATE,
        hold_s=20,
        incidents={RunKey(*run): FEW_STARTED for run in lost},
    )
    runs = [_without_clock(run) for run in simulate(campaign, seed)]
    return judge(runs, BASELINE, CANDIDATE, policy())


def _without_clock(run: RunEvidence) -> RunEvidence:
    """Short series do not reach beyond the load, and GraphQL is not asked for."""
    absent = Missing("the plan names no source for it", absent=True)
    return replace(run, clock_offset=None, metrics={**run.metrics, "graphql_error_rate": absent})


NOISY = {
    "busy_machine": busy_machine,
    "candidate_hardly_starts": candidate_hardly_starts,
    "large_busy_machine": large_busy_machine,
}

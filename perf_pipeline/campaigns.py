"""Campaigns of a plan that were measured before: what they say about noise, to judge a new one by or to plan it.

What belongs here: finding them in the object store by the hash of their plan, and what a planned campaign can see. What
noise is made of them is in `gates.past` and `gates.power`.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.evidence import DISTRIBUTIONS, ERROR_RATES, METRICS, PERCENTILES, Design, RunEvidence
from perf_pipeline.gates.past import noise_of
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.power import ErrorNoise, Noise, NoiseKey, Sight, what_can_be_seen
from perf_pipeline.lab.run_directory import find_runs
from perf_pipeline.metrics.extract import MetricTables, evidence, extract_runs, read_metrics
from perf_pipeline.plan import Plan
from perf_pipeline.storage import ObjectStore
from perf_pipeline.warehouse import read_table, stored_comparisons

EARLIER_CAMPAIGNS = 5
"""As many of the latest ones are asked: enough for a prior, and the lab of long ago is another lab."""


def earlier_campaigns(
    store: ObjectStore, plan_hash: str | None, before: datetime | None, but: str = ""
) -> list[Sequence[RunEvidence]]:
    """The runs of the latest campaigns of a plan that began before a time, one sequence each, the latest first.

    `but` is the comparison that asks. Without the hash of a plan, such as for runs that others made, there are none.
    """
    if plan_hash is None:
        return []
    others = [(start, key) for key, start in _campaigns_of(store, plan_hash) if key != but]
    began = sorted((pair for pair in others if before is None or pair[0] < before), reverse=True)
    return [evidence(read_metrics(store, key)) for _, key in began[:EARLIER_CAMPAIGNS]]


def plan_of(tables: MetricTables) -> str | None:
    """The hash of the plan that runs were measured under; None where they do not agree on one."""
    plans = set(tables.run["plan"].to_pylist())
    return plans.pop() if len(plans) == 1 else None


def _campaigns_of(store: ObjectStore, plan_hash: str) -> Iterator[tuple[str, datetime]]:
    """The comparisons that were measured under the plan, and when."""
    for comparison in stored_comparisons(store):
        key = f"metrics/{comparison}/run.parquet"
        if not store.exists(key):
            continue
        run = read_table(store, key, columns=["plan", "hold_start"])
        start = pc.min(run["hold_start"]).as_py()
        if start is not None and set(run["plan"].to_pylist()) == {plan_hash}:
            yield comparison, start


def noise_of_plan(store: ObjectStore, plan: Plan, policy: Policy) -> dict[NoiseKey, Noise | ErrorNoise]:
    """The noise that the latest campaign of a plan showed. Raises InputError when the plan was never measured."""
    campaigns = earlier_campaigns(store, plan.hash, None)
    if not campaigns:
        raise InputError(
            Problem(
                str(plan.path),
                "no campaign of this plan was measured yet, so nothing is known of its noise",
                "name a folder of runs with --pilot, or assume a coefficient of variation with --cv",
            )
        )
    return noise_of(campaigns[0], policy)


def noise_of_pilot(folder: Path, policy: Policy) -> dict[NoiseKey, Noise | ErrorNoise]:
    """The noise that the run directories below a folder show.

    Raises InputError for runs that cannot be read, and when no version has two runs to tell noise from.
    """
    noise = noise_of(evidence(extract_runs(find_runs(folder))), policy)
    if not noise:
        raise InputError(
            Problem(str(folder), "holds no two valid runs of one version and scenario", "measure more repeats")
        )
    return noise


def assumed_noise(plan: Plan, cv: float) -> dict[NoiseKey, Noise | ErrorNoise]:
    """The same noise in every scenario and metric that the plan names a source for: between runs, as a ratio.

    Error rates are left out, because how errors occur cannot be guessed.
    """
    asked = [name for name in METRICS if getattr(plan.metrics, name) is not None and name not in ERROR_RATES]
    sd = math.sqrt(math.log1p(cv**2))
    return {
        (scenario.name, metric): Noise(np.full(len(PERCENTILES) if metric in DISTRIBUTIONS else 1, sd))
        for scenario in plan.scenarios
        for metric in asked
    }


def sights(plan: Plan, policy: Policy, noise: dict[NoiseKey, Noise | ErrorNoise]) -> tuple[Sight, ...]:
    """What a campaign of the plan can see with the repeats, looks and pairs that it schedules."""
    schedule = plan.schedule
    return what_can_be_seen(noise, schedule.repeats, policy, Design(schedule.looks, schedule.paired))

"""The deploy sensor: a comparison for each new version.

What belongs here: asking Dagster to run what `perf_pipeline.deploys` says, and nothing about what that is.
"""

import dagster as dg

from assets.abandoned_runs import end_abandoned_runs
from assets.jobs import compare_versions
from assets.partitions import COMPARISON_PARTITIONS, COMPARISONS, PARTITION_TAG
from assets.resources import PlanResource, StoreResource
from perf_pipeline.deploys import Deploy, Seen, ask, forget, read_deploys
from perf_pipeline.errors import InputError
from perf_pipeline.version_source import read_versions

COMPARISONS_PER_TICK = 3
"""A tick has a minute, and the lab measures one comparison at a time; the next tick goes on."""


@dg.sensor(job=compare_versions, minimum_interval_seconds=60)
def deploys(
    context: dg.SensorEvaluationContext, plan: PlanResource, store: StoreResource
) -> dg.SensorResult | dg.SkipReason:
    """Compare each new version with the one that ran when it came.

    New versions are objects below `deploys/` in the object store, and the newest build of the plan's version source.
    """
    end_abandoned_runs(context.instance)
    objects, seen = store.open(), Seen.from_text(context.cursor)
    try:
        loaded = plan.load()
        versions = read_versions(loaded, objects)
    except InputError as error:
        return dg.SkipReason(f"The versions are not known: {error}")
    found, names, problems = read_deploys(objects, seen.handled)
    if loaded.version_source is not None:
        build = Deploy(f"build {versions.newest}", versions.newest, baseline=versions.release, runs=False)
        found, names = [*found, build], [*names, build.name]
    asked = ask(
        found,
        seen,
        running=versions.release,
        compared=_compared(context.instance),
        limit=COMPARISONS_PER_TICK,
    )
    said = [*asked.ignored, *map(str, problems)]
    for line in said:
        context.log.warning(line)
    return dg.SensorResult(
        run_requests=[_request(key, asked.again.get(key)) for key in asked.comparisons],
        skip_reason=None if asked.comparisons else "; ".join(said) or "No new deploy.",
        dynamic_partitions_requests=[COMPARISONS.build_add_request(list(asked.comparisons))],
        cursor=forget(asked.seen, names).to_text(),
    )


def _request(key: str, again_for: str | None) -> dg.RunRequest:
    """The run of a comparison; one that was made before is measured afresh, once for the deploy that asks for it."""
    if again_for is None:
        return dg.RunRequest(run_key=key, partition_key=key)
    afresh = {"ops": {"test_runs": {"config": {"fresh": True}}}}
    return dg.RunRequest(run_key=f"{key} {again_for}", partition_key=key, run_config=afresh)


def _compared(instance: dg.DagsterInstance) -> list[str]:
    """The comparisons that a run was asked for. A partition alone is none: previewing the schedule adds one."""
    asked = dict(instance.get_run_tags(tag_keys=[PARTITION_TAG])).get(PARTITION_TAG, set())
    return [key for key in instance.get_dynamic_partitions(COMPARISON_PARTITIONS) if key in asked]


SENSORS = [deploys]

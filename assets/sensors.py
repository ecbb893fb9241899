"""The deploy sensor: a comparison for each new version.

What belongs here: asking Dagster to run what `perf_pipeline.deploys` says, and nothing about what that is.
"""

import dagster as dg

from assets.abandoned_runs import end_abandoned_runs
from assets.jobs import compare_versions
from assets.partitions import COMPARISON_PARTITIONS, COMPARISONS, PARTITION_TAG
from assets.release import release_verdict
from assets.resources import PlanResource, StoreResource
from assets.under_way import measuring
from perf_pipeline.deploys import Asked, Comparisons, Deploy, Seen, ask, forget, read_deploys
from perf_pipeline.errors import InputError
from perf_pipeline.version_source import nothing_newer, read_versions

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
    seen = seen.looked(versions.release)
    found, names, problems = read_deploys(objects, seen.handled)
    if loaded.version_source is not None:
        build = Deploy(f"build {versions.newest}", versions.newest, baseline=versions.release, runs=False)
        found, names = [*found, *([] if nothing_newer(loaded, versions) else [build])], [*names, build.name]
    asked = ask(
        found,
        seen,
        running=versions.release,
        made=_made(context.instance),
        limit=COMPARISONS_PER_TICK,
    )
    said = [*asked.ignored, *map(str, problems)]
    for line in said:
        context.log.warning(line)
    return dg.SensorResult(
        run_requests=[_request(key, asked) for key in asked.comparisons],
        skip_reason=None if asked.comparisons else "; ".join(said) or "No new deploy.",
        dynamic_partitions_requests=[COMPARISONS.build_add_request(list(asked.comparisons))],
        cursor=forget(asked.seen, names).to_text(),
    )


def _request(key: str, asked: Asked) -> dg.RunRequest:
    """The run of a comparison, once for each deploy record that asks for it, and once for a build.

    One that was made before is measured afresh; one that failed is gone on with. Dagster drops a run key that it knows.
    """
    afresh = {"ops": {"test_runs": {"config": {"fresh": True}}}} if key in asked.again else {}
    record = asked.asked_by.get(key)
    return dg.RunRequest(run_key=f"{key} {record}" if record else key, partition_key=key, run_config=afresh)


def _made(instance: dg.DagsterInstance) -> Comparisons:
    """What became of the comparisons. A partition alone is none: previewing the schedule adds one."""
    known = frozenset(instance.get_dynamic_partitions(COMPARISON_PARTITIONS))
    asked = known & dict(instance.get_run_tags(tag_keys=[PARTITION_TAG])).get(PARTITION_TAG, set())
    judged = known & instance.get_materialized_partitions(release_verdict.key)
    under_way = known & {run.tags.get(PARTITION_TAG) for run in measuring(instance)} - judged
    return Comparisons(judged, under_way, asked - judged - under_way)


SENSORS = [deploys]

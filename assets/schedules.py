"""When things run by themselves: traffic is captured each hour, and each night the newest build is compared.

What belongs here: when to start them, and when not. They are stopped until somebody starts them, in the UI or with
`dagster schedule start`. Where versions come from is in `perf_pipeline.version_source`.
"""

from datetime import UTC, timedelta

import dagster as dg

from assets.abandoned_runs import end_abandoned_runs
from assets.jobs import capture_traffic, compare_versions
from assets.notifications import tell_no_night
from assets.partitions import COMPARISON_PARTITIONS
from assets.release import release_verdict
from assets.resources import PlanResource, StoreResource
from assets.under_way import measuring
from perf_pipeline.errors import InputError
from perf_pipeline.plan import compare_command, comparison_key
from perf_pipeline.version_source import nothing_newer, read_versions

CAPTURE_MINUTE = 10
"""Minutes past the hour: its partition is there, and its late lines have come (`capture.hour_bounds.MARGIN_S`)."""


@dg.schedule(job=compare_versions, cron_schedule="0 2 * * *", execution_timezone="UTC")
def nightly(
    context: dg.ScheduleEvaluationContext, plan: PlanResource, store: StoreResource
) -> dg.RunRequest | dg.SkipReason:
    """At 02:00 UTC, compare the current release with the newest build, unless that was answered or one still runs.

    A comparison that failed or was stopped is taken up again: only its missing runs are measured. Where the versions
    are not known, the tick fails: a source that is broken for weeks must not look like weeks without a build.
    """
    try:
        loaded = plan.load()
        versions = read_versions(loaded, store.open())
    except InputError as error:
        context.log.error(tell_no_night(str(error), context.scheduled_execution_time))
        raise
    if reason := nothing_newer(loaded, versions):
        return dg.SkipReason(f"There is nothing to compare: {reason}.")
    key = comparison_key(versions.release, versions.newest)
    end_abandoned_runs(context.instance)
    if running := measuring(context.instance):
        return dg.SkipReason(f"A comparison is still under way: run {running[0].run_id}.")
    if key in context.instance.get_materialized_partitions(release_verdict.key):
        again = f"`{compare_command(loaded, key)} --fresh`"
        return dg.SkipReason(
            f"{key} was judged already; {again} measures it again, and without --fresh what is missing."
        )
    context.instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [key])
    night = f"{context.scheduled_execution_time:%Y-%m-%d}"
    # Not the key alone: a night whose comparison failed would never be followed by another try.
    return dg.RunRequest(run_key=f"{key} {night}", partition_key=key, tags={"perf_pipeline/night": night})


@dg.schedule(job=capture_traffic, cron_schedule=f"{CAPTURE_MINUTE} * * * *", execution_timezone="UTC")
def capture_hourly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Capture the hour that is over, once its late lines have come."""
    over = context.scheduled_execution_time.astimezone(UTC) - timedelta(hours=1)
    key = f"{over:%Y-%m-%d-%H}:00"
    return dg.RunRequest(run_key=key, partition_key=key)


SCHEDULES = [nightly, capture_hourly]

"""Which runs are measuring, or will.

What belongs here: telling them from those that only read and judge, whichever job they are of and whoever started them.
"""

from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from assets.jobs import compare_versions
from assets.runs import test_runs

UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
RETRIED_WITHIN = timedelta(minutes=10)
"""Dagster repeats a killed run within seconds. Marks of those that it gave up, such as of a backfill's end, stay."""


def measuring(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The runs under way that measure a comparison, also those that *Materialize* at an asset started.

    One that was killed and that Dagster is about to repeat is under way too.
    """
    # First the failed ones: a run that is repeated in between is found twice, not missed.
    lately = RunsFilter(statuses=[DagsterRunStatus.FAILURE], updated_after=datetime.now(UTC) - RETRIED_WITHIN)
    repeated = [run for run in instance.get_runs(lately) if _will_be_repeated(run)]
    return [run for run in (*instance.get_runs(RunsFilter(statuses=UNDER_WAY)), *repeated) if _measures(run)]


def _will_be_repeated(run: dg.DagsterRun) -> bool:
    # Without an origin, as of `perf-pipeline compare`, the daemon cannot repeat it.
    return run.is_complete_and_waiting_to_retry and run.remote_job_origin is not None


def _measures(run: dg.DagsterRun) -> bool:
    if run.asset_selection is not None:
        return test_runs.key in run.asset_selection
    return run.job_name == compare_versions.name

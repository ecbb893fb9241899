"""Which runs are measuring, or will.

What belongs here: telling them from those that only read and judge, whichever job they are of and whoever started them.
"""

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


def measuring(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The runs under way that measure a comparison, also those that *Materialize* at an asset started."""
    return [run for run in instance.get_runs(RunsFilter(statuses=UNDER_WAY)) if _measures(run)]


def _measures(run: dg.DagsterRun) -> bool:
    if run.asset_selection is not None:
        return test_runs.key in run.asset_selection
    return run.job_name == compare_versions.name

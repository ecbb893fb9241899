"""A run whose process was killed gives the lab back; one that is under way keeps it."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
from dagster import DagsterRunStatus

from assets.abandoned_runs import _TAG, _name_of, end_abandoned_runs, process_tags


def started_run(instance: dg.DagsterInstance, tags: dict[str, str]) -> str:
    @dg.job
    def some_job() -> None:
        pass

    run = instance.create_run_for_job(some_job, status=DagsterRunStatus.STARTED, tags=tags)
    return run.run_id


def test_only_runs_of_processes_that_are_gone_are_ended(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = _name_of(gone.pid)
    gone.kill()
    gone.communicate()
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        killed = started_run(instance, {_TAG: name})
        reused_pid = started_run(instance, {_TAG: process_tags()[_TAG].rpartition(" ")[0] + " 1.00"})
        under_way = started_run(instance, process_tags())
        elsewhere = started_run(instance, {_TAG: "another-host 1 1.00"})
        of_the_daemon = started_run(instance, {})
        assert set(end_abandoned_runs(instance)) == {killed, reused_pid}
        statuses = {run.run_id: run.status for run in instance.get_runs()}
        assert statuses[killed] == DagsterRunStatus.FAILURE
        assert {statuses[run] for run in (under_way, elsewhere, of_the_daemon)} == {DagsterRunStatus.STARTED}

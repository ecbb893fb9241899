"""A run whose process was killed gives the lab back; one that is under way keeps it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import dagster as dg
from dagster import DagsterRunStatus

from assets.abandoned_runs import _TAG, _name_of, end_abandoned_runs, note_process
from assets.resources import StoreResource


def started_run(instance: dg.DagsterInstance, process: str | None, run_id: str | None = None) -> str:
    """A run that is under way and says that this process executes it, or executed the run with that id."""

    @dg.job
    def some_job() -> None:
        pass

    run = instance.create_run_for_job(some_job, status=DagsterRunStatus.STARTED)
    if process is not None:
        instance.add_run_tags(run.run_id, {_TAG: f"{run_id or run.run_id} {process}"})
    return run.run_id


def test_only_runs_of_processes_that_are_gone_are_ended(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = _name_of(gone.pid)
    gone.kill()
    gone.communicate()
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        killed = started_run(instance, name)
        reused_pid = started_run(instance, f"{socket.gethostname()} {os.getpid()} t1")
        under_way = started_run(instance, _name_of(os.getpid()))
        elsewhere = started_run(instance, "another-host 1 t1")
        of_nobody = started_run(instance, None)
        another_try = started_run(instance, name, run_id=killed)
        assert set(end_abandoned_runs(instance)) == {killed, reused_pid}
        statuses = {run.run_id: run.status for run in instance.get_runs()}
        assert statuses[killed] == DagsterRunStatus.FAILURE
        others = (under_way, elsewhere, of_nobody, another_try)
        assert {statuses[run] for run in others} == {DagsterRunStatus.STARTED}


def test_every_run_that_uses_the_store_says_which_process_executes_it(tmp_path: Path) -> None:
    @dg.op
    def use(store: StoreResource) -> None:
        store.open()

    @dg.job(resource_defs={"store": StoreResource(location=str(tmp_path / "objects"))})
    def some_job() -> None:
        use()

    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        result = some_job.execute_in_process(instance=instance)
        run = instance.get_run_by_id(result.run_id)
        assert run is not None
        assert run.tags[_TAG] == f"{run.run_id} {_name_of(os.getpid())}"
        note_process(instance, run)
        assert end_abandoned_runs(instance) == []

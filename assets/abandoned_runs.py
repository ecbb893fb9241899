"""Runs that a killed process left behind: they would look as if they were under way, and hold the lab, for ever.

What belongs here: marking runs with the process that executes them, and ending those whose process is gone. While the
daemon runs it notices the end of those that it launched; after it was killed too, such as when the machine went down,
it knows nothing of them any more.
"""

import os
import socket

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from perf_pipeline.process_start import process_start, runs_since

_TAG = ".dagster/perf_pipeline_process"
"""The UI hides tags with this prefix: people need not see it."""


def note_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Mark a run that is being executed with this process: host, pid and start."""
    # A run that repeats another takes over its tags, so that a mark has to say whose it is.
    mark = f"{run.run_id} {_name_of(os.getpid())}"
    if run.tags.get(_TAG) != mark:
        instance.add_run_tags(run.run_id, {_TAG: mark})


def end_abandoned_runs(instance: dg.DagsterInstance) -> list[str]:
    """End runs whose process on this host is gone, give their pool slots back, and return their ids."""
    under_way = RunsFilter(statuses=[DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING])
    abandoned = [run for run in instance.get_runs(under_way) if _is_abandoned(run)]
    for run in abandoned:
        instance.report_run_failed(run, "The process that executed this run was killed.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in abandoned]


def _name_of(pid: int) -> str:
    # A pid is used again; together with its start it is not.
    return f"{socket.gethostname()} {pid} {process_start(pid)}"


def _is_abandoned(run: dg.DagsterRun) -> bool:
    """Whether the run is marked with a process of this host that no longer runs."""
    run_id, _, name = run.tags.get(_TAG, "").partition(" ")
    host, _, process = name.partition(" ")
    if run_id != run.run_id or host != socket.gethostname():
        return False
    pid, _, start = process.partition(" ")
    return not runs_since(int(pid), start)

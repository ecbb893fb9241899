"""Runs that a killed process left behind: they would look as if they were under way, and hold the lab, for ever.

What belongs here: marking the runs of the command line with the process that executes them, and ending those whose
process is gone. Runs that the daemon launched are watched by its run monitoring (dagster.yaml).
"""

import os
import socket

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from perf_pipeline.process_start import process_start, runs_since

_TAG = ".dagster/perf_pipeline_process"
"""The UI hides tags with this prefix: people need not see it."""


def process_tags() -> dict[str, str]:
    """Tags that say which process executes a run: host, pid and the time that it was started."""
    return {_TAG: _name_of(os.getpid())}


def end_abandoned_runs(instance: dg.DagsterInstance) -> list[str]:
    """End runs whose process on this host is gone, give their pool slots back, and return their ids."""
    under_way = RunsFilter(statuses=[DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING])
    abandoned = [run for run in instance.get_runs(under_way) if _is_gone(run.tags.get(_TAG, ""))]
    for run in abandoned:
        instance.report_run_failed(run, "The process that executed this run was killed.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in abandoned]


def _name_of(pid: int) -> str:
    # A pid is used again; together with its start it is not.
    return f"{socket.gethostname()} {pid} {process_start(pid)}"


def _is_gone(name: str) -> bool:
    """Whether the name is that of a process of this host that no longer runs."""
    host, _, rest = name.partition(" ")
    if host != socket.gethostname():
        return False
    pid, _, start = rest.partition(" ")
    return not runs_since(int(pid), start)

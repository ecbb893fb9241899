"""Materialise a comparison from the command line, in this process: `python -m assets.materialize KEY`.

What belongs here: which partitions of which job a comparison needs, and the verdict on the terminal at the end. The UI
shows what was materialised here like anything else.
"""

import argparse
import sys

import dagster as dg
from rich.console import Console

from assets.abandoned_runs import end_abandoned_runs, process_tags
from assets.definitions import defs
from assets.jobs import capture_traffic, compare_versions
from assets.partitions import COMPARISON_PARTITIONS
from assets.resources import PlanResource, StoreResource
from perf_pipeline.capture.token_source import requests_folder
from perf_pipeline.errors import InputError
from perf_pipeline.judge import judge_stored
from perf_pipeline.plan import compare_command
from perf_pipeline.report import terminal
from perf_pipeline.report.context import context_of

# The console says what this module prints; Dagster's own events are in the UI.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def materialize(comparison: str, fresh: bool) -> None:
    """Capture the hours that the plan names, unless they are there, and materialise the comparison.

    `fresh` removes the runs of the comparison first. Raises InputError when the question or the input is wrong.
    """
    instance, plan, store = dg.DagsterInstance.get(), PlanResource().load(), StoreResource().open()
    end_abandoned_runs(instance)
    missing = [hour for hour in plan.workload.hours if not store.keys(requests_folder(hour))]
    for hour in missing if plan.capture.log else []:
        execute(capture_traffic.name, hour, instance)
    if fresh:
        store.delete(f"runs/{comparison}")
    instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [comparison])
    execute(compare_versions.name, comparison, instance)


def execute(job: str, partition: str, instance: dg.DagsterInstance) -> None:
    """Execute a job for one partition in this process; its events are in the UI."""
    defs.resolve_job_def(job).execute_in_process(
        instance=instance, partition_key=partition, run_config=_QUIET, tags=process_tags()
    )


def main() -> int:
    """Read the arguments, materialise, print the verdict, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m assets.materialize")
    parser.add_argument("comparison")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--exit-by-verdict", action="store_true")
    arguments = parser.parse_args()
    try:
        materialize(arguments.comparison, arguments.fresh)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except dg.DagsterExecutionInterruptedError:
        sys.stderr.write("stopped; what was measured is kept, and the same command goes on with what is missing\n")
        return 130
    plan, store = PlanResource().load(), StoreResource().open()
    judged = judge_stored(store, arguments.comparison, plan)
    context = context_of(judged, plan.service, compare_command(plan, arguments.comparison))
    Console().print(terminal.render(judged.judgement, context))
    Console().print(f"\nReport: {store.uri(f'reports/{arguments.comparison}/report.html')}", soft_wrap=True)
    return judged.judgement.decision.exit_code if arguments.exit_by_verdict else 0


if __name__ == "__main__":
    sys.exit(main())

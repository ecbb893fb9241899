"""Materialise a comparison from the command line, in this process: `python -m assets KEY`.

What belongs here: which partitions of which job a comparison needs, and the verdict on the terminal at the end. The UI
shows what was materialised here like anything else.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterAssetCheckFailedError
from dagster._core.instance import InstanceRef
from rich.console import Console

from assets.abandoned_runs import end_abandoned_runs
from assets.definitions import defs
from assets.jobs import capture_traffic, compare_versions
from assets.partitions import COMPARISON_PARTITIONS, check_hours
from assets.resources import PlanResource, StoreResource, WarehouseResource
from perf_pipeline.capture.origin import hours_to_capture
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.exits import INTERRUPTED, NOT_ENOUGH_EVIDENCE, exit_code, write_whatever_the_encoding
from perf_pipeline.judge import judge_stored
from perf_pipeline.lab.run_directory import find_runs, read_record
from perf_pipeline.plan import compare_command
from perf_pipeline.progress import told_to_the_user
from perf_pipeline.report import json_output, terminal
from perf_pipeline.report.context import context_of
from perf_pipeline.storage import ObjectStore

# The console says what this module prints; Dagster's own events are in the UI.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def materialize(comparison: str, fresh: bool) -> None:
    """Capture the plan's hours, unless they are there by its rules and from its log, and materialise the comparison.

    `fresh` measures all runs of the comparison again. Raises InputError when the question or the input is wrong.
    """
    instance, plan, store = _instance(), PlanResource().load_to_measure(), StoreResource().open()
    end_abandoned_runs(instance)
    check_hours(plan.workload.hours)
    WarehouseResource().open().prepare(store)  # what is measured ends there
    for hour in hours_to_capture(store, plan):
        execute(capture_traffic.name, hour, instance)
    instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [comparison])
    try:
        # The campaign removes what was measured itself, while no other measures and once it can measure again.
        execute(compare_versions.name, comparison, instance, {"ops": {"test_runs": {"config": {"fresh": fresh}}}})
    except DagsterAssetCheckFailedError as error:
        raise InputError(_incomplete(store, comparison)) from error


def _instance() -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME, without copies of what steps print.

    The user sees what they print; the processes that make the copies would show tracebacks of theirs at Ctrl-C.
    """
    no_copies = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    home = os.environ["DAGSTER_HOME"]
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(home, overrides={"compute_logs": no_copies}))


def _incomplete(store: ObjectStore, comparison: str) -> list[Problem]:
    """A problem for each version without a complete run in a scenario, with what its runs failed of."""
    records = [read_record(run) for run in find_runs(store.local_folder(f"runs/{comparison}"))]
    sides = sorted({(record.scenario, record.version) for record in records})
    problems = []
    for scenario, version in sides:
        of_side = [record for record in records if (record.scenario, record.version) == (scenario, version)]
        if not any(record.status == "complete" for record in of_side):
            reasons = Counter(record.failure or "no reason is recorded" for record in of_side)
            what = f"no complete run of {version} in scenario {scenario}; its failures: " + "; ".join(
                f"{reason} ({count} times)" if count > 1 else reason for reason, count in reasons.items()
            )
            remedy = f"read the logs of its runs in {store.uri(f'runs/{comparison}')}, and measure again with --fresh"
            problems.append(Problem(f"comparison {comparison}", what, remedy))
    return problems or [Problem(f"comparison {comparison}", "holds nothing to judge", "measure again with --fresh")]


def execute(job: str, partition: str, instance: dg.DagsterInstance, config: Mapping[str, Any] | None = None) -> None:
    """Execute a job for one partition in this process; its events are in the UI."""
    defs.resolve_job_def(job).execute_in_process(
        instance=instance, partition_key=partition, run_config=_QUIET | dict(config or {})
    )


def main() -> int:
    """Read the arguments, materialise, print the verdict, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m assets")
    parser.add_argument("comparison")
    parser.add_argument("--fresh", action="store_true")
    for flag in ("--exit-by-verdict", "--json", "--require-evidence"):
        parser.add_argument(flag, action="store_true")
    arguments = parser.parse_args()
    write_whatever_the_encoding()
    try:
        with told_to_the_user():
            materialize(arguments.comparison, arguments.fresh)
        return _answer(arguments)
    except (dg.DagsterExecutionInterruptedError, KeyboardInterrupt):
        sys.stderr.write("stopped; what was measured is kept, and the same command goes on with what is missing\n")
        return INTERRUPTED
    except Exception as error:
        return exit_code(error)


def _answer(arguments: argparse.Namespace) -> int:
    """Print the verdict, and return the exit code that it asks for."""
    plan, store = PlanResource().load(), StoreResource().open()
    judged = judge_stored(store, arguments.comparison, plan)
    context = context_of(judged, plan.service, compare_command(plan, arguments.comparison))
    decision = judged.judgement.decision
    if arguments.json:
        print(json.dumps(json_output.to_json(judged.judgement), indent=2, allow_nan=False))  # noqa: T201
    else:
        Console().print(terminal.render(judged.judgement, context), crop=False)
    report = f"\nReport: {store.uri(f'reports/{arguments.comparison}/report.html')}"
    Console(stderr=arguments.json).print(report, soft_wrap=True)
    if arguments.require_evidence and decision.answer == "not enough evidence":
        return NOT_ENOUGH_EVIDENCE
    return decision.exit_code if arguments.exit_by_verdict else 0


if __name__ == "__main__":
    sys.exit(main())

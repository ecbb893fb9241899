"""Many comparisons one after the other, in this process: `python -m assets.backfill KEY...`.

What belongs here: going on when one fails, and the table at the end. The UI backfills partitions by itself; this is the
same for the command line. With `--judge-only` nothing is measured: the stored metrics are judged again, under another
policy if one is named.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import dagster as dg
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assets.abandoned_runs import end_abandoned_runs
from assets.jobs import judge_again
from assets.materialize import execute, materialize
from assets.partitions import COMPARISON_PARTITIONS, comparisons_between, in_order_of_making
from assets.resources import PlanResource, StoreResource, WarehouseResource
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.exits import WRONG_INPUT
from perf_pipeline.judge import judge_stored
from perf_pipeline.plan import split_comparison_key
from perf_pipeline.progress import told_to_the_user
from perf_pipeline.report.wording import prose
from perf_pipeline.warehouse import stored_comparisons


@dataclass(frozen=True)
class Outcome:
    """What became of one comparison."""

    comparison: str
    answer: str
    """The decision, or `failed`."""
    why: str
    seconds: float


def backfill(comparisons: Sequence[str], judge_only: bool, say: Callable[[str], None]) -> list[Outcome]:
    """Materialise each comparison; one that fails is said and the next one starts.

    An interruption ends the backfill: what was measured is kept, and the same call goes on with what is missing.
    """
    instance, plan, store = dg.DagsterInstance.get(), PlanResource(), StoreResource()
    end_abandoned_runs(instance)
    outcomes = []
    for number, key in enumerate(comparisons, start=1):
        say(f"{number} of {len(comparisons)}  {key}")
        began = time.monotonic()
        try:
            if judge_only:
                _check_that_it_was_measured(key, store)
                instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [key])
                execute(judge_again.name, key, instance)
            else:
                materialize(key, fresh=False)
            decision = judge_stored(store.open(), key, plan.load()).judgement.decision
            outcome = Outcome(key, decision.answer, decision.headline, time.monotonic() - began)
        except Exception as error:  # whatever it is, it is this comparison's alone
            message = _cause(error)
            say(message)
            outcome = Outcome(key, "failed", message.partition("\n")[0], time.monotonic() - began)
        outcomes.append(outcome)
        say(f"{number} of {len(comparisons)}  {key}: {outcome.answer}, {outcome.seconds:.0f} s")
    return outcomes


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """One row a comparison."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("comparison", no_wrap=True)
    table.add_column("answer", no_wrap=True)
    table.add_column("in a sentence", overflow="fold")
    for outcome in outcomes:
        table.add_row(outcome.comparison, outcome.answer, Text(prose(outcome.why)))
    return table


def _cause(error: BaseException) -> str:
    """What was raised first: the message of a wrong input with its remedy, the kind and first line of anything else."""
    while error.__cause__ is not None and not isinstance(error, InputError):
        error = error.__cause__
    first = str(error).strip().partition("\n")[0]
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {first}"


def _check_that_it_was_measured(key: str, store: StoreResource) -> None:
    """Raise InputError where nothing is stored of a comparison: it would stand in the UI for ever."""
    if key not in stored_comparisons(store.open()):
        raise InputError(Problem(f"comparison {key}", "was never measured", "measure it: without --judge-only"))


def _chosen(arguments: argparse.Namespace, store: StoreResource) -> list[str]:
    """The comparisons that the arguments name; without any, all that are known."""
    if arguments.comparisons:
        for key in arguments.comparisons:
            split_comparison_key(key)
        return list(dict.fromkeys(arguments.comparisons))
    known = list(dg.DagsterInstance.get().get_dynamic_partitions(COMPARISON_PARTITIONS))
    if arguments.judge_only:
        known = in_order_of_making(stored_comparisons(store.open()), known)
    chosen = comparisons_between(known, arguments.first, arguments.last)
    if not chosen:
        raise InputError(Problem("backfill", "there is no comparison yet", "name some: <baseline>__<candidate> ..."))
    return chosen


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Read the arguments, materialise, print the table; 0, or 2 when one failed: 1 would mean a regression."""
    parser = argparse.ArgumentParser(prog="python -m assets.backfill")
    parser.add_argument("comparisons", nargs="*")
    parser.add_argument("--from", dest="first")
    parser.add_argument("--to", dest="last")
    parser.add_argument("--judge-only", action="store_true")
    arguments = parser.parse_args()
    try:
        PlanResource().load()
        WarehouseResource().open().prepare(StoreResource().open())  # said once, and not for each comparison
        chosen = _chosen(arguments, StoreResource())
        with told_to_the_user():
            outcomes = backfill(chosen, arguments.judge_only, _say)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_INPUT
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        sys.stderr.write("stopped; what was measured is kept, and the same command goes on with what is missing\n")
        return 130
    Console().print(outcome_table(outcomes))
    _say(f"Reports: {StoreResource().open().uri('reports/index.html')}")
    return WRONG_INPUT if any(outcome.answer == "failed" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

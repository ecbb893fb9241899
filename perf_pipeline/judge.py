"""From measured runs to a judgement: the seam between what was measured and the pure gates.

What belongs here: finding the policy, handing the evidence to the gates, and collecting the plain facts that a report
states beside the judgement. No statistics, and no Dagster.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from perf_pipeline.campaigns import earlier_campaigns, plan_of
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.evidence import RunEvidence
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.looks import settled
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from perf_pipeline.gates.wording import counted
from perf_pipeline.lab.run_directory import find_runs, read_record
from perf_pipeline.metrics.extract import MetricTables, evidence, extract_runs, read_metrics
from perf_pipeline.metrics.foreign.results import find_results
from perf_pipeline.metrics.foreign.told import NOTHING_TOLD, Told, told_in_vain
from perf_pipeline.metrics.measured_run import RUN_DIRECTORY
from perf_pipeline.plan import Plan, split_comparison_key
from perf_pipeline.storage import ObjectStore
from perf_pipeline.yaml_model import parse_yaml_model

_BUILT_IN = Path(__file__).parent / "gates" / "policies"

Facts = tuple[tuple[str, str], ...]
"""(label, value) in the order in which people read them."""


@dataclass(frozen=True)
class Judged:
    """A judgement, and what a report says beside it."""

    judgement: Judgement
    policy: Policy
    facts: Facts
    runs: tuple[RunEvidence, ...] = ()
    """What the gates were given, for the pictures of single runs."""


def load_policy(name: str, folder: Path = Path()) -> Policy:
    """A built-in policy by its name, or a policy file by its path (from `folder` when it is relative).

    Raises InputError when there is none, and with every error of the file at once.
    """
    built_in = _BUILT_IN / f"{name}.yaml"
    path = built_in if built_in.is_file() else folder / name
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        names = ", ".join(sorted(path.stem for path in _BUILT_IN.glob("*.yaml")))
        raise InputError(
            Problem(f"policy {name}", "is neither a built-in policy nor a file that can be read", f"built in: {names}")
        ) from error
    return parse_yaml_model(Policy, text, str(path), example="a built-in policy (perf_pipeline/gates/policies)")


def judge_tables(
    tables: MetricTables,
    baseline: str,
    candidate: str,
    policy: Policy,
    earlier: Sequence[Sequence[RunEvidence]] = (),
) -> Judgement:
    """What the three gates say about measured runs, knowing the noise of earlier campaigns of the same plan.

    Raises InputError when one of the versions was not measured.
    """
    return _judged(tables, baseline, candidate, policy, earlier).judgement


def _judged(
    tables: MetricTables,
    baseline: str,
    candidate: str,
    policy: Policy,
    earlier: Sequence[Sequence[RunEvidence]] = (),
) -> Judged:
    if problems := list(_unmeasured(tables, baseline, candidate)):
        raise InputError(problems)
    runs = evidence(tables)
    judgement = judge(runs, baseline, candidate, policy, earlier)
    judgement = replace(judgement, notes=(*judgement.notes, *_remarks(tables.run)))
    return Judged(judgement, policy, facts_of(tables.run, policy), tuple(runs))


def judge_folder(
    folder: Path,
    baseline: str,
    candidate: str,
    policy: Policy,
    told: Told = NOTHING_TOLD,
    pattern: str | None = None,
) -> Judged:
    """What the three gates say about the runs below a folder: run directories, and results of other load generators.

    `told` is what such results do not say themselves, `pattern` where their paths name version, scenario and repeat.
    Runs of other versions may stand in the same folder; they are on neither side. Raises InputError with every problem
    of every run at once.
    """
    tables, notes = read_folder(folder, (baseline, candidate), told, pattern)
    judged = _judged(tables, baseline, candidate, policy)
    return replace(judged, judgement=replace(judged.judgement, notes=(*judged.judgement.notes, *notes)))


def read_folder(
    folder: Path, versions: tuple[str, str], told: Told = NOTHING_TOLD, pattern: str | None = None
) -> tuple[MetricTables, tuple[str, ...]]:
    """The measured runs below a folder, and what a reader has to know of how they were found, one sentence each.

    `versions` are the baseline and the candidate, `told` and `pattern` as for `judge_folder`. Raises InputError with
    every problem of every run at once, and when one of the versions was not measured.
    """
    found = find_results(folder, versions, told, pattern)
    problems = list(found.problems)
    runs: list[Path] = []
    try:
        runs = find_runs(folder, found.files)
    except InputError as error:
        problems += error.problems
    try:
        tables = extract_runs([*runs, *found.results])
    except InputError as error:
        problems += error.problems
    if not problems:
        of_others = pc.not_equal(tables.run["source"], RUN_DIRECTORY)
        problems += told_in_vain(told, set(tables.run.filter(of_others)["scenario"].to_pylist()))
        problems += _unmeasured(tables, *versions)
    if problems:
        # What is missing may be there in a form that cannot be judged.
        raise InputError([*problems, *found.unreadable])
    return tables, tuple(found.notes())


def _unmeasured(tables: MetricTables, baseline: str, candidate: str) -> Iterator[Problem]:
    """The versions of a comparison that no run is of."""
    present = sorted(set(tables.run["version"].to_pylist()))
    missing = [
        Problem(side, f"no run is of version {version}", f"the runs are of {', '.join(present)}")
        for side, version in (("--baseline", baseline), ("--candidate", candidate))
        if version not in present
    ]
    yield from missing
    if not missing and baseline == candidate:
        yield Problem("--candidate", f"{candidate} is also the baseline", "name two different versions")


def _remarks(run: pa.Table) -> Iterator[str]:
    """What a reader has to know of how the runs were read, each with the number of runs that it is about."""
    counts = Counter(remark for remarks in run["remarks"].to_pylist() for remark in remarks or ())
    for remark, number in sorted(counts.items()):
        yield f"In {number} of {counted(run.num_rows, 'run')}: {remark}."


def judge_stored(store: ObjectStore, comparison: str, plan: Plan) -> Judged:
    """What the plan's policy says about the stored metrics of a comparison; nothing is measured.

    Raises InputError when there are none, or the policy is wrong.
    """
    policy = load_policy(plan.policy, plan.folder)
    tables = read_metrics(store, comparison)
    earlier = earlier_campaigns(store, plan_of(tables), pc.min(tables.run["hold_start"]).as_py(), comparison)
    return _judged(tables, *split_comparison_key(comparison), policy, earlier)


def settled_at(store: ObjectStore, comparison: str, plan: Plan, look: int) -> tuple[str, ...]:
    """The scenarios that need no more repeats, judged by the runs of a comparison up to a look (repeats per version).

    Raises InputError when one of the versions has no run that can be read.
    """
    folder = store.local_folder(f"runs/{comparison}")
    tables = extract_runs([run for run in find_runs(folder) if read_record(run).repeat <= look])
    policy = load_policy(plan.policy, plan.folder)
    earlier = earlier_campaigns(store, plan_of(tables), pc.min(tables.run["hold_start"]).as_py(), comparison)
    return settled(judge_tables(tables, *split_comparison_key(comparison), policy, earlier))


def facts_of(run: pa.Table, policy: Policy) -> Facts:
    """The plain facts about the runs of a comparison (table `run`): how much was measured, where, by which policy."""
    measured = pc.min(run["hold_start"]).as_py()
    environments = [dict(pairs) for pairs in run["environment"].to_pylist()]
    facts = [
        ("Runs", f"{run.num_rows}, {_listed(run['repeat'], '{:g} repeats', largest=True)} per version and scenario"),
        ("Hold", _listed(run["hold_s"], "{:.4g} s")),
        ("Target rate", _listed(run["target_rate_per_s"], "{:g} requests/s")),
        ("Read from", _listed(run["source"], "{}")),
        ("Measured", "" if measured is None else f"{measured:%Y-%m-%d %H:%M} UTC"),
        ("Workload", _listed(run["workload"], "{}")),
        ("Plan", _listed(run["plan"], "{}")),
        *((label, _distinct(environments, key)) for label, key in _ENVIRONMENT),
        ("Policy", f"{policy.name}, version {policy.version}"),
    ]
    return tuple((label, value) for label, value in facts if value)


_ENVIRONMENT = (("k6", "k6"), ("Machine", "node"), ("CPU", "cpu_model"), ("CPUs", "cpus"), ("Kernel", "kernel"))


def _listed(column: pa.ChunkedArray, form: str, largest: bool = False) -> str:
    """The distinct values of a column in words; empty when it has none."""
    values = sorted(set(column.drop_null().to_pylist()))
    return ", ".join(form.format(value) for value in (values[-1:] if largest else values))


def _distinct(environments: Sequence[dict[str, str]], key: str) -> str:
    return ", ".join(sorted({environment[key] for environment in environments if key in environment}))

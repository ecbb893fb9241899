"""From measured runs to a judgement: the seam between what was measured and the pure gates.

What belongs here: finding the policy, handing the evidence to the gates, and collecting the plain facts that a report
states beside the judgement. No statistics, and no Dagster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from perf_pipeline.lab.run_directory import find_runs
from perf_pipeline.metrics.extract import MetricTables, evidence, extract_runs, read_metrics
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


def judge_tables(tables: MetricTables, baseline: str, candidate: str, policy: Policy) -> Judgement:
    """What the three gates say about measured runs.

    Raises InputError when one of the versions was not measured.
    """
    present = sorted(set(tables.run["version"].to_pylist()))
    problems = [
        Problem(side, f"no run is of version {version}", f"the runs are of {', '.join(present)}")
        for side, version in (("--baseline", baseline), ("--candidate", candidate))
        if version not in present
    ]
    if not problems and baseline == candidate:
        problems.append(Problem("--candidate", f"{candidate} is also the baseline", "name two different versions"))
    if problems:
        raise InputError(problems)
    return judge(evidence(tables), baseline, candidate, policy)


def judge_folder(folder: Path, baseline: str, candidate: str, policy: Policy) -> Judged:
    """What the three gates say about the run directories below a folder.

    Runs of other versions may stand in the same folder; they are on neither side. Raises InputError with every problem
    of every run directory at once.
    """
    tables = extract_runs(find_runs(folder))
    return Judged(judge_tables(tables, baseline, candidate, policy), policy, facts_of(tables.run, policy))


def judge_stored(store: ObjectStore, comparison: str, plan: Plan) -> Judged:
    """What the plan's policy says about the stored metrics of a comparison; nothing is measured.

    Raises InputError when there are none, or the policy is wrong.
    """
    policy = load_policy(plan.policy, plan.folder)
    tables = read_metrics(store, comparison)
    judgement = judge_tables(tables, *split_comparison_key(comparison), policy)
    return Judged(judgement, policy, facts_of(tables.run, policy))


def facts_of(run: pa.Table, policy: Policy) -> Facts:
    """The plain facts about the runs of a comparison (table `run`): how much was measured, where, by which policy."""
    environments = [dict(pairs) for pairs in run["environment"].to_pylist()]
    facts = [
        ("Runs", f"{run.num_rows}, {_listed(run['repeat'], '{:g} repeats', largest=True)} per version and scenario"),
        ("Hold", _listed(run["hold_s"], "{:.4g} s")),
        ("Target rate", _listed(run["target_rate_per_s"], "{:g} requests/s")),
        ("Measured", f"{pc.min(run['hold_start']).as_py():%Y-%m-%d %H:%M} UTC"),
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

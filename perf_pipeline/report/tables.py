"""The gates' findings as tables, for the object store and the warehouse.

What belongs here: one row for each finding of `gates.findings`, column for column. Which columns a table has, and what
each means in which unit, is written in `sql/tables/`. Two names differ because SQL reserves them: `check` is the column
`check_name`, and `limit` is `limit_value`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict

import pyarrow as pa

from perf_pipeline.gates.findings import Agreement, Judgement, RunValidity
from perf_pipeline.warehouse import table_schema

_Row = dict[str, object]


def judgement_tables(judgement: Judgement, comparison: str) -> dict[str, pa.Table]:
    """The tables gate_run_validity, gate_repeat_agreement, gate_change, gate_pooled, verdict and decision, by name.

    Each has a column `comparison`, and is there even when it has no row.
    """
    rows = {
        "gate_run_validity": _validity_rows(judgement.runs),
        "gate_repeat_agreement": map(_agreement_row, judgement.agreement),
        "gate_change": _change_rows(judgement),
        "gate_pooled": map(asdict, judgement.pooled),
        "verdict": (
            {name: value for name, value in vars(verdict).items() if name != "percentiles"}
            for verdict in judgement.verdicts
        ),
        "decision": [_decision_row(judgement)],
    }
    return {name: _table(name, found, comparison) for name, found in rows.items()}


def _table(name: str, rows: Iterable[_Row], comparison: str) -> pa.Table:
    """The rows as a table. Raises ValueError when a row has a field that the table has no column for."""
    schema, listed = table_schema(name), list(rows)
    if unknown := {field for row in listed for field in row} - set(schema.names):
        raise ValueError(f"sql/tables/{name}.sql has no column for {', '.join(sorted(unknown))}")
    table = pa.Table.from_pylist(listed, schema)
    return table.add_column(0, "comparison", pa.array([comparison] * table.num_rows, pa.string()))


def _validity_rows(runs: Iterable[RunValidity]) -> Iterator[_Row]:
    for run in runs:
        about_run = {
            "run_id": run.run_id,
            "version": run.version,
            "scenario": run.scenario,
            "repeat": run.repeat,
            "run_status": run.status,
            "reason": run.reason,
            "dropped_metrics": list(run.dropped_metrics),
        }
        for check in run.checks:
            yield about_run | _renamed(vars(check))
        if not run.checks:
            # A run that did not finish is in the table too.
            yield about_run


def _agreement_row(agreement: Agreement) -> _Row:
    return _renamed(vars(agreement))


def _renamed(finding: _Row) -> _Row:
    names = {"check": "check_name", "limit": "limit_value"}
    return {names.get(name, name): value for name, value in finding.items()}


def _change_rows(judgement: Judgement) -> Iterator[_Row]:
    for verdict in judgement.verdicts:
        for change in verdict.percentiles:
            yield {"scenario": verdict.scenario, "metric": verdict.metric} | vars(change)


def _decision_row(judgement: Judgement) -> _Row:
    decision, control = judgement.decision, judgement.negative_control
    return {
        "baseline": judgement.baseline,
        "candidate": judgement.candidate,
        **asdict(decision),
        "policy_name": judgement.policy_name,
        "policy_version": judgement.policy_version,
        **{f"control_{name}": value for name, value in vars(control).items()},
        "notes": list(judgement.notes),
        "looks": list(judgement.looks),
        "aa_status": judgement.aa_arm and judgement.aa_arm.status,
        "aa_message": judgement.aa_arm and judgement.aa_arm.message,
    }

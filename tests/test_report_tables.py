"""The findings as tables: every field has a column, and the views for people say what the findings say."""

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from perf_pipeline.gates.findings import (
    Agreement,
    Decision,
    Judgement,
    NegativeControl,
    PercentileChange,
    Pooled,
    RunCheck,
    RunValidity,
    Verdict,
)
from perf_pipeline.report.tables import judgement_tables
from perf_pipeline.storage import LocalObjectStore
from perf_pipeline.warehouse import Warehouse, read_tables, table_schema, write_tables
from tests.report_judgements import everything_set_aside, not_enough_evidence, regression

KEY = "1.0.0__1.1.0"
RENAMED = {"check": "check_name", "limit": "limit_value"}


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse.duckdb")


@pytest.mark.parametrize(
    ("table", "finding", "elsewhere"),
    [
        ("gate_run_validity", RunValidity, {"status", "checks"}),
        ("gate_run_validity", RunCheck, set()),
        ("gate_repeat_agreement", Agreement, set()),
        ("gate_change", PercentileChange, set()),
        ("gate_pooled", Pooled, set()),
        ("verdict", Verdict, {"percentiles"}),
        ("decision", Decision, set()),
        ("decision", Judgement, {"aa_arm", "decision", "verdicts", "runs", "agreement", "pooled", "negative_control"}),
    ],
)
def test_every_field_of_a_finding_has_a_column(table: str, finding: type, elsewhere: set[str]) -> None:
    names = {RENAMED.get(field.name, field.name) for field in fields(finding)} - elsewhere
    assert names <= set(table_schema(table).names)


def test_the_negative_control_has_its_columns() -> None:
    assert {f"control_{field.name}" for field in fields(NegativeControl)} <= set(table_schema("decision").names)


@pytest.mark.parametrize("make", [regression, not_enough_evidence, everything_set_aside])
def test_findings_survive_parquet_and_the_warehouse(
    make: Callable[[], Judgement], warehouse: Warehouse, tmp_path: Path
) -> None:
    judgement = make()
    tables = judgement_tables(judgement, KEY)
    store = LocalObjectStore(tmp_path / "store")
    write_tables(store, KEY, tables)
    warehouse.replace_comparison(KEY, read_tables(store, KEY))
    for name, table in tables.items():
        kept = warehouse.query(f"SELECT * FROM {name}")
        assert kept.select(table.column_names).to_pylist() == table.to_pylist(), name
    rows = tables["verdict"].to_pylist()
    assert [row["verdict"] for row in rows] == [verdict.verdict for verdict in judgement.verdicts]
    assert tables["gate_change"].num_rows == sum(len(verdict.percentiles) for verdict in judgement.verdicts)
    assert tables["gate_run_validity"].num_rows == sum(max(1, len(run.checks)) for run in judgement.runs)
    (decision,) = tables["decision"].to_pylist()
    assert decision["answer"] == judgement.decision.answer
    assert decision["known"] == list(judgement.decision.known)
    assert decision["control_status"] == judgement.negative_control.status


def test_a_run_without_checks_is_in_the_table() -> None:
    judgement = regression()
    bare = replace(judgement.runs[0], checks=(), status="set aside", reason="did not finish")
    table = judgement_tables(replace(judgement, runs=(bare,)), KEY)["gate_run_validity"]
    (row,) = table.to_pylist()
    assert (row["run_id"], row["run_status"], row["check_name"]) == (bare.run_id, "set aside", None)


def test_a_judgement_without_findings_has_empty_tables_of_the_same_columns() -> None:
    bare = replace(regression(), verdicts=(), runs=(), agreement=(), pooled=())
    for name, table in judgement_tables(bare, KEY).items():
        assert table.column_names == ["comparison", *table_schema(name).names]
        assert table.num_rows == (1 if name == "decision" else 0)


def test_a_new_field_without_a_column_is_a_defect_that_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = table_schema("gate_pooled").remove(0)
    monkeypatch.setattr("perf_pipeline.report.tables.table_schema", lambda name: narrow)
    with pytest.raises(ValueError, match="has no column for"):
        judgement_tables(regression(), KEY)


# --- Views -----------------------------------------------------------------------------------------------------------


def runs_table(hold_start: datetime, scenario: str, hold_s: float) -> pa.Table:
    row = {
        "run_id": "r", "version": "1", "scenario": scenario, "repeat": 1, "block": 1, "status": "complete",
        "hold_start": hold_start, "hold_s": hold_s, "sub_window_s": 1.0, "sub_windows": 1, "target_rate_per_s": 1.0,
        "environment": [("node", "a")],
    }  # fmt: skip
    return pa.Table.from_pylist([row], table_schema("run"))


def test_the_matrix_has_a_row_a_scenario_and_a_column_a_metric(warehouse: Warehouse) -> None:
    judgement = regression()
    warehouse.replace_comparison(KEY, judgement_tables(judgement, KEY))
    rows = warehouse.query("SELECT * FROM verdict_matrix").to_pylist()
    assert [row["scenario"] for row in rows] == sorted({verdict.scenario for verdict in judgement.verdicts})
    for verdict in judgement.verdicts:
        (cell,) = (row[verdict.metric] for row in rows if row["scenario"] == verdict.scenario)
        assert cell == ("absent" if verdict.absent else verdict.verdict)


def test_history_follows_the_time_of_measurement(warehouse: Warehouse) -> None:
    judgement = regression()
    scenario = judgement.verdicts[0].scenario
    for key, month in (("2.0__2.1", 2), ("1.0__1.1", 3), ("3.0__3.1", 1)):
        tables = judgement_tables(judgement, key)
        warehouse.replace_comparison(
            key, tables | {"run": runs_table(datetime(2026, month, 1, tzinfo=UTC), scenario, 60)}
        )
    rows = warehouse.query("SELECT * FROM release_history").to_pylist()
    order = list(dict.fromkeys(row["comparison"] for row in rows))
    assert order == ["3.0__3.1", "2.0__2.1", "1.0__1.1"]
    asked = [verdict for verdict in judgement.verdicts if not verdict.absent]
    assert len(rows) == 3 * len(asked)
    assert {row["answer"] for row in rows} == {judgement.decision.answer}


def test_inconclusive_says_how_far_it_is_and_what_it_would_take(warehouse: Warehouse) -> None:
    first = next(verdict for verdict in not_enough_evidence().verdicts if verdict.verdict == "inconclusive")
    settled = replace(first, metric="client_latency", low=-0.02, high=0.13, zone_low=-0.09, zone_high=0.1,
                      repeats_to_settle=12, baseline_repeats=5, candidate_repeats=4)  # fmt: skip
    hopeless = replace(settled, metric="service_latency", repeats_to_settle=None)
    judgement = replace(not_enough_evidence(), verdicts=(hopeless, settled))
    tables = judgement_tables(judgement, KEY) | {
        "run": runs_table(datetime(2026, 1, 1, tzinfo=UTC), settled.scenario, 60)
    }
    warehouse.replace_comparison(KEY, tables)
    rows = warehouse.query("SELECT * FROM inconclusive_and_what_it_would_take").to_pylist()
    assert [row["metric"] for row in rows] == ["client_latency", "service_latency"]
    assert rows[0]["beyond_zone"] == pytest.approx(0.03)
    assert (rows[0]["repeats"], rows[0]["repeats_to_settle"], rows[0]["more_runs"], rows[0]["more_hold_s"]) == (
        4,
        12,
        15,
        900,
    )
    assert (rows[1]["repeats_to_settle"], rows[1]["more_runs"], rows[1]["more_hold_s"]) == (None, None, None)

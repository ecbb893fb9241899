"""The history of releases, from judgements of simulated campaigns in a real warehouse."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from perf_pipeline.history.noise import lab_noise
from perf_pipeline.history.releases import chain_table, chains_to, links, shifts
from perf_pipeline.judge import load_policy
from perf_pipeline.report.tables import judgement_tables
from perf_pipeline.simulation.campaign import Campaign, named
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.run_effects import RunEffects, Shift
from perf_pipeline.simulation.scenario import every_metric
from perf_pipeline.warehouse import Warehouse, table_schema

DAY = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = load_policy("default")


def campaign(step: float, cv: float) -> Campaign:
    """One scenario with all metrics, in which the candidate is slower by a step of ln."""
    scenario = every_metric(effects=RunEffects(level=cv))
    slower = {metric: Shift(level=step) for metric in ("client_latency", "service_latency", "service_p99")}
    return Campaign(named(replace(scenario, changes=slower), 1))


def judged(baseline: str, candidate: str, step: float, cv: float, seed: int, policy: Policy = POLICY) -> Judgement:
    runs = simulate(campaign(step, cv), seed, with_levels=False)
    return replace(judge(runs, "1.0", "1.1", policy), baseline=baseline, candidate=candidate)


def keep(warehouse: Warehouse, judgement: Judgement, day: int | None) -> str:
    key = f"{judgement.baseline}__{judgement.candidate}"
    schema = table_schema("run")
    row = {field.name: "x" if field.type == pa.string() else None for field in schema}
    row |= {field.name: [] for field in schema if pa.types.is_map(field.type)}
    row |= {field.name: False for field in schema if pa.types.is_boolean(field.type)}
    numbers = [field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)]
    row |= dict.fromkeys(numbers, 0) | {"hold_start": None if day is None else DAY + timedelta(days=day)}
    run = pa.Table.from_pylist([row], schema)
    warehouse.replace_comparison(key, {"run": run, **judgement_tables(judgement, key)})
    return key


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse.duckdb")


def history(warehouse: Warehouse, step: float, cv: float, seed: int, releases: int = 12) -> list[Judgement]:
    """A chain of releases, each slower than the one before by a step, and the first against the last."""
    steps = [judged(f"1.{n}", f"1.{n + 1}", step, cv, 100 * seed + n) for n in range(releases)]
    for day, judgement in enumerate(steps):
        keep(warehouse, judgement, day)
    keep(warehouse, judged("1.0", f"1.{releases}", releases * step, cv, 100 * seed + 99), releases)
    return steps


def answers(warehouse: Warehouse, metric: str, path: str) -> list[str]:
    return [row.answer for row in chains_to(warehouse, "1.12", POLICY) if (row.metric, row.path) == (metric, path)]


def test_twelve_releases_of_one_percent_are_found_though_no_step_shows_them(warehouse: Warehouse) -> None:
    steps = history(warehouse, float(np.log(1.01)), 0.008, seed=1)
    verdicts = {verdict.metric: set() for verdict in steps[0].verdicts}
    for judgement in steps:
        for verdict in judgement.verdicts:
            verdicts[verdict.metric].add(verdict.verdict)
    assert verdicts["client_latency"] == verdicts["service_p99"] == {"equivalent"}
    assert answers(warehouse, "service_p99", "chain") == ["regression"]
    assert answers(warehouse, "client_latency", "direct") == ["regression"]
    (row,) = [row for row in chains_to(warehouse, "1.12", POLICY) if (row.metric, row.path) == ("service_p99", "chain")]
    assert (row.from_version, row.to_version, row.steps) == ("1.0", "1.12", 12)
    assert row.estimate == pytest.approx(1.01**12 - 1, abs=0.03)
    assert row.low is not None and row.low > row.zone_high


def test_twelve_releases_of_nothing_are_none(warehouse: Warehouse) -> None:
    history(warehouse, 0.0, 0.008, seed=2)
    rows = chains_to(warehouse, "1.12", POLICY)
    assert {row.answer for row in rows} <= {"equivalent", "inconclusive"}
    assert {row.metric for row in rows} == {"client_latency", "service_latency", "service_p99", "service_memory"}


def test_a_step_without_an_answer_breaks_the_chain_and_says_so(warehouse: Warehouse) -> None:
    steps = history(warehouse, 0.0, 0.008, seed=3, releases=3)
    lost = tuple(
        replace(verdict, verdict="not comparable", reason="no runs", percentiles=(), low=None, high=None)
        for verdict in steps[1].verdicts
    )
    keep(warehouse, replace(steps[1], verdicts=lost), 1)
    rows = [row for row in chains_to(warehouse, "1.3", POLICY) if row.path == "chain"]
    assert {row.answer for row in rows} == {"not comparable"}
    assert {row.reason for row in rows} == {"1 of 3 steps did not compare it, the first one 1.1__1.2"}


def test_a_chain_begins_at_the_anchor(warehouse: Warehouse) -> None:
    history(warehouse, 0.0, 0.008, seed=4, releases=3)
    rows = chains_to(warehouse, "1.3", POLICY, anchor="1.1")
    assert {(row.from_version, row.steps, row.path) for row in rows} == {("1.1", 2, "chain")}
    assert chains_to(warehouse, "0.1", POLICY) == []


def test_rows_are_those_of_the_table(warehouse: Warehouse) -> None:
    history(warehouse, 0.0, 0.008, seed=5, releases=2)
    rows = chains_to(warehouse, "1.2", POLICY)
    table = chain_table(rows, "1.1__1.2")
    warehouse.replace_comparison("1.1__1.2", {"release_chain": table})
    stored = warehouse.query("SELECT scenario, metric, path, answer FROM release_chain ORDER BY ALL").to_pylist()
    assert stored == sorted(
        ({"scenario": r.scenario, "metric": r.metric, "path": r.path, "answer": r.answer} for r in rows),
        key=lambda row: tuple(row.values()),
    )


def test_the_level_of_the_lab_and_of_the_candidates_is_watched(warehouse: Warehouse) -> None:
    for night in range(16):
        step = 0.0 if night < 8 else float(np.log(1.12))
        keep(warehouse, judged("1.0", f"nightly-{night:02d}", step, 0.01, seed=night), night)
    found = [shift for shift in shifts(warehouse, POLICY) if shift.what == "effect"]
    assert {shift.metric for shift in found} == {"client_latency", "service_latency", "service_p99"}
    assert {shift.comparison for shift in found} == {"1.0__nightly-08"}
    assert all(shift.low < 0.12 < shift.high for shift in found)
    assert not [shift for shift in shifts(warehouse, POLICY) if shift.what == "lab"]


def test_links_come_in_order_of_measuring(warehouse: Warehouse) -> None:
    keep(warehouse, judged("1.1", "1.2", 0.0, 0.01, 1), 5)
    keep(warehouse, judged("1.0", "1.1", 0.0, 0.01, 2), 1)
    keep(warehouse, judged("1.2", "1.3", 0.0, 0.01, 3), None)
    found = [link.comparison for link in links(warehouse)]
    assert found == ["1.2__1.3", "1.0__1.1", "1.1__1.2"], "without a time it is the oldest, as on the index"


def test_a_thousand_comparisons_are_no_burden(warehouse: Warehouse) -> None:
    """CPU time, which another process on the machine does not touch."""
    judgement = judged("1.0", "1.1", 0.0, 0.01, 1)
    tables = judgement_tables(judgement, "k")
    keep(warehouse, judgement, 0)
    many: dict[str, list[pa.Table]] = {name: [] for name in ("verdict", "gate_change", "decision")}
    for number in range(1000):
        key = f"2.{number}__2.{number + 1}"
        for name, parts in many.items():
            table = tables[name].drop_columns(["comparison"])
            if name == "decision":
                table = table.drop_columns(["baseline", "candidate"])
                table = table.append_column("baseline", pa.array([f"2.{number}"]))
                table = table.append_column("candidate", pa.array([f"2.{number + 1}"]))
            parts.append(table.append_column("comparison", pa.array([key] * table.num_rows)))
    with duckdb.connect(str(warehouse.path)) as database:
        for name, parts in many.items():
            database.register("rows", pa.concat_tables(parts))
            database.execute(f"INSERT INTO {name} BY NAME SELECT * FROM rows")
    began = time.process_time()
    rows = chains_to(warehouse, "2.1000", POLICY, anchor="2.950")
    assert lab_noise(warehouse)
    assert time.process_time() - began < 5
    assert {row.steps for row in rows} == {50}

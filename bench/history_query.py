"""How long the history of 1,000 comparisons takes to be asked, and how that grows.

    .venv/bin/python bench/history_query.py                          # half a minute
    .venv/bin/python bench/history_query.py --comparisons 100 1000 5000

One chain of releases: each comparison has two scenarios with six metrics, of which two are distributions of 21
percentiles, and twenty runs. Judgements are made once and stored under other names, so that the tables are as full as
real ones. Each question is what the asset `release_history` asks, or what a person types, with the file opened for it.
Times are the least of seven: CPU seconds of all threads, which other processes on the machine hardly touch, and beside
them the wall's. Target: 1 CPU second for each at 1,000 comparisons.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa

from perf_pipeline.gates.verdict import judge
from perf_pipeline.history.noise import lab_noise
from perf_pipeline.history.releases import chain_table, chains_to, links, shifts
from perf_pipeline.judge import load_policy
from perf_pipeline.report.tables import judgement_tables
from perf_pipeline.simulation.campaign import Campaign, named
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.run_effects import RunEffects
from perf_pipeline.simulation.scenario import every_metric
from perf_pipeline.warehouse import Warehouse, table_schema

SCENARIOS, RUNS = 2, 20
TARGET_S, TARGET_COMPARISONS = 1.0, 1000
ROUNDS = 7
POLICY = load_policy("default")
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def fill(path: Path, comparisons: int) -> Warehouse:
    """A warehouse with a chain of that many comparisons, one a day."""
    warehouse = Warehouse(path)
    warehouse.replace_comparison("", {})
    scenario = every_metric(effects=RunEffects(level=0.01))
    runs = simulate(Campaign(named(scenario, SCENARIOS)), 1, with_levels=False)
    judgement = judge(runs, "1.0", "1.1", POLICY)
    parts: dict[str, list[pa.Table]] = {}
    for number in range(comparisons):
        key = f"2.{number}__2.{number + 1}"
        tables = judgement_tables(replace(judgement, baseline=f"2.{number}", candidate=f"2.{number + 1}"), key)
        for name, table in (tables | {"run": run_table(number)}).items():
            rest = table.drop_columns([c for c in table.column_names if c == "comparison"])
            named_rows = rest.append_column("comparison", pa.array([key] * rest.num_rows, pa.string()))
            parts.setdefault(name, []).append(named_rows)
    with duckdb.connect(str(path)) as database:
        for name, of_name in parts.items():
            database.register("rows", pa.concat_tables(of_name))
            database.execute(f"INSERT INTO {name} BY NAME SELECT * FROM rows")
            database.unregister("rows")
    return warehouse


def run_table(day: int) -> pa.Table:
    """The runs of a comparison, of which the history asks only when they were."""
    schema = table_schema("run")
    row: dict[str, object] = {}
    for field in schema:
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            row[field.name] = 0
        elif pa.types.is_boolean(field.type):
            row[field.name] = False
        elif pa.types.is_map(field.type):
            row[field.name] = []
        else:
            row[field.name] = "x" if pa.types.is_string(field.type) else None
    start = DAY + timedelta(days=day)
    return pa.Table.from_pylist([row | {"run_id": f"r{n}", "hold_start": start} for n in range(RUNS)], schema)


def questions(warehouse: Warehouse, comparisons: int) -> dict[str, Callable[[], object]]:
    """What is asked of the history."""
    last = f"2.{comparisons}"
    key = f"2.{comparisons - 1}__{last}"
    return {
        "links of all releases": lambda: links(warehouse),
        "chain over the last 12 releases": lambda: chains_to(warehouse, last, POLICY, f"2.{comparisons - 12}"),
        "chain over all releases": lambda: chain_table(chains_to(warehouse, last, POLICY), key),
        "level shifts, all series": lambda: shifts(warehouse, POLICY),
        "noise of the lab, all cells": lambda: lab_noise(warehouse),
        "FROM release_history, all rows": lambda: warehouse.query("FROM release_history"),
        "FROM noise_floor, all rows": lambda: warehouse.query("FROM noise_floor"),
        "FROM noise_floor, one comparison": lambda: warehouse.query(
            "FROM noise_floor WHERE comparison = $key", {"key": key}
        ),
    }


def seconds(question: Callable[[], object]) -> tuple[float, float]:
    """The least CPU and wall seconds of some rounds; the first one, which also imports, is not counted."""
    question()
    cpu_s, wall_s = [], []
    for _ in range(ROUNDS):
        began_cpu, began = time.process_time(), time.perf_counter()
        question()
        cpu_s.append(time.process_time() - began_cpu)
        wall_s.append(time.perf_counter() - began)
    return min(cpu_s), min(wall_s)


def main() -> int:
    """Fill, ask, print; 1 when a question takes longer than the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--comparisons", type=int, nargs="+", default=[100, TARGET_COMPARISONS])
    sizes = parser.parse_args().comparisons
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        for comparisons in sizes:
            warehouse = fill(Path(folder) / f"{comparisons}.duckdb", comparisons)
            size_mb = warehouse.path.stat().st_size / 1e6
            print(f"\n{comparisons} comparisons, {size_mb:.0f} MB")
            for name, question in questions(warehouse, comparisons).items():
                cpu_s, wall_s = seconds(question)
                print(f"  {name:<34} {cpu_s:6.3f} CPU s {wall_s:7.3f} s", flush=True)
                if comparisons <= TARGET_COMPARISONS and cpu_s > TARGET_S:
                    missed.append(f"{name} at {comparisons}")
    print(
        f"\ntarget: {TARGET_S:g} s at {TARGET_COMPARISONS} comparisons: {f'missed by {missed}' if missed else 'kept'}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The warehouse: Parquet is the truth, writes are whole or not at all, and a lock is waited for and then explained."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.files import project_file
from perf_pipeline.metrics.extract import extract_runs, read_metrics, write_metrics
from perf_pipeline.storage import LocalObjectStore
from perf_pipeline.warehouse import (
    TABLES,
    VIEWS,
    Warehouse,
    read_tables,
    stored_comparisons,
    table_schema,
    write_tables,
)
from tests.recorded_runs import write_run

A, B = "1.0__1.1", "1.1__1.2"


def pooled(*estimates: float) -> pa.Table:
    rows = [
        {"metric": "client_latency", "statistic": "p50", "estimate": estimate, "low": 0.0, "high": 0.1, "df": 8.0,
         "scenarios": 2, "worst_scenario": "search", "worst_estimate": 0.05}
        for estimate in estimates
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, table_schema("gate_pooled"))


def estimates(warehouse: Warehouse, comparison: str) -> list[float]:
    found = warehouse.query(
        "SELECT estimate FROM gate_pooled WHERE comparison = $comparison ORDER BY 1", {"comparison": comparison}
    )
    return found["estimate"].to_pylist()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "deep" / "warehouse.duckdb", patience_s=0.3)


def test_a_store_that_holds_nothing_of_what_the_warehouse_knows_is_refused(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    store, mount = LocalObjectStore(tmp_path / "store"), tmp_path / "mount"
    warehouse.prepare(store)  # both are new
    tables = extract_runs([write_run(tmp_path / "runs", "1.0-browse-r01", seed=1)])
    write_metrics(store, A, tables)
    for comparison in (A, B):  # B was judged elsewhere, or its tables were lost
        warehouse.replace_comparison(comparison, {"run": tables.run})
    warehouse.prepare(store)
    mount.mkdir()
    with pytest.raises(InputError, match=rf"holds 2 comparisons, such as {A}, and the object store {mount} none of"):
        warehouse.prepare(LocalObjectStore(mount))
    assert not list(mount.iterdir())
    warehouse.rebuild(LocalObjectStore(mount))  # the named way to begin anew
    warehouse.prepare(LocalObjectStore(mount))


def test_a_comparison_is_replaced_and_the_others_stay(warehouse: Warehouse) -> None:
    warehouse.replace_comparison(A, {"gate_pooled": pooled(0.1, 0.2)})
    warehouse.replace_comparison(B, {"gate_pooled": pooled(0.3)})
    warehouse.replace_comparison(A, {"gate_pooled": pooled(0.4)})
    assert estimates(warehouse, A) == [0.4]
    assert estimates(warehouse, B) == [0.3]
    warehouse.replace_comparison(A, {"gate_pooled": pooled()})
    assert estimates(warehouse, A) == []


def test_what_was_made_of_earlier_rows_can_go_with_them(warehouse: Warehouse) -> None:
    warehouse.replace_comparison(A, {"gate_pooled": pooled(0.1)})
    warehouse.replace_comparison(B, {"gate_pooled": pooled(0.3)})
    warehouse.replace_comparison(A, {"run": table_schema("run").empty_table()}, drop_others=True)
    assert estimates(warehouse, A) == []
    assert estimates(warehouse, B) == [0.3]


def test_measured_runs_arrive_with_their_types(warehouse: Warehouse, tmp_path: Path) -> None:
    tables = extract_runs([write_run(tmp_path)])
    warehouse.replace_comparison(A, tables.by_name())
    (row,) = warehouse.query("SELECT *, environment['node'] AS node FROM run").to_pylist()
    assert (row["comparison"], row["run_id"], row["node"]) == (A, "1.0.0-browse-r01", "lab-1")
    assert row["hold_start"].isoformat() == "2026-11-30T00:53:20+00:00"
    counted = warehouse.query("SELECT sum(count)::BIGINT AS n FROM latency_histogram WHERE metric = 'client_latency'")
    assert counted.to_pylist() == [{"n": 294}]
    (levels,) = warehouse.query("SELECT levels FROM run_metric WHERE metric = 'service_memory'")["levels"].to_pylist()
    assert len(levels) == 6


def test_a_write_that_fails_changes_nothing(warehouse: Warehouse) -> None:
    warehouse.replace_comparison(A, {"gate_pooled": pooled(0.1)})
    broken = pooled(0.2).set_column(0, "metric", pa.array([None], pa.string()))
    with pytest.raises(duckdb.ConstraintException):
        warehouse.replace_comparison(A, {"gate_pooled": pooled(0.3), "verdict": pa.table({"scenario": ["s"]})})
    with pytest.raises(duckdb.ConstraintException):
        warehouse.replace_comparison(A, {"gate_pooled": broken})
    assert estimates(warehouse, A) == [0.1]


def test_rows_of_another_comparison_are_refused(warehouse: Warehouse) -> None:
    table = pooled(0.1).append_column("comparison", pa.array([B]))
    with pytest.raises(ValueError, match=f"holds rows of {B}"):
        warehouse.replace_comparison(A, {"gate_pooled": table})
    with pytest.raises(KeyError, match="no such table: gate_four"):
        warehouse.replace_comparison(A, {"gate_four": table})


def test_a_query_cannot_change_the_file(warehouse: Warehouse) -> None:
    with pytest.raises(InputError, match="is not there yet"):
        warehouse.query("SELECT 1")
    warehouse.replace_comparison(A, {"gate_pooled": pooled(0.1)})
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        warehouse.query("DELETE FROM gate_pooled")
    assert warehouse.query("SELECT $one::INTEGER AS one", {"one": 1}).to_pylist() == [{"one": 1}]


def test_every_table_view_and_column_says_what_it_is_in_which_unit(warehouse: Warehouse) -> None:
    warehouse.replace_comparison(A, {})
    made = warehouse.query(
        "SELECT table_name, comment FROM duckdb_tables()"
        " UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE NOT internal"
    )
    assert set(made["table_name"].to_pylist()) == {*TABLES, *VIEWS}
    assert all(made["comment"].to_pylist())
    columns = warehouse.query(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
    ).to_pylist()
    for column in columns:
        place = f"{column['table_name']}.{column['column_name']}"
        assert re.search(r"\((.+)\)$", column["comment"] or ""), f"{place} has no comment that ends with a unit"
        name = column["column_name"]
        for ending, unit in (("_ms", "(ms)"), ("_s", "(s)"), ("_per_s", "(requests/s)")):
            if name.endswith(ending) and not (ending == "_s" and name.endswith("_per_s")):
                assert column["comment"].endswith(unit), place


def test_every_sql_file_is_used() -> None:
    there = {path.relative_to(project_file("sql")).as_posix() for path in project_file("sql").rglob("*.sql")}
    assert there == {*(f"tables/{name}.sql" for name in TABLES), *(f"views/{name}.sql" for name in VIEWS)}


# --- Parquet ---------------------------------------------------------------------------------------------------------


def test_tables_are_added_to_those_of_the_comparison(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path)
    write_tables(store, A, {"verdict": pa.table({"a": [1]}), "decision": pa.table({"a": [2]})})
    write_tables(store, A, {"verdict": pa.table({"a": [3]})})
    write_tables(store, B, {"verdict": pa.table({"a": [4]})})
    assert {name: table["a"].to_pylist() for name, table in read_tables(store, A).items()} == {
        "verdict": [3],
        "decision": [2],
    }
    assert stored_comparisons(store) == [A, B]
    assert read_tables(store, "x__y") == {}


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_full_disk_leaves_the_tables_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    store = LocalObjectStore(tmp_path / "store")
    write_tables(store, A, {name: pa.table({"a": [1]}) for name in ("run", "run_metric", "verdict")})
    before = {path: path.read_bytes() for path in sorted((tmp_path / "store").rglob("*")) if path.is_file()}
    calls = 0

    def full(*args: object, **kwargs: object) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(28, "No space left on device")
        write(*args, **kwargs)

    write = pq.write_table
    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        write_tables(store, A, {name: pa.table({"a": [2]}) for name in ("run", "run_metric", "decision")})
    assert {path: path.read_bytes() for path in sorted((tmp_path / "store").rglob("*")) if path.is_file()} == before


# --- Rebuilding ------------------------------------------------------------------------------------------------------


def test_the_file_is_rebuilt_from_parquet(warehouse: Warehouse, tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path / "store")
    tables = extract_runs([write_run(tmp_path)])
    write_metrics(store, A, tables)
    write_tables(store, A, {"gate_pooled": pooled(0.1)})
    write_tables(store, B, {"gate_pooled": pooled(0.2), "of_another_version": pooled(0.2)})
    warehouse.replace_comparison("stale__row", {"gate_pooled": pooled(0.9)})
    assert warehouse.rebuild(store) == [A, B]
    assert estimates(warehouse, A) == [0.1]
    assert estimates(warehouse, B) == [0.2]
    assert estimates(warehouse, "stale__row") == []
    assert warehouse.query("SELECT count(*) AS n FROM run").to_pylist() == [{"n": 1}]
    assert [path.name for path in warehouse.path.parent.iterdir()] == [warehouse.path.name]


def test_an_empty_store_makes_an_empty_warehouse(warehouse: Warehouse, tmp_path: Path) -> None:
    assert warehouse.rebuild(LocalObjectStore(tmp_path / "store")) == []
    assert warehouse.query("SELECT * FROM verdict_matrix").num_rows == 0


def test_a_file_that_is_no_database_is_a_problem_and_rebuilding_is_the_remedy(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.path.parent.mkdir()
    warehouse.path.write_bytes(b"not a database at all, but long enough to hold a header" * 100)
    for call in (lambda: warehouse.query("SELECT 1"), lambda: warehouse.replace_comparison(A, {})):
        with pytest.raises(InputError, match=r"is not a DuckDB file[\s\S]*rebuild"):
            call()
    warehouse.rebuild(LocalObjectStore(tmp_path / "store"))
    assert warehouse.query("SELECT 1 AS one").num_rows == 1


def test_a_file_of_another_version_is_a_problem_and_rebuilding_is_the_remedy(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    warehouse.path.parent.mkdir()
    with duckdb.connect(warehouse.path) as database:
        database.execute("CREATE TABLE gate_pooled (comparison VARCHAR, metric VARCHAR)")
    with pytest.raises(InputError, match=r"was made by another version[\s\S]*rebuild"):
        warehouse.replace_comparison(A, {"gate_pooled": pooled(0.1)})
    store = LocalObjectStore(tmp_path / "store")
    write_tables(store, A, {"gate_pooled": pooled(0.1)})
    warehouse.rebuild(store)
    assert estimates(warehouse, A) == [0.1]


def test_a_rebuild_that_fails_leaves_the_old_file(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalObjectStore(tmp_path / "store")
    write_tables(store, A, {"gate_pooled": pooled(0.1)})
    warehouse.rebuild(store)
    write_tables(store, A, {"gate_pooled": pooled(0.2)})

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        warehouse.rebuild(store)
    monkeypatch.undo()
    assert estimates(warehouse, A) == [0.1]
    assert [path.name for path in warehouse.path.parent.iterdir()] == [warehouse.path.name]


# --- Damage ----------------------------------------------------------------------------------------------------------


def test_no_turned_byte_of_a_stored_table_becomes_another_number(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path)
    table = pa.table({"estimate": [float(number) ** 0.5 for number in range(200)]})
    write_tables(store, A, {"gate_pooled": table})
    path = tmp_path / "metrics" / A / "gate_pooled.parquet"
    whole = path.read_bytes()
    noticed = 0
    for place in range(4, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            read = read_tables(store, A)["gate_pooled"]
        except InputError:
            noticed += 1
        else:
            assert read.column(0).equals(table.column(0))
    assert noticed > 100


def test_damaged_tables_are_all_named_with_what_makes_them_anew(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path)
    write_tables(store, A, {"run": table_schema("run").empty_table(), "gate_pooled": pooled(0.1)})
    for name in ("run", "gate_pooled"):
        store.put(f"metrics/{A}/{name}.parquet", b"PAR1 and no more")
    with pytest.raises(InputError) as caught:
        read_tables(store, A)
    said = {Path(problem.where).name: problem.remedy for problem in caught.value.problems}
    assert f"materialise run_metrics of {A} again" in said["run.parquet"]
    assert f"materialise run_validity and what follows of {A} again" in said["gate_pooled.parquet"]


def test_a_damaged_table_of_a_gate_keeps_nobody_from_judging_again(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path / "store")
    write_metrics(store, A, extract_runs([write_run(tmp_path)]))
    store.put(f"metrics/{A}/gate_pooled.parquet", b"")
    assert read_metrics(store, A).run.num_rows == 1
    write_tables(store, A, {"gate_pooled": pooled(0.1)})
    assert read_tables(store, A)["gate_pooled"].equals(pooled(0.1))


def test_a_rebuild_names_every_damaged_table_and_leaves_the_old_file(warehouse: Warehouse, tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path / "store")
    write_tables(store, A, {"gate_pooled": pooled(0.1)})
    warehouse.rebuild(store)
    for comparison in (A, B):
        store.put(f"metrics/{comparison}/gate_pooled.parquet", b"")
    with pytest.raises(InputError) as caught:
        warehouse.rebuild(store)
    assert [A in caught.value.problems[0].where, B in caught.value.problems[1].where] == [True, True]
    assert estimates(warehouse, A) == [0.1]


# --- Locks -----------------------------------------------------------------------------------------------------------

HOLDER = """
import duckdb, sys
database = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "reader")
print("open", flush=True)
sys.stdin.readline()
"""


class Holder:
    """Another process that has the file open until it is let go."""

    def __init__(self, path: Path, mode: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "open\n"

    def let_go(self) -> None:
        self.process.communicate("\n", timeout=20)


@pytest.fixture
def holders() -> Iterator[list[Holder]]:
    held: list[Holder] = []
    yield held
    for holder in held:
        if holder.process.poll() is None:
            holder.let_go()


@pytest.mark.parametrize("mode", ["writer", "reader"])
def test_a_lock_that_stays_is_a_problem_that_names_its_holder(
    warehouse: Warehouse, holders: list[Holder], tmp_path: Path, mode: str
) -> None:
    warehouse.replace_comparison(A, {"gate_pooled": pooled(0.1)})
    holders.append(Holder(warehouse.path, mode))
    calls = [
        lambda: warehouse.replace_comparison(A, {}),
        lambda: warehouse.rebuild(LocalObjectStore(tmp_path / "store")),
    ]
    if mode == "reader":
        assert estimates(warehouse, A) == [0.1]
    else:
        calls.append(lambda: warehouse.query("SELECT 1"))
    for call in calls:
        began = time.monotonic()
        with pytest.raises(InputError) as raised:
            call()
        assert 0.3 <= time.monotonic() - began < 20
        text = str(raised.value)
        assert str(warehouse.path) in text
        assert f"is locked by process {holders[0].process.pid}" in text
        assert "close the DuckDB client" in text
    holders[0].let_go()
    assert estimates(warehouse, A) == [0.1]


def test_a_lock_that_goes_away_is_waited_for(warehouse: Warehouse, holders: list[Holder]) -> None:
    warehouse.replace_comparison(A, {})
    warehouse.patience_s = 20
    holders.append(Holder(warehouse.path, "writer"))
    release = threading.Timer(0.3, holders[0].let_go)
    release.start()
    warehouse.replace_comparison(A, {"gate_pooled": pooled(0.1)})
    release.join()
    assert estimates(warehouse, A) == [0.1]


def test_threads_that_write_at_once_both_succeed(warehouse: Warehouse) -> None:
    warehouse.patience_s = 20
    keys = [f"1.{number}__2.0" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: warehouse.replace_comparison(key, {"gate_pooled": pooled(0.1)}), keys))
    assert [estimates(warehouse, key) for key in keys] == [[0.1]] * 4


def test_threads_of_one_process_wait_for_each_other(warehouse: Warehouse) -> None:
    """DuckDB refuses a reader while this process writes, and the other way round, with another error than a lock."""
    warehouse.replace_comparison(A, {"gate_pooled": pooled(0.1)})
    warehouse.patience_s = 20
    with duckdb.connect(warehouse.path, config={"autoinstall_known_extensions": False, "TimeZone": "UTC"}):
        found: list[list[float]] = []
        reader = threading.Thread(target=lambda: found.append(estimates(warehouse, A)))
        reader.start()
        reader.join(0.3)
        assert not found
    reader.join(20)
    assert found == [[0.1]]

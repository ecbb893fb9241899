"""Retention: what is old enough goes whole, what is young or unreadable stays, and tokens are blanked in place."""

import json
import stat
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from perf_pipeline import retention
from perf_pipeline.capture.requests_file import REQUESTS, private_writer
from perf_pipeline.cli import main
from perf_pipeline.plan_operation import RetentionSection
from perf_pipeline.retention import Expired, Outlived, prune
from perf_pipeline.storage import LocalObjectStore
from perf_pipeline.warehouse import Warehouse, table_schema, write_tables
from tests.captured_requests import small_plan

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OLD, YOUNG = "dt=2026-10-01/hour=04", "dt=2026-11-30/hour=10"
EVERYTHING = RetentionSection(reports_days=300, metrics_days=300)
TOKEN = "header.payload.signature"


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "objects")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse.duckdb")


def requests(store: LocalObjectStore, hour: str, tokens: list[str]) -> str:
    rows = [
        {
            "arrival": NOW, "request_id": str(n), "user": f"u{n}", "uri": "/a", "route": "/a", "status": 200,
            "sampling_rate": 1.0, "accept_encoding": "", "token": token,
        }
        for n, token in enumerate(tokens)
    ]  # fmt: skip
    path = store.root / "requests" / hour / "requests.parquet"
    path.parent.mkdir(parents=True)
    with private_writer(path, REQUESTS) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=REQUESTS), row_group_size=2)
    expire = NOW.isoformat() if any(tokens) else None
    (path.parent / "manifest.json").write_text(json.dumps({"tokens_expire": expire, "rules": "abc"}))
    return f"requests/{hour}"


def run(store: LocalObjectStore, comparison: str, run_id: str, end: datetime) -> None:
    folder = f"runs/{comparison}/{run_id}"
    store.put(f"{folder}/run.json", json.dumps({"hold": {"start": 0, "end": end.timestamp()}}).encode())
    store.put(f"{folder}/k6.csv.gz", b"")


def comparison(store: LocalObjectStore, warehouse: Warehouse, key: str, measured: datetime) -> None:
    schema = table_schema("run")
    row = {field.name: "x" if field.type == pa.string() else None for field in schema}
    row |= {field.name: [] for field in schema if pa.types.is_map(field.type)}
    row |= {field.name: False for field in schema if pa.types.is_boolean(field.type)}
    numbers = [field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)]
    row |= dict.fromkeys(numbers, 0) | {"hold_start": measured}
    write_tables(store, key, {"run": pa.Table.from_pylist([row], schema=schema)})
    store.put(f"reports/{key}/report.html", b"<html>")


def outlived(store: LocalObjectStore, section: RetentionSection, hours: tuple[str, ...] = (YOUNG,)) -> Outlived:
    """What is older than a plan with this section keeps it; the plan names these hours."""
    keys = [f"{hour[3:13]}-{hour[-2:]}:00" for hour in hours]
    plan = small_plan(store.root.parent / "plan", workload={"hours": keys})
    return retention.find_expired(store, plan.model_copy(update={"retention": section}), NOW)


def find_expired(store: LocalObjectStore, section: RetentionSection) -> list[Expired]:
    return list(outlived(store, section).expired)


def kinds(expired: Iterable[Expired]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in expired:
        found.setdefault(item.kind, []).append(item.prefix)
    return found


def test_what_is_older_than_its_kind_goes_and_the_rest_stays(store: LocalObjectStore, warehouse: Warehouse) -> None:
    for hour in (OLD, YOUNG):
        for part in ("part=0", "part=1"):
            store.put(f"raw/shop/{hour}/{part}/00000000000000000000.ndjson.zst", b"")
        store.put(f"quarantine/{hour}/quarantine.parquet", b"")
        requests(store, hour, [])
    for name, last in (("old", "2026-08-01T00:00:00+00:00"), ("young", "2026-11-01T00:00:00+00:00")):
        store.put(f"workloads/{name}/manifest.json", json.dumps({"last_arrival": last}).encode())
        store.put(f"workloads/{name}/requests.parquet", b"")
    run(store, "1.0__1.1", "1.0-all-r01", NOW - timedelta(days=181))
    run(store, "1.0__1.1", "1.0-all-r02", NOW - timedelta(days=179))
    store.put("runs/1.0__1.1/schedule.json", b"[]")
    comparison(store, warehouse, "1.0__1.1", NOW - timedelta(days=301))
    comparison(store, warehouse, "1.1__1.2", NOW - timedelta(days=299))

    expired = find_expired(store, EVERYTHING)
    assert kinds(expired) == {
        "raw": [f"raw/shop/{OLD}"],
        "requests": [f"requests/{OLD}"],
        "quarantine": [f"quarantine/{OLD}"],
        "workloads": ["workloads/old"],
        "runs": ["runs/1.0__1.1/1.0-all-r01"],
        "reports": ["reports/1.0__1.1"],
        "metrics": ["metrics/1.0__1.1"],
    }
    before = set(store.keys(""))
    assert prune(store, warehouse, expired) == 7
    gone = before - set(store.keys(""))
    assert gone == {key for key in before if any(key.startswith(f"{item.prefix}/") for item in expired)}
    assert find_expired(store, EVERYTHING) == []


def test_rows_of_pruned_metrics_leave_the_warehouse_too(store: LocalObjectStore, warehouse: Warehouse) -> None:
    for key, days in (("1.0__1.1", 301), ("1.1__1.2", 1)):
        comparison(store, warehouse, key, NOW - timedelta(days=days))
    warehouse.rebuild(store)
    prune(store, warehouse, find_expired(store, EVERYTHING))
    assert warehouse.query("SELECT comparison FROM run").to_pylist() == [{"comparison": "1.1__1.2"}]


def test_hours_that_the_plan_names_are_kept_and_their_tokens_are_not(
    store: LocalObjectStore, warehouse: Warehouse
) -> None:
    other = "dt=2026-10-01/hour=05"
    for hour in (OLD, other):
        for topic in ("small", "another"):
            store.put(f"raw/{topic}/{hour}/part=0/00000000000000000000.ndjson.zst", b"")
        store.put(f"quarantine/{hour}/quarantine.parquet", b"")
        requests(store, hour, [TOKEN])
    found = outlived(store, RetentionSection(), hours=(OLD,))
    assert kinds(found.kept) == {"raw": [f"raw/small/{OLD}"], "requests": [f"requests/{OLD}"]}
    assert kinds(found.expired) == {
        "raw": [f"raw/another/{OLD}", f"raw/another/{other}", f"raw/small/{other}"],
        "requests": [f"requests/{other}"],
        "quarantine": [f"quarantine/{OLD}", f"quarantine/{other}"],
        "tokens": [f"requests/{OLD}"],
    }
    prune(store, warehouse, found.expired)
    assert {key.partition("/dt=")[0] for key in store.keys("")} == {"raw/small", "requests"}
    assert pq.read_table(store.root / "requests" / OLD / "requests.parquet")["token"].to_pylist() == [""]
    assert outlived(store, RetentionSection(), hours=(OLD,)) == Outlived((), found.kept)


def test_null_keeps_for_ever(store: LocalObjectStore) -> None:
    store.put(f"raw/shop/{OLD}/part=0/0.ndjson.zst", b"")
    kept = replace_days(RetentionSection(), None)
    assert find_expired(store, kept) == []


def replace_days(retention: RetentionSection, days: float | None) -> RetentionSection:
    names = [name for name in RetentionSection.model_fields if name.endswith("_days")]
    return retention.model_copy(update=dict.fromkeys(names, days))


def test_what_has_no_time_is_kept(store: LocalObjectStore) -> None:
    store.put("raw/shop/dt=2026-99-99/hour=04/part=0/0.ndjson.zst", b"")
    store.put("runs/1.0__1.1/r/run.json", b"{")
    store.put("runs/1.0__1.1/s/run.json", b'{"hold": null}')
    store.put("workloads/w/manifest.json", b"[]")
    store.put("reports/1.0__1.1/report.html", b"")
    assert find_expired(store, replace_days(RetentionSection(), 0)) == []


def test_tokens_are_blanked_where_they_stand(store: LocalObjectStore, warehouse: Warehouse) -> None:
    old = requests(store, "dt=2026-11-29/hour=04", [TOKEN, TOKEN, TOKEN, ""])
    young = requests(store, YOUNG, [TOKEN])
    requests(store, "dt=2026-11-29/hour=05", ["", ""])
    file = store.root / old / "requests.parquet"
    before = pq.read_table(file)
    expired = find_expired(store, RetentionSection())
    assert kinds(expired) == {"tokens": [old]}
    prune(store, warehouse, expired)
    after = pq.read_table(file)
    assert after["token"].to_pylist() == [""] * 4
    assert after.drop_columns("token") == before.drop_columns("token")
    assert TOKEN.encode() not in file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(store.get(f"{old}/manifest.json")) == {"tokens_expire": None, "rules": "abc"}
    assert pq.read_table(store.root / young / "requests.parquet")["token"].to_pylist() == [TOKEN]
    assert find_expired(store, RetentionSection()) == []


def test_an_hour_that_does_not_tell_is_taken_to_hold_tokens(store: LocalObjectStore, warehouse: Warehouse) -> None:
    old = requests(store, "dt=2026-11-29/hour=04", [TOKEN])
    store.put(f"{old}/manifest.json", b"{}")
    expired = find_expired(store, RetentionSection())
    assert kinds(expired) == {"tokens": [old]}
    prune(store, warehouse, expired)
    assert pq.read_table(store.root / old / "requests.parquet")["token"].to_pylist() == [""]


@pytest.mark.parametrize("days", [{"metrics_days": 30}, {"metrics_days": 30, "reports_days": 31}])
def test_a_report_that_could_not_age_is_refused(days: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="reports_days must be set and no longer than that"):
        RetentionSection(**days)


def test_a_removal_that_was_stopped_goes_on(
    store: LocalObjectStore, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in ("00", "01", "02"):
        store.put(f"raw/shop/dt=2026-10-01/hour={hour}/part=0/0.ndjson.zst", b"")
    expired = find_expired(store, RetentionSection())
    delete, calls = LocalObjectStore.delete, []

    def stopped(self: LocalObjectStore, prefix: str) -> None:
        calls.append(prefix)
        if len(calls) == 2:
            raise KeyboardInterrupt
        delete(self, prefix)

    monkeypatch.setattr(LocalObjectStore, "delete", stopped)
    with pytest.raises(KeyboardInterrupt):
        prune(store, warehouse, expired)
    monkeypatch.undo()
    rest = find_expired(store, RetentionSection())
    assert [item.prefix for item in rest] == [item.prefix for item in expired[1:]]
    assert [replace(item, objects=1) for item in rest] == rest


def test_the_command_shows_first_and_removes_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path))
    for name in ("PERF_PIPELINE_PLAN", "PERF_PIPELINE_STORE", "PERF_PIPELINE_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    store = LocalObjectStore(tmp_path / "objects")
    store.put("raw/shop-access-log-of-europe/dt=2001-01-01/hour=04/part=0/0.ndjson.zst", b"")
    shown = CliRunner().invoke(main, ["prune", "--dry-run"])
    assert shown.exit_code == 0, shown.output
    assert "raw log" in shown.output
    assert "2001-01-01  2001-01-01" in shown.output
    assert "1 item would go" in shown.output
    assert "hour=04" in shown.output.replace("\n", "").replace(" ", ""), "what goes is named whole"
    assert store.keys("raw")
    removed = CliRunner().invoke(main, ["prune"])
    assert removed.exit_code == 0
    assert not store.keys("raw")
    assert "Nothing is older" in CliRunner().invoke(main, ["prune"]).output


def test_the_command_says_what_it_keeps_since_the_plan_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path))
    for name in ("PERF_PIPELINE_STORE", "PERF_PIPELINE_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    hours = [f"2001-01-01-{hour:02}:00" for hour in range(4)]
    monkeypatch.setenv("PERF_PIPELINE_PLAN", str(small_plan(tmp_path, workload={"hours": hours}).path))
    store = LocalObjectStore(tmp_path / "objects")
    for hour in range(6):
        store.put(f"requests/dt=2001-01-01/hour={hour:02}/requests.parquet", b"")
        store.put(f"requests/dt=2001-01-01/hour={hour:02}/manifest.json", b'{"tokens_expire": null}')
    kept = (
        "kept: named by the plan (workload.hours): requests of 2001-01-01-00:00, 2001-01-01-01:00, 2001-01-01-02:00 "
        "and 1 more"
    )
    shown = " ".join(CliRunner().invoke(main, ["prune", "--dry-run"]).output.split())
    assert "2 items would go" in shown and kept in shown
    removed = " ".join(CliRunner().invoke(main, ["prune"]).output.split())
    assert "Removed:" in removed and kept in removed
    assert {key.rpartition("/")[0] for key in store.keys("requests")} == {
        f"requests/dt=2001-01-01/hour=0{n}" for n in range(4)
    }
    again = " ".join(CliRunner().invoke(main, ["prune"]).output.split())
    assert "nothing else is older" in again and kept in again

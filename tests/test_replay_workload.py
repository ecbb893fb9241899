"""The workload: frozen once, named by its content, without tokens, and only what can be sent as it stands."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.replay.workload import SCHEMA, _check_uris, freeze_workload, read_workload
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import HOUR, USERS, captured, small_plan, store_hour


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "store")


def test_a_workload_is_what_was_captured_without_the_tokens(store: LocalObjectStore, tmp_path: Path) -> None:
    store_hour(store, captured(30, route=lambda number: "/a" if number % 3 == 0 else "/b/{id}"))
    workload = freeze_workload(store, small_plan(tmp_path))
    assert (workload.requests, workload.users, workload.routes) == (30, 2, {"/b/{id}": 20, "/a": 10})
    assert workload.first_arrival.isoformat() == "2026-11-30T04:00:00+00:00"
    assert workload.last_arrival.second == 29
    assert workload.table().schema.names == SCHEMA.names
    assert workload.table(["/a"]).num_rows == 10
    for path in workload.folder.iterdir():
        assert b"recorded-" not in path.read_bytes()
    assert "token" not in pq.read_schema(workload.folder / "requests.parquet").names


def test_the_same_requests_have_the_same_hash_however_they_are_stored(store: LocalObjectStore, tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    rows = captured(50)
    store_hour(store, rows)
    first = freeze_workload(store, plan)
    written = (first.folder / "manifest.json").stat().st_mtime_ns
    random.Random(1).shuffle(rows)
    store_hour(store, rows)
    assert freeze_workload(store, plan) == first
    assert (first.folder / "manifest.json").stat().st_mtime_ns == written
    assert read_workload(store, first.hash) == first


@pytest.mark.parametrize("column", [name for name in SCHEMA.names if name not in {"arrival", "status"}])
def test_any_other_content_has_another_hash(store: LocalObjectStore, tmp_path: Path, column: str) -> None:
    plan = small_plan(tmp_path)
    store_hour(store, captured(5))
    before = freeze_workload(store, plan).hash
    other = {"uri": "/other", "route": "/a", "user": USERS[0], "sampling_rate": 0.5, "request_id": "f" * 32}
    store_hour(store, captured(5, **{column: other.get(column, "br")}))
    assert freeze_workload(store, plan).hash != before


def test_hours_are_joined_and_the_first_requests_kept(store: LocalObjectStore, tmp_path: Path) -> None:
    later = "2026-11-30-05:00"
    rows = captured(20)
    store_hour(store, rows[10:], later)
    store_hour(store, rows[:10])
    plan = small_plan(tmp_path, workload={"hours": [later, HOUR], "max_requests": 15})
    workload = freeze_workload(store, plan)
    assert workload.table()["request_id"].to_pylist() == [row["request_id"] for row in rows[:15]]


def test_hours_that_were_not_captured_are_all_named_with_what_captures_them(
    store: LocalObjectStore, tmp_path: Path
) -> None:
    store_hour(store, captured(1))
    plan = small_plan(tmp_path, workload={"hours": ["2026-11-30-01:00", HOUR, "2026-11-30-02:00"]})
    with pytest.raises(InputError) as caught:
        freeze_workload(store, plan)
    assert [problem.what for problem in caught.value.problems] == [
        "hour 2026-11-30-01:00 was not captured",
        "hour 2026-11-30-02:00 was not captured",
    ]
    assert all("replay_requests" in problem.remedy for problem in caught.value.problems)


def test_an_hour_without_requests_is_no_workload(store: LocalObjectStore, tmp_path: Path) -> None:
    store_hour(store, [])
    with pytest.raises(InputError, match="no request that may be replayed"):
        freeze_workload(store, small_plan(tmp_path))
    manifest = store.root / "requests/dt=2026-11-30/hour=04/manifest.json"
    counts = {"read": 12, "rejected": {"no user": 10, "not a GET": 2}}
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | counts))
    with pytest.raises(InputError, match=r"of 12 lines all were rejected \(no user: 10, not a GET: 2\)"):
        freeze_workload(store, small_plan(tmp_path))


def test_what_another_plan_captured_is_not_replayed(store: LocalObjectStore, tmp_path: Path) -> None:
    """A GET that is denied now must not be sent because it was allowed when the hour was captured."""
    store_hour(store, captured(20))
    freeze_workload(store, small_plan(tmp_path))
    for capture in ({"topic": "small", "routes": ["/a", "/b/{id}"], "deny": ["/b/"]}, {"topic": "x", "routes": ["/a"]}):
        with pytest.raises(InputError, match="was captured under other rules") as caught:
            freeze_workload(store, small_plan(tmp_path, capture=capture))
        assert "replay_requests" in caught.value.problems[0].remedy


def test_a_file_that_is_no_table_of_requests_is_named(store: LocalObjectStore, tmp_path: Path) -> None:
    store_hour(store, [])
    store.put("requests/dt=2026-11-30/hour=04/requests.parquet", b"PAR1 not really")
    with pytest.raises(InputError, match=r"hour=04/requests.parquet: is no table of captured requests"):
        freeze_workload(store, small_plan(tmp_path))


def test_a_hash_that_was_never_frozen_is_named(store: LocalObjectStore) -> None:
    with pytest.raises(InputError, match="holds no workload"):
        read_workload(store, "0123456789abcdef")


@pytest.mark.parametrize(
    "uri", ["", "a", "//evil.test/x", "http://evil.test/x", "@evil.test/", "/a b", "/a\n", "/ü", "/a\r\nHost: x", None]
)
def test_what_could_leave_the_target_is_refused(store: LocalObjectStore, tmp_path: Path, uri: str | None) -> None:
    store_hour(store, captured(3, uri=lambda number: uri if number == 1 else "/fine"))
    with pytest.raises(InputError, match="is not an ASCII path with one leading slash") as caught:
        freeze_workload(store, small_plan(tmp_path))
    assert len(caught.value.problems) == 1


@settings(deadline=None)
@given(st.text(max_size=30))
def test_a_uri_that_is_let_through_is_one_path_of_printable_ascii(text: str) -> None:
    table = pa.table({"uri": pa.array(["/" + text]), "request_id": pa.array(["1"])})
    printable = all("\x21" <= character <= "\x7e" for character in text) and not text.startswith("/")
    try:
        _check_uris(table)
    except InputError:
        assert not printable
    else:
        assert printable


def damage(path: Path) -> None:
    """Turn one byte in the middle of the file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["requests.parquet", "manifest.json"])
@pytest.mark.parametrize(
    "how", [damage, lambda path: path.write_bytes(b""), Path.unlink], ids=["turned", "empty", "gone"]
)
def test_a_damaged_workload_is_frozen_again(store: LocalObjectStore, tmp_path: Path, name: str, how: Any) -> None:
    plan = small_plan(tmp_path)
    store_hour(store, captured(500))
    first = freeze_workload(store, plan)
    whole = first.table()
    how(first.folder / name)
    if name == "requests.parquet":
        with pytest.raises(
            InputError, match=r"requests\.parquet: is damaged.*\n    -> materialise the asset `workload`"
        ):
            first.table()
    else:
        with pytest.raises(InputError, match="holds no workload"):
            read_workload(store, first.hash)
    again = freeze_workload(store, plan)
    assert again == first and again.table().equals(whole)


def test_damaged_captured_requests_are_named(store: LocalObjectStore, tmp_path: Path) -> None:
    store_hour(store, captured(500))
    (path,) = store.root.rglob("requests.parquet")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"requests\.parquet: is no table of captured .*\n    -> .*`replay_requests`"):
        freeze_workload(store, small_plan(tmp_path))

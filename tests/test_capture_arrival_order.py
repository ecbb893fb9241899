from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.capture import arrival_order
from perf_pipeline.capture.arrival_order import ArrivalOrder, places_to_lines
from perf_pipeline.capture.sieve import ACCEPTED

Row = tuple[int, int]
"""Arrival in ms and request id."""


def table_of(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "line": range(len(rows)),
            "arrival_ms": [arrival for arrival, _ in rows],
            "request_id": [request_id.to_bytes(16, "big") for _, request_id in rows],
            "user": pa.array([f"user {request_id}" for _, request_id in rows]).dictionary_encode(),
            "uri": pa.array([f"/{request_id}" for _, request_id in rows], pa.string()).dictionary_encode(),
            "route": pa.array(["/"] * len(rows), pa.string()).dictionary_encode(),
            "status": [200] * len(rows),
            "sampling_rate": [1.0] * len(rows),
            "accept_encoding": pa.array([""] * len(rows), pa.string()).dictionary_encode(),
        },
        schema=ACCEPTED,
    )


def merged(folder: Path, objects: list[list[Row]], run_rows: int, window_rows: int) -> tuple[list[Row], list[Row]]:
    """The rows in order, and the objects and lines of the duplicates."""
    order = ArrivalOrder(folder, run_rows)
    for number, rows in enumerate(objects):
        order.add(number, table_of(rows))
    result = order.merge(window_rows)
    found: list[Row] = []
    for window in result.windows():
        assert window.schema.names == ACCEPTED.names
        for row in window.to_pylist():
            request_id = int.from_bytes(row["request_id"], "big")
            assert (row["uri"], row["user"]) == (f"/{request_id}", f"user {request_id}")
            found.append((row["arrival_ms"], request_id))
    numbers, lines = places_to_lines(result.duplicates)
    return found, list(zip(numbers.tolist(), lines.tolist(), strict=True))


# Ids that share their first or last eight bytes, and few of them, so that many come twice.
IDS = st.sampled_from([low + (high << 64) for low in (0, 1, 2**64 - 1) for high in (0, 1, 2**63)])
OBJECTS = st.lists(st.lists(st.tuples(st.integers(0, 4), IDS), max_size=8), max_size=5)


@settings(max_examples=200, deadline=None)
@given(OBJECTS, st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))
def test_each_id_once_in_order_of_arrival_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    objects: list[list[Row]],
    run_rows: int,
    window_rows: int,
    heads_at_once: int,
) -> None:
    first: dict[int, Row] = {}
    duplicates: list[Row] = []
    for number, rows in enumerate(objects):
        for line, (arrival, request_id) in enumerate(rows):
            if request_id in first:
                duplicates.append((number, line))
            else:
                first[request_id] = (arrival, request_id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrival_order, "_HEADS_AT_ONCE", heads_at_once)
        found, left_out = merged(tmp_path_factory.mktemp("runs"), objects, run_rows, window_rows)
    assert found == sorted(first.values())
    assert left_out == duplicates


def test_full_runs_go_to_files(tmp_path: Path) -> None:
    objects = [[(number, 10 * number + line) for line in range(5)] for number in range(6)]
    found, _ = merged(tmp_path, objects, run_rows=10, window_rows=7)
    assert len(list(tmp_path.glob("run-*"))) == 3
    assert found == sorted(row for rows in objects for row in rows)


def test_windows_are_about_as_large_as_asked_for(tmp_path: Path) -> None:
    """However the runs overlap in time: rows of several brokers' partitions come one partition after the other."""
    order = ArrivalOrder(tmp_path, run_rows=1000)
    for part in range(4):
        for start in range(0, 2000, 500):
            rows = [(7 * (start + line) + part, 10_000 * part + start + line) for line in range(500)]
            order.add(4 * part + start // 500, table_of(rows))
    sizes = [len(window) for window in order.merge(800).windows()]
    assert sum(sizes) == 8000
    assert all(600 < size < 1000 for size in sizes[:-1]), sizes


def test_nothing_gives_no_window(tmp_path: Path) -> None:
    assert merged(tmp_path, [], 10, 10) == ([], [])
    assert merged(tmp_path, [[], []], 10, 10) == ([], [])

"""Many runs at once: their tables, and every problem of every run in one message."""

import gzip
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.gates.evidence import METRICS
from perf_pipeline.metrics.extract import extract_runs
from tests.recorded_runs import HOLD_START, k6_csv, write_run


def test_runs_become_rows(tmp_path: Path) -> None:
    runs = [write_run(tmp_path, f"{version}-browse-r0{n}", seed=n) for version in ("1.0", "1.1") for n in (1, 2)]
    tables = extract_runs(runs)
    assert tables.run["run_id"].to_pylist() == [run.name for run in runs]
    first = tables.run.to_pylist()[0]
    assert first["hold_start"].timestamp() == HOLD_START
    assert (first["hold_s"], first["sub_window_s"], first["sub_windows"]) == (6.0, 1.0, 6)
    assert (first["target_rate_per_s"], first["achieved_rate_per_s"], first["dropped_iterations"]) == (50, 50, 0)
    assert dict(first["environment"]) == {"node": "lab-1", "cpus": "2"}
    rows = tables.run_metric.to_pylist()
    assert [(row["run_id"], row["metric"]) for row in rows] == [
        (run.name, metric) for run in runs for metric in METRICS
    ]
    assert {row["metric"]: row["unit"] for row in rows} == {
        "client_latency": "ms", "service_latency": "ms", "service_p99": "ms", "service_memory": "bytes",
        "http_error_rate": "share", "graphql_error_rate": "share", "upstream_latency": "ms",
    }  # fmt: skip
    assert {row["status"] for row in rows} == {"measured", "absent"}
    counted = tables.latency_histogram.group_by(["run_id", "metric"]).aggregate([("count", "sum")]).to_pylist()
    assert {(row["run_id"], row["metric"]): row["count_sum"] for row in counted}[
        (runs[2].name, "client_latency")
    ] == 294


def test_the_histogram_has_a_row_for_each_bucket_that_holds_requests(tmp_path: Path) -> None:
    table = extract_runs([write_run(tmp_path)]).latency_histogram
    assert table.column_names == [
        "run_id",
        "metric",
        "sub_window",
        "bucket_low_ms",
        "bucket_high_ms",
        "count",
        "odd_count",
    ]
    rows = table.to_pylist()
    assert min(row["count"] for row in rows) > 0
    for row in rows:
        if row["metric"] == "client_latency":
            assert row["bucket_high_ms"] / row["bucket_low_ms"] == pytest.approx(1.005)


def test_every_problem_of_every_run_is_in_one_message(tmp_path: Path) -> None:
    runs = [write_run(tmp_path, f"1.0-browse-r0{n}") for n in range(1, 8)]
    good, no_k6, cut, no_column, no_request, bad_latency, broken = runs
    (no_k6 / "k6.csv.gz").unlink()
    (cut / "k6.csv.gz").write_bytes((cut / "k6.csv.gz").read_bytes()[:5000])
    (no_column / "k6.csv.gz").write_bytes(gzip.compress(b"metric_name,timestamp\n"))
    (no_request / "k6.csv.gz").write_bytes(gzip.compress(k6_csv([])))
    text = gzip.decompress((bad_latency / "k6.csv.gz").read_bytes()).replace(
        b"http_req_duration,1796000002000000,", b"x"
    )
    text += b"http_req_duration,1796000001000000,-3.0,,,,,,,,,hold,,200,,,,,\n"
    (bad_latency / "k6.csv.gz").write_bytes(gzip.compress(text))
    (broken / "run.json").write_text("{")
    with pytest.raises(InputError) as raised:
        extract_runs(runs)
    message = str(raised.value)
    for run, what in (
        (no_k6, "holds no k6.csv or k6.csv.gz"),
        (cut, "is cut off"),
        (no_column, "lacks the columns metric_value, status"),
        (no_request, "holds no request of the hold"),
        (bad_latency, "http_req_duration -3.0"),
        (broken, "is not JSON"),
    ):
        assert any(str(run) in problem.where and what in problem.what for problem in raised.value.problems), what
        assert all(problem.remedy for problem in raised.value.problems)
    assert str(good) not in message


def test_two_runs_with_one_id_are_a_problem(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / side) for side in ("a", "b")]
    with pytest.raises(InputError, match=r"has the run_id 1\.0\.0-browse-r01 of"):
        extract_runs(runs)


def test_runs_without_any_latency_are_tables_too(tmp_path: Path) -> None:
    run = write_run(tmp_path, status="failed", failure="k6 was killed")
    tables = extract_runs([run])
    assert tables.latency_histogram.num_rows == 0
    assert set(tables.run_metric["status"].to_pylist()) == {"missing"}
    assert tables.run["failure"].to_pylist() == ["k6 was killed"]
    assert extract_runs([]).run.num_rows == 0

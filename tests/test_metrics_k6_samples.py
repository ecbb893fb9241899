"""k6's CSV: what is counted is what a slow, plain reading counts; what is wrong is said in one problem."""

import csv
import gzip
import io
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.lab.run_directory import Hold
from perf_pipeline.metrics.histogram import bucket_edges_ms
from perf_pipeline.metrics.k6_samples import K6Samples, find_k6_file, read_k6_samples
from tests.recorded_runs import COLUMNS, Row, k6_csv, request_rows

START = 1_796_000_000.0
HOLD = Hold(start=START, end=START + 5)
FIXTURES = Path(__file__).parent / "fixtures" / "k6"


def read(path: Path, hold: Hold = HOLD, sub_window_s: float = 1.0, windows: int = 5) -> K6Samples:
    return read_k6_samples(path, hold, sub_window_s, windows)


def write(folder: Path, rows: list[Row], columns: list[str] = COLUMNS, name: str = "k6.csv") -> Path:
    path, text = folder / name, k6_csv(rows, columns)
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def problem_of(path: Path, hold: Hold = HOLD) -> str:
    with pytest.raises(InputError) as raised:
        read(path, hold)
    return str(raised.value)


def oracle(path: Path, hold: Hold, sub_window_s: float, windows: int) -> dict:
    """The same counts, one row at a time, by Python's own csv module."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    counts: dict = {"requests": 0, "failed": 0, "dropped": 0, "graphql": 0, "graphql_errors": 0, "buckets": Counter()}
    for row in csv.DictReader(io.StringIO(text)):
        tags = dict(pair.partition("=")[::2] for pair in row.get("extra_tags", "").split("&"))
        if (row.get("scenario") or tags.get("scenario")) != "hold":
            continue
        value = float(row["metric_value"])
        if row["metric_name"] == "dropped_iterations":
            counts["dropped"] += int(value)
        elif row["metric_name"] == "graphql_errors":
            counts["graphql"] += 1
            counts["graphql_errors"] += int(value)
        elif row["metric_name"] == "http_req_duration":
            counts["requests"] += 1
            if row["status"] == "0" or int(row["status"]) >= 400:
                counts["failed"] += 1
                continue
            start_s = float(row["timestamp"]) / 1e6 - value / 1000
            window = min(windows - 1, max(0, math.floor((start_s - hold.start) / sub_window_s)))
            counts["buckets"][window, math.floor(math.log(value) / math.log(1.005))] += 1
    return counts


def assert_same(samples: K6Samples, counts: dict) -> None:
    assert samples.requests == counts["requests"]
    assert samples.failed == counts["failed"]
    assert samples.dropped_iterations == counts["dropped"]
    assert (samples.graphql_answers, samples.graphql_errors) == (counts["graphql"], counts["graphql_errors"])
    expected: Counter = Counter()
    for (window, bucket), count in counts["buckets"].items():
        expected[window, round(float(bucket_edges_ms(bucket)[0]), 9)] += count
    window, bucket = np.nonzero(samples.latency.counts)
    found = {
        (int(w), round(float(samples.latency.low_ms[b]), 9)): int(samples.latency.counts[w, b])
        for w, b in zip(window, bucket, strict=True)
    }
    assert found == expected


tag_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
requests = st.tuples(
    st.floats(0, 4.999), st.floats(0.001, 6e4), st.sampled_from([200, 200, 304, 404, 500, 0]),
    st.sampled_from(["hold", "hold", "warmup"]), tag_text,
)  # fmt: skip


def test_seconds_with_requests_and_the_end_of_the_load_count_failures_and_other_scenarios_too(tmp_path: Path) -> None:
    rows = [*request_rows(START + 1.5, 500.0), *request_rows(START + 3.75, 250.0, 503)]
    samples = read(write(tmp_path, rows))
    assert (samples.windows_with_requests, samples.load_end_s) == (2, (START + 3.5, START + 3.5))
    samples = read(write(tmp_path, [*rows, *request_rows(START + 9.0, 0.0, scenario="cool_down")]))
    assert (samples.windows_with_requests, samples.load_end_s) == (2, (START + 9.0, START + 9.0))
    in_seconds = [row | {"timestamp": str(int(row["timestamp"]) // 10**6)} for row in rows]
    assert read(write(tmp_path, in_seconds)).load_end_s == (START + 2.75, START + 3.75)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    st.lists(requests, min_size=1, max_size=60),
    st.integers(0, 5),
    st.lists(st.booleans(), max_size=8),
    st.permutations(COLUMNS),
    st.booleans(),
)
def test_it_counts_what_a_slow_reader_counts(tmp_path, calls, dropped, graphql, columns, has_metadata) -> None:
    rows: list[Row] = request_rows(START + 1, 1.0)
    for offset_s, duration_ms, status, scenario, text in calls:
        rows += [row | {"url": text, "error": text} for row in request_rows(
            START + offset_s + duration_ms / 1000, duration_ms, status, scenario)]  # fmt: skip
    stamp = {"timestamp": f"{START * 1e6:.0f}", "scenario": "hold"}
    rows += [stamp | {"metric_name": "dropped_iterations", "metric_value": "1.000000"} for _ in range(dropped)]
    rows += [stamp | {"metric_name": "graphql_errors", "metric_value": f"{float(bad):f}"} for bad in graphql]
    random.Random(len(rows)).shuffle(rows)
    path = write(tmp_path, rows, [name for name in columns if has_metadata or name != "metadata"])
    assert_same(read(path), oracle(path, HOLD, 1.0, 5))


@pytest.mark.parametrize("name", ["restricted-micro.csv.gz", "default-seconds.csv.gz", "extra-tags-rfc3339.csv.gz"])
def test_it_reads_what_real_k6_wrote(name: str) -> None:
    """The same script and server behind each file (make.py): 150 starts in 3 s of hold, one virtual user."""
    path = FIXTURES / name
    with gzip.open(path, "rt") as file:
        gauge = next(row for row in csv.DictReader(file) if row["metric_name"] == "hold_start")
    start_s = float(gauge["metric_value"]) / 1000
    hold = Hold(start=start_s, end=start_s + 3)
    samples = read(path, hold, 1.0, 3)
    assert samples.hold_start_s == start_s
    assert 149 <= samples.requests + samples.dropped_iterations <= 152
    assert samples.requests == 49
    assert samples.failed == 6
    assert (samples.graphql_answers, samples.graphql_errors) == (43, 3)
    assert samples.latency.over().requests == 43
    assert 1 < np.exp(samples.latency.over().log_quantiles(0.5)) < 60
    if name == "restricted-micro.csv.gz":
        assert_same(samples, oracle(path, hold, 1.0, 3))


@pytest.mark.parametrize("factor", [1, 1e3, 1e6, 1e9], ids=["s", "ms", "us", "ns"])
def test_time_stamps_are_recognised_by_their_magnitude(tmp_path: Path, factor: float) -> None:
    rows = [row | {"timestamp": f"{(START + 3) * factor:.0f}"} for row in request_rows(0, 5.0)]
    assert list(read(write(tmp_path, rows)).latency.counts.sum(axis=1)) == [0, 0, 1, 0, 0]


def test_a_request_belongs_to_the_sub_window_in_which_it_started(tmp_path: Path) -> None:
    rows = request_rows(START + 4.4, 3900.0) + request_rows(START + 4.4, 10.0)
    assert list(read(write(tmp_path, rows)).latency.counts.sum(axis=1)) == [1, 0, 0, 0, 1]


def test_a_request_of_the_hold_that_ends_after_it_counts(tmp_path: Path) -> None:
    samples = read(write(tmp_path, request_rows(START + 9.5, 4600.0) + request_rows(START + 1, 1.0)))
    assert samples.requests == 2
    assert list(samples.latency.counts.sum(axis=1)) == [1, 0, 0, 0, 1]


def test_the_last_sub_window_takes_what_connecting_pushed_beyond_the_hold(tmp_path: Path) -> None:
    rows = request_rows(START + 12, 10.0) + request_rows(START + 1.5, 1.0) + request_rows(START + 1.5, 1.0)
    assert list(read(write(tmp_path, rows)).latency.counts.sum(axis=1)) == [0, 2, 0, 0, 1]


def test_warm_up_is_left_out_even_inside_the_hold(tmp_path: Path) -> None:
    rows = request_rows(START + 1, 9.0, scenario="warmup") + request_rows(START + 1, 1.0)
    assert read(write(tmp_path, rows)).requests == 1


def test_a_fast_error_is_no_fast_answer(tmp_path: Path) -> None:
    rows = request_rows(START + 1, 0.0, 0) + request_rows(START + 1, 0.1, 500) + request_rows(START + 1, 7.0)
    samples = read(write(tmp_path, rows))
    assert (samples.requests, samples.failed) == (3, 2)
    assert np.exp(samples.latency.over().log_quantiles(0.01)) == pytest.approx(7, rel=0.005)


def test_the_scenario_may_be_a_tag_of_the_script(tmp_path: Path) -> None:
    columns = ["extra_tags", *(name for name in COLUMNS if name not in ("scenario", "extra_tags"))]
    tags = {
        "hold": "a=b=c&scenario=hold&z=1",
        "warmup": "scenario=warmup",
        "holder": "scenario=holder",
        "x": "xscenario=hold",
    }
    rows = [row | {"extra_tags": tag} for tag in tags.values() for row in request_rows(START + 1, 5.0)]
    assert read(write(tmp_path, rows, columns)).requests == 1


def test_a_dropped_iteration_without_the_tag_counts_by_its_time(tmp_path: Path) -> None:
    """k6 gives no tag of the script's own to an iteration that it drops."""
    columns = [name for name in COLUMNS if name != "scenario"]
    rows = [row | {"extra_tags": "scenario=hold"} for row in request_rows(START + 1, 5.0)]
    for offset_s in (-0.5, 0.5, 4.9):
        stamp = f"{(START + offset_s) * 1e6:.0f}"
        rows.append({"metric_name": "dropped_iterations", "timestamp": stamp, "metric_value": "1"})
    assert read(write(tmp_path, rows, columns)).dropped_iterations == 2


def test_a_folder_name_may_look_like_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "run[1]*?"
    folder.mkdir()
    assert read(write(folder, request_rows(START + 1, 5.0))).requests == 1


def test_no_file_and_two_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no k6\.csv.*\n.*measure the run again"):
        find_k6_file(tmp_path)
    path = write(tmp_path, request_rows(START + 1, 5.0))
    assert find_k6_file(tmp_path) == path
    write(tmp_path, request_rows(START + 1, 5.0), name="k6.csv.gz")
    with pytest.raises(InputError, match=r"holds k6\.csv and k6\.csv\.gz"):
        find_k6_file(tmp_path)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    text = problem_of(write(tmp_path, request_rows(START + 1, 5.0), ["timestamp", "metric_name", "method", "scenario"]))
    assert "lacks the columns metric_value, status; it has timestamp, metric_name, method, scenario" in text
    text = problem_of(
        write(tmp_path, request_rows(START + 1, 5.0), ["timestamp", "metric_name", "metric_value", "status"])
    )
    assert "scenario" in text
    assert "system tag" in text


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_a_gzip_file_that_was_cut_anywhere_is_a_problem_with_the_rows_that_can_be_read(tmp_path, data) -> None:
    rng = random.Random(3)
    rows = [row for _ in range(400) for row in request_rows(START + rng.random(), rng.lognormvariate(1, 1))]
    whole = gzip.compress(k6_csv(rows))
    path = tmp_path / "k6.csv.gz"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    text = problem_of(path)
    assert "is cut off" in text or "is empty" in text or "not a gzip file" in text
    assert "measure the run again" in text
    path.write_bytes(whole)
    assert read(path).requests == 400


def test_the_readable_rows_are_counted(tmp_path: Path) -> None:
    rows = [row for number in range(4000) for row in request_rows(START + number / 1000, 5 + number % 97)]
    whole = gzip.compress(k6_csv(rows))
    path = tmp_path / "k6.csv.gz"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    text = problem_of(path)
    readable = int(text.partition(" rows can be read")[0].rpartition(" ")[2])
    assert 9_000 < readable < 14_000


def test_a_plain_file_that_was_cut_in_a_row_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "k6.csv"
    path.write_bytes(k6_csv(request_rows(START + 1, 5.0))[:-3])
    assert "is cut off: 3 rows can be read" in problem_of(path)


@pytest.mark.parametrize("value", ["-1.0", "NaN", "nan", "inf", "-inf", "soon", "", "1,5"])
def test_a_latency_that_is_no_number_is_a_problem_with_its_row(tmp_path: Path, value: str) -> None:
    rows = request_rows(START + 1, 5.0) + [row | {"metric_value": value} for row in request_rows(START + 1, 5.0)[1:2]]
    text = problem_of(write(tmp_path, rows))
    assert "k6.csv: row 5" in text
    assert "numbers >= 0" in text


@pytest.mark.parametrize(
    ("column", "value"), [("timestamp", "yesterday"), ("timestamp", ""), ("status", "OK"), ("status", "")]
)
def test_a_time_or_a_status_that_is_none_is_a_problem(tmp_path: Path, column: str, value: str) -> None:
    rows = request_rows(START + 1, 5.0) + [row | {column: value} for row in request_rows(START + 1, 5.0)]
    assert "row 6" in problem_of(write(tmp_path, rows))


def test_a_bad_value_of_the_warm_up_is_no_problem(tmp_path: Path) -> None:
    warm = [row | {"metric_value": "NaN"} for row in request_rows(START - 1, 5.0, scenario="warmup")]
    assert read(write(tmp_path, warm + request_rows(START + 1, 5.0))).requests == 1


def test_a_hold_without_requests_is_a_problem_that_names_the_scenarios(tmp_path: Path) -> None:
    rows = request_rows(START + 1, 5.0, scenario="warmup") + request_rows(START + 1, 5.0, scenario="default")
    text = problem_of(write(tmp_path, rows))
    assert "holds no request of the hold" in text
    assert "default 1" in text
    assert "warmup 1" in text
    assert "holds no request" in problem_of(write(tmp_path, []))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02" * 50 + b"\n", "lacks the columns"),
        (k6_csv(request_rows(START + 1, 5.0)) + b"http_req_duration,1\n", "has 2 columns instead of 19"),
        (k6_csv(request_rows(START + 1, 5.0)).replace(b"http_reqs", b"\xff\xfe"), "not utf-8"),
        (k6_csv(request_rows(START + 1, 5.0)).replace(b"GET", b'"GET'), "cannot be read as CSV"),
        (k6_csv(request_rows(START + 1, 5.0), [*COLUMNS, "status"]), "has the columns status twice"),
    ],
)
def test_what_is_no_k6_file_is_a_problem(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "k6.csv"
    path.write_bytes(content)
    assert what in problem_of(path)


def test_a_plain_file_with_the_name_of_a_gzip_file_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "k6.csv.gz"
    path.write_bytes(k6_csv(request_rows(START + 1, 5.0)))
    assert "is not a gzip file" in problem_of(path)


@pytest.mark.parametrize("shift_s", [-3600, -10, 10, 3600])
def test_a_record_of_another_hold_is_a_problem(tmp_path: Path, shift_s: float) -> None:
    rows = [row for number in range(50) for row in request_rows(START + number / 10, 1.0)]
    path = write(tmp_path, rows)
    text = problem_of(path, Hold(start=START + shift_s, end=START + shift_s + 5))
    assert "run.json: hold" in text
    assert "unix seconds" in text


def test_the_gauge_of_the_script_must_agree_with_the_record(tmp_path: Path) -> None:
    gauge = {"metric_name": "hold_start", "timestamp": f"{START:.0f}", "metric_value": f"{(START - 3) * 1000:f}"}
    text = problem_of(write(tmp_path, [gauge, *request_rows(START + 1, 1.0)]))
    assert "the gauge hold_start says" in text

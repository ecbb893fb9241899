"""k6 JSON and CSV without run.json: what is counted is what a plain reading counts; the hold by tag or by time."""

import gzip
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.metrics.foreign.form import Load
from perf_pipeline.metrics.foreign.k6 import K6_CSV, K6_JSON, K6_SUMMARY, read_k6_csv, read_k6_json
from perf_pipeline.metrics.foreign.told import Told
from tests.recorded_runs import COLUMNS, Row, k6_csv, request_rows

FIXTURES = Path(__file__).parent / "fixtures" / "foreign"
START = 1_796_000_000.0
READERS = {".json": read_k6_json, ".csv": read_k6_csv}


def rows_of(
    seconds: float = 20, rate_per_s: float = 20, scenario: str = "browse", start_s: float = START, latency_ms: float = 8
) -> list[Row]:
    """Requests at a fixed rate, one in 25 failed."""
    count = round(seconds * rate_per_s)
    return [
        row
        for number in range(count)
        for row in request_rows(
            start_s + number / rate_per_s + latency_ms / 1000, latency_ms, 503 if number % 25 == 24 else 200, scenario
        )
    ]


def k6_json(rows: Sequence[Mapping[str, str]]) -> bytes:
    """The text that `--out json` writes of these samples."""
    lines = []
    for name in dict.fromkeys(row["metric_name"] for row in rows):
        lines.append(json.dumps({"type": "Metric", "data": {"name": name}, "metric": name}, separators=(",", ":")))
    for row in rows:
        time = datetime.fromtimestamp(int(row["timestamp"]) / 1e6, UTC).isoformat().replace("+00:00", "Z")
        tags = {name: row[name] for name in ("scenario", "status", "method", "name") if row.get(name)}
        data = {"time": time, "value": float(row["metric_value"]), "tags": tags}
        lines.append(json.dumps({"metric": row["metric_name"], "type": "Point", "data": data}, separators=(",", ":")))
    return "".join(line + "\n" for line in lines).encode()


def write(folder: Path, rows: Sequence[Row], ending: str, name: str = "k6") -> Path:
    text = k6_json(rows) if ".json" in ending else k6_csv(rows)
    path = folder / f"{name}{ending}"
    path.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
    return path


def only(path: Path, told: Told) -> Load:
    (load,) = READERS[[one for one in path.suffixes if one != ".gz"][-1]](path, told)
    return load


@pytest.mark.parametrize("ending", [".json", ".json.gz", ".csv", ".csv.gz"])
def test_the_warm_up_is_cut_off_by_when_requests_started(tmp_path: Path, ending: str) -> None:
    load = only(write(tmp_path, rows_of(), ending), Told(warmup_s=5, hold_s=10))
    assert (load.requests, load.errors, load.hold_s) == (200, 8, 10)
    assert load.hold_start_s == pytest.approx(START + 5)
    assert load.latency is not None
    assert load.latency.counts.sum(axis=1).tolist() == pytest.approx([19, 19, 19, 19, 20] * 2, abs=1)
    assert load.latency.counts.sum() == 192
    assert np.exp(load.latency.over().log_quantiles(0.5)) == pytest.approx(8, rel=0.005)
    assert load.density == 1 and not load.remarks


@pytest.mark.parametrize("ending", [".json", ".csv"])
def test_without_a_told_length_the_hold_ends_with_the_load(tmp_path: Path, ending: str) -> None:
    load = only(write(tmp_path, rows_of(seconds=20, rate_per_s=20), ending), Told(warmup_s=5))
    assert load.requests == 300
    assert load.hold_s == pytest.approx(15, rel=1e-3)
    assert load.requests / load.hold_s == pytest.approx(20, rel=1e-3)


@pytest.mark.parametrize("ending", [".json", ".csv"])
def test_a_load_that_ended_early_has_not_reached_its_rate(tmp_path: Path, ending: str) -> None:
    load = only(write(tmp_path, rows_of(seconds=10), ending), Told(warmup_s=5, hold_s=20))
    assert load.hold_s == 20 and load.requests == 100


@pytest.mark.parametrize("ending", [".json", ".csv"])
def test_rows_tagged_hold_are_the_hold(tmp_path: Path, ending: str) -> None:
    rows = rows_of(5, scenario="warmup") + rows_of(10, scenario="hold", start_s=START + 5)
    load = only(write(tmp_path, rows, ending), Told(warmup_s=3))
    assert load.requests == 200 and load.hold_start_s == pytest.approx(START + 5)
    assert any("--warmup was not needed" in remark for remark in load.remarks)


@pytest.mark.parametrize("ending", [".json", ".csv"])
def test_a_hold_that_is_tagged_late_is_found(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perf_pipeline.metrics.foreign.request_rows._FIRST_REQUESTS", 50)
    rows = rows_of(5, scenario="ramp") + rows_of(10, scenario="hold", start_s=START + 5)
    load = only(write(tmp_path, rows, ending), Told())
    assert load.requests == 200 and load.hold_start_s == pytest.approx(START + 5)


def test_warm_up_by_its_tag_is_never_measured(tmp_path: Path) -> None:
    rows = rows_of(5, scenario="warmup") + rows_of(10, scenario="main", start_s=START + 5)
    load = only(write(tmp_path, rows, ".json"), Told())
    assert load.requests == 200 and load.hold_start_s == pytest.approx(START + 5)


def test_k6_scenarios_that_are_judged_together_are_a_remark(tmp_path: Path) -> None:
    rows = rows_of(5, scenario="browse") + rows_of(5, scenario="cart")
    load = only(write(tmp_path, rows, ".json"), Told(warmup_s=1))
    assert load.remarks == ("requests of 2 k6 scenarios are judged together: browse, cart",)


def test_a_warm_up_that_nobody_told_is_a_remark(tmp_path: Path) -> None:
    load = only(write(tmp_path, rows_of(), ".csv"), Told())
    assert load.remarks == ("no warm-up was cut off: --warmup was not given",)


def test_dropped_iterations_and_graphql_errors_of_the_hold_are_counted(tmp_path: Path) -> None:
    rows = rows_of(10)
    for second in range(10):
        stamp = str(round((START + second + 0.5) * 1e6))
        rows.append(
            {"metric_name": "dropped_iterations", "timestamp": stamp, "metric_value": "2", "scenario": "browse"}
        )
        for error in ("0", "1", "0"):
            rows.append({"metric_name": "graphql_errors", "timestamp": stamp, "metric_value": error})
    for ending in (".json", ".csv"):
        load = only(write(tmp_path, rows, ending), Told(warmup_s=4, hold_s=5))
        assert (load.dropped_iterations, load.answers_looked_at, load.answers_with_errors) == (10, 15, 5)


def test_whole_seconds_leave_out_the_seconds_that_are_not_all_load(tmp_path: Path) -> None:
    rows = rows_of(seconds=20, rate_per_s=20, start_s=START + 0.4)
    for row in rows:
        row["timestamp"] = str(int(row["timestamp"]) // 1_000_000)
    load = only(write(tmp_path, rows, ".csv"), Told(warmup_s=5))
    assert load.hold_s == 14 and load.requests == 280
    assert any("K6_CSV_TIME_FORMAT" in remark for remark in load.remarks)
    assert only(write(tmp_path, rows, ".csv"), Told(warmup_s=5, hold_s=10)).requests == 200
    # The load lasts as long as was told; that it seems two seconds shorter is the doubt of its stamps.
    told = only(write(tmp_path, rows, ".csv"), Told(warmup_s=5, hold_s=15))
    assert (told.hold_s, told.requests) == (14, 280)
    # A load that is shorter than that is a loss.
    assert only(write(tmp_path, rows, ".csv"), Told(warmup_s=5, hold_s=30)).hold_s == 30


def test_the_tag_may_stand_among_the_scripts_own(tmp_path: Path) -> None:
    columns = [name for name in COLUMNS if name != "scenario"]
    rows = rows_of(5, scenario="") + rows_of(10, scenario="", start_s=START + 5)
    for row in rows:
        row["extra_tags"] = "team=a&scenario=" + ("warmup" if float(row["timestamp"]) < (START + 5) * 1e6 else "hold")
    path = tmp_path / "k6.csv"
    path.write_bytes(k6_csv(rows, columns))
    assert only(path, Told()).requests == 200


def test_a_file_without_any_scenario_is_cut_by_time(tmp_path: Path) -> None:
    path = tmp_path / "k6.csv"
    path.write_bytes(k6_csv(rows_of(), ["metric_name", "timestamp", "metric_value", "status"]))
    assert only(path, Told(warmup_s=5, hold_s=10)).requests == 200


@pytest.mark.parametrize("hours", [-5, 0, 2])
def test_times_may_carry_an_offset(tmp_path: Path, hours: int) -> None:
    text = k6_json(rows_of(10)).decode()
    zone = timezone(timedelta(hours=hours))
    lines = []
    for line in text.splitlines():
        sample = json.loads(line)
        if sample["type"] == "Point":
            sample["data"]["time"] = datetime.fromisoformat(sample["data"]["time"]).astimezone(zone).isoformat()
        # Keys in another order, as other versions write them.
        lines.append(json.dumps(dict(reversed(sample.items())), separators=(",", ":")))
    path = tmp_path / "k6.json"
    path.write_text("".join(line + "\n" for line in lines))
    load = only(path, Told(warmup_s=0))
    assert load.requests == 200 and load.hold_start_s == pytest.approx(START)


def test_when_every_request_failed_there_is_no_latency(tmp_path: Path) -> None:
    rows = rows_of(5)
    for row in rows:
        row["status"] = "0"
    load = only(write(tmp_path, rows, ".json"), Told(warmup_s=0))
    assert load.latency is None and load.errors == load.requests == 100


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(
        st.tuples(
            st.floats(0, 20),
            st.floats(0.01, 5000),
            st.sampled_from([0, 200, 301, 404, 503]),
            st.sampled_from(["a", "b"]),
        ),
        min_size=1,
        max_size=60,
    ),
    warmup_s=st.integers(0, 5),
    hold_s=st.integers(1, 30),
)
def test_both_forms_count_what_a_plain_reading_counts(
    tmp_path: Path, requests: list[tuple[float, float, int, str]], warmup_s: int, hold_s: int
) -> None:
    requests = [(0.0, 1.0, 200, "a"), *requests, (float(warmup_s), 1.0, 200, "a")]
    rows = [
        row for start, ms, status, name in requests for row in request_rows(START + start + ms / 1000, ms, status, name)
    ]
    stamped = [
        (round((START + start + ms / 1000) * 1e6) / 1e6 - float(f"{ms:f}") / 1000, ms, status)
        for start, ms, status, _ in requests
    ]
    first = min(start for start, _, _ in stamped)
    inside = [one for one in stamped if first + warmup_s <= one[0] < first + warmup_s + hold_s]
    near = sum(1 for one in stamped for edge in (warmup_s, warmup_s + hold_s) if abs(one[0] - first - edge) < 2e-6)
    for ending in (".json", ".csv"):
        path = write(tmp_path, rows, ending)
        if not inside:
            continue
        load = only(path, Told(warmup_s=warmup_s, hold_s=hold_s))
        assert abs(load.requests - len(inside)) <= near
        if not near:
            assert load.errors == sum(1 for _, _, status in inside if status == 0 or status >= 400)
            answered = sum(1 for _, _, status in inside if 0 < status < 400)
            assert (0 if load.latency is None else load.latency.counts.sum()) == answered


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
@pytest.mark.parametrize("repeat", [1, 4])
def test_real_files_of_both_forms_agree(version: str, repeat: int) -> None:
    as_json = FIXTURES / "k6-json" / version / f"{repeat}.json.gz"
    as_csv = FIXTURES / "k6-csv" / version / f"{repeat}.csv.gz"
    assert K6_JSON.recognises(gzip.decompress(as_json.read_bytes())[:65536])
    assert K6_CSV.recognises(gzip.decompress(as_csv.read_bytes())[:65536])
    with gzip.open(as_json, "rt") as file:
        samples = [json.loads(line) for line in file]
    durations = [
        sample["data"] for sample in samples if sample["metric"] == "http_req_duration" and sample["type"] == "Point"
    ]
    everything = only(as_json, Told(warmup_s=0))
    assert everything.requests == len(durations)
    assert everything.errors == sum(int(data["tags"]["status"]) >= 400 for data in durations)
    median = float(np.median([data["value"] for data in durations if int(data["tags"]["status"]) < 400]))
    assert everything.latency is not None
    assert np.exp(everything.latency.over().log_quantiles(0.5)) == pytest.approx(median, rel=0.02)
    cut = only(as_json, Told(warmup_s=2))
    assert cut.requests / (cut.hold_s or 1) == pytest.approx(40, rel=0.02)
    in_seconds = only(as_csv, Told(warmup_s=2))
    assert in_seconds.requests / (in_seconds.hold_s or 1) == pytest.approx(40, rel=0.05)


def broken(rows: list[Row], **changes: str) -> list[Row]:
    rows[-4] = rows[-4] | changes
    assert rows[-3]["metric_name"] == "http_req_duration"
    rows[-3] = rows[-3] | changes
    return rows


@pytest.mark.parametrize("ending", [".json", ".csv"])
@pytest.mark.parametrize(
    ("change", "message"),
    [({"status": ""}, "status (missing)?"), ({"metric_value": "-1"}, "-1"), ({"status": "nope"}, "status nope")],
    ids=["no status", "negative", "status"],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, ending: str, change: dict[str, str], message: str) -> None:
    path = write(tmp_path, broken(rows_of(5), **change), ending)
    with pytest.raises(InputError, match=rf"k6{ending}: row \d+: cannot be read: http_req_duration .*{message}"):
        only(path, Told(warmup_s=0))


@pytest.mark.parametrize("ending", [".json", ".csv", ".json.gz", ".csv.gz"])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, rows_of(20), ending)
    path.write_bytes(path.read_bytes()[:-37])
    with pytest.raises(InputError, match="is cut off"):
        only(path, Told(warmup_s=0))


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, rows_of(2), ".json")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[7] = b'{"metric":"http_req_duration","type":"Poi\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=r"k6\.json:8: is no JSON"):
        only(path, Told(warmup_s=0))
    lines[7] = lines[6][: len(lines[6]) // 2] + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=r"k6\.json:8: is no JSON"):
        only(path, Told(warmup_s=0))
    lines[7] = b"\x1b[31m\0\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match="is no JSON: \N{REPLACEMENT CHARACTER}"):
        only(path, Told(warmup_s=0))
    lines[7] = b"panic: runtime error\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=r"k6\.json:8: is no JSON: panic"):
        only(path, Told(warmup_s=0))


@pytest.mark.parametrize("ending", [".json", ".csv"])
def test_a_warm_up_longer_than_the_load_leaves_no_hold(tmp_path: Path, ending: str) -> None:
    with pytest.raises(InputError, match=r"holds no request of the hold: its load lasted 4.95 s, of which 60 s"):
        only(write(tmp_path, rows_of(5), ending), Told(warmup_s=60))


def test_a_csv_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k6.csv"
    path.write_bytes(k6_csv(rows_of(1), ["metric_name", "timestamp", "metric_value", "scenario"]))
    with pytest.raises(InputError, match="lacks 1 column: status; it has metric_name, timestamp"):
        only(path, Told())
    path.write_bytes(k6_csv(rows_of(1), [*COLUMNS, "status"]))
    with pytest.raises(InputError, match="has twice: status"):
        only(path, Told())


@pytest.mark.parametrize("ending", [".json", ".csv"])
def test_a_file_is_packed_or_not_whatever_its_name_says(tmp_path: Path, ending: str) -> None:
    plain, packed = (write(tmp_path, rows_of(20), ending + more) for more in ("", ".gz"))
    expected = only(plain, Told(warmup_s=0)).requests
    text = plain.read_bytes()
    plain.write_bytes(packed.read_bytes())
    packed.write_bytes(b"\xef\xbb\xbf" + text)
    assert only(plain, Told(warmup_s=0)).requests == only(packed, Told(warmup_s=0)).requests == expected


@pytest.mark.parametrize("ending", [".json.gz", ".csv.gz"])
def test_a_packed_file_that_is_damaged_is_refused_even_where_it_can_be_read(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, rows_of(20), ending)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + bytes(8))
    with pytest.raises(InputError, match="is a damaged gzip file: CRC check failed"):
        only(path, Told(warmup_s=0))
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:-3]))
    with pytest.raises(InputError, match=r"is cut off: \d+ lines can be read"):
        only(path, Told(warmup_s=0))


def test_a_summary_is_known_and_of_no_use() -> None:
    summary = b'{"metrics":{"http_req_duration":{"avg":1.2,"p(95)":2.1}},"root_group":{}}'
    assert K6_SUMMARY.recognises(summary) and not K6_JSON.recognises(summary)
    assert "--out" in K6_SUMMARY.remedy

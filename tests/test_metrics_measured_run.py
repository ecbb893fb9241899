"""One run: every metric has a value, or the reason why not."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.gates.evidence import METRICS as ALL_METRICS
from perf_pipeline.gates.evidence import Missing
from perf_pipeline.metrics.measured_run import Measurement, measure_run
from perf_pipeline.metrics.series import FILE_NAMES
from tests.recorded_runs import (
    HOLD_START,
    MEMORY,
    METRICS,
    SERVICE_HISTOGRAM,
    histogram_samples,
    k6_csv,
    request_rows,
    series_csv,
    write_run,
)


def problems_of(run: Path) -> list[str]:
    with pytest.raises(InputError) as raised:
        measure_run(run)
    return [str(problem) for problem in raised.value.problems]


def test_a_whole_run_has_every_metric_that_its_record_names(tmp_path: Path) -> None:
    run = measure_run(write_run(tmp_path))
    assert tuple(run.metrics) == ALL_METRICS
    assert (run.sub_window_s, run.windows) == (1.0, 6)
    assert run.achieved_rate_per_s == 50
    assert run.dropped_iterations == 0
    assert run.throttled_share == pytest.approx(0.1)
    client, service = run.metrics["client_latency"], run.metrics["service_latency"]
    assert client.requests == 294
    assert client.value == pytest.approx(np.e, rel=0.1)
    assert service.value == pytest.approx(client.value, rel=0.06)
    assert service.log_bucket_width == pytest.approx(np.log(1.05), rel=0.02)
    assert run.metrics["http_error_rate"] == Measurement(value=6 / 300, errors=6, requests=300)
    assert run.metrics["graphql_error_rate"] == Missing("the plan names no source for it", absent=True)
    assert set(run.histograms) == {"client_latency", "service_latency", "upstream_latency"}
    assert run.counter_resets == {"service": 0, "upstream": 0}
    assert run.not_measured == {}


def test_levels_are_those_of_seconds_also_where_sub_windows_are_longer(tmp_path: Path) -> None:
    run = measure_run(write_run(tmp_path, hold_s=120, rate_per_s=5))
    assert (run.sub_window_s, run.windows) == (10.0, 12)
    for metric in ("client_latency", "service_latency", "service_memory", "upstream_latency"):
        measured = run.metrics[metric]
        assert (len(measured.levels), measured.level_s) == (120, 1.0)
        assert np.isfinite(measured.levels).sum() >= 119
    assert (len(run.metrics["service_p99"].levels), run.metrics["service_p99"].level_s) == (12, None)
    client = run.histograms["client_latency"]
    assert client.counts.shape[0] == 12
    assert client.odd_counts.sum() == pytest.approx(client.over().requests / 2, abs=10)
    level = np.log(run.metrics["client_latency"].levels[10:20]).mean()
    assert level == pytest.approx(client.mean_logs()[1], abs=0.02)


@pytest.mark.parametrize("ahead_s", [0.0, 20.0, -40.0])
def test_a_clock_of_the_series_that_is_not_that_of_k6_is_found(tmp_path: Path, ahead_s: float) -> None:
    run = write_run(tmp_path, hold_s=120, rate_per_s=20)
    times = HOLD_START - 1.5 + np.arange(180)
    counted = 20 * np.clip(times - HOLD_START + 1, 0, 121)
    samples = [
        (time + ahead_s, f"{SERVICE_HISTOGRAM}_count", {"job": "service"}, float(int(count)))
        for time, count in zip(times, counted, strict=True)
    ]
    (run / "series.csv.gz").write_bytes(gzip.compress(series_csv(samples)))
    offset = measure_run(run).clock_offset
    assert offset.low_s <= ahead_s <= offset.high_s
    assert offset.high_s - offset.low_s < 2.1


def test_series_that_end_with_the_load_say_nothing_of_the_clock(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    times = HOLD_START - 1.5 + np.arange(7)
    samples = [(time, f"{SERVICE_HISTOGRAM}_count", {"job": "service"}, 50 * n) for n, time in enumerate(times)]
    (run / "series.csv.gz").write_bytes(gzip.compress(series_csv(samples)))
    measured = measure_run(run)
    assert measured.clock_offset is None
    assert measured.not_measured == {"clock": "series.csv.gz ends before the load did"}


def test_seconds_without_a_request_are_counted_against_what_the_rate_fills(tmp_path: Path) -> None:
    def density(run: Path) -> float:
        return measure_run(run).metrics["client_latency"].series_density

    assert density(write_run(tmp_path, hold_s=40, rate_per_s=1)) == 1.0
    stalled = write_run(tmp_path, "1.0.0-browse-r02", hold_s=40)
    rows = [row for n in range(0, 40, 2) for row in request_rows(HOLD_START + n + 0.5, 1.0) * 50]
    (stalled / "k6.csv.gz").write_bytes(gzip.compress(k6_csv(rows)))
    assert density(stalled) == pytest.approx(0.5)


def test_holes_in_the_series_are_counted_against_the_interval_that_was_meant(tmp_path: Path) -> None:
    times = HOLD_START + 1 + 2.0 * np.arange(10)
    memory = [(time, MEMORY, {"job": "service"}, 1e8) for time in times]
    for interval_s, expected in ((1.0, 10 / 19), (2.0, 1.0)):
        run = write_run(tmp_path / str(interval_s), hold_s=20, scrape_interval_s=interval_s)
        (run / "series.csv.gz").write_bytes(gzip.compress(series_csv(memory)))
        assert measure_run(run).metrics["service_memory"].series_density == pytest.approx(expected)


def test_p99_is_read_from_the_requests_of_the_whole_hold_and_of_each_sub_window(tmp_path: Path) -> None:
    run = measure_run(write_run(tmp_path))
    p99, histogram = run.metrics["service_p99"], run.histograms["service_latency"]
    assert p99.value == pytest.approx(np.exp(histogram.over().log_quantiles(0.99)))
    assert p99.value != pytest.approx(np.nanmean(p99.levels))
    np.testing.assert_allclose(p99.levels[3], np.exp(histogram.window(3).log_quantiles(0.99)))
    assert p99.log_bucket_width == pytest.approx(np.log(1.05), rel=0.02)


def test_memory_is_the_median_of_the_last_third(tmp_path: Path) -> None:
    run = write_run(tmp_path, hold_s=9)
    times = HOLD_START + 0.5 + np.arange(9)
    values = [1.0, 1, 1, 1, 1, 1, 5, 9, 7]
    samples = [(time, MEMORY, {"job": "service"}, value) for time, value in zip(times, values, strict=True)]
    (run / "series.csv.gz").write_bytes(gzip.compress(series_csv(samples)))
    memory = measure_run(run).metrics["service_memory"]
    assert memory.value == 7
    assert list(memory.levels) == values
    assert memory.series_density == 1.0
    assert memory.log_bucket_width == 0.0


@pytest.mark.parametrize(
    ("values", "what"),
    [([5.0] * 5, "no value in the last third"), ([0.0] + [5.0] * 8, "was 0, which is no amount of memory")],
)
def test_memory_that_cannot_be_told_is_missing_with_a_reason(tmp_path: Path, values: list[float], what: str) -> None:
    run = write_run(tmp_path, hold_s=9)
    samples = [(HOLD_START + 0.5 + n, MEMORY, {"job": "service"}, value) for n, value in enumerate(values)]
    (run / "series.csv.gz").write_bytes(gzip.compress(series_csv(samples)))
    memory = measure_run(run).metrics["service_memory"]
    assert isinstance(memory, Missing)
    assert what in memory.reason
    assert f'{MEMORY}{{job="service"}}' in memory.reason


@pytest.mark.parametrize(
    ("hold_s", "expected"), [(6, (1.0, 6)), (119, (1.0, 119)), (120, (10.0, 12)), (125, (10.0, 13))]
)
def test_long_holds_have_longer_sub_windows(tmp_path: Path, hold_s: int, expected: tuple[float, int]) -> None:
    run = measure_run(write_run(tmp_path, hold_s=hold_s, rate_per_s=2))
    assert (run.sub_window_s, run.windows) == expected


def test_a_hold_that_is_a_hair_too_long_has_no_window_for_it(tmp_path: Path) -> None:
    run = write_run(tmp_path, hold={"start": HOLD_START, "end": HOLD_START + 6.0000002})
    assert measure_run(run).windows == 6


def test_the_achieved_rate_counts_starts_however_late_the_answers_came(tmp_path: Path) -> None:
    run = write_run(tmp_path, hold_s=5, rate_per_s=10)
    rows = [row for n in range(50) for row in request_rows(HOLD_START + n / 10 + 3.0, 3000.0)]
    (run / "k6.csv.gz").write_bytes(gzip.compress(k6_csv(rows)))
    assert measure_run(run).achieved_rate_per_s == 10


def test_without_a_series_file_each_of_its_metrics_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (run / "series.csv.gz").unlink()
    measured = measure_run(run)
    for metric in ("service_latency", "service_p99", "service_memory", "upstream_latency"):
        assert measured.metrics[metric] == Missing(f"{run.name} holds none of {', '.join(FILE_NAMES)}", absent=False)
    assert measured.throttled_share is None
    assert set(measured.not_measured) == {"restarts", "clock"}


def test_without_sources_the_metrics_of_series_are_absent_and_k6_is_judged(tmp_path: Path) -> None:
    run = write_run(tmp_path, metrics={})
    (run / "series.csv.gz").unlink()
    measured = measure_run(run).metrics
    absent = {metric for metric, found in measured.items() if isinstance(found, Missing) and found.absent}
    assert absent == {"service_latency", "service_p99", "service_memory", "graphql_error_rate", "upstream_latency"}


def test_a_service_that_was_restarted_loses_its_metrics_with_the_reason(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    times = HOLD_START + 0.5 + np.arange(6)
    samples = histogram_samples(times, [[0.01]] * 6, [0.005, 0.05], "http_request_duration_seconds", "service")
    restarted = [(t, n, labels, 0.0 if t > HOLD_START + 3 else v) for t, n, labels, v in samples]
    (run / "series.csv.gz").write_bytes(gzip.compress(series_csv(restarted)))
    measured = measure_run(run).metrics
    for metric in ("service_latency", "service_p99"):
        assert "its process was restarted" in measured[metric].reason
    assert measure_run(run).counter_resets == {"service": 1}


def test_graphql_errors_are_counted_where_the_plan_asks(tmp_path: Path) -> None:
    run = write_run(tmp_path, metrics=METRICS | {"graphql_error_rate": "k6"})
    assert "graphql_errors" in measure_run(run).metrics["graphql_error_rate"].reason
    sample = {"metric_name": "graphql_errors", "timestamp": f"{HOLD_START + 1:.0f}", "scenario": "hold"}
    rows = [*request_rows(HOLD_START + 1, 5.0), *(sample | {"metric_value": value} for value in ("0.0", "1.0", "0.0"))]
    (run / "k6.csv.gz").write_bytes(gzip.compress(k6_csv(rows)))
    assert measure_run(run).metrics["graphql_error_rate"] == Measurement(value=1 / 3, errors=1, requests=3)


def test_a_run_whose_requests_all_failed_has_an_error_rate_and_no_latency(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    rows = [row for n in range(5) for row in request_rows(HOLD_START + 1 + n, 1.0, 503)]
    (run / "k6.csv.gz").write_bytes(gzip.compress(k6_csv(rows)))
    measured = measure_run(run)
    assert measured.metrics["client_latency"] == Missing("k6.csv.gz: each of the 5 requests of the hold failed")
    assert measured.metrics["http_error_rate"].value == 1.0
    assert "client_latency" not in measured.histograms


def test_a_failed_run_needs_no_files(tmp_path: Path) -> None:
    run = tmp_path / "a"
    run.mkdir()
    record = {"run_id": "a", "version": "1", "scenario": "s", "repeat": 1, "target_rate_per_s": 5}
    record |= {"hold": {"start": 0, "end": 1}, "status": "failed", "failure": "the service did not become ready"}
    (run / "run.json").write_text(json.dumps(record))
    measured = measure_run(run)
    assert measured.achieved_rate_per_s is None
    assert set(measured.metrics.values()) == {Missing("the run did not finish: the service did not become ready")}


def test_all_problems_of_a_run_are_named_at_once(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (run / "k6.csv.gz").unlink()
    (run / "series.csv.gz").write_bytes((run / "series.csv.gz").read_bytes()[:-20])
    no_k6, cut = problems_of(run)
    assert "holds no k6.csv" in no_k6
    assert "series.csv.gz: is cut off" in cut


@pytest.mark.parametrize("hold", [{"start": 10, "end": 10}, {"start": 20, "end": 10}, {"start": 10, "end": 1e999}])
def test_a_hold_without_start_or_end_is_a_problem(tmp_path: Path, hold: dict) -> None:
    (problem,) = problems_of(write_run(tmp_path, hold=hold))
    assert "run.json: hold" in problem


@pytest.mark.parametrize(
    ("text", "what"), [("{", "is not JSON"), ('{"run_id": 5}', "run.json: version"), ("[]", "run.json")]
)
def test_a_broken_record_is_a_problem(tmp_path: Path, text: str, what: str) -> None:
    run = write_run(tmp_path)
    (run / "run.json").write_text(text)
    assert what in "\n".join(problems_of(run))

"""What the gates are given: percentiles, shapes and levels that the requests of the window have."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from perf_pipeline.gates.evidence import (
    METRICS,
    PERCENTILES,
    SHAPE_POINTS,
    Design,
    ErrorSample,
    LatencySample,
    Missing,
    NumberSample,
)
from perf_pipeline.metrics.evidence import evidence, latency_sample
from perf_pipeline.metrics.extract import extract_runs
from perf_pipeline.metrics.histogram import bucket_edges_ms, bucket_index, window_histogram
from perf_pipeline.metrics.measured_run import measure_run
from perf_pipeline.metrics.tables import MetricTables
from tests.recorded_runs import write_run


def sample_of(latencies_ms: np.ndarray, window: np.ndarray, windows: int) -> LatencySample:
    low, high = bucket_edges_ms(bucket_index(latencies_ms))
    return latency_sample(window_histogram(low, high, window, np.ones(window.size), windows), 10.0)


def test_percentiles_and_shapes_are_those_of_the_requests() -> None:
    rng = np.random.default_rng(5)
    latencies = rng.lognormal(2, 0.6, 60_000)
    window = rng.integers(0, 24, latencies.size)
    sample = sample_of(latencies, window, 24)
    assert sample.requests == 60_000
    assert sample.log_quantiles.shape == (len(PERCENTILES),)
    np.testing.assert_allclose(sample.log_quantiles, np.log(np.percentile(latencies, PERCENTILES)), atol=0.004)
    np.testing.assert_allclose(sample.log_bucket_width, np.log(1.005))
    at = (np.arange(SHAPE_POINTS) + 0.5) / SHAPE_POINTS
    np.testing.assert_allclose(sample.shape, np.log(np.quantile(latencies, at)), atol=0.006)
    for shape, mine in (
        (sample.half_shapes[0], window < 12),
        (sample.half_shapes[1], window >= 12),
        (sample.alternate_shapes[0], window % 2 == 0),
        (sample.alternate_shapes[1], window % 2 == 1),
    ):
        np.testing.assert_allclose(shape, np.log(np.quantile(latencies[mine], at)), atol=0.006)
    levels = [np.log(latencies[window == number]).mean() for number in range(24)]
    np.testing.assert_allclose(sample.levels, levels, atol=0.001)
    assert sample.sub_window_s == 10.0


def test_a_hold_of_one_sub_window_has_no_second_half() -> None:
    sample = sample_of(np.array([1.0, 2.0]), np.array([0, 0]), 1)
    assert np.isfinite(sample.half_shapes[0]).all()
    assert np.isnan(sample.half_shapes[1]).all()
    assert np.isnan(sample.alternate_shapes[1]).all()


def test_an_empty_sub_window_has_no_level() -> None:
    sample = sample_of(np.array([1.0, 2.0]), np.array([0, 2]), 3)
    assert list(np.isnan(sample.levels)) == [False, True, False]


def test_every_run_has_evidence_of_its_own(tmp_path: Path) -> None:
    runs = [write_run(tmp_path, f"{version}-browse-r01", seed=n) for n, version in enumerate(("1.0", "1.1"))]
    tables = extract_runs(runs)
    first, second = evidence(tables)
    assert (first.run_id, first.version, first.scenario, first.repeat) == ("1.0-browse-r01", "1.0", "browse", 1)
    assert second.version == "1.1"
    assert tuple(first.metrics) == METRICS
    assert first.failure is None
    assert (first.hold_s, first.target_rate_per_s, first.achieved_rate_per_s) == (6.0, 50.0, 50.0)
    assert (first.dropped_iterations, first.throttled_share) == (0, pytest.approx(0.1))
    assert first.metrics["http_error_rate"] == ErrorSample(errors=6, requests=300)
    assert isinstance(first.metrics["service_memory"], NumberSample)
    assert first.metrics["service_memory"].levels.shape == (6,)
    assert first.metrics["graphql_error_rate"] == Missing("the plan names no source for it", absent=True)
    assert set(first.series_density) == set(METRICS) - {"http_error_rate", "graphql_error_rate"}
    assert first.counter_resets == {"service": 0, "upstream": 0}
    assert first.clock_offset.low_s < 0 < first.clock_offset.high_s
    assert (first.service_digest, second.service_digest) == ("digest of 1.0", "digest of 1.1")
    client = [run.metrics["client_latency"] for run in (first, second)]
    assert client[0].requests == client[1].requests == 294
    assert not np.allclose(client[0].log_quantiles, client[1].log_quantiles)
    assert np.log(1.04) < first.metrics["service_latency"].log_bucket_width[9] < np.log(1.06)


def test_levels_and_every_other_second_come_through_the_tables(tmp_path: Path) -> None:
    run = write_run(tmp_path, hold_s=120, rate_per_s=5)
    measured = measure_run(run)
    (found,) = evidence(extract_runs([run]))
    sample, histogram = found.metrics["client_latency"], measured.histograms["client_latency"]
    assert sample.sub_window_s == 1.0
    np.testing.assert_allclose(sample.levels, np.log(measured.metrics["client_latency"].levels))
    at = (np.arange(SHAPE_POINTS) + 0.5) / SHAPE_POINTS
    for shape, part in zip(sample.alternate_shapes, histogram.alternate(), strict=True):
        np.testing.assert_allclose(shape, part.log_quantiles(at))
    assert (found.metrics["service_p99"].sub_window_s, len(found.metrics["service_p99"].levels)) == (10.0, 12)
    assert (found.metrics["service_memory"].sub_window_s, len(found.metrics["service_memory"].levels)) == (1.0, 120)


def test_tables_of_before_are_read_without_seconds(tmp_path: Path) -> None:
    tables = extract_runs([write_run(tmp_path, hold_s=120, rate_per_s=5)])

    def emptied(table: pa.Table, *names: str) -> pa.Table:
        for name in names:
            field = table.schema.field(name)
            table = table.set_column(table.column_names.index(name), field, pa.nulls(table.num_rows, field.type))
        return table

    (found,) = evidence(
        MetricTables(
            emptied(tables.run, "counter_resets", "clock_offset_s", "service_digest"),
            emptied(tables.latency_histogram, "odd_count"),
            emptied(tables.run_metric.filter(pc.field("metric") == "client_latency"), "levels", "level_s"),
        )
    )
    sample = found.metrics["client_latency"]
    assert (sample.sub_window_s, len(sample.levels)) == (10.0, 12)
    assert np.isfinite(sample.alternate_shapes).all()
    assert (found.counter_resets, found.clock_offset, found.service_digest) == ({}, None, None)


def test_another_workload_is_another_environment(tmp_path: Path) -> None:
    """The gates hold the environments of both sides against each other, and other requests make them differ."""
    runs = [write_run(tmp_path, "1.0-browse-r01"), write_run(tmp_path, "1.1-browse-r01", workload="other")]
    first, second = evidence(extract_runs(runs))
    assert first.environment == {"node": "lab-1", "cpus": "2", "workload": "abc"}
    assert second.environment["workload"] == "other"


def test_what_was_fixed_beforehand_reaches_the_gates(tmp_path: Path) -> None:
    unsaid, looked, plain = (
        write_run(tmp_path, f"1.0-browse-r0{number}", **record)
        for number, record in enumerate(
            ({}, {"design": {"looks": [5, 8, 12], "paired": True}, "arm": "aa"}, {"design": {}}), start=1
        )
    )
    found = evidence(extract_runs([unsaid, looked, plain]))
    assert [run.design for run in found] == [None, Design((5, 8, 12), paired=True), Design()]
    assert [run.arm for run in found] == ["main", "aa", "main"]


def test_a_failed_run_is_evidence_of_its_failure(tmp_path: Path) -> None:
    (run,) = evidence(extract_runs([write_run(tmp_path, status="failed")]))
    assert run.failure == "the run did not finish"
    assert run.achieved_rate_per_s is None
    assert {type(sample) for sample in run.metrics.values()} == {Missing}


def test_a_histogram_that_got_lost_is_missing_and_not_empty(tmp_path: Path) -> None:
    tables = extract_runs([write_run(tmp_path)])
    (run,) = evidence(MetricTables(tables.run, tables.latency_histogram.slice(0, 0), tables.run_metric))
    assert run.metrics["client_latency"] == Missing("latency_histogram holds no row of it")

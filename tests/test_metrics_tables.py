"""The tables of measured runs in the object store."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.gates.evidence import LatencySample
from perf_pipeline.metrics.evidence import evidence
from perf_pipeline.metrics.extract import extract_runs
from perf_pipeline.metrics.tables import read_metrics, write_metrics
from perf_pipeline.storage import LocalObjectStore
from perf_pipeline.warehouse import read_tables, write_tables
from tests.recorded_runs import write_run


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path / "store")
    tables = extract_runs([write_run(tmp_path, f"1.0-browse-r0{n}", seed=n) for n in (1, 2)])
    write_metrics(store, "1.0__1.1", tables)
    assert store.keys("metrics") == [
        "metrics/1.0__1.1/latency_histogram.parquet",
        "metrics/1.0__1.1/run.parquet",
        "metrics/1.0__1.1/run_metric.parquet",
    ]
    for before, after in zip(evidence(tables), evidence(read_metrics(store, "1.0__1.1")), strict=True):
        assert before.environment == after.environment
        for metric, sample in before.metrics.items():
            again = after.metrics[metric]
            if isinstance(sample, LatencySample):
                np.testing.assert_array_equal(sample.log_quantiles, again.log_quantiles)
                np.testing.assert_array_equal(sample.levels, again.levels)


def test_tables_of_an_earlier_version_are_read_and_know_nothing_of_later_columns(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path / "store")
    tables = extract_runs([write_run(tmp_path, design={"looks": [5, 8]}, arm="aa")])
    earlier = tables.by_name() | {"run": tables.run.drop_columns(["arm", "looks", "paired"])}
    write_tables(store, "1.0__1.1", earlier)
    (run,) = evidence(read_metrics(store, "1.0__1.1"))
    assert (run.design, run.arm) == (None, "main")


def test_evidence_does_not_depend_on_the_order_of_the_rows(tmp_path: Path) -> None:
    """Parquet that something else wrote may be in any order, and with plain text columns."""
    tables = extract_runs([write_run(tmp_path, f"1.0-browse-r0{n}", seed=n) for n in (1, 2)])
    histogram = tables.latency_histogram
    shuffled = histogram.take(np.random.default_rng(1).permutation(histogram.num_rows))
    plain = shuffled.cast(
        pa.schema(
            [pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in histogram.schema]
        )
    )
    again = type(tables)(tables.run, plain, tables.run_metric)
    for before, after in zip(evidence(tables), evidence(again), strict=True):
        np.testing.assert_array_equal(before.metrics["client_latency"].shape, after.metrics["client_latency"].shape)


def test_new_measurements_take_the_old_judgement_away(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path / "store")
    tables = extract_runs([write_run(tmp_path)])
    write_metrics(store, "a__b", tables)
    write_tables(store, "a__b", {"verdict": pa.table({"scenario": ["x"]})})
    assert set(read_tables(store, "a__b")) == {"run", "latency_histogram", "run_metric", "verdict"}
    write_metrics(store, "a__b", tables)
    assert set(read_tables(store, "a__b")) == {"run", "latency_histogram", "run_metric"}


def test_metrics_that_are_not_there_are_a_problem_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no latency_histogram, run, run_metric\.parquet\n.*run_metrics"):
        read_metrics(LocalObjectStore(tmp_path), "a__b")

"""Answers of Prometheus' API in a run directory: native and classic histograms, and what is no answer."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.gates.evidence import Missing
from perf_pipeline.lab.run_directory import Hold
from perf_pipeline.metrics.foreign.prometheus import api_batches
from perf_pipeline.metrics.histogram import WindowedHistogram
from perf_pipeline.metrics.measured_run import Measurement, measure_run
from perf_pipeline.metrics.series import find_series_file, read_histogram, read_series
from perf_pipeline.plan_metrics import HistogramSource
from tests.recorded_runs import HOLD_START, write_run

RECORDED = Path(__file__).parent / "fixtures" / "foreign" / "prometheus" / "series.json.gz"
HOLD = Hold(start=1_796_027_516.0, end=1_796_027_532.0)


def histogram_of(path: Path, name: str, hold: Hold) -> WindowedHistogram | Missing:
    scraped = read_series(path, {f"{name}_bucket"}, hold)
    found = read_histogram(scraped, HistogramSource(histogram=name), hold, 1.0, round(hold.seconds))
    return found if isinstance(found, Missing) else found[0]


def answer(*series: dict) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}})


def native(samples: list[tuple[float, list[tuple[float, float, int]]]]) -> dict:
    """A series of native histograms: times, and buckets of lower edge, upper edge and count."""
    return {
        "metric": {"__name__": "latency_seconds", "job": "service"},
        "histograms": [
            [
                time,
                {
                    "count": str(sum(count for *_, count in buckets)),
                    "sum": "1",
                    "buckets": [[0, str(low), str(high), str(count)] for low, high, count in buckets],
                },
            ]
            for time, buckets in samples
        ],
    }


def write(folder: Path, text: str) -> Path:
    path = folder / "series.json"
    path.write_text(text)
    return path


def test_a_real_native_histogram_is_as_fine_as_its_schema() -> None:
    found = histogram_of(RECORDED, "http_request_duration_seconds", HOLD)
    assert isinstance(found, WindowedHistogram)
    whole = found.over()
    assert whole.requests == 4809 - 1811
    # The service observed log-normal latencies with a median of 50 ms and a sigma of 0.4.
    shown = np.exp(whole.log_quantiles([0.05, 0.5, 0.95]))
    assert shown == pytest.approx([25.9, 50.0, 96.5], rel=0.03)
    assert np.expm1(whole.log_widths([0.05, 0.5, 0.95, 0.99])) == pytest.approx([0.0443] * 4, abs=1e-3)
    assert found.counts.sum(axis=1)[:-1] == pytest.approx(200, abs=2)


def test_a_real_classic_histogram_beside_it_keeps_its_coarse_buckets() -> None:
    found = histogram_of(RECORDED, "http_request_duration_classic_seconds", HOLD)
    assert isinstance(found, WindowedHistogram)
    whole = found.over()
    assert whole.requests == 4809 - 1811
    assert np.expm1(whole.log_widths([0.5, 0.99])) == pytest.approx([1.0, 1.5])


def test_a_run_directory_with_such_an_answer_has_all_metrics(tmp_path: Path) -> None:
    metrics = {
        "service_latency": {"histogram": "http_request_duration_seconds"},
        "service_p99": "service_latency",
        "upstream_latency": {"histogram": "http_request_duration_classic_seconds", "process": "upstream"},
    }
    run = write_run(tmp_path, hold_s=14, metrics=metrics)
    (run / "series.csv.gz").unlink()
    moved = json.loads(gzip.decompress(RECORDED.read_bytes()))
    for series in moved["data"]["result"]:
        job = "upstream" if "classic" in series["metric"]["__name__"] else "service"
        series["metric"]["job"] = job
        for sample in (*series.get("values", ()), *series.get("histograms", ())):
            sample[0] += HOLD_START - HOLD.start
    # Two answers in one file, as two calls of curl leave them.
    (run / "series.json.gz").write_bytes(gzip.compress((json.dumps(moved) + answer()).encode()))
    measured = measure_run(run)
    for metric in ("service_latency", "service_p99", "upstream_latency"):
        assert isinstance(measured.metrics[metric], Measurement), measured.metrics[metric]
    p99 = measured.metrics["service_p99"]
    assert isinstance(p99, Measurement) and p99.value == pytest.approx(127, rel=0.08)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    latencies=st.lists(st.lists(st.floats(1e-4, 10.0), max_size=30), min_size=2, max_size=6),
    schemas=st.lists(st.integers(0, 4), min_size=6, max_size=6),
)
def test_the_growth_of_a_native_histogram_is_kept_bucket_by_bucket(
    tmp_path: Path, latencies: list[list[float]], schemas: list[int]
) -> None:
    """Resolution only ever falls, as client libraries do it; counts are then those of the coarsest buckets."""
    schemas = sorted(schemas, reverse=True)[: len(latencies)]
    samples, so_far = [], [0.5]
    for number, (ended, schema) in enumerate(zip(latencies, schemas, strict=True)):
        so_far = so_far + ended
        growth = 2.0 ** (2.0**-schema)
        index = np.ceil(np.log(so_far) / np.log(growth) - 1e-12).astype(int)
        values, counts = np.unique(index, return_counts=True)
        buckets = [(growth ** (i - 1.0), growth ** float(i), int(c)) for i, c in zip(values, counts, strict=True)]
        samples.append((HOLD.start + number, buckets))
    found = histogram_of(write(tmp_path, answer(native(samples))), "latency_seconds", HOLD)
    grown = [value for ended in latencies[1:] for value in ended]
    if not grown:
        assert isinstance(found, Missing)
        return
    assert isinstance(found, WindowedHistogram)
    whole = found.over()
    assert whole.requests == len(grown)
    for low, high, count in zip(whole.low_ms, whole.high_ms, whole.counts, strict=True):
        exact = sum(low * (1 + 1e-9) < 1000 * value <= high * (1 + 1e-9) for value in grown)
        near = sum(min(abs(1000 * value - low), abs(1000 * value - high)) < 1e-6 * low for value in grown)
        assert abs(count - exact) <= near


def test_the_bucket_around_zero_starts_at_zero(tmp_path: Path) -> None:
    samples = [(HOLD.start + number, [(-0.001, 0.001, 3 + number), (0.5, 0.6, 10 * number)]) for number in range(3)]
    found = histogram_of(write(tmp_path, answer(native(samples))), "latency_seconds", HOLD)
    assert isinstance(found, WindowedHistogram)
    whole = found.over()
    held = [
        (low, high, count) for low, high, count in zip(whole.low_ms, whole.high_ms, whole.counts, strict=True) if count
    ]
    assert held == [(0.0, 1.0, 2.0), (500.0, 600.0, 20.0)]


def test_a_native_histogram_that_goes_back_was_restarted(tmp_path: Path) -> None:
    samples = [(HOLD.start + number, [(0.5, 0.6, count)]) for number, count in enumerate((5, 9, 2))]
    found = histogram_of(write(tmp_path, answer(native(samples))), "latency_seconds", HOLD)
    assert isinstance(found, Missing) and "went back" in found.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (answer(native([(1, [(0.5, 0.6, 1)])]))[:-10], "is cut off or no JSON"),
        (
            '{"status":"error","errorType":"bad_data","error":"parse error"}',
            "no successful answer of Prometheus: parse",
        ),
        (
            '{"status":"success","data":{"resultType":"vector","result":[]}}',
            "holds a vector, not the series of a range",
        ),
        ("[]", "no successful answer of Prometheus"),
        (answer(native([(1, [(-2, -1, 4)])])), "a bucket below 0 holds something"),
        (answer({"metric": {"__name__": "up"}, "values": [["now", "1"]]}), "up: cannot be read"),
    ],
    ids=["cut off", "error", "vector", "no object", "negative", "time"],
)
def test_what_is_no_answer_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        list(api_batches(write(tmp_path, text)))
    assert raised.value.problems[0].remedy


def test_two_series_files_are_one_too_many(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    shutil.copy(RECORDED, run / "series.json.gz")
    with pytest.raises(InputError, match=r"series\.csv\.gz and series\.json\.gz"):
        find_series_file(run)

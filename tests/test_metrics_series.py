"""Series: growth inside the hold alone, resets that are never negative requests, and reasons in words."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.gates.evidence import Missing
from perf_pipeline.lab.run_directory import Hold
from perf_pipeline.metrics.histogram import WindowedHistogram
from perf_pipeline.metrics.series import (
    ScrapedSeries,
    counter_resets,
    find_series_file,
    load_end,
    read_gauge,
    read_histogram,
    read_series,
    scrape_density,
    throttled_share,
)
from perf_pipeline.plan_metrics import GaugeSource, HistogramSource
from tests.recorded_runs import histogram_samples, series_csv

HOLD = Hold(start=1000.0, end=1010.0)
EDGES_S = (0.001, 0.01, 0.1)
LATENCY = HistogramSource(histogram="latency_seconds")
MEMORY = GaugeSource(gauge="memory_bytes")
SERVICE = {"job": "service"}
NAMES = {
    "latency_seconds_bucket",
    "memory_bytes",
    "container_cpu_cfs_periods_total",
    "container_cpu_cfs_throttled_periods_total",
}

Sample = tuple[float, str, dict[str, str], float]


def scraped(folder: Path, samples: Sequence[Sample], name: str = "series.csv.gz") -> ScrapedSeries:
    path, text = folder / name, series_csv(samples)
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return read_series(path, NAMES, HOLD)


def latency(folder: Path, samples: Sequence[Sample], source: HistogramSource = LATENCY, windows: int = 10):
    return read_histogram(scraped(folder, samples), source, HOLD, HOLD.seconds / windows, windows)


def counts(found: tuple[WindowedHistogram, np.ndarray] | Missing) -> list[float]:
    assert not isinstance(found, Missing), found
    return list(found[0].over().counts)


def reason(found: object) -> str:
    assert isinstance(found, Missing)
    assert not found.absent
    return found.reason


def one_request_a_second(job: str = "service", **labels: str) -> list[Sample]:
    times = np.arange(998.5, 1012)
    samples = histogram_samples(times, [[0.005]] * len(times), EDGES_S, "latency_seconds", job)
    return [(time, name, tags | labels, value) for time, name, tags, value in samples]


def test_only_requests_between_scrapes_of_the_hold_count(tmp_path: Path) -> None:
    found = latency(tmp_path, one_request_a_second())
    assert counts(found) == [0, 9, 0, 0]  # ten scrapes in the hold, nine gaps between them
    histogram, times_s = found
    assert list(times_s) == list(np.arange(1000.5, 1010))
    assert list(histogram.low_ms) == [0, 1, 10, 100]
    assert list(histogram.high_ms) == [1, 10, 100, np.inf]
    assert list(histogram.counts.sum(axis=1)) == [0, *[1] * 9]


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    st.lists(st.lists(st.floats(0.0002, 0.5), max_size=12), min_size=3, max_size=9),
    st.lists(st.sampled_from(["a", "b"]), min_size=12, max_size=12),
)
def test_sums_over_labels_are_what_was_observed(tmp_path, ended: list[list[float]], routes: list[str]) -> None:
    """Two routes on one page, one of which may appear late: both count, in the buckets where they belong."""
    times = 1000.25 + np.arange(len(ended))
    samples: list[Sample] = []
    for route in ("a", "b"):
        mine = [[value for value, name in zip(second, routes, strict=False) if name == route] for second in ended]
        first = next((number for number, second in enumerate(mine) if second), len(mine))
        own = histogram_samples(times, mine, EDGES_S, "latency_seconds", "service")
        # A client library makes a series when it is first used.
        samples += [
            (t, n, tags | {"route": route}, v) for t, n, tags, v in own if t >= times[0] + first or route == "a"
        ]
    found = latency(tmp_path, samples)
    between = np.array([value for second in ended[1:] for value in second])
    expected = np.bincount(np.searchsorted(EDGES_S, between, side="left").astype(int), minlength=4)
    if expected.sum():
        assert counts(found) == list(expected)
    else:
        assert "counted no request" in reason(found)


def test_a_series_that_appears_in_the_hold_began_at_zero(tmp_path: Path) -> None:
    late = [(t, n, tags | {"status": "500"}, v) for t, n, tags, v in one_request_a_second() if t > 1005]
    grown = [(t, n, tags, v - 6 if tags["le"] in ("0.01", "0.1", "+Inf") else v) for t, n, tags, v in late]
    assert counts(latency(tmp_path, one_request_a_second() + grown)) == [0, 9 + 6, 0, 0]


def test_a_page_that_is_scraped_at_other_moments_does_not_begin_at_zero(tmp_path: Path) -> None:
    """Of two processes, the one that is scraped second has counted before the hold too."""
    other = [(t + 0.2, n, tags, v + 1000) for t, n, tags, v in one_request_a_second("upstream")]
    both = HistogramSource(histogram="latency_seconds", process=None)
    assert counts(latency(tmp_path, one_request_a_second() + other, both)) == [0, 18, 0, 0]


def test_a_scrape_that_failed_moves_growth_and_loses_none(tmp_path: Path) -> None:
    samples = [sample for sample in one_request_a_second() if sample[0] not in (1003.5, 1004.5)]
    found = latency(tmp_path, samples)
    assert counts(found) == [0, 9, 0, 0]
    assert found[0].counts.sum(axis=1)[4] == 3


def test_a_counter_that_goes_back_is_never_negative_requests(tmp_path: Path) -> None:
    samples = [(t, n, tags, v - 5 if t > 1005 and v > 5 else v) for t, n, tags, v in one_request_a_second()]
    text = reason(latency(tmp_path, samples))
    assert 'latency_seconds_bucket{job="service", le="0.01"} went back from 7 to 3 at 1005.500' in text
    assert text.startswith("series.csv.gz: ")


def test_a_counter_that_is_gone_is_a_reason(tmp_path: Path) -> None:
    gone = [sample for sample in one_request_a_second(route="a") if sample[0] < 1005]
    assert "was last there at 1004.500" in reason(latency(tmp_path, one_request_a_second(route="b") + gone))


def test_resets_before_the_hold_do_not_matter(tmp_path: Path) -> None:
    samples = [(t, n, tags, v + 100 if t < 1000 else v) for t, n, tags, v in one_request_a_second()]
    assert counts(latency(tmp_path, samples)) == [0, 9, 0, 0]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda t, n, tags, v: None if tags["le"] == "+Inf" else (t, n, tags, v), "has no bucket le=+Inf"),
        (lambda t, n, tags, v: (t, n, tags | {"le": "big"}, v), "without a number in le"),
        (lambda t, n, tags, v: (t, n, {"job": "service"}, v), "without a number in le"),
        (lambda t, n, tags, v: (t, n, tags, 0.0), "counted no request in the hold"),
        (lambda t, n, tags, v: (t, n, tags, v) if t == 1004.5 else None, "scraped only once"),
        (lambda t, n, tags, v: (t, n, tags, 90 * v if tags["le"] == "0.01" else v), "is not cumulative"),
    ],
)
def test_a_histogram_that_cannot_be_read_says_why(tmp_path: Path, change, what: str) -> None:
    samples = [changed for sample in one_request_a_second() if (changed := change(*sample))]
    assert what in reason(latency(tmp_path, samples))


def test_buckets_that_differ_between_series_are_not_added(tmp_path: Path) -> None:
    other = [(t, n, tags | {"route": "b"}, v) for t, n, tags, v in one_request_a_second() if tags["le"] != "0.01"]
    assert "different buckets" in reason(latency(tmp_path, one_request_a_second(route="a") + other))


def test_what_is_not_there_is_named_with_what_is(tmp_path: Path) -> None:
    found = latency(tmp_path, one_request_a_second(), HistogramSource(histogram="latency_second"))
    assert (
        'latency_second_bucket{job="service"} has no value in the hold; similar names: latency_seconds_bucket'
        in reason(found)
    )
    found = latency(tmp_path, one_request_a_second(), HistogramSource(histogram="latency_seconds", process="upstream"))
    assert 'there is latency_seconds_bucket{job="service", le="0.001"}' in reason(found)
    warm = [sample for sample in one_request_a_second() if sample[0] < 1000]
    assert "it was scraped outside the hold only" in reason(latency(tmp_path, warm))
    found = latency(
        tmp_path, one_request_a_second(), HistogramSource(histogram="latency_seconds", labels={"route": "x"})
    )
    assert 'route="x"' in reason(found)


def test_one_gauge_is_read_and_two_are_a_reason(tmp_path: Path) -> None:
    samples: list[Sample] = [(1000 + t, "memory_bytes", SERVICE, 5.0 + t) for t in range(-2, 13)]
    series = read_gauge(scraped(tmp_path, samples), MEMORY)
    assert list(series.values) == [5.0 + t for t in range(11)]
    samples += [(1001.0, "memory_bytes", SERVICE | {"pool": "old"}, 1.0)]
    text = reason(read_gauge(scraped(tmp_path, samples), MEMORY))
    assert '2 series answer to memory_bytes{job="service"}' in text
    assert "labels" in text
    one = read_gauge(scraped(tmp_path, samples), GaugeSource(gauge="memory_bytes", labels={"pool": "old"}))
    assert list(one.values) == [1.0]


def test_nan_is_no_value(tmp_path: Path) -> None:
    samples: list[Sample] = [(1000.0 + t, "memory_bytes", SERVICE, float("nan") if t == 3 else 1.0) for t in range(10)]
    assert read_gauge(scraped(tmp_path, samples), MEMORY).values.size == 9


def throttling(periods: Sequence[float], throttled: Sequence[float], every_s: float = 4) -> list[Sample]:
    return [
        (1000.5 + every_s * number, f"container_cpu_cfs_{name}_total", SERVICE, value)
        for name, values in (("periods", periods), ("throttled_periods", throttled))
        for number, value in enumerate(values)
    ]


def test_throttled_share(tmp_path: Path) -> None:
    assert throttled_share(scraped(tmp_path, throttling([100, 110, 120], [7, 8, 12])), HOLD) == 0.25
    assert throttled_share(scraped(tmp_path, throttling([100, 110, 111], [7, 7, 7])), HOLD) == 0.0


@pytest.mark.parametrize(
    "samples",
    [
        [],
        throttling([1], [1]),
        throttling([5, 5, 5], [0, 0, 0]),
        throttling([100, 3, 4], [7, 1, 1]),
        throttling([1, 9, 10], []),
        throttling([1, 2, 3], [0, 0, 0], every_s=1),
    ],
    ids=["no series", "once", "no limit", "restarted", "one of two", "a fifth of the hold"],
)
def test_throttling_that_was_not_measured_is_none_and_not_zero(tmp_path: Path, samples: list[Sample]) -> None:
    assert throttled_share(scraped(tmp_path, samples), HOLD) is None


@given(st.floats(0, 0.999), st.integers(0, 2**32 - 1))
def test_scrapes_once_a_second_are_dense_however_they_fall(phase: float, seed: int) -> None:
    jitter = np.random.default_rng(seed).uniform(-0.1, 0.1, 62)
    times = HOLD.start - 1 + phase + np.arange(62) + jitter
    hold = Hold(start=HOLD.start, end=HOLD.start + 60)
    inside = times[(times >= hold.start) & (times <= hold.end)]
    assert scrape_density(inside, hold, 1.0) == 1.0


def test_density_falls_with_what_is_missing() -> None:
    hold = Hold(start=0, end=61)
    times = np.arange(0.5, 61)
    assert scrape_density(times[:30], hold, 1.0) == 0.5
    assert scrape_density(times[::2], hold, 1.0) == pytest.approx(0.5, abs=0.02)
    assert scrape_density(np.empty(0), hold, 1.0) == 0
    assert scrape_density(times[::2], hold, 2.0) == 1.0
    # A burst makes up for no gap.
    assert scrape_density(np.concatenate([times[:30], 20.1 + np.arange(30) / 100]), hold, 1.0) == 0.5


def test_a_counter_that_went_back_is_a_restart_of_its_process(tmp_path: Path) -> None:
    upstream = [(t, n, tags, v if t < 1005 else v - 6) for t, n, tags, v in one_request_a_second("upstream")]
    memory = [(t, "memory_bytes", SERVICE, float(10 - t % 2)) for t, *_ in one_request_a_second()]
    assert counter_resets(scraped(tmp_path, one_request_a_second() + upstream + memory)) == {
        "service": 0,
        "upstream": 1,
    }
    assert counter_resets(scraped(tmp_path, memory)) == {}


def followed(folder: Path, counted: Callable[[float], float], times: np.ndarray) -> tuple[float, float] | str:
    """When the load ended by a counter with this value at each time."""
    path = folder / "series.csv"
    path.write_bytes(series_csv([(time, "latency_seconds_count", SERVICE, float(counted(time))) for time in times]))
    return load_end(read_series(path, NAMES, HOLD, {"latency_seconds_count"}), LATENCY, HOLD)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(1005, 1020), st.floats(0, 0.99), st.sampled_from([20.0, 500.0]), st.sampled_from([0.5, 1.0, 2.0]))
def test_the_end_of_the_load_is_found_by_the_clock_of_the_series(
    tmp_path: Path, end_s: float, phase: float, rate_per_s: float, interval_s: float
) -> None:
    """A load that begins before the hold, and ends somewhere between two scrapes, also far from the end of the hold."""
    times = 990 + phase + np.arange(0, 40, interval_s)
    found = followed(tmp_path, lambda time: rate_per_s * min(max(time - 992, 0), end_s - 992), times)
    assert not isinstance(found, str)
    assert found[0] <= end_s <= found[1]
    assert found[1] - found[0] <= 4 * interval_s


def test_two_scrapes_in_a_row_say_nothing_of_the_load(tmp_path: Path) -> None:
    """One late answer between scrapes that lie 10 ms apart is no load of 100 requests/s."""
    times = np.concatenate((np.arange(995, 1013), [1012.01, 1013.0]))
    late = {1012.01: 1.0, 1013.0: 1.0}
    found = followed(tmp_path, lambda time: 20 * min(time - 995, 15) + late.get(time, 0), times)
    assert found == (1009.0, 1011.0)


@pytest.mark.parametrize(
    ("counted", "why"),
    [
        (lambda time: 20 * (time - 990), "ends before the load did"),
        (lambda _: 5.0, "counted no request in the hold"),
        (lambda time: 2000 - time, "that could be followed around the hold"),
    ],
)
def test_a_load_whose_end_was_not_seen_is_not_known(tmp_path: Path, counted: Callable, why: str) -> None:
    assert why in followed(tmp_path, counted, np.arange(995.0, 1015))
    assert "that could be followed" in load_end(scraped(tmp_path, one_request_a_second()), LATENCY, HOLD)


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    samples = one_request_a_second()
    from_csv = counts(latency(tmp_path, samples))
    times, names, labels, values = zip(*samples, strict=True)
    for text in (pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.large_string()):
        path = tmp_path / "series.parquet"
        columns = {
            "value": pa.array(values, pa.float32()),
            "labels": pa.array([json.dumps(label) for label in labels]).cast(text),
            "name": pa.array(names).cast(text),
            "timestamp": pa.array(times),
            "more": pa.array(times),
        }
        pq.write_table(pa.table(columns), path)
        found = read_histogram(read_series(path, NAMES, HOLD), LATENCY, HOLD, 1.0, 10)
        assert counts(found) == from_csv


def test_the_file_is_found_by_its_name(tmp_path: Path) -> None:
    assert find_series_file(tmp_path) is None
    (tmp_path / "series.parquet").touch()
    assert find_series_file(tmp_path) == tmp_path / "series.parquet"


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("series.csv", b"timestamp,name,value\n", "lacks the columns labels"),
        ("series.csv", b"timestamp,name,labels,value\n1001,memory_bytes,{},many\n", "invalid value 'many'"),
        ("series.csv", b"timestamp,name,labels,value\nnoon,memory_bytes,{},1\n", "invalid value 'noon'"),
        (
            "series.csv",
            b"timestamp,name,labels,value\n1001,memory_bytes,job=service,1\n",
            "labels are not a JSON object",
        ),
        ("series.csv", b"timestamp,name,labels,value\n1001,memory_bytes,[1],1\n", "labels are not a JSON object"),
        ("series.csv", b"timestamp,name,labels,value\n1001,memory_bytes,{},1\n1002,memory_by", "is cut off: 1 rows"),
        ("series.csv", b"timestamp,name,labels,value\n1001,memory_bytes\n", "cannot be read"),
        ("series.csv", b"", "is empty"),
        ("series.csv.gz", gzip.compress(series_csv(one_request_a_second()))[:-4], "is cut off: 56 rows"),
        ("series.csv.gz", b"timestamp,name,labels,value\n", "is not a gzip file"),
        ("series.parquet", b"PAR1 and no more", "cannot be read"),
    ],
)
def test_what_is_no_series_file_is_a_problem(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_series(path, NAMES, HOLD)
    assert what in str(raised.value)
    assert str(path) in str(raised.value)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_a_gzip_file_that_was_cut_anywhere_is_a_problem(tmp_path: Path, data: st.DataObject) -> None:
    whole = gzip.compress(series_csv(one_request_a_second()))
    path = tmp_path / "series.csv.gz"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(InputError, match=r"is cut off|is empty|is not a gzip file"):
        read_series(path, NAMES, HOLD)


def test_a_parquet_file_with_other_columns_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "series.parquet"
    pq.write_table(pa.table({"timestamp": [1.0], "value": [1.0]}), path)
    with pytest.raises(InputError, match="lacks the columns name, labels"):
        read_series(path, NAMES, HOLD)


def test_an_empty_series_file_has_nothing(tmp_path: Path) -> None:
    assert "has no value in the hold" in reason(latency(tmp_path, []))

"""Interval logs of HdrHistogram: real ones of every encoding, tags, warm-up, and what is wrong with a log."""

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.metrics.foreign.form import Load
from perf_pipeline.metrics.foreign.hdr_log import HDR_LOG, read_hdr_log
from perf_pipeline.metrics.foreign.told import Told
from tests.hdr_histograms import V0, V1, V2, counts_of, encode, log_line

FIXTURES = Path(__file__).parent / "fixtures" / "foreign"
SHARED = Path(__file__).parents[2] / "shared" / "data" / "hdrhistogram_logs"
HEADER = "#[Histogram log format version 1.3]\n#[StartTime: 1796000000.000 (seconds since epoch), some date]\n"

shared_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded logs are not there")


def write(folder: Path, lines: str, name: str = "run.hlog") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(lines.encode()) if name.endswith(".gz") else lines.encode())
    return path


def log_of(seconds: int, per_second: int = 100, version: int = V2, tag: str = "", length_s: float = 1.0) -> str:
    rng = np.random.default_rng(5)
    return HEADER + "".join(
        log_line(
            second * length_s + float(rng.uniform(0, 0.004)),
            length_s,
            encode(counts_of((rng.lognormal(1, 0.4, per_second) * 1e6).astype(int).tolist()), version),
            tag,
        )
        for second in range(seconds)
    )


def only(path: Path, told: Told) -> Load:
    (load,) = read_hdr_log(path, told)
    return load


@shared_data
def test_every_interval_of_a_real_log_has_the_counts_that_others_decoded() -> None:
    truth: dict[float, dict[float, int]] = defaultdict(dict)
    with gzip.open(SHARED / "ycsb_intervals_hist.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            truth[float(row["start"])][float(row["value"])] = int(row["count"])
    load = only(SHARED / "ycsb.logV1.hlog", Told(unit="us"))
    assert load.latency is not None
    total: dict[float, int] = defaultdict(int)
    for interval in truth.values():
        for value, count in interval.items():
            total[value] += count
    whole = load.latency.over()
    found = dict(zip(np.round(whole.low_ms * 1000).tolist(), whole.counts.tolist(), strict=True))
    assert found == total
    assert load.requests == 300_056
    assert load.latency.counts.shape[0] == 60 and load.sub_window_s == 10
    by_window = np.zeros(60)
    start = min(truth)
    for stamp, interval in truth.items():
        by_window[min(59, int((stamp + 0.5 - start) // 10))] += sum(interval.values())
    # A handful of intervals are not a second long; their middle may lie on the other side.
    assert np.abs(load.latency.counts.sum(axis=1) - by_window).max() <= by_window.max() * 0.11


@shared_data
def test_percentiles_of_a_real_log_are_those_of_its_summary() -> None:
    with (SHARED / "ycsb_intervals_summary.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if float(row["interval_s"]) == 1.0]
    for row in rows[::60]:
        start = float(row["start"])
        told = Told(warmup_s=start - 1438613579.290, hold_s=1.0, unit="us")
        load = only(SHARED / "ycsb.logV1.hlog", told)
        assert load.requests == int(row["count"])
        assert load.latency is not None
        whole = load.latency.over()
        for share, column in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
            # The summary has an edge of the bucket, which is 1 us or a thousandth wide.
            assert np.exp(whole.log_quantiles(share)) * 1000 == pytest.approx(float(row[column]), abs=1.001, rel=2e-3)


@shared_data
@pytest.mark.parametrize(
    ("name", "requests", "p50_ms"),
    [("jHiccup-2.0.6.logV1.hlog", 65964, 0.386), ("jHiccup-2.0.7S.logV2.hlog", 48761, 0.3335)],
)
def test_logs_of_jhiccup_are_read(name: str, requests: int, p50_ms: float) -> None:
    load = only(SHARED / name, Told())
    assert load.requests == requests
    assert load.latency is not None
    assert np.exp(load.latency.over().log_quantiles(0.5)) == pytest.approx(p50_ms, rel=1e-3)


@shared_data
def test_tags_of_a_real_log_are_distributions_of_their_own() -> None:
    untagged, tagged = read_hdr_log(SHARED / "tagged-Log.logV2.hlog", Told())
    assert (untagged.tag, tagged.tag) == ("", "A")
    assert untagged.latency is not None and tagged.latency is not None
    # The file was made by duplicating its lines under a tag.
    assert (untagged.latency.counts == tagged.latency.counts).all()


@pytest.mark.parametrize("name", ["hlog", "hlog-v0", "hlog-v1"])
def test_a_log_of_each_version_of_the_library_is_read(name: str) -> None:
    path = FIXTURES / name / "1.0.0" / "1.hlog"
    assert HDR_LOG.recognises(path.read_bytes())
    load = only(path, Told(warmup_s=2))
    assert load.latency is not None
    assert load.requests == pytest.approx(200, abs=2) and load.hold_s == pytest.approx(5)
    assert np.exp(load.latency.over().log_quantiles(0.5)) == pytest.approx(5, rel=0.4)


@pytest.mark.parametrize("version", [V0, V1, V2])
@pytest.mark.parametrize("name", ["run.hlog", "run.hlog.gz"])
def test_the_warm_up_is_cut_off_by_interval(tmp_path: Path, version: int, name: str) -> None:
    path = write(tmp_path, log_of(20, version=version), name)
    load = only(path, Told(warmup_s=5, hold_s=10))
    assert load.requests == 1000
    assert load.hold_s == pytest.approx(10, abs=0.01)
    assert load.hold_start_s == pytest.approx(1_796_000_005, abs=0.01)
    assert load.latency is not None and load.latency.counts.sum(axis=1).tolist() == [100.0] * 10
    assert load.density == pytest.approx(1, abs=0.01)


def test_intervals_that_are_longer_than_a_sub_window_make_longer_ones(tmp_path: Path) -> None:
    load = only(write(tmp_path, log_of(10, length_s=30.0)), Told(warmup_s=60))
    assert load.sub_window_s == 30
    assert load.latency is not None and load.latency.counts.sum(axis=1).tolist() == [100.0] * 8


def test_a_log_that_ends_before_the_hold_has_lost_load(tmp_path: Path) -> None:
    load = only(write(tmp_path, log_of(20)), Told(warmup_s=5, hold_s=30))
    assert load.hold_s == 30 and load.requests == 1500


def test_a_unit_that_nobody_told_is_a_remark(tmp_path: Path) -> None:
    path = write(tmp_path, log_of(5))
    assert any("taken to be in ns" in remark for remark in only(path, Told(warmup_s=0)).remarks)
    in_us = only(path, Told(warmup_s=0, unit="us"))
    assert not in_us.remarks
    supposed = only(path, Told()).latency
    assert in_us.latency is not None and supposed is not None
    assert np.allclose(in_us.latency.low_ms, 1000 * supposed.low_ms)


def test_stamps_that_count_from_a_base_time_are_read(tmp_path: Path) -> None:
    text = HEADER.replace("#[Start", "#[BaseTime: 1796000100.0 (seconds since epoch)]\n#[Start")
    text += "".join(log_line(second, 1, encode(counts_of([5_000_000]))) for second in range(3))
    assert only(write(tmp_path, text), Told()).hold_start_s == pytest.approx(1_796_000_100)


def test_fields_may_be_separated_by_spaces_and_stamps_absolute(tmp_path: Path) -> None:
    text = HEADER + log_line(1_796_000_000, 1, encode(counts_of([5_000_000]))).replace(",", " ")
    assert only(write(tmp_path, text), Told()).hold_start_s == 1_796_000_000


def test_an_interval_without_a_value_keeps_its_place(tmp_path: Path) -> None:
    lines = [log_line(second, 1, encode(counts_of([] if second == 1 else [5_000_000]))) for second in range(3)]
    load = only(write(tmp_path, HEADER + "".join(lines)), Told(warmup_s=0))
    assert load.latency is not None and load.latency.counts.sum(axis=1).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (HEADER, "run.hlog", "holds no interval"),
        (log_of(3)[:-40], "run.hlog", "is cut off: 4 lines"),
        (HEADER + "0.1,1.0,0.5,HISTnonsense\n", "run.hlog:3", "no encoding of HdrHistogram"),
        (HEADER + "0.1,1.0,0.5,!!!\n", "run.hlog:3", "cannot be read"),
        (HEADER + "0.1,1.0\n", "run.hlog:3", "is no interval"),
        (
            HEADER + log_line(0, 1, encode([1])) + log_line(1, 1, encode([1], digits=2)),
            "run.hlog",
            "different precision",
        ),
        (log_of(3), "run.hlog", "holds no interval of the hold: the log lasts 3 s"),
    ],
    ids=["no interval", "cut off", "no histogram", "no base64", "fields", "precision", "too short"],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, place: str, message: str) -> None:
    told = Told(warmup_s=60 if "of the hold" in message else 0)
    with pytest.raises(InputError, match=message) as raised:
        read_hdr_log(write(tmp_path, text), told)
    (problem,) = raised.value.problems
    assert problem.where.endswith(place) and problem.remedy


def test_every_wrong_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        read_hdr_log(write(tmp_path, HEADER + "one\ntwo\n" + log_line(0, 1, encode([1]))), Told())
    assert [problem.where.rpartition(":")[2] for problem in raised.value.problems] == ["3", "4"]


def test_a_gzip_file_that_ends_in_the_middle_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path, log_of(50), "run.hlog.gz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="is cut off"):
        read_hdr_log(path, Told())

"""vegeta's results: real ones in both forms, what counts as failed, and what is wrong with a file."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.metrics.foreign.form import Load
from perf_pipeline.metrics.foreign.told import Told
from perf_pipeline.metrics.foreign.vegeta import (
    VEGETA_CSV,
    VEGETA_GOB,
    VEGETA_JSON,
    VEGETA_REPORT,
    read_vegeta_csv,
    read_vegeta_json,
)

FIXTURES = Path(__file__).parent / "fixtures" / "foreign"
START_NS = 1_796_000_000_000_000_000


def row(number: int, code: int = 200, latency_ns: int = 8_000_000, error: str = "", rate_per_s: int = 20) -> str:
    stamp = START_NS + number * 1_000_000_000 // rate_per_s
    return f"{stamp},{code},{latency_ns},0,2,{error},e30=,browse,{number},GET,http://127.0.0.1/,\n"


def write(folder: Path, rows: list[str], name: str = "results.csv") -> Path:
    path, text = folder / name, "".join(rows).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def only(path: Path, told: Told) -> Load:
    (load,) = (read_vegeta_json if ".json" in path.name else read_vegeta_csv)(path, told)
    return load


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
def test_real_results_in_both_forms_are_the_same(version: str) -> None:
    as_csv = FIXTURES / "vegeta-csv" / f"{version}-1.csv.gz"
    as_json = FIXTURES / "vegeta-json" / f"{version}-browse-1.json.gz"
    assert VEGETA_CSV.recognises(gzip.decompress(as_csv.read_bytes())[:65536])
    assert VEGETA_JSON.recognises(gzip.decompress(as_json.read_bytes())[:65536])
    with gzip.open(as_csv, "rt") as file:
        rows = list(csv.reader(file))
    found = only(as_csv, Told(warmup_s=0))
    again = only(as_json, Told(warmup_s=0))
    assert found.requests == again.requests == len(rows) == 280
    assert found.errors == again.errors == sum(int(fields[1]) >= 400 for fields in rows) > 0
    assert found.latency is not None and again.latency is not None
    assert (found.latency.counts == again.latency.counts).all()
    median_ms = float(np.median([int(fields[2]) for fields in rows if int(fields[1]) < 400])) / 1e6
    assert np.exp(found.latency.over().log_quantiles(0.5)) == pytest.approx(median_ms, rel=0.02)
    cut = only(as_csv, Told(warmup_s=2))
    assert cut.requests == pytest.approx(200, abs=1)
    assert cut.requests / (cut.hold_s or 1) == pytest.approx(40, rel=0.02)


@pytest.mark.parametrize("name", ["results.csv", "results.csv.gz"])
def test_the_hold_is_cut_out_by_when_requests_started(tmp_path: Path, name: str) -> None:
    load = only(write(tmp_path, [row(number) for number in range(400)], name), Told(warmup_s=5, hold_s=10))
    assert load.requests == 200 and load.hold_s == 10
    assert load.hold_start_s == pytest.approx(START_NS / 1e9 + 5)
    assert load.latency is not None and load.latency.counts.sum(axis=1).tolist() == [20.0] * 10


def test_what_failed_has_no_latency(tmp_path: Path) -> None:
    rows = [row(0), row(1, 0, error="EOF"), row(2, 404, error="404 Not Found"), row(3, 200, error="unexpected EOF")]
    rows += [row(4, 302), row(5, 200, error='"Get ""http://127.0.0.1/"": dial tcp, refused"')]
    load = only(write(tmp_path, rows), Told(warmup_s=0))
    assert (load.requests, load.errors) == (6, 4)
    assert load.latency is not None and load.latency.counts.sum() == 2


@pytest.mark.parametrize("columns", [8, 9, 12])
def test_older_results_have_fewer_columns(tmp_path: Path, columns: int) -> None:
    rows = [",".join(row(number).rstrip("\n").split(",")[:columns]) + "\n" for number in range(40)]
    assert VEGETA_CSV.recognises(rows[0].encode())
    assert only(write(tmp_path, rows), Told(warmup_s=0)).requests == 40


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(0), row(1).replace("200", "OK", 1)], r"results\.csv: row 2: cannot be read: .* code OK"),
        ([row(0), row(1, latency_ns=-5)], r"row 2: cannot be read: .* latency -5"),
        ([row(0), row(1)[:40]], "is cut off: 1 lines"),
        ([row(0), "1,2\n"], r"results\.csv:2: has 2 columns instead of 12"),
        ([row(number) for number in range(20)], r"holds no request of the hold: its load lasted 0\.95 s"),
    ],
    ids=["code", "latency", "cut off", "columns", "too short"],
)
def test_what_is_wrong_is_said(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        only(write(tmp_path, rows), Told(warmup_s=60 if "hold" in message else 0))


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    text = gzip.decompress((FIXTURES / "vegeta-json" / "1.0.0-browse-1.json.gz").read_bytes())
    path = tmp_path / "results.json"
    path.write_bytes(text[: text.index(b"\n") + 1] + b"nothing\n")
    with pytest.raises(InputError, match=r"results\.json:2: is no JSON: nothing"):
        only(path, Told())
    path.write_bytes(b'{"attack":1\n' + text)
    with pytest.raises(InputError, match=r"results\.json:1: is no JSON"):
        only(path, Told())


def test_its_own_results_and_its_reports_are_known_and_of_no_use() -> None:
    gob = (FIXTURES / "vegeta.bin").read_bytes()
    assert VEGETA_GOB.recognises(gob[:4096]) and "vegeta encode" in VEGETA_GOB.remedy
    assert not VEGETA_CSV.recognises(gob[:4096]) and not VEGETA_JSON.recognises(gob[:4096])
    assert VEGETA_REPORT.recognises(b'{"latencies":{"total":1,"50th":1,"99th":2},"requests":3}')

"""What wrk2 and wrk print: real output of both, errors, and what is wrong with a text."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.metrics.foreign.form import Load
from perf_pipeline.metrics.foreign.hgrm import HGRM
from perf_pipeline.metrics.foreign.told import Told
from perf_pipeline.metrics.foreign.wrk import WRK, read_wrk
from tests.wrk2_output import SHARED, WRK2_TEXT, recorded_runs

FIXTURES = Path(__file__).parent / "fixtures" / "foreign"


def write(folder: Path, text: str) -> Path:
    path = folder / "run.txt"
    path.write_text(text)
    return path


def only(path: Path, told: Told = Told(warmup_s=0)) -> Load:  # noqa: B008
    (load,) = read_wrk(path, told)
    return load


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded spectra are not there")
def test_every_recorded_spectrum_of_wrk2_gives_back_its_percentiles(tmp_path: Path) -> None:
    runs = recorded_runs()
    assert len(runs) == 93
    for run in runs:
        path = write(tmp_path, run.text)
        assert WRK.recognises(path.read_bytes()) and not HGRM.recognises(path.read_bytes())
        load = only(path)
        assert load.requests == int(run.row["requests_total"]) and load.hold_s == 300
        assert load.requests / load.hold_s == pytest.approx(float(run.row["achieved_rps"]), rel=1e-3)
        assert load.latency is not None
        whole = load.latency.over()
        for row in run.ticks:
            if float(row["percentile"]) in (0.1, 0.5, 0.75, 0.95, 0.975):
                found = float(np.exp(whole.log_quantiles(float(row["percentile"]))))
                assert found == pytest.approx(float(row["latency_ms"]), rel=2e-3)
                assert float(whole.log_widths(float(row["percentile"]))) < 2e-3


def test_the_latency_from_when_a_request_was_due_is_read(tmp_path: Path) -> None:
    uncorrected = WRK2_TEXT.replace("Recorded Latency", "Uncorrected Latency").replace("9.000", "1.000")
    _, _, second = uncorrected.partition("68.46%\n")
    first, line, rest = WRK2_TEXT.partition("-" * 58)
    both = first + second.partition("-" * 58)[0] + line + rest
    assert both.count("1/(1-Percentile)") == 2
    latency = only(write(tmp_path, both)).latency
    assert latency is not None and np.exp(latency.over().log_quantiles(1.0)) == pytest.approx(9.0, rel=2e-3)


@pytest.mark.parametrize(
    ("lines", "errors", "requests"),
    [
        ("", 0, 60018),
        ("  Non-2xx or 3xx responses: 18\n", 18, 60018),
        ("  Socket errors: connect 0, read 1, write 2, timeout 3\n  Non-2xx or 3xx responses: 18\n", 24, 60024),
    ],
)
def test_errors_are_answers_that_failed_and_requests_without_one(
    tmp_path: Path, lines: str, errors: int, requests: int
) -> None:
    load = only(write(tmp_path, WRK2_TEXT.replace("Requests/sec", f"{lines}Requests/sec")))
    assert (load.errors, load.requests) == (errors, requests)
    assert any("latency of failed requests" in remark for remark in load.remarks) == bool(errors)


@pytest.mark.parametrize(("version", "median_ms"), [("1.0.0", 5), ("2.0.0", 10)])
def test_four_percentiles_of_wrk_are_four_percentiles(version: str, median_ms: float) -> None:
    path = FIXTURES / "wrk" / version / "browse-1.txt"
    assert WRK.recognises(path.read_bytes())
    load = only(path)
    assert load.latency is not None and load.errors
    whole = load.latency.over()
    assert np.exp(whole.log_quantiles(0.5)) == pytest.approx(median_ms, rel=0.4)
    resolved = np.expm1(whole.log_widths([0.25, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99])) < 0.1
    assert resolved.tolist() == [False, True, False, True, True, False, True] or resolved[[1, 3, 4, 6]].all()
    assert not resolved[0]
    assert load.not_measured == {"achieved rate": "wrk has no target rate"}
    assert any("coordinated omission" in remark for remark in load.remarks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WRK2_TEXT[: WRK2_TEXT.index("-----")], "the line with the number of requests is not there"),
        (
            WRK2_TEXT.replace("     9.000     1.000000      39500          inf\n", ""),
            "does not reach the largest value",
        ),
        (WRK2_TEXT + WRK2_TEXT, "holds 2 tests"),
        (
            "Running 4s test @ http://127.0.0.1/\n  1 threads and 2 connections\n  Thread Stats   Avg\n"
            "  10 requests in 4.00s, 1KB read\nRequests/sec: 2.50\nTransfer/sec: 256.0B\n",
            "prints no latency distribution",
        ),
        (WRK2_TEXT[: WRK2_TEXT.index("Requests/sec")], "the line 'Transfer/sec:' is not there"),
    ],
    ids=["stopped", "spectrum cut off", "two tests", "no --latency", "errors cut off"],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_wrk(write(tmp_path, text), Told())
    assert raised.value.problems[0].remedy


def test_a_gzip_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.txt.gz"
    path.write_bytes(gzip.compress(WRK2_TEXT.encode())[:-20])
    with pytest.raises(InputError, match="is cut off"):
        read_wrk(path, Told())

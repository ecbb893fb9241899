"""Printed spectra: of HdrHistogram itself, of vegeta, and what is wrong with one."""

from pathlib import Path

import numpy as np
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.gates.evidence import PERCENTILES
from perf_pipeline.metrics.foreign.form import Load
from perf_pipeline.metrics.foreign.hgrm import HGRM, read_hgrm
from perf_pipeline.metrics.foreign.told import Told

FIXTURES = Path(__file__).parent / "fixtures" / "foreign"
SHARED = Path(__file__).parents[2] / "shared" / "data" / "hdrhistogram_logs"
HEADER = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n"
ROWS = "   1.000 0.000000 1 1.00\n   2.000 0.500000 50 2.00\n   4.000 1.000000 100\n"
FOOTER = "#[Mean = 2.0, StdDeviation = 1.0]\n#[Max = 4.000, Total count = 100]\n#[Buckets = 27, SubBuckets = 2048]\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "run.hgrm"
    path.write_text(text)
    return path


def only(path: Path, told: Told) -> Load:
    (load,) = read_hgrm(path, told)
    return load


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded spectra are not there")
@pytest.mark.parametrize(
    ("name", "requests", "p50", "p90"),
    [
        ("example1.txt", 475109, 11.167, 40.671),
        ("example2.txt", 1104769, 1418.239, 1510.399),
        ("example3.txt", 1091324, 30.447, 505.087),
    ],
)
def test_real_spectra_give_back_their_percentiles(name: str, requests: int, p50: float, p90: float) -> None:
    path = SHARED / name
    assert HGRM.recognises(path.read_bytes()[:4096])
    load = only(path, Told())
    assert load.latency is not None
    whole = load.latency.over()
    assert load.requests == whole.requests == requests
    # Example 1 prints 11.167 at 0.5 and example 2 the same value at ten levels.
    shown = np.exp(whole.log_quantiles([0.5, 0.9]))
    assert shown[1] == pytest.approx(p90, rel=2e-3)
    assert shown[0] == pytest.approx(p50, rel=2e-3) or name == "example1.txt"
    resolved = np.expm1(whole.log_widths(np.array(PERCENTILES) / 100)) < 0.1
    assert resolved[[1, 3, 5, 7, 9, 10, 18]].all() and not resolved[0]


def test_a_spectrum_that_the_library_printed_agrees_with_its_log() -> None:
    path = FIXTURES / "hgrm" / "1.0.0" / "browse-r1.hgrm"
    assert HGRM.recognises(path.read_bytes())
    load = only(path, Told(unit="ms", hold_s=5))
    assert load.requests == pytest.approx(200, abs=2)
    assert load.hold_s == 5 and not load.remarks and not load.not_measured
    assert load.latency is not None
    assert np.exp(load.latency.over().log_quantiles(0.5)) == pytest.approx(5, rel=0.4)


def test_vegetas_hdrplot_says_its_unit() -> None:
    path = FIXTURES / "hdrplot" / "1.0.0.txt"
    assert HGRM.recognises(path.read_bytes())
    load = only(path, Told())
    assert load.requests == 280
    assert not any("taken to be" in remark for remark in load.remarks)
    assert load.latency is not None
    assert np.exp(load.latency.over().log_quantiles(0.5)) == pytest.approx(5, rel=0.4)


@pytest.mark.parametrize("footer", ["", FOOTER])
def test_the_width_of_a_value_is_its_precision(tmp_path: Path, footer: str) -> None:
    latency = only(write(tmp_path, HEADER + ROWS + footer), Told()).latency
    assert latency is not None
    assert float(latency.over().log_widths(0.5)) == pytest.approx(0.002 / 2 if footer else 0.0005, rel=0.03)


def test_the_csv_variant_and_infinity_are_read(tmp_path: Path) -> None:
    text = '"Value","Percentile","TotalCount","1/(1-Percentile)"\n1.000,0.0,1,1.00\n4.000,1.0,100,Infinity\n'
    assert only(write(tmp_path, text), Told()).requests == 100


def test_what_a_spectrum_cannot_say_is_said(tmp_path: Path) -> None:
    load = only(write(tmp_path, HEADER + ROWS), Told(warmup_s=30))
    assert load.hold_s is None and load.sub_window_s is None and load.errors is None
    assert load.not_measured == {"achieved rate": "the length of the load is not in a spectrum: --hold"}
    assert any("no warm-up could be cut off" in remark for remark in load.remarks)
    assert any("taken to be in ms" in remark for remark in load.remarks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + ROWS[: ROWS.index("   4.0")], "does not reach the largest value"),
        (HEADER + ROWS.replace("   2.000", "   two"), "run.hgrm:4: is no row of a spectrum: two"),
        (HEADER + ROWS.replace("   2.000", "   9.000"), "goes back at percentile 1"),
        (HEADER + ROWS + HEADER + ROWS, "holds 2 spectra"),
        (HEADER, "is cut off"),
    ],
    ids=["cut off", "no number", "goes back", "two", "no row"],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_hgrm(write(tmp_path, text), Told())

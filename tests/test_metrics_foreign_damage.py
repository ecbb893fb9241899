"""Faults put into real results of every form: cut off, changed, repeated. Each is read, or refused in words."""

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.metrics.foreign.form import Form, head_of
from perf_pipeline.metrics.foreign.results import FORMS
from perf_pipeline.metrics.foreign.told import Told

FIXTURES = Path(__file__).parent / "fixtures" / "foreign"
REAL = {
    "k6-json": "1.0.0/1.json.gz",
    "k6-csv": "1.0.0/1.csv.gz",
    "vegeta-csv": "1.0.0-1.csv.gz",
    "vegeta-json": "1.0.0-browse-1.json.gz",
    "hlog": "1.0.0/1.hlog",
    "hlog-v1": "1.0.0/1.hlog",
    "hlog-v0": "1.0.0/1.hlog",
    "hgrm": "1.0.0/browse-r1.hgrm",
    "wrk": "1.0.0/browse-1.txt",
}
LINES = [name for name in REAL if name not in ("hgrm", "wrk")]
TOLD = Told(rates_per_s={"": 40.0}, warmup_s=2.0)
quickly = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
places = st.floats(0, 1, exclude_max=True)


def text_of(name: str) -> bytes:
    data = (FIXTURES / name / REAL[name]).read_bytes()
    return gzip.decompress(data) if REAL[name].endswith(".gz") else data


def form_of(path: Path) -> Form | None:
    return next((form for form in FORMS if form.recognises(head_of(path))), None)


def refused(path: Path) -> bool:
    """Whether the file is refused; any exception but an InputError with its place and a remedy fails the test."""
    form = form_of(path)
    if form is None:
        return True
    try:
        loads = form.read(path, TOLD)
    except InputError as error:
        assert all(path.name in problem.where and problem.remedy for problem in error.problems)
        assert str(error).replace("\n", "").isprintable()
        return True
    assert loads and all(load.requests >= 0 for load in loads)
    return False


@pytest.mark.parametrize("name", REAL)
def test_the_whole_file_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run"
    path.write_bytes(text_of(name))
    assert not refused(path)
    path.write_bytes(gzip.compress(text_of(name)))
    assert not refused(path)


@quickly
@pytest.mark.parametrize("name", LINES)
@given(place=places, packed=st.booleans())
@example(place=0.0, packed=False)
@example(place=0.999999, packed=True)
def test_lines_that_end_in_the_middle_are_refused(tmp_path: Path, name: str, place: float, packed: bool) -> None:
    text = text_of(name)
    cut = text[: int(place * len(text))]
    if cut.endswith(b"\n"):
        cut = cut[:-1]
    path = tmp_path / "run"
    path.write_bytes(gzip.compress(cut) if packed else cut)
    assert refused(path)


@quickly
@pytest.mark.parametrize("name", REAL)
@given(place=places)
def test_a_packed_file_that_ends_in_the_middle_is_refused(tmp_path: Path, name: str, place: float) -> None:
    path, packed = tmp_path / "run", gzip.compress(text_of(name))
    path.write_bytes(packed[: int(place * len(packed))])
    assert refused(path)


@quickly
@pytest.mark.parametrize("name", ["hgrm", "wrk"])
@given(place=st.floats(0, 0.9))
def test_a_table_that_ends_in_the_middle_is_refused(tmp_path: Path, name: str, place: float) -> None:
    """Its last line counts everything: wrk's total, and the row of a spectrum at percentile 1."""
    text = text_of(name)
    last = text.index(b"requests in") if name == "wrk" else text.index(b"1.000000000000")
    path = tmp_path / "run"
    path.write_bytes(text[: int(place * last)])
    assert refused(path)


@quickly
@pytest.mark.parametrize("name", REAL)
@given(place=places, put=st.binary(min_size=1, max_size=40), over=st.integers(0, 400), packed=st.booleans())
@example(place=0.5, put=b"\0" * 40, over=0, packed=False)
@example(place=0.5, put=b"\n\x1b[2J\xff\xfe\n", over=0, packed=True)
@example(place=0.5, put=b"\r", over=1, packed=False)
def test_odd_bytes_end_in_no_other_error(
    tmp_path: Path, name: str, place: float, put: bytes, over: int, packed: bool
) -> None:
    text = text_of(name)
    at = int(place * len(text))
    changed = text[:at] + put + text[at + over :]
    path = tmp_path / "run"
    path.write_bytes(gzip.compress(changed) if packed else changed)
    refused(path)


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_odd_bytes_is_refused(tmp_path: Path, name: str) -> None:
    lines = text_of(name).splitlines(keepends=True)
    path = tmp_path / "run"
    path.write_bytes(b"".join([*lines[:-2], b"\xff\xfe\0\x80 junk\n", *lines[-2:]]))
    assert refused(path)


@pytest.mark.parametrize("name", REAL)
def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(tmp_path: Path, name: str) -> None:
    plain, other = tmp_path / "plain", tmp_path / "other"
    plain.write_bytes(text_of(name))
    other.write_bytes(b"\xef\xbb\xbf" + text_of(name).replace(b"\n", b"\r\n"))
    form = form_of(plain)
    assert form is not None and form_of(other) is form
    (one,), (same,) = form.read(plain, TOLD), form.read(other, TOLD)
    assert (one.requests, one.errors, one.hold_s) == (same.requests, same.errors, same.hold_s)
    assert one.latency is not None and same.latency is not None
    assert (one.latency.counts == same.latency.counts).all()

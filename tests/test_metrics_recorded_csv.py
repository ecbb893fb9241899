"""Recorded files: the header and the end are looked at before any row is."""

import gzip
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.metrics.recorded_csv import cut_off, find_recorded, read_header


def test_the_header_is_read_from_plain_and_gzip_files(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    plain.write_bytes(b'\xef\xbb\xbfone,"two, three",four\r\n1,2,3\r\n')
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_header(plain, ["one"]) == read_header(packed, ["one"]) == ["one", "two, three", "four"]


def test_every_problem_of_a_header_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("one,one,two\n")
    with pytest.raises(InputError) as raised:
        read_header(path, ["two", "three", "four"])
    missing, twice = raised.value.problems
    assert "three, four" in missing.what
    assert "one twice" in twice.what


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_header(tmp_path / "not-there.csv", [])
    with pytest.raises(InputError, match="cannot be read"):
        read_header(tmp_path, [])


def test_rows_before_the_cut_are_counted_to_the_last_one(tmp_path: Path) -> None:
    lines = [b"a,b\n", *(b"%d,%d\n" % (number, number) for number in range(50_000))]
    whole = gzip.compress(b"".join(lines))
    path = tmp_path / "a.csv.gz"
    for size in (len(whole) - 1, len(whole) - 8):  # all of the data, and only the trailer is short
        path.write_bytes(whole[:size])
        assert "50000 rows can be read" in cut_off(path).what
    path.write_bytes(whole[:30])
    assert "0 rows can be read" in cut_off(path).what


def test_the_one_file_of_several_names_is_found(tmp_path: Path) -> None:
    assert find_recorded(tmp_path, ["a.csv", "a.csv.gz"]) is None
    (tmp_path / "a.csv.gz").touch()
    assert find_recorded(tmp_path, ["a.csv", "a.csv.gz"]) == tmp_path / "a.csv.gz"
    (tmp_path / "a.csv").touch()
    with pytest.raises(InputError, match=r"holds a\.csv and a\.csv\.gz"):
        find_recorded(tmp_path, ["a.csv", "a.csv.gz"])

"""Run directories: found below a folder, and every one that is wrong is named at once."""

import json
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.lab.run_directory import find_runs, read_record

RECORD = {
    "run_id": "1.0.0-browse-r01",
    "version": "1.0.0",
    "scenario": "browse",
    "repeat": 1,
    "target_rate_per_s": 100,
    "hold": {"start": 1000.0, "end": 1060.0},
}


def make_run(folder: Path, **fields: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(RECORD | fields))
    (folder / "k6.csv").write_text("")
    return folder


def test_the_fields_that_every_harness_has_are_enough(tmp_path: Path) -> None:
    record = read_record(make_run(tmp_path / "a"))
    assert record.hold.seconds == 60
    assert record.metrics.client_latency == "k6"
    assert record.metrics.service_latency is None
    assert record.status == "complete"


@pytest.mark.parametrize("looks", [[1], [5, 5], [8, 5]])
def test_looks_that_do_not_rise_are_refused(tmp_path: Path, looks: list[int]) -> None:
    with pytest.raises(InputError, match="looks are numbers of repeats from 2"):
        read_record(make_run(tmp_path / "a", design={"looks": looks}))


def test_runs_are_found_at_any_depth(tmp_path: Path) -> None:
    make_run(tmp_path / "c" / "one")
    make_run(tmp_path / "c" / "deeper" / "two", run_id="other")
    assert [run.name for run in find_runs(tmp_path)] == ["two", "one"]


def test_all_problems_of_all_runs_come_at_once(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    make_run(tmp_path / "c", run_id="c", repeat=0, hold={"start": 1.0})
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "run.json").write_text("{")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "k6.csv.gz").write_bytes(b"")
    with pytest.raises(InputError) as caught:
        find_runs(tmp_path)
    places = [problem.where.removeprefix(str(tmp_path)) for problem in caught.value.problems]
    assert places == ["/e", "/b", "/c/run.json: repeat", "/c/run.json: hold.end", "/d/run.json"]
    assert "run_id 1.0.0-browse-r01" in str(caught.value)


def test_a_run_that_is_half_written_is_no_run(tmp_path: Path) -> None:
    """A campaign that is killed while it moves a run into place leaves the next one, and `judge`, their way."""
    folder = tmp_path / ".partial-of-somebody" / "runs"
    make_run(folder / "whole")
    make_run(folder / "c" / ".partial-1-2-host-x", run_id="half")
    (folder / ".partial-y").mkdir()
    (folder / ".partial-y" / "k6.csv").write_text("")
    assert [run.name for run in find_runs(folder)] == ["whole"]


@pytest.mark.parametrize(("make", "message"), [(False, "is not a folder"), (True, "holds no run directory")])
def test_a_folder_without_runs_is_an_error(tmp_path: Path, make: bool, message: str) -> None:
    folder = tmp_path / "runs"
    if make:
        folder.mkdir()
    with pytest.raises(InputError, match=message):
        find_runs(folder)


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json: is missing"):
        read_record(tmp_path)


def test_a_hold_that_ends_before_it_starts_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", hold={"start": 10.0, "end": 10.0})
    with pytest.raises(InputError, match="end must be after start"):
        read_record(run)


def test_a_folder_of_several_comparisons_is_one_problem(tmp_path: Path) -> None:
    for comparison in ("1__2", "1__3"):
        for repeat in (1, 2):
            make_run(tmp_path / comparison / f"r{repeat}", run_id=f"1-browse-r{repeat:02d}", comparison=comparison)
    with pytest.raises(InputError) as caught:
        find_runs(tmp_path)
    (problem,) = caught.value.problems
    assert "several comparisons (1__2, 1__3)" in problem.what and "folder of one comparison" in problem.remedy
    assert len(find_runs(tmp_path / "1__2")) == 2

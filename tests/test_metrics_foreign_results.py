"""Results among the files of a folder: what is one, which run it is of, and what is left out or wrong."""

import gzip
import shutil
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.gates.checks import ACHIEVED_RATE, DRIFT, DROPPED_ITERATIONS, THROTTLING
from perf_pipeline.gates.evidence import METRICS, Missing
from perf_pipeline.metrics.extract import evidence, extract_runs
from perf_pipeline.metrics.foreign.form import head_of
from perf_pipeline.metrics.foreign.results import FORMS, UNREADABLE_FORMS, FoundResults, find_results, measure_result
from perf_pipeline.metrics.foreign.told import Told
from tests.hdr_histograms import counts_of, encode, log_line
from tests.recorded_runs import write_run

FIXTURES = Path(__file__).parent / "fixtures" / "foreign"
VERSIONS = ("1.0.0", "2.0.0")
TOLD = Told({"": 40}, warmup_s=2)
FOLDERS = {
    "k6-json": "k6 JSON",
    "k6-csv": "k6 CSV",
    "vegeta-csv": "vegeta CSV",
    "vegeta-json": "vegeta JSON",
    "hlog": "HdrHistogram log",
    "hlog-v0": "HdrHistogram log",
    "hlog-v1": "HdrHistogram log",
    "hgrm": "percentile spectrum",
    "hdrplot": "percentile spectrum",
    "wrk": "wrk2 or wrk output",
}


def copy(folder: Path, *names: str) -> Path:
    for name in names:
        target = folder / name.partition("/")[2]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FIXTURES / name, target)
    return folder


@pytest.mark.parametrize(("folder", "form"), FOLDERS.items())
def test_each_real_file_is_of_one_form_whatever_its_name(folder: str, form: str) -> None:
    files = [path for path in (FIXTURES / folder).rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert [one.name for one in (*FORMS, *UNREADABLE_FORMS) if one.recognises(head_of(path))] == [form], path


@pytest.mark.parametrize("folder", ["k6-json", "k6-csv", "vegeta-csv", "vegeta-json", "hlog", "hgrm", "wrk"])
def test_every_form_becomes_evidence_and_says_what_it_cannot(folder: str) -> None:
    found = find_results(FIXTURES / folder, VERSIONS, TOLD)
    runs = evidence(extract_runs(found.results))
    assert {run.version for run in runs} == set(VERSIONS) and len(runs) == len(found.results) >= 4
    form = found.results[0].form
    for run in runs:
        assert list(run.metrics) == list(METRICS)
        for metric, sample in run.metrics.items():
            if isinstance(sample, Missing):
                assert sample.absent and sample.reason == form.missing[metric]
        assert not isinstance(run.metrics["client_latency"], Missing)
        assert run.throttled_share is None and run.not_measured[THROTTLING]
        assert (run.dropped_iterations is None) == (DROPPED_ITERATIONS in run.not_measured)
        assert (DRIFT in run.not_measured) == (folder in ("hgrm", "wrk"))
        if folder not in ("hgrm", "wrk"):
            assert run.achieved_rate_per_s == pytest.approx(40, rel=0.05)


def test_what_nobody_told_is_not_measured() -> None:
    found = find_results(FIXTURES / "vegeta-csv", VERSIONS, Told())
    (run, *_) = evidence(extract_runs(found.results))
    assert not run.target_rate_per_s > 0 and run.achieved_rate_per_s
    assert run.not_measured[ACHIEVED_RATE] == "no target rate was given (--rate)"


def test_forms_may_be_mixed_in_one_folder(tmp_path: Path) -> None:
    copy(tmp_path, "k6-json/1.0.0/1.json.gz", "k6-csv/1.0.0/2.csv.gz", "hlog/2.0.0/1.hlog", "hlog/2.0.0/2.hlog")
    (tmp_path / "README.md").write_text("# What this is\n")
    (tmp_path / ".DS_Store").write_bytes(b"\x00")
    found = find_results(tmp_path, VERSIONS, TOLD)
    assert found.pattern == "{version}/{repeat}"
    named = {result.name: result.form.name for result in found.results}
    assert named == {
        "1.0.0/1.json.gz": "k6 JSON",
        "1.0.0/2.csv.gz": "k6 CSV",
        "2.0.0/1.hlog": "HdrHistogram log",
        "2.0.0/2.hlog": "HdrHistogram log",
    }
    (note,) = found.notes()
    assert "read from its path as {version}/{repeat}" in note and "2 files of HdrHistogram log" in note


def test_repeats_that_paths_do_not_name_are_counted(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for version in VERSIONS:
            copy(tmp_path, f"hlog/{version}/1.hlog")
            (tmp_path / version / "1.hlog").rename(tmp_path / version / f"{name}.hlog")
    found = find_results(tmp_path, VERSIONS, TOLD, "{version}/*.hlog")
    assert [(result.name, result.repeat) for result in found.results] == [
        ("1.0.0/a.hlog", 1),
        ("1.0.0/b.hlog", 2),
        ("2.0.0/a.hlog", 1),
        ("2.0.0/b.hlog", 2),
    ]


def test_a_rate_in_the_path_is_the_target_rate(tmp_path: Path) -> None:
    copy(tmp_path, "vegeta-csv/1.0.0-1.csv.gz")
    (tmp_path / "1.0.0-1.csv.gz").rename(tmp_path / "1.0.0-40rps-1.csv.gz")
    (result,) = find_results(tmp_path, VERSIONS, Told(warmup_s=2), "{version}-{rate}-{repeat}").results
    (run,) = measure_result(result)
    assert (run.record.scenario, run.record.target_rate_per_s) == ("40 per s", 40)
    assert not run.not_measured.get(ACHIEVED_RATE)


def test_each_tag_is_a_scenario_of_its_own(tmp_path: Path) -> None:
    data = encode(counts_of([5_000_000] * 10))
    (tmp_path / "1.0.0-1.hlog").write_text(
        "".join(log_line(second, 1, data, tag) for second in range(4) for tag in ("READ", "SCAN"))
    )
    told = Told({"": 100, "all/READ": 10}, warmup_s=0)
    (result,) = find_results(tmp_path, VERSIONS, told).results
    read, scan = measure_result(result)
    assert (read.record.run_id, read.record.scenario) == ("1.0.0-1.hlog#READ", "all/READ")
    assert read.record.target_rate_per_s == 10 and read.achieved_rate_per_s == pytest.approx(10)
    assert ACHIEVED_RATE not in read.not_measured and ACHIEVED_RATE in scan.not_measured


def test_files_of_other_versions_are_named_and_left_out(tmp_path: Path) -> None:
    copy(tmp_path, "hlog/1.0.0/1.hlog", "hlog/2.0.0/1.hlog")
    shutil.copytree(tmp_path / "1.0.0", tmp_path / "3.0.0")
    found = find_results(tmp_path, VERSIONS, TOLD)
    assert len(found.results) == 2 and found.others == ("3.0.0/1.hlog",)
    assert any("of neither version" in note and "3.0.0/1.hlog" in note for note in found.notes())


def test_two_files_of_one_run_are_an_error(tmp_path: Path) -> None:
    copy(tmp_path, "k6-json/1.0.0/1.json.gz", "k6-csv/1.0.0/1.csv.gz")
    (problem,) = find_results(tmp_path, VERSIONS, TOLD).problems
    assert problem.what == "is of version 1.0.0, scenario all, repeat 1, as is 1.0.0/1.csv.gz"
    assert "--pattern" in problem.remedy


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"nonsense\n", "begins like no known form"),
        ("#[Logged with jHiccup]\n".encode("utf-16"), "is in UTF-16"),
    ],
    ids=["empty", "nonsense", "UTF-16"],
)
def test_a_damaged_file_among_results_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    copy(tmp_path, "hlog/1.0.0/1.hlog", "hlog/2.0.0/1.hlog")
    (tmp_path / "2.0.0" / "2.hlog").write_bytes(content)
    (tmp_path / "2.0.0" / "3.hlog").write_bytes(content)
    found = find_results(tmp_path, VERSIONS, TOLD)
    assert [Path(problem.where).name for problem in found.problems] == ["2.hlog", "3.hlog"]
    assert all(message in problem.what and problem.remedy for problem in found.problems)


def test_a_pattern_that_fits_nothing_is_an_error(tmp_path: Path) -> None:
    copy(tmp_path, "hlog/1.0.0/1.hlog")
    with pytest.raises(InputError, match="fits none of 1 result file in"):
        find_results(tmp_path, VERSIONS, TOLD, "results/{version}/{repeat}")
    (tmp_path / "1.0.0" / "1.hlog").unlink()
    with pytest.raises(InputError, match="fits none of 0 result files"):
        find_results(tmp_path, VERSIONS, TOLD, "{version}/{repeat}")
    shutil.copy(FIXTURES / "vegeta.bin", tmp_path / "1.0.0" / "1.bin")
    assert find_results(tmp_path, VERSIONS, TOLD, "{version}/{repeat}").unreadable


def test_forms_of_no_use_are_named_with_a_remedy(tmp_path: Path) -> None:
    copy(tmp_path, "hlog/1.0.0/1.hlog")
    shutil.copy(FIXTURES / "vegeta.bin", tmp_path / "2.0.0.bin")
    found = find_results(tmp_path, VERSIONS, TOLD)
    (problem,) = found.unreadable
    assert "vegeta encode" in problem.remedy
    assert any("vegeta's own binary results" in note for note in found.notes())


def test_run_directories_are_left_to_themselves(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert find_results(tmp_path, VERSIONS, TOLD) == FoundResults(())
    shutil.copy(FIXTURES / "hlog" / "1.0.0" / "1.hlog", tmp_path / "notes.hlog")
    assert find_results(tmp_path, VERSIONS, TOLD).others == ("notes.hlog",)


def test_problems_of_all_files_come_at_once(tmp_path: Path) -> None:
    copy(tmp_path, "hlog/1.0.0/1.hlog", "hlog/2.0.0/1.hlog", "hlog/2.0.0/2.hlog", "k6-json/1.0.0/2.json.gz")
    for name in ("2.0.0/1.hlog", "1.0.0/2.json.gz"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError) as raised:
        extract_runs(find_results(tmp_path, VERSIONS, TOLD).results)
    assert {Path(problem.where).name for problem in raised.value.problems} == {"1.hlog", "2.json.gz"}


def test_a_packed_file_is_told_by_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "1.0.0-1.dat").write_bytes(gzip.compress((FIXTURES / "hgrm" / "1.0.0" / "browse-r1.hgrm").read_bytes()))
    found = find_results(tmp_path, VERSIONS, TOLD, "{version}-{repeat}.dat")
    assert [result.form.name for result in found.results] == ["percentile spectrum"]

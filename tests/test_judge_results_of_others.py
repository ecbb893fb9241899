"""`judge` on real results of other load generators: verdicts, and what each form cannot know, in JSON and report."""

import gzip
import json
import math
import shutil
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from perf_pipeline.cli import main
from perf_pipeline.gates.evidence import METRICS
from tests.recorded_runs import HOLD_START, write_run
from tests.wrk2_output import SHARED, recorded_runs

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures" / "foreign"
SCHEMA = json.loads((ROOT / "docs" / "judgement.schema.json").read_text())
YCSB = ROOT.parent / "shared" / "data" / "hdrhistogram_logs" / "ycsb.logV1.hlog"
SCRAPED_FROM = 1796027516.5
"""Start of what was scraped for the recorded answer of Prometheus."""
SEEN = {"client_latency", "http_error_rate"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["judge", *map(str, arguments)], catch_exceptions=False)


def judged(folder: Path, *options: object) -> dict:
    sides = () if "--baseline" in options else ("--baseline", "1.0.0", "--candidate", "2.0.0")
    result = run(folder, *sides, *options, "--json")
    assert result.exit_code in (0, 1), result.output
    answer = json.loads(result.output)
    jsonschema.validate(answer, SCHEMA)
    return answer


def closed_model(folder: Path) -> Path:
    """A policy for loads without a target rate."""
    text = (ROOT / "perf_pipeline" / "gates" / "policies" / "default.yaml").read_text()
    before, name, after = text.partition("achieved_rate:")
    path = folder / "closed.yaml"
    path.write_text(before + name + after.replace("on_not_measured: set aside", "on_not_measured: keep", 1))
    return path


def verdicts(answer: dict) -> dict[str, dict]:
    return {verdict["metric"]: verdict for verdict in answer["verdicts"]}


def checks(answer: dict, name: str) -> list[dict]:
    return [check for one in answer["runs"] for check in one["checks"] if check["check"] == name]


@pytest.mark.parametrize("folder", ["k6-json", "k6-csv", "vegeta-csv", "vegeta-json"])
def test_a_service_that_is_twice_as_slow_regressed_by_each_load_generators_results(folder: str) -> None:
    answer = judged(FIXTURES / folder, "--rate", 40, "--warmup", "2s")
    found = verdicts(answer)
    assert answer["decision"]["answer"] == "regression"
    assert found["client_latency"]["verdict"] == "regression"
    assert found["client_latency"]["estimate"] == pytest.approx(0.9, abs=0.35)
    assert not found["http_error_rate"]["absent"] and found["http_error_rate"]["verdict"] != "regression"
    assert {metric for metric, verdict in found.items() if verdict["absent"]} == set(METRICS) - SEEN
    assert all("from outside" in found[metric]["reason"] for metric in ("service_latency", "service_memory"))
    assert {check["status"] for check in checks(answer, "achieved rate")} == {"pass"}


def test_a_log_of_hdr_histogram_has_latency_alone() -> None:
    answer = judged(FIXTURES / "hlog", "--rate", 40, "--warmup", "2s")
    found = verdicts(answer)
    assert found["client_latency"]["verdict"] == "regression"
    assert found["http_error_rate"]["absent"]
    assert found["http_error_rate"]["reason"] == "an HdrHistogram log does not count errors"
    assert any("values are taken to be in ns" in note for note in answer["notes"])
    (answered,) = {check["message"] for check in checks(answer, "answered")}
    assert answered.endswith("an HdrHistogram log does not count errors")


def test_a_service_that_only_refused_was_not_measured_serving(tmp_path: Path) -> None:
    for version in ("1.0.0", "2.0.0"):
        for repeat in (1, 2, 3):
            text = gzip.decompress((FIXTURES / "vegeta-csv" / f"{version}-{repeat}.csv.gz").read_bytes())
            (tmp_path / f"{version}-{repeat}.csv").write_bytes(text.replace(b",200,", b",503,"))
    answer = judged(tmp_path, "--rate", 40, "--warmup", "2s")
    assert answer["decision"]["answer"] == "not enough evidence"
    assert {check["status"] for check in checks(answer, "answered")} == {"fail"}


def test_a_spectrum_has_no_time_axis_and_says_so() -> None:
    answer = judged(FIXTURES / "hgrm", "--rate", 40, "--hold", "5s", "--unit", "ms")
    (reason,) = {check["message"] for check in checks(answer, "drift")}
    assert "a percentile spectrum has no time axis" in reason
    assert {check["status"] for check in checks(answer, "drift")} == {"not measured"}
    assert any("Gate 1: drift was not measured in 8 of 8 runs (a percentile" in note for note in answer["notes"])
    latency = verdicts(answer)["client_latency"]
    assert latency["verdict"] == "regression", latency["reason"]
    assert {check["status"] for check in checks(answer, "histogram resolution")} == {"fail"}


def test_four_percentiles_of_a_closed_model_need_a_policy_that_allows_it(tmp_path: Path) -> None:
    answer = judged(FIXTURES / "wrk")
    assert {one["status"] for one in answer["runs"]} == {"set aside"}
    assert all("wrk has no target rate" in one["reason"] for one in answer["runs"])
    answer = judged(FIXTURES / "wrk", "--policy", closed_model(tmp_path))
    assert verdicts(answer)["client_latency"]["verdict"] == "regression"
    assert any("coordinated omission" in note for note in answer["notes"])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded spectra are not there")
def test_the_load_rule_finds_the_runs_of_wrk2_that_missed_their_rate(tmp_path: Path) -> None:
    for one in recorded_runs():
        path = tmp_path / one.row["version"] / f"{one.row['target_rps']}rps.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(one.text)
    sides = ("--baseline", "mysql2-1.0.0-rc12", "--candidate", "mysql2-1.0.0-rc13")
    answer = judged(tmp_path, *sides, "--pattern", "{version}/{rate}")
    lost = {one["run_id"]: one["reason"] for one in answer["runs"] if one["status"] == "set aside"}
    assert set(lost) == {"mysql2-1.0.0-rc13/10000rps.txt", "mysql2-1.0.0-rc13/11400rps.txt"}
    assert "-11.0 %" in lost["mysql2-1.0.0-rc13/10000rps.txt"]
    assert len(answer["runs"]) == 62


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded spectra are not there")
def test_changes_between_two_drivers_are_those_of_their_printed_percentiles(tmp_path: Path) -> None:
    """Rates 9000 to 9800 as quasi-repeats; the policy has to allow that each has a rate of its own."""
    sides = {"mysql2-1.0.0-rc12": 1, "mysql2-1.0.0-rc13": -1}
    printed: dict[float, float] = {50: 0.0, 90: 0.0, 97.5: 0.0}
    for one in recorded_runs():
        repeat = (int(one.row["target_rps"]) - 8900) // 100
        if repeat <= 9 and one.row["version"] in sides:
            path = tmp_path / one.row["version"] / f"run-{repeat}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(one.text)
            for tick in one.ticks:
                if (level := 100 * float(tick["percentile"])) in printed:
                    printed[level] -= sides[one.row["version"]] * math.log(float(tick["latency_ms"])) / 9
    baseline, candidate = sides
    answer = judged(
        tmp_path, "--baseline", baseline, "--candidate", candidate, "--policy", closed_model(tmp_path)
    )  # fmt: skip
    found = {point["p"]: point["estimate"] for point in verdicts(answer)["client_latency"]["percentiles"]}
    for level, change in printed.items():
        assert found[level] == pytest.approx(math.expm1(change), abs=2e-3)
    assert 5 not in found
    assert verdicts(answer)["http_error_rate"]["verdict"] == "equivalent"


@pytest.mark.skipif(not YCSB.is_file(), reason="the recorded log is not there")
def test_parts_of_one_real_v1_log_are_equivalent_and_its_warm_up_is_found_drifting(tmp_path: Path) -> None:
    """An A/A comparison: ten parts of 50 s, of which every other one is called the candidate."""
    lines = YCSB.read_text().splitlines(keepends=True)
    header, intervals = [line for line in lines if not line[0].isdigit()], [line for line in lines if line[0].isdigit()]
    for part in range(10):
        path = tmp_path / ("even", "odd")[part % 2] / f"{part // 2 + 1}.hlog"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(header + intervals[100 + 50 * part : 150 + 50 * part]))
    sides = ("--baseline", "even", "--candidate", "odd")
    answer = judged(tmp_path, *sides, "--rate", 500, "--warmup", 0, "--unit", "us")
    assert answer["decision"]["answer"] == "no regression"
    assert verdicts(answer)["client_latency"]["verdict"] == "equivalent"
    # The first part is still warming up: p50 falls.
    assert [one["run_id"] for one in answer["runs"] if one["dropped_metrics"]] == ["even/1.hlog"]


def test_native_histograms_show_what_classic_ones_beside_them_cannot(tmp_path: Path) -> None:
    """A real answer of Prometheus as the series of run directories, its edges 20 % higher for the candidate."""
    metrics = {
        "service_latency": {"histogram": "http_request_duration_seconds"},
        "service_p99": "service_latency",
        "upstream_latency": {"histogram": "http_request_duration_classic_seconds", "process": "upstream"},
    }
    text = gzip.decompress((FIXTURES / "prometheus" / "series.json.gz").read_bytes())
    for version, slower in (("1.0.0", 1.0), ("2.0.0", 1.2)):
        for repeat in (1, 2, 3, 4):
            path = write_run(tmp_path, f"{version}-all-r{repeat:02d}", seed=repeat, hold_s=14, metrics=metrics)
            (path / "series.csv.gz").unlink()
            answer = json.loads(text)
            for series in answer["data"]["result"]:
                series["metric"]["job"] = "upstream" if "classic" in series["metric"]["__name__"] else "service"
                for sample in (*series.get("values", ()), *series.get("histograms", ())):
                    sample[0] += HOLD_START - SCRAPED_FROM
                for _, histogram in series.get("histograms", ()):
                    factor = slower * (1 + 0.004 * repeat)
                    histogram["buckets"] = [
                        [kind, str(float(low) * factor), str(float(high) * factor), count]
                        for kind, low, high, count in histogram["buckets"]
                    ]
            (path / "series.json.gz").write_bytes(gzip.compress(json.dumps(answer).encode()))
    found = verdicts(judged(tmp_path))
    assert found["service_latency"]["verdict"] == found["service_p99"]["verdict"] == "regression"
    assert found["service_latency"]["estimate"] == pytest.approx(0.2, abs=1e-3)
    assert found["upstream_latency"]["verdict"] == "not comparable"
    assert "wider than the zone" in found["upstream_latency"]["reason"]


def test_without_a_rate_nothing_says_that_the_load_was_there() -> None:
    answer = judged(FIXTURES / "vegeta-csv", "--warmup", "2s")
    assert answer["decision"]["answer"] == "not enough evidence"
    assert all("no target rate was given (--rate)" in one["reason"] for one in answer["runs"])


def test_run_directories_and_results_stand_in_one_folder(tmp_path: Path) -> None:
    for repeat in range(1, 5):
        write_run(tmp_path, f"1.0.0-all-r{repeat:02d}", seed=repeat, hold_s=5, rate_per_s=40, slower=2.0)
    shutil.copytree(FIXTURES / "hlog" / "2.0.0", tmp_path / "2.0.0")
    answer = judged(tmp_path, "--rate", 40, "--warmup", 2)
    assert len(answer["runs"]) == 8
    assert verdicts(answer)["client_latency"]["candidate_repeats"] == 4


def test_k6_output_that_lost_its_run_json_is_still_an_error(tmp_path: Path) -> None:
    write_run(tmp_path, "1.0.0-all-r01")
    (write_run(tmp_path, "2.0.0-all-r02") / "run.json").unlink()
    result = run(tmp_path, "--baseline", "1.0.0", "--candidate", "2.0.0")
    assert result.exit_code == 2 and "has k6 output but no run.json" in result.output
    result = run(tmp_path, "--baseline", "1.0.0", "--candidate", "2.0.0", "--pattern", "{version}-{scenario}-{repeat}")
    assert result.exit_code == 0 and "2.0.0-all-r02" in result.output


def test_the_report_says_where_the_runs_come_from_and_how_to_judge_them_again(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    sides = ("--baseline", "1.0.0", "--candidate", "2.0.0")
    result = run(FIXTURES / "vegeta-csv", *sides, "--rate", "40", "--warmup", "2s", "--html", page)
    assert "--rate 40 --warmup 2s" in " ".join(result.output.split())
    text = page.read_text()
    for words in ("vegeta CSV", "was read from its path as {version}-{repeat}", "vegeta sees the service from outside"):
        assert words in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rate", "fast"], "--rate: 'fast' is no rate"),
        (["--warmup", "soon", "--hold", "0"], "--hold: '0' is no length of time"),
        (["--pattern", "{name}"], "{name} is not known"),
        (["--pattern", "{version}/x/{repeat}"], "fits none of 8 result files"),
        (["--warmup", "1h"], "holds no request of the hold"),
    ],
)
def test_a_wrong_option_is_refused(options: list[str], message: str) -> None:
    result = run(FIXTURES / "vegeta-csv", "--baseline", "1.0.0", "--candidate", "2.0.0", *options)
    assert result.exit_code == 2
    assert message in result.output and "->" in result.output and "Traceback" not in result.output


def test_every_problem_comes_at_once(tmp_path: Path) -> None:
    """An empty file, one that is cut off, two of the same run, and a run directory whose record is broken."""
    shutil.copytree(FIXTURES / "hlog", tmp_path, dirs_exist_ok=True)
    (tmp_path / "1.0.0" / "2.hlog").write_bytes(b"")
    cut = tmp_path / "2.0.0" / "3.hlog"
    cut.write_bytes(cut.read_bytes()[:-9])
    shutil.copy(FIXTURES / "hlog" / "2.0.0" / "1.hlog", tmp_path / "2.0.0" / "run-1.hlog")
    (write_run(tmp_path, "1.0.0-all-r09") / "run.json").write_text("{")
    result = run(tmp_path, "--baseline", "1.0.0", "--candidate", "2.0.0", "--rate", "40")
    assert result.exit_code == 2
    for words in ("2.hlog: is empty", "3.hlog: is cut off", "repeat 1, as is 2.0.0/1.hlog", "r09/run.json"):
        assert words in result.output


@pytest.mark.parametrize("option", [["--rate", "brwose=40"], ["--rate", "40", "--rate", "cart=5"]])
def test_a_rate_of_a_scenario_that_is_not_there_is_a_slip(option: list[str]) -> None:
    result = run(FIXTURES / "vegeta-json", "--baseline", "1.0.0", "--candidate", "2.0.0", *option)
    assert result.exit_code == 2 and "there are no results of scenario" in result.output
    assert "there are results of browse" in result.output


def test_what_is_told_of_run_directories_is_refused_as_they_say_it_themselves(tmp_path: Path) -> None:
    for version in ("1.0.0", "2.0.0"):
        write_run(tmp_path, f"{version}-all-r01")
    sides = ("--baseline", "1.0.0", "--candidate", "2.0.0")
    result = run(tmp_path, *sides, "--warmup", "30s", "--rate", "20")
    assert result.exit_code == 2
    assert "--warmup: is for results of other load generators" in result.output and "--rate: is for" in result.output
    assert run(tmp_path, *sides, "--pattern", "{version}/{repeat}").exit_code == 2
    assert run(tmp_path, *sides).exit_code == 0


def test_a_version_that_is_there_in_an_unreadable_form_only_is_explained(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "hlog" / "1.0.0", tmp_path / "1.0.0")
    (tmp_path / "2.0.0").mkdir()
    shutil.copy(FIXTURES / "vegeta.bin", tmp_path / "2.0.0" / "1.bin")
    result = run(tmp_path, "--baseline", "1.0.0", "--candidate", "2.0.0")
    assert result.exit_code == 2
    assert "no run is of version 2.0.0" in result.output and "vegeta encode" in result.output

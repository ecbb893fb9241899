"""A campaign measures what is missing, in the stored order, and never mixes what must not be mixed."""

import json
import logging
import shutil
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perf_pipeline.errors import InputError, Problem, StoreAwayError
from perf_pipeline.lab import campaign as campaign_module
from perf_pipeline.lab import lock, patience
from perf_pipeline.lab.campaign import CampaignReport, run_campaign
from perf_pipeline.lab.run import Campaign
from perf_pipeline.lab.run_directory import Hold, RunRecord
from perf_pipeline.plan import Plan
from perf_pipeline.replay.k6 import K6
from perf_pipeline.replay.schedule import PlannedRun, schedule_runs
from perf_pipeline.replay.workload import Workload, freeze_workload
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import captured, small_plan, store_hour

PREFIX = "runs/1.0__1.1"


class Lab:
    """A lab whose runs take no time; each writes the record that a real one would."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = LocalObjectStore(tmp_path / "store")
        store_hour(self.store, captured(10))
        self.plan = small_plan(tmp_path / "plan")
        self.measured: list[str] = []
        self.failing: dict[str, str | BaseException] = {}
        monkeypatch.setattr(campaign_module, "find_k6", lambda: K6(Path("/k6"), (1, 1, 0), "a stub"))
        monkeypatch.setattr(campaign_module, "run_once", self.run_once)
        monkeypatch.setattr(lock.tempfile, "gettempdir", lambda: str(tmp_path))

    def run_once(self, campaign: Campaign, planned: PlannedRun, folder: Path) -> RunRecord:
        failure = self.failing.get(planned.run_id)
        if isinstance(failure, BaseException):
            raise failure
        self.measured.append(planned.run_id)
        record = RunRecord(
            run_id=planned.run_id, version=planned.version, scenario=planned.scenario, repeat=planned.repeat,
            target_rate_per_s=20, hold=Hold(start=1, end=5), workload=campaign.workload.hash, plan=campaign.plan.hash,
            service_digest=campaign.environment.service_digest(planned.version, campaign.plan.scenarios[0]),
            status="failed" if failure else "complete", failure=failure,
        )  # fmt: skip
        (folder / "run.json").write_text(record.model_dump_json())
        return record

    def measure(
        self,
        plan: Plan | None = None,
        workload: Workload | None = None,
        fresh: bool = False,
        before_measuring: Callable[[float], None] = lambda _: None,
    ) -> CampaignReport:
        plan = plan or self.plan
        workload = workload or freeze_workload(self.store, plan)
        return run_campaign(
            self.store, plan, "1.0", "1.1", workload, {}, "PUBLIC KEY", fresh, before_measuring=before_measuring
        )

    @property
    def order(self) -> list[str]:
        return [run.run_id for run in schedule_runs(self.plan, "1.0", "1.1")]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def test_the_planned_end_is_told_before_anything_is_measured_and_only_then(lab: Lab) -> None:
    told: list[float] = []

    def refuse(planned_end_s: float) -> None:
        told.append(planned_end_s)
        raise InputError(Problem("tokens", "refused"))

    with pytest.raises(InputError, match="refused"):
        lab.measure(before_measuring=refuse)
    assert lab.measured == []
    # Four runs of at most 10.2 s of load, and a margin.
    assert 95 < told[0] - time.time() <= 4 * 10.2 + 60
    lab.measure()
    lab.measure(before_measuring=refuse)
    assert len(told) == 1, "nothing is missing, so nothing is refused"


def test_all_runs_are_measured_in_the_order_that_is_stored(lab: Lab) -> None:
    report = lab.measure()
    assert lab.measured == lab.order == list(report.measured)
    assert (report.comparison, report.found, report.failed) == ("1.0__1.1", (), {})
    assert report.k6 == "v1.1.0, a stub"
    stored = json.loads(lab.store.get(f"{PREFIX}/schedule.json"))
    assert [run["run_id"] for run in stored["runs"]] == lab.order
    assert (stored["plan"], stored["seed"]) == (lab.plan.hash, 5)
    assert len(lab.store.keys(PREFIX)) == len(lab.order) + 1


@pytest.mark.parametrize("stopped_by", [KeyboardInterrupt(), SystemExit(143), InputError(())])
def test_a_campaign_that_was_stopped_goes_on_with_what_is_missing(lab: Lab, stopped_by: BaseException) -> None:
    lab.failing[lab.order[2]] = stopped_by
    with pytest.raises(type(stopped_by)):
        lab.measure()
    assert lab.measured == lab.order[:2]
    lab.failing.clear()
    lab.measured.clear()
    report = lab.measure()
    assert lab.measured == lab.order[2:] == list(report.measured)
    assert list(report.found) == lab.order[:2]
    lab.measured.clear()
    assert lab.measure().measured == ()
    assert lab.measured == []


def test_a_full_disk_loses_one_run_and_says_what_to_do(lab: Lab) -> None:
    lab.failing[lab.order[2]] = OSError(28, "No space left on device", "k6.csv")
    with pytest.raises(InputError, match="No space left on device") as caught:
        lab.measure()
    (problem,) = caught.value.problems
    assert problem.where == str(lab.store.root / PREFIX / lab.order[2])
    assert "make room" in problem.remedy and "goes on" in problem.remedy
    assert not list(lab.store.root.rglob(".partial-*"))
    lab.failing.clear()
    report = lab.measure()
    assert (list(report.found), list(report.measured)) == (lab.order[:2], lab.order[2:])


@pytest.mark.parametrize(
    "error", [OSError(30, "Read-only file system"), StoreAwayError(Problem("s3://b", "no connection"))]
)
def test_a_store_that_cannot_be_written_for_a_while_costs_no_run(
    error: Exception, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_TRY_EVERY_S", 0)
    put, asked = lab.store.put_folder, list[str]()
    workload = freeze_workload(lab.store, lab.plan)

    def away_for_a_while(prefix: str, folder: Path) -> None:
        asked.append(prefix)
        if len(asked) in (1, 2, 5):
            raise error
        put(prefix, folder)

    monkeypatch.setattr(lab.store, "put_folder", away_for_a_while)
    report = lab.measure(workload=workload)
    assert lab.measured == lab.order == list(report.measured), "each was measured once"
    assert len(asked) == len(lab.order) + 3


def test_a_bucket_that_stays_away_loses_one_run_and_says_which(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_TRY_EVERY_S", 0)
    monkeypatch.setattr(patience, "PATIENCE_S", 0.05)
    workload = freeze_workload(lab.store, lab.plan)
    put = lab.store.put_folder

    def away(prefix: str, folder: Path) -> None:
        if prefix.endswith(lab.order[1]):
            raise StoreAwayError(Problem("s3://b", "no connection", "see that it runs"))
        put(prefix, folder)

    with monkeypatch.context() as gone:
        gone.setattr(lab.store, "put_folder", away)
        with pytest.raises(StoreAwayError, match="the run could not be written: no connection") as caught:
            lab.measure(workload=workload)
    (problem,) = caught.value.problems
    assert f"the run {lab.order[1]} is lost" in problem.remedy and "the same command" in problem.remedy
    report = lab.measure(workload=workload)
    assert (list(report.found), list(report.measured)) == (lab.order[:1], lab.order[1:])


def test_a_failed_run_is_recorded_and_not_repeated(lab: Lab) -> None:
    lab.failing[lab.order[1]] = "the service ended by signal 9"
    assert lab.measure().failed == {lab.order[1]: "the service ended by signal 9"}
    lab.failing.clear()
    lab.measured.clear()
    report = lab.measure()
    assert (report.measured, report.failed) == ((), {lab.order[1]: "the service ended by signal 9"})


def test_three_failures_in_a_row_stop_the_campaign(lab: Lab) -> None:
    lab.failing = dict.fromkeys(lab.order, "k6 ended with exit code 104: its options are invalid")
    with pytest.raises(
        InputError, match=r"3 runs in a row failed, the last one because k6 .*\n    -> read the logs in"
    ):
        lab.measure()
    assert lab.measured == lab.order[:3]


def other_plan(lab: Lab, tmp_path: Path) -> None:
    lab.plan = small_plan(tmp_path / "plan", load={"warmup_s": 1, "hold_s": 6})


def other_workload(lab: Lab, tmp_path: Path) -> None:
    store_hour(lab.store, captured(11))


def other_build(lab: Lab, tmp_path: Path) -> None:
    with (tmp_path / "plan/serve.py").open("a") as file:
        file.write("# another build\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_plan, ["the plan was changed in load.hold_s, load.max_latency_s (it concerns "]),
        (other_workload, ["the workload is "]),
        (other_build, ["the service 1.0 is another now", "the service 1.1 is another now"]),
    ],
)
def test_runs_of_another_plan_workload_or_build_are_never_mixed_in(
    lab: Lab, tmp_path: Path, change: Any, said: list[str]
) -> None:
    lab.measure()
    shutil.rmtree(lab.store.root / PREFIX / lab.order[-1])
    change(lab, tmp_path)
    lab.measured.clear()
    with pytest.raises(InputError) as caught:
        lab.measure()
    assert lab.measured == []
    assert len(caught.value.problems) == len(said), "once, not once a run"
    for problem, start in zip(sorted(caught.value.problems, key=lambda problem: problem.what), said, strict=True):
        assert problem.what.startswith(start)
        assert "--fresh" in problem.remedy and f"removes {lab.store.root}/{PREFIX}" in problem.remedy


def test_more_repeats_go_on_after_those_that_are_there(lab: Lab, tmp_path: Path) -> None:
    lab.measure()
    measured = list(lab.measured)
    lab.plan = small_plan(tmp_path / "plan", schedule={"repeats": 5, "seed": 5}, versions=["1.0", "1.1", "2.0"])
    report = lab.measure()
    assert list(report.found) == measured == lab.order[: len(measured)]
    assert list(report.measured) == lab.order[len(measured) :]


def test_a_run_that_the_plan_does_not_ask_for_is_named(lab: Lab) -> None:
    lab.measure()
    folder = lab.store.root / PREFIX
    record = json.loads((folder / lab.order[0] / "run.json").read_text())
    shutil.copytree(folder / lab.order[0], folder / "extra")
    (folder / "extra/run.json").write_text(json.dumps(record | {"run_id": "extra"}))
    with pytest.raises(InputError, match="does not ask for a run that is there"):
        lab.measure()


def test_a_record_that_cannot_be_read_is_named_with_the_others(lab: Lab) -> None:
    lab.measure()
    for run_id in lab.order[:2]:
        (lab.store.root / PREFIX / run_id / "run.json").write_text("{")
    with pytest.raises(InputError) as caught:
        lab.measure()
    assert len(caught.value.problems) == 2


def test_a_build_that_changes_during_the_campaign_stops_it(lab: Lab, tmp_path: Path) -> None:
    real = lab.run_once

    def run_once_and_change(campaign: Campaign, planned: PlannedRun, folder: Path) -> RunRecord:
        record = real(campaign, planned, folder)
        other_build(lab, tmp_path)
        return record

    campaign_module.run_once = run_once_and_change  # the fixture puts the real one back
    with pytest.raises(
        InputError, match=r"the service 1\.\d was changed while it was being measured: file serve\.py\n    -> .*--fresh"
    ):
        lab.measure()
    assert lab.measured == lab.order[:1]


def test_scenarios_without_requests_are_all_named_before_anything_is_measured(lab: Lab, tmp_path: Path) -> None:
    named = [{"name": name, "rate_per_s": 1, "routes": ["/a"]} for name in ("first", "second")]
    plan = small_plan(tmp_path / "plan", scenarios=named)
    with pytest.raises(InputError, match=r"holds no request of /a") as caught:
        lab.measure(plan)
    assert [problem.where.split(": ")[2] for problem in caught.value.problems] == ["first", "second"]
    assert lab.measured == []


def test_what_a_killed_campaign_left_half_written_is_removed(lab: Lab) -> None:
    left = lab.store.root / f".partial-{2**22 + 1}-1-{socket.gethostname()}-run"
    left.mkdir()
    lab.measure()
    assert not left.exists()


def test_fresh_measures_everything_again_under_whatever_plan(lab: Lab, tmp_path: Path) -> None:
    lab.measure()
    other_plan(lab, tmp_path)
    lab.measured.clear()
    report = lab.measure(fresh=True)
    assert lab.measured == lab.order == list(report.measured)
    assert len(lab.store.keys(PREFIX)) == len(lab.order) + 1


def test_fresh_removes_nothing_while_a_version_does_not_start(lab: Lab, tmp_path: Path) -> None:
    lab.measure()
    before = lab.store.keys("")
    code = "import sys; sys.exit('no database {port}')"
    broken = small_plan(tmp_path / "plan", environment={"service": {"command": ["{python}", "-c", code]}})
    with pytest.raises(InputError, match="before it was ready"):
        lab.measure(broken, fresh=True)
    assert lab.store.keys("") == before
    assert not list(lab.store.root.glob(".partial-*"))


def test_fresh_removes_nothing_while_another_campaign_measures(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.measure()
    before = lab.store.keys("")
    monkeypatch.setattr(campaign_module, "one_campaign_at_a_time", partial(lock.one_campaign_at_a_time, patience_s=0))
    with lock.one_campaign_at_a_time("another"), pytest.raises(InputError, match="this machine is measuring"):
        lab.measure(fresh=True)
    assert lab.store.keys("") == before


def test_a_campaign_of_which_nothing_is_missing_does_not_wait_for_another(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.measure()
    monkeypatch.setattr(campaign_module, "one_campaign_at_a_time", partial(lock.one_campaign_at_a_time, patience_s=0))
    refused = "this machine is measuring"
    with lock.one_campaign_at_a_time("another"):
        report = lab.measure()
        assert (list(report.found), report.measured, report.spared) == (lab.order, (), ())
        with pytest.raises(InputError, match=refused):
            lab.measure(fresh=True)
        schedule = lab.store.get(f"{PREFIX}/schedule.json")
        lab.store.delete(f"{PREFIX}/schedule.json")
        with pytest.raises(InputError, match=refused):
            lab.measure()
        lab.store.put(f"{PREFIX}/schedule.json", schedule)
        other_build(lab, tmp_path)
        with pytest.raises(InputError, match="is another now"):
            lab.measure()
        lab.store.delete(f"{PREFIX}/{lab.order[-1]}")
        with pytest.raises(InputError, match="is another now"):
            lab.measure()
        lab.plan = small_plan(tmp_path / "plan")  # the build of before
        with pytest.raises(InputError, match=refused):
            lab.measure()
    assert lab.measured == lab.order


def test_runs_that_are_just_being_removed_are_waited_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.measure()
    local_folder, asked = lab.store.local_folder, list[str]()

    def gone_at_first(prefix: str) -> Path:
        asked.append(prefix)
        if len(asked) == 1:
            raise KeyError(prefix)
        return local_folder(prefix)

    monkeypatch.setattr(lab.store, "local_folder", gone_at_first)
    workload = freeze_workload(lab.store, lab.plan)
    asked.clear()
    assert list(lab.measure(workload=workload).found) == lab.order


def test_an_unknown_version_is_named(lab: Lab) -> None:
    with pytest.raises(InputError, match="unknown version 9"):
        run_campaign(lab.store, lab.plan, "1.0", "9", freeze_workload(lab.store, lab.plan), {}, "KEY")


def test_progress_is_told(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        lab.measure()
    assert [run_id for run_id in lab.order if run_id in caplog.text] == lab.order


def with_looks(lab: Lab, tmp_path: Path) -> None:
    scenarios = [{"name": "one", "rate_per_s": 20}, {"name": "two", "rate_per_s": 20}]
    lab.plan = small_plan(tmp_path / "looks", scenarios=scenarios, schedule={"looks": [2, 3, 5], "seed": 5})


def look_at(lab: Lab, answers: dict[int, set[str]], asked: list[int]) -> CampaignReport:
    def settled(look: int) -> set[str]:
        asked.append(look)
        repeats = {int(run_id.rpartition("-r")[2]) for run_id in lab.measured}
        assert not repeats or max(repeats) <= look, "a look sees no later run"
        return answers[look]

    workload = freeze_workload(lab.store, lab.plan)
    return run_campaign(lab.store, lab.plan, "1.0", "1.1", workload, {}, "PUBLIC KEY", settled=settled)


def test_scenarios_that_are_settled_at_a_look_get_no_more_repeats(lab: Lab, tmp_path: Path) -> None:
    with_looks(lab, tmp_path)
    asked: list[int] = []
    report = look_at(lab, {2: {"one"}, 3: set()}, asked)
    assert asked == [2, 3]
    assert sorted(report.spared) == [f"{version}-one-r0{n}" for version in ("1.0", "1.1") for n in (3, 4, 5)]
    assert lab.measured == [run for run in lab.order if run not in report.spared]
    assert lab.plan.schedule.repeats == 5


def test_a_look_that_settles_everything_ends_the_campaign(lab: Lab, tmp_path: Path) -> None:
    with_looks(lab, tmp_path)
    report = look_at(lab, {2: {"one", "two"}, 3: {"one", "two"}}, [])
    assert len(report.measured) == 8
    assert len(report.spared) == 12


def test_a_campaign_that_is_finished_by_its_looks_does_not_wait_for_another(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_looks(lab, tmp_path)
    spared = look_at(lab, {2: {"one"}, 3: set()}, []).spared
    lab.measured.clear()
    monkeypatch.setattr(campaign_module, "one_campaign_at_a_time", partial(lock.one_campaign_at_a_time, patience_s=0))
    with lock.one_campaign_at_a_time("another"):
        asked: list[int] = []
        assert look_at(lab, {}, asked).spared == spared != ()
        assert asked == []
        looks = json.loads(lab.store.get(f"{PREFIX}/looks.json"))
        lab.store.put(f"{PREFIX}/looks.json", json.dumps({"2": looks["2"]}).encode())
        with pytest.raises(InputError, match="this machine is measuring"):
            look_at(lab, {}, asked)
    assert lab.measured == []


def test_a_campaign_that_goes_on_keeps_what_was_said_at_a_look(lab: Lab, tmp_path: Path) -> None:
    with_looks(lab, tmp_path)
    lab.failing["1.1-two-r03"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        look_at(lab, {2: {"one"}}, [])
    lab.failing.clear()
    lab.measured.clear()
    asked: list[int] = []
    report = look_at(lab, {3: {"two"}}, asked)
    assert asked == [3], "the first look is not taken twice"
    assert {run_id.split("-")[1] for run_id in report.measured} == {"two"}
    assert json.loads(lab.store.get(f"{PREFIX}/looks.json")) == {"2": ["one"], "3": ["two"]}


def test_a_store_that_is_away_at_a_look_is_waited_for(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_TRY_EVERY_S", 0)
    with_looks(lab, tmp_path)
    away, exists = [StoreAwayError(Problem("s3://b", "no connection"))] * 2, lab.store.exists

    def sometimes(key: str) -> bool:
        if key.endswith("looks.json") and away:
            raise away.pop()
        return exists(key)

    monkeypatch.setattr(lab.store, "exists", sometimes)
    asked: list[int] = []
    look_at(lab, {2: {"one"}, 3: set()}, asked)
    assert asked == [2, 3]
    assert not away

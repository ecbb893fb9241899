"""The nightly schedule and the deploy sensor, against a real instance and a real store in a temporary folder."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterEventType, DagsterRunStatus
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, WILL_RETRY_TAG
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from assets import notifications
from assets.definitions import build_defs
from assets.partitions import COMPARISON_PARTITIONS
from assets.release import release_verdict
from assets.resources import PlanResource, StoreResource
from assets.schedules import nightly
from assets.sensors import COMPARISONS_PER_TICK, deploys
from assets.under_way import measuring
from perf_pipeline.errors import InputError
from perf_pipeline.notify import WEBHOOK_VARIABLE, Delivery
from perf_pipeline.storage import LocalObjectStore
from tests.test_notify import Webhook
from tests.test_plan import MINIMAL

NIGHT = dt.datetime(2026, 11, 30, 2, tzinfo=dt.UTC)
MANIFEST = {"release": "1.0.0", "builds": ["1.0.1", "1.1.0"]}


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield instance


@pytest.fixture(autouse=True)
def nobody_was_told() -> None:
    notifications._told.clear()


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "objects")


@pytest.fixture
def resources(tmp_path: Path, store: LocalObjectStore) -> dict[str, dg.ConfigurableResource]:
    source = {"kind": "object", "key": "builds.json"}
    (tmp_path / "plan.yaml").write_text(MINIMAL + f"version_source: {json.dumps(source)}\n")
    (tmp_path / "sourceless.yaml").write_text(MINIMAL)
    store.put("builds.json", json.dumps(MANIFEST).encode())
    return {"plan": PlanResource(path=str(tmp_path / "plan.yaml")), "store": StoreResource(location=str(store.root))}


def night(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource], when: dt.datetime = NIGHT
) -> dg.RunRequest | dg.SkipReason:
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=when, resources=resources) as context:
        answer = nightly(context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer


def skipped(answer: dg.RunRequest | dg.SkipReason) -> str:
    assert isinstance(answer, dg.SkipReason)
    return str(answer.skip_message)


def test_a_night_compares_the_release_with_the_newest_build(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    asked = night(instance, resources)
    assert isinstance(asked, dg.RunRequest)
    assert asked.partition_key == "1.0.0__1.1.0"
    assert asked.run_key == "1.0.0__1.1.0 2026-11-30"
    assert instance.get_dynamic_partitions(COMPARISON_PARTITIONS) == ["1.0.0__1.1.0"]
    again = night(instance, resources, NIGHT + dt.timedelta(days=1))
    assert isinstance(again, dg.RunRequest)
    assert again.run_key != asked.run_key, "a night that failed is followed by another try"


def test_no_newer_build_no_comparison(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource], store: LocalObjectStore
) -> None:
    store.put("builds.json", json.dumps({"release": "1.1.0", "builds": ["1.1.0"]}).encode())
    assert "no build is newer" in skipped(night(instance, resources))
    store.put("builds.json", json.dumps({"release": "1.10.0", "builds": ["1.9.0"]}).encode())
    assert "1.9.0, is older than the release 1.10.0" in skipped(night(instance, resources))
    assert keys(tick(instance, resources, None)) == [], "the sensor asks for no downgrade either"


@pytest.mark.parametrize("lacking", ["builds.json", "the store"])
def test_a_night_that_cannot_know_the_versions_fails_its_tick_and_tells(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    resources: dict[str, dg.ConfigurableResource],
    store: LocalObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    lacking: str,
) -> None:
    store.delete("builds.json")
    if lacking == "the store":
        (tmp_path / "a file").write_text("no folder")
        resources["store"] = StoreResource(location=str(tmp_path / "a file"))
        lacking = "a file"
    webhook = Webhook((200, {}))
    with webhook.serving() as address:
        monkeypatch.setenv(WEBHOOK_VARIABLE, address)
        with pytest.raises(InputError, match=lacking):
            night(instance, resources)
    (body,) = webhook.bodies
    assert body["text"] == "Nothing was compared tonight"
    assert lacking in body["blocks"][1]["text"]["text"]
    monkeypatch.delenv(WEBHOOK_VARIABLE)
    with pytest.raises(InputError, match=lacking):
        night(instance, resources)


def test_a_night_whose_tick_is_repeated_is_told_of_once(
    instance: dg.DagsterInstance,
    resources: dict[str, dg.ConfigurableResource],
    store: LocalObjectStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dagster repeats a tick that took longer than a minute, and the try that it gave up still ends."""
    store.delete("builds.json")
    budgets: list[float] = []

    def deliver(*_: object, budget_s: float, **__: object) -> Delivery:
        budgets.append(budget_s)
        return Delivery(True, "it arrived")

    monkeypatch.setattr(notifications, "deliver", deliver)
    monkeypatch.setenv(WEBHOOK_VARIABLE, "http://webhook.test")
    for when in (NIGHT, NIGHT, NIGHT, NIGHT + dt.timedelta(days=1)):
        with pytest.raises(InputError):
            night(instance, resources, when)
    assert len(budgets) == 2, "a night each"
    assert max(budgets) < 10, "the tick has a minute, and the store may have taken most of it"


@pytest.mark.parametrize(
    "status", [DagsterRunStatus.QUEUED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
)
def test_no_second_comparison_while_one_runs(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource], status: DagsterRunStatus
) -> None:
    job = build_defs(**resources).resolve_job_def("compare_versions")
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="assets.definitions"))
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, "__repository__"), job.name)  # a queued run needs one
    run = instance.create_run_for_job(job, status=status, remote_job_origin=origin)
    assert run.run_id in skipped(night(instance, resources))
    instance.report_run_failed(run)
    assert isinstance(night(instance, resources), dg.RunRequest)


def test_a_killed_run_that_dagster_will_repeat_is_under_way(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = build_defs(**resources).resolve_job_def("compare_versions")
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="assets.definitions"))
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, "__repository__"), job.name)
    of_cli = instance.create_run_for_job(job, status=DagsterRunStatus.STARTED)
    run = instance.create_run_for_job(job, status=DagsterRunStatus.STARTED, remote_job_origin=origin)
    for one in (of_cli, run):
        instance.report_run_failed(one)
        instance.add_run_tags(one.run_id, {WILL_RETRY_TAG: "true"})
    assert [one.run_id for one in measuring(instance)] == [run.run_id], "nobody repeats a run of the command"
    assert run.run_id in skipped(night(instance, resources))
    with monkeypatch.context() as later:
        later.setattr("assets.under_way.RETRIED_WITHIN", dt.timedelta(0))
        assert not measuring(instance), "Dagster gave it up"
    instance.add_run_tags(run.run_id, {AUTO_RETRY_RUN_ID_TAG: "the retry"})
    assert not measuring(instance)
    assert isinstance(night(instance, resources), dg.RunRequest)


@pytest.mark.parametrize(("asset", "waits"), [("test_runs", True), ("release_verdict", False)])
def test_what_materialize_at_an_asset_started_is_waited_for_where_it_measures(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource], asset: str, waits: bool
) -> None:
    selected = frozenset({dg.AssetKey(asset)})
    job = build_defs(**resources).resolve_implicit_job_def_def_for_assets([dg.AssetKey(asset)])
    assert job is not None and job.name == "__ASSET_JOB"
    part = job.get_subset(asset_selection=selected)
    run = instance.create_run_for_job(part, asset_selection=selected, status=DagsterRunStatus.STARTED)
    answer = night(instance, resources)
    assert (run.run_id in skipped(answer)) if waits else isinstance(answer, dg.RunRequest)


def test_what_was_judged_is_not_measured_again(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    instance.report_runless_asset_event(dg.AssetMaterialization(release_verdict.key, partition="1.0.0__1.1.0"))
    said = skipped(night(instance, resources))
    assert "judged already" in said and "plan.yaml --baseline 1.0.0 --candidate 1.1.0 --fresh`" in said


def tick(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource], cursor: str | None
) -> dg.SensorResult:
    with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources) as context:
        result = deploys(context)
    assert isinstance(result, dg.SensorResult)
    for request in result.dynamic_partitions_requests or ():
        assert isinstance(request, dg.AddDynamicPartitionsRequest)
        instance.add_dynamic_partitions(COMPARISON_PARTITIONS, list(request.partition_keys))
    for key in keys(result):
        instance.add_run(dg.DagsterRun("compare_versions", tags={"dagster/partition": key}))
    return result


def keys(result: dg.SensorResult) -> list[str]:
    return [str(request.partition_key) for request in result.run_requests or ()]


def test_a_new_build_of_the_version_source_is_compared_once(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource], store: LocalObjectStore
) -> None:
    first = tick(instance, resources, None)
    assert keys(first) == ["1.0.0__1.1.0"]
    assert [request.run_key for request in first.run_requests or ()] == keys(first)
    second = tick(instance, resources, first.cursor)
    assert keys(second) == []
    assert keys(tick(instance, resources, None)) == [], "a sensor that lost its cursor asks for nothing twice"
    store.put("builds.json", json.dumps({"release": "1.0.0", "builds": ["1.1.0", "1.2.0"]}).encode())
    assert keys(tick(instance, resources, second.cursor)) == ["1.0.0__1.2.0"]


def test_previewing_a_tick_of_the_schedule_takes_no_build_from_the_sensor(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    night(instance, resources)  # adds the partition, and nobody launches the run
    assert keys(tick(instance, resources, None)) == ["1.0.0__1.1.0"]


def test_deploys_are_compared_with_what_ran_and_rollbacks_are_not(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    resources: dict[str, dg.ConfigurableResource],
    store: LocalObjectStore,
) -> None:
    resources["plan"] = PlanResource(path=str(tmp_path / "sourceless.yaml"))
    cursor = tick(instance, resources, None).cursor
    for number, version in enumerate(["1.1.0", "1.2.0", "1.1.0", "1.3.0"]):
        store.put(f"deploys/{number}.json", json.dumps({"version": version}).encode())
    result = tick(instance, resources, cursor)
    assert keys(result) == ["1.0.0__1.1.0", "1.1.0__1.2.0", "1.1.0__1.3.0"]
    assert [request.run_key for request in result.run_requests or ()][1] == "1.1.0__1.2.0 deploys/1.json"
    assert keys(tick(instance, resources, result.cursor)) == []


def end(instance: dg.DagsterInstance, key: str, status: DagsterRunStatus) -> None:
    """Let the run of a comparison that is under way end so; one that succeeds has a verdict."""
    (run,) = [run for run in measuring(instance) if run.tags["dagster/partition"] == key]
    ends = {"SUCCESS": "RUN_SUCCESS", "FAILURE": "RUN_FAILURE", "CANCELED": "RUN_CANCELED"}[status.value]
    instance.report_dagster_event(dg.DagsterEvent(getattr(DagsterEventType, ends).value, run.job_name), run.run_id)
    if status is DagsterRunStatus.SUCCESS:
        instance.report_runless_asset_event(dg.AssetMaterialization(release_verdict.key, partition=key))


@pytest.mark.parametrize("status", [DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED, DagsterRunStatus.SUCCESS])
def test_a_deploy_of_a_build_is_compared_again_unless_that_came_to_a_verdict(
    instance: dg.DagsterInstance,
    resources: dict[str, dg.ConfigurableResource],
    store: LocalObjectStore,
    status: DagsterRunStatus,
) -> None:
    key = "1.0.0__1.1.0"
    build = tick(instance, resources, None)
    assert keys(build) == [key]
    # The build is deployed while it is being compared: the source moves, and the record waits for the verdict.
    store.put("builds.json", json.dumps({"release": "1.1.0", "builds": ["1.1.0"]}).encode())
    store.put("deploys/1.json", json.dumps({"version": "1.1.0"}).encode())
    waits = tick(instance, resources, build.cursor)
    assert keys(waits) == [] and "1.1.0 is being compared" in str(waits.skip_reason)
    end(instance, key, status)
    asked = tick(instance, resources, waits.cursor)
    if status is DagsterRunStatus.SUCCESS:
        assert keys(asked) == [] and "1.1.0 was compared before" in str(asked.skip_reason)
        return
    (request,) = asked.run_requests or ()
    assert (request.partition_key, request.run_key) == (key, f"{key} deploys/1.json"), "Dagster drops the build's key"
    assert not request.run_config, "what was measured is kept"
    end(instance, key, DagsterRunStatus.FAILURE)
    after = tick(instance, resources, asked.cursor)
    assert keys(after) == [], "the record has had its run"
    lost = tick(instance, resources, None)
    assert [r.run_key for r in lost.run_requests or ()] in ([], [request.run_key]), "without a cursor Dagster drops it"


def test_a_build_whose_comparison_failed_is_left_to_the_night(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    first = tick(instance, resources, None)
    end(instance, "1.0.0__1.1.0", DagsterRunStatus.FAILURE)
    assert keys(tick(instance, resources, first.cursor)) == []
    assert "a build is asked for once" in str(tick(instance, resources, None).skip_reason)
    assert isinstance(night(instance, resources), dg.RunRequest)


def test_a_deploy_that_came_before_the_first_look_is_kept_and_said(
    instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource], store: LocalObjectStore
) -> None:
    store.put("builds.json", json.dumps({"release": "1.1.0", "builds": ["1.1.0"]}).encode())
    store.put("deploys/1.json", json.dumps({"version": "1.1.0"}).encode())
    first = tick(instance, resources, None)
    assert keys(first) == [] and "what it replaced is not known" in str(first.skip_reason)
    store.put("deploys/1.json", json.dumps({"version": "1.1.0", "baseline": "1.0.0"}).encode())
    assert keys(tick(instance, resources, first.cursor)) == ["1.0.0__1.1.0"]


def test_a_record_that_asks_for_it_has_a_comparison_measured_afresh_and_once(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    resources: dict[str, dg.ConfigurableResource],
    store: LocalObjectStore,
) -> None:
    resources["plan"] = PlanResource(path=str(tmp_path / "sourceless.yaml"))
    store.put("deploys/1.json", json.dumps({"version": "1.1.0"}).encode())
    first = tick(instance, resources, None)
    store.put("deploys/2.json", json.dumps({"version": "1.0.0"}).encode())
    store.put("deploys/3.json", json.dumps({"version": "1.1.0", "judge_again": True}).encode())
    again = tick(instance, resources, first.cursor)
    (request,) = again.run_requests or ()
    assert (request.partition_key, request.run_key) == ("1.0.0__1.1.0", "1.0.0__1.1.0 deploys/3.json")
    assert request.run_config == {"ops": {"test_runs": {"config": {"fresh": True}}}}
    assert dg.validate_run_config(build_defs(**resources).resolve_job_def("compare_versions"), request.run_config)
    assert not tick(instance, resources, again.cursor).run_requests


def test_a_tick_is_bounded_and_a_bad_record_stops_no_other(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    resources: dict[str, dg.ConfigurableResource],
    store: LocalObjectStore,
) -> None:
    resources["plan"] = PlanResource(path=str(tmp_path / "sourceless.yaml"))
    store.put("deploys/0.json", b"not JSON")
    for number in range(1, 6):
        store.put(f"deploys/{number}.json", json.dumps({"version": f"2.{number}"}).encode())
    first = tick(instance, resources, None)
    second = tick(instance, resources, first.cursor)
    third = tick(instance, resources, second.cursor)
    assert len(keys(first)) == COMPARISONS_PER_TICK
    assert keys(first) + keys(second) == [f"{b}__{c}" for b, c in zip(
        ["1.0.0", "2.1", "2.2", "2.3", "2.4"], ["2.1", "2.2", "2.3", "2.4", "2.5"], strict=True)]  # fmt: skip
    assert keys(third) == []
    assert "deploys/0.json" in str(third.skip_reason) and "what ran when it came" in str(third.skip_reason)
    store.put("deploys/0.json", json.dumps({"version": "1.1.0"}).encode())
    mended = tick(instance, resources, third.cursor)
    assert keys(mended) == ["1.0.0__1.1.0"], "not what runs now, 2.5"
    store.put("deploys/6.json", json.dumps({"version": "2.6"}).encode())
    assert keys(tick(instance, resources, mended.cursor)) == ["2.5__2.6"]

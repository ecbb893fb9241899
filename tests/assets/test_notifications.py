"""Notifications of real runs, to a real local server."""

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterEventType, DagsterRunStatus
from dagster._core.definitions.sensor_definition import SensorExecutionData

from assets.definitions import build_defs
from assets.notifications import tell_failure, tell_verdict
from assets.resources import StoreResource
from perf_pipeline.notify import WEBHOOK_VARIABLE
from perf_pipeline.storage import LocalObjectStore
from tests.test_notify import SECRET, Webhook

KEY = "1.0.0__1.1.0"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield instance


@pytest.fixture
def store(tmp_path: Path) -> StoreResource:
    return StoreResource(location=str(tmp_path / "objects"))


def ended(instance: dg.DagsterInstance, fails: bool) -> dg.ExecuteInProcessResult:
    @dg.op
    def measure() -> None:
        if fails:
            raise ValueError("the disk is full")

    @dg.job
    def some_job() -> None:
        measure()

    tags = {"dagster/partition": KEY}
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    return some_job.execute_in_process(instance=instance, tags=tags, raise_on_error=False, run_config=quiet)


def told(instance: dg.DagsterInstance, store: StoreResource, fails: bool, tries: int = 1) -> str:
    """What the last try of a tick about a run says."""
    result = ended(instance, fails)
    event = next(
        event for event in result.all_events if event.event_type_value in ("PIPELINE_SUCCESS", "PIPELINE_FAILURE")
    )
    with dg.build_run_status_sensor_context(
        sensor_name="tell", dagster_event=event, dagster_instance=instance, dagster_run=result.dagster_run,
        resources={"store": store},
    ) as context:  # fmt: skip
        for _ in range(tries):
            answer = tell_failure(context.for_run_failure()) if fails else tell_verdict(context)
    assert isinstance(answer, dg.SkipReason)
    return str(answer.skip_message)


def test_a_verdict_is_told_with_a_link_to_its_run(
    instance: dg.DagsterInstance, store: StoreResource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = {"text": "regression", "blocks": []}
    LocalObjectStore(tmp_path / "objects").put(f"reports/{KEY}/message.json", json.dumps(message).encode())
    monkeypatch.setenv("PERF_PIPELINE_DAGSTER_URL", "http://dagster.example")
    webhook = Webhook((200, {}))
    with webhook.serving() as address:
        monkeypatch.setenv(WEBHOOK_VARIABLE, address)
        assert told(instance, store, fails=False) == f"{KEY}: 127.0.0.1 took the message"
    (body,) = webhook.bodies
    assert body["text"] == "regression"
    assert "http://dagster.example/runs/" in body["blocks"][-1]["text"]["text"]


def test_a_run_that_failed_is_told_with_its_reason(
    instance: dg.DagsterInstance, store: StoreResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = Webhook((200, {}))
    with webhook.serving() as address:
        monkeypatch.setenv(WEBHOOK_VARIABLE, address)
        told(instance, store, fails=True)
    assert webhook.bodies[0]["text"] == f"{KEY}: no verdict"
    said = webhook.bodies[0]["blocks"][1]["text"]["text"]
    assert said == ":white_circle: The run failed: measure: ValueError: the disk is full"


def test_a_report_in_a_store_that_is_away_is_told_once_and_not_as_no_verdict(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").write_text("no folder")
    away = StoreResource(location=str(tmp_path / "a file"))
    monkeypatch.setenv("PERF_PIPELINE_DAGSTER_URL", "http://dagster.example")
    monkeypatch.setenv("PERF_PIPELINE_REPORTS_URL", "http://reports.example")
    webhook = Webhook((200, {}))
    with webhook.serving() as address:
        monkeypatch.setenv(WEBHOOK_VARIABLE, address)
        assert "told before" in told(instance, away, fails=False, tries=2), "Dagster repeats a tick that took too long"
    (body,) = webhook.bodies
    assert body["text"] == f"{KEY}: ended, its report cannot be read now"
    assert "cannot be used" in body["blocks"][1]["text"]["text"], "the store's own words"
    assert "http://dagster.example/runs/" in body["blocks"][-1]["text"]["text"]
    said = json.dumps(body)
    assert "no verdict" not in said and "reports.example" not in said


def test_a_webhook_that_refuses_fails_nothing(
    instance: dg.DagsterInstance, store: StoreResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Webhook((404, {})).serving() as address:
        monkeypatch.setenv(WEBHOOK_VARIABLE, address)
        said = told(instance, store, fails=False)
    assert said == f"{KEY}: 127.0.0.1 answered 404 Not Found"
    assert SECRET not in said


def test_without_a_webhook_nobody_is_told(
    instance: dg.DagsterInstance, store: StoreResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WEBHOOK_VARIABLE, raising=False)
    assert "is not set" in told(instance, store, fails=False)


@pytest.mark.parametrize(("sensor", "fails"), [(tell_verdict, False), (tell_failure, True)])
def test_comparisons_are_told_and_no_other_job(
    instance: dg.DagsterInstance,
    store: StoreResource,
    monkeypatch: pytest.MonkeyPatch,
    sensor: dg.SensorDefinition,
    fails: bool,
) -> None:
    """As the daemon evaluates the sensor: a captured hour, or a hundred comparisons judged again, are no messages."""
    monkeypatch.delenv(WEBHOOK_VARIABLE, raising=False)
    defs = build_defs(store=store)

    def look(cursor: str | None) -> SensorExecutionData:
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources={"store": store}) as context:
            return sensor.evaluate_tick(context)

    cursor = look(None).cursor  # what ended before is not told
    told = []
    for name in ("capture_traffic", "judge_measured", "judge_again", "compare_versions"):
        job = defs.resolve_job_def(name)
        run = instance.create_run_for_job(job, status=DagsterRunStatus.STARTED)
        if fails:
            instance.report_run_failed(run)
        else:
            instance.report_dagster_event(dg.DagsterEvent(DagsterEventType.RUN_SUCCESS.value, name), run.run_id)
        data = look(cursor)
        cursor = data.cursor
        told += [name] if "nobody was told" in (data.skip_message or "") else []
    assert told == ["compare_versions"]

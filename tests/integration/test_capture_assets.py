"""The capture assets under Dagster, from a real broker into a real bucket."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from kafka import KafkaProducer

from assets.definitions import build_defs
from assets.resources import KafkaResource, PlanResource, StoreResource, TokenResource
from perf_pipeline.capture.token_keys import generate_signing_key
from perf_pipeline.storage import open_store
from tests.access_log_lines import HOUR, HOUR_START_S, numbered, plan
from tests.integration.servers import KafkaServer

pytestmark = pytest.mark.integration

NEXT = "2026-11-30-05:00"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield instance


def capture(instance: dg.DagsterInstance, hour: str, **resources: dg.ConfigurableResource) -> dg.ExecuteInProcessResult:
    job = build_defs(**resources).resolve_job_def("capture_traffic")
    return job.execute_in_process(instance=instance, partition_key=hour, run_config=QUIET)


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, object]:
    (event,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in event.metadata.items()}


def test_an_hour_from_the_broker_to_requests_in_the_bucket(
    instance: dg.DagsterInstance, kafka: KafkaServer, bucket: str, tmp_path: Path
) -> None:
    topic = kafka.create_topic(f"access-{uuid.uuid4().hex[:8]}", partitions=2)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, linger_ms=20)
    for number in range(3600):
        at_ms = (HOUR_START_S + number) * 1000 + 900
        producer.send(topic, numbered(number), partition=number % 2, timestamp_ms=at_ms)
        if number % 60 == 0:  # the shipper sends some lines twice
            producer.send(topic, numbered(number), partition=number % 2, timestamp_ms=at_ms)
    for number in range(40):
        producer.send(topic, b"no line", partition=0, timestamp_ms=(HOUR_START_S + 3599) * 1000)
        late_s = HOUR_START_S + 3600 + 1200 + number
        producer.send(topic, numbered(5000 + number), partition=1, timestamp_ms=late_s * 1000)
    producer.flush()
    producer.close()
    generate_signing_key(tmp_path / "key.pem")
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan(topic=topic).model_dump(mode="json", exclude_none=True)))
    resources = {
        "plan": PlanResource(path=str(tmp_path / "plan.yaml")),
        "store": StoreResource(location=f"s3://{bucket}/objects"),
        "kafka": KafkaResource(bootstrap=kafka.bootstrap),
        "tokens": TokenResource(key_file=str(tmp_path / "key.pem")),
    }
    first = capture(instance, HOUR, **resources)
    landed = metadata(first, "raw_access_log")
    assert (landed["dagster/row_count"], landed["partitions"]) == (3660, 2)
    assert (landed["lag in records"], landed["records in quarantine"], landed["records expired"]) == (40, 40, 0)
    requests = metadata(first, "replay_requests")
    assert (requests["dagster/row_count"], requests["lines read"], requests["duplicates"]) == (3600, 3660, 60)
    assert checks(first) == {
        "nothing_expired": True,
        "little_in_quarantine": False,
        "no_strays": True,
        "keeps_up": True,
        "few_duplicates": False,
    }
    store = open_store(f"s3://{bucket}/objects")
    assert store.exists("requests/dt=2026-11-30/hour=04/requests.parquet")
    before = {key: store.get(key) for key in store.keys("raw")}

    # Lines of the hour that come later change it; the check of the hour in which they came says so.
    second = capture_landing_only(instance, NEXT, **resources)
    assert checks(second)["no_strays"] is False
    assert HOUR in check(second, "no_strays").description
    assert {key: store.get(key) for key in before} == before
    again = capture(instance, HOUR, **resources)
    assert metadata(again, "replay_requests")["dagster/row_count"] == 3640
    assert metadata(again, "raw_access_log")["dagster/row_count"] == 3660


def capture_landing_only(
    instance: dg.DagsterInstance, hour: str, **resources: dg.ConfigurableResource
) -> dg.ExecuteInProcessResult:
    job = build_defs(**resources).resolve_job_def("capture_traffic")
    return job.execute_in_process(
        instance=instance, partition_key=hour, run_config=QUIET, asset_selection=[dg.AssetKey("raw_access_log")]
    )


def checks(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {each.check_name: each.passed for each in result.get_asset_check_evaluations()}


def check(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    return next(each for each in result.get_asset_check_evaluations() if each.check_name == name)

"""From a real nginx to Parquet: rsyslog ships its log to a real broker, the assets land it and make requests of it.

What was sent is counted at the beginning and at the end. Between them the log is rotated, the shipper is stopped,
and the broker is away.
"""

import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from dagster._core.test_utils import freeze_time
from kafka import KafkaConsumer, TopicPartition

from assets.definitions import build_defs
from assets.resources import KafkaResource, PlanResource, StoreResource, TokenResource
from perf_pipeline.capture import kafka_landing
from perf_pipeline.lab.programs import Programs
from perf_pipeline.storage import open_store
from tests.access_log_lines import plan
from tests.integration.capture_nginx import HOST, CaptureNginx, capture_nginx, need_nginx, user_ids
from tests.integration.servers import KafkaServer, ended, free_ports, wait_until
from tests.integration.shipper import need_shipper, shipping

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples/capture"
WAIT_S = 60


def records_of(bootstrap: str, topic: str) -> list[bytes]:
    """The values of all records of a topic."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    try:
        parts = [TopicPartition(topic, part) for part in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        values: list[bytes] = []
        while any(consumer.position(part) < end for part, end in ends.items()):
            values += [record.value for batch in consumer.poll(1000).values() for record in batch]
        return values
    finally:
        consumer.close()


def shipped(bootstrap: str, topic: str, nginx: CaptureNginx) -> list[bytes]:
    """The records, once there are as many as lines in the log; all there are after a while."""
    hand_over(nginx.flushed())
    deadline = time.monotonic() + WAIT_S
    while len(values := records_of(bootstrap, topic)) < len(nginx.lines()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return values


def hand_over(nginx: CaptureNginx) -> None:
    rotated = nginx.rotate()
    assert rotated.returncode == 0, rotated.stderr


def as_logged(nginx: CaptureNginx) -> Counter[bytes]:
    return Counter(line.removesuffix(b"\n") for line in nginx.lines())


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Lets the hour that is under way be landed, as if it were over; gives that hour."""
    clock = SimpleNamespace(time=lambda: time.time() + 2 * 3600)
    monkeypatch.setattr(kafka_landing, "time", clock)
    return lambda: datetime.now(UTC).strftime("%Y-%m-%d-%H:00")


def capture(tmp_path: Path, bootstrap: str, topic: str, store: str, hours: list[str]) -> list[dict[str, object]]:
    """Materialise both assets for hours, and give the metadata of each."""
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan(topic=topic).model_dump(mode="json")))
    defs = build_defs(
        plan=PlanResource(path=str(tmp_path / "plan.yaml")),
        store=StoreResource(location=store),
        kafka=KafkaResource(bootstrap=bootstrap),
        tokens=TokenResource(key_file=str(tmp_path / "key.pem")),
    )
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    metadata = []
    # The partition of an hour is there once the hour is over.
    with dg.instance_for_test() as instance, freeze_time(datetime.now(UTC) + timedelta(hours=2)):
        for hour in hours:
            result = defs.resolve_job_def("capture_traffic").execute_in_process(
                instance=instance, partition_key=hour, run_config=quiet
            )
            for asset in ("raw_access_log", "replay_requests"):
                (event,) = result.asset_materializations_for_node(asset)
                metadata.append({name: value.value for name, value in event.metadata.items()})
    return metadata


def test_every_line_of_nginx_is_a_row_of_parquet_or_in_quarantine(
    server_programs: Programs,
    kafka: KafkaServer,
    topic: str,
    bucket: str,
    s3: object,
    tmp_path: Path,
    unhurried: Callable[[], str],
) -> None:
    need_shipper()
    users = user_ids(20, seed=11)
    began = unhurried()
    with (
        capture_nginx(server_programs, tmp_path / "nginx", "user") as nginx,
        shipping(server_programs, tmp_path / "shipper", nginx.handed_over, kafka.bootstrap, topic) as shipper,
    ):
        for number, user in enumerate(users):
            nginx.get([f"/products/{product}" for product in range(100)], user)
            if number % 5 == 4:
                hand_over(nginx)
        nginx.get(
            ["/products?email=a%40b.test", b"/products?q=caf\xe9", "/products?access_token=1", "/unknown"], users[0]
        )
        nginx.get(["/products/anonymous"])
        nginx.get(["/products/replayed"], users[0], headers="X-Load-Test: perf_pipeline\r\n")
        records = shipped(kafka.bootstrap, topic, nginx)
        assert Counter(records) == as_logged(nginx), "byte for byte, each line once"
        assert len(records) == 20 * 100 + 5
        shipper.stop()
    hours = sorted({began, unhurried()})
    location = f"s3://{bucket}/capture?endpoint={s3.endpoint}&region=eu-test-1&path_style=true"
    metadata = capture(tmp_path, kafka.bootstrap, topic, location, hours)
    landed, made = metadata[0::2], metadata[1::2]
    assert sum(each["dagster/row_count"] for each in landed) == len(records)
    assert sum(each["lines read"] for each in made) == len(records)
    assert all(each["records in quarantine"] == 0 for each in landed)
    store = open_store(location)
    rows, aside = [], 0
    for hour in hours:
        folder = f"dt={hour[:10]}/hour={hour[11:13]}"
        rows += pq.read_table(store.local_folder(f"requests/{folder}") / "requests.parquet").to_pylist()
        aside += pq.read_metadata(store.local_folder(f"quarantine/{folder}") / "quarantine.parquet").num_rows
    assert len(rows) + aside == len(records)
    assert sum(each["lines rejected"] for each in made) == aside == 3, "a secret, a route that is not listed, no user"
    asked = {(user, f"/products/{product}") for user in users for product in range(100)}
    odd = {(users[0], "/products?email=REDACTED"), (users[0], "/products?q=caf%E9")}
    assert {(row["user"], row["uri"]) for row in rows} == asked | odd
    assert {row["sampling_rate"] for row in rows} == {1.0}
    assert len({row["token"] for row in rows}) == len(users)


def test_a_shipper_that_was_away_and_a_broker_that_was_away_lose_nothing(
    server_programs: Programs, tmp_path: Path
) -> None:
    need_shipper()
    (user,) = user_ids(1, seed=12)
    broker = KafkaServer(server_programs, tmp_path / "kafka")
    with ended(broker), capture_nginx(server_programs, tmp_path / "nginx") as nginx:
        topic = broker.create_topic("access-log")
        with shipping(server_programs, tmp_path / "shipper", nginx.handed_over, broker.bootstrap, topic) as shipper:
            nginx.get([f"/products/{number}" for number in range(500)], user)
            hand_over(nginx)
            time.sleep(2)
            shipper.stop()
            nginx.get([f"/products/{number}" for number in range(500, 1000)], user)
            hand_over(nginx)
            shipper.start()
            nginx.get([f"/products/{number}" for number in range(1000, 1500)], user)
            hand_over(nginx)
            time.sleep(2)
            broker.stop()
            nginx.get([f"/products/{number}" for number in range(1500, 2000)], user)
            hand_over(nginx)
            nginx.get([f"/products/{number}" for number in range(2000, 2500)], user)
            hand_over(nginx)
            time.sleep(2)
            broker.start()
            records = shipped(broker.bootstrap, topic, nginx)
    counts, logged = Counter(records), as_logged(nginx)
    assert sum(logged.values()) == 2500
    assert set(counts) == set(logged), "no line is lost, and none is altered"


def test_the_scripts_of_the_walk_start_everything_and_end_it(server_programs: Programs, tmp_path: Path) -> None:
    """`broker.sh` and `run.sh`, as docs/capture.md has a newcomer call them."""
    need_nginx()
    need_shipper()
    (user,) = user_ids(1, seed=13)
    kafka_port, port, service = free_ports(3)
    log = tmp_path / "run.log"
    bootstrap = f"{HOST}:{kafka_port}"
    broker = ["sh", str(EXAMPLES / "broker.sh"), str(tmp_path / "kafka"), str(kafka_port)]
    walk = ["sh", str(EXAMPLES / "run.sh"), str(tmp_path / "nginx"), bootstrap]
    settings = {"PORT": str(port), "SERVICE_PORT": str(service), "HAND_OVER_S": "1", "TOPIC": "walk"}
    running = server_programs.start("broker", broker, os.environ, tmp_path / "broker.log", tmp_path)
    wait_until(lambda: topics(bootstrap) is not None, "the broker of broker.sh", running)
    walking = server_programs.start("run.sh", walk, os.environ | settings, log, tmp_path)
    nginx = CaptureNginx(port, tmp_path / "nginx", walking)
    wait_until(lambda: nginx.get(["/health"]) is None, "nginx of run.sh", walking)
    nginx.get([f"/products/{number}" for number in range(50)], user)
    deadline = time.monotonic() + WAIT_S
    while "walk" not in topics(bootstrap) or len(values := records_of(bootstrap, "walk")) < 50:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)
    nginx.get(["/products/last"], user)
    walking.process.terminate()
    assert walking.process.wait(30) == 0, log.read_text()
    values = records_of(bootstrap, "walk")
    assert len(values) == 51 and b"/products/last" in values[-1], "what came last is shipped as well"
    assert not (tmp_path / "nginx/nginx.pid").exists()
    server_programs.end(running, walking)


def topics(bootstrap: str) -> set[str]:
    """The topics of a broker. Raises when it does not answer."""
    with socket.create_connection((HOST, int(bootstrap.rpartition(":")[2])), timeout=1):
        pass  # a client that finds nobody leaves sockets behind
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, bootstrap_timeout_ms=2000)
    try:
        return consumer.topics()
    finally:
        consumer.close()

"""Landing from a real broker: codecs, gaps, restarts, rebalances, damage."""

import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from perf_pipeline.capture import hour_writer
from perf_pipeline.capture.hours import hour_of
from perf_pipeline.capture.kafka_landing import HourLanding, land_hour
from perf_pipeline.capture.kafka_topic import KafkaTopic, open_topic
from perf_pipeline.capture.raw_objects import landed_objects, read_object
from perf_pipeline.errors import InputError
from perf_pipeline.storage import LocalObjectStore
from tests.access_log_lines import HOUR, HOUR_START_S, numbered
from tests.integration.servers import KafkaServer, ended

pytestmark = pytest.mark.integration


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "store")


def produce(
    kafka: KafkaServer, topic: str, values: list[bytes | None], at_s: int | None = HOUR_START_S, **settings: Any
) -> None:
    """Write the values, a second apart from this time on; None: at the time it is."""
    key = settings.pop("key", None)
    transactions = settings.pop("transactions", None)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, **settings)
    if transactions:
        producer.init_transactions()
        producer.begin_transaction()
    for number, value in enumerate(values):
        producer.send(
            topic, value, key=key(number) if key else None, partition=0,
            timestamp_ms=None if at_s is None else (at_s + number % 3600) * 1000,
        )  # fmt: skip
    producer.flush()
    if transactions:
        getattr(producer, transactions)()
    producer.close()


def land(kafka: KafkaServer, name: str, store: LocalObjectStore, stall_s: float = 60) -> HourLanding:
    with open_topic(kafka.bootstrap, name, stall_s=stall_s) as topic:
        return land_hour(store, topic, HOUR)


def land_today(kafka: KafkaServer, name: str, store: LocalObjectStore) -> None:
    """Land all that was written at the time it is: the hour that has not ended, and the one before."""
    now_s = time.time()
    with open_topic(kafka.bootstrap, name) as topic:
        for time_s in (now_s - 3600, now_s):
            land_hour(store, topic, hour_of(int(time_s)), now_s=now_s + 7200)


def landed(store: LocalObjectStore, topic: str) -> list[bytes]:
    keys = landed_objects(store, topic, HOUR)
    return [each for key in keys for each in read_object(store, key).to_pybytes().splitlines()]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(codec: str | None, kafka: KafkaServer, topic: str, store: LocalObjectStore) -> None:
    lines = [numbered(number) for number in range(3000)]
    produce(kafka, topic, lines, compression_type=codec, linger_ms=20, batch_size=2**18)
    report = land(kafka, topic, store)
    assert landed(store, topic) == lines
    assert (report.lines, report.lag, report.quarantined) == (3000, 0, {})


def test_a_batch_that_unpacks_to_many_times_its_size(kafka: KafkaServer, topic: str, store: LocalObjectStore) -> None:
    lines = [numbered(number, uri="/products/" + "x" * 20_000) for number in range(500)]
    produce(kafka, topic, lines, compression_type="zstd", linger_ms=1000, batch_size=2**24, max_request_size=2**24)
    land(kafka, topic, store)
    assert landed(store, topic) == lines


def test_what_a_shipper_wrote_without_python(kafka: KafkaServer, topic: str, store: LocalObjectStore) -> None:
    lines = [numbered(number) for number in range(2000)]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        command = ["kcat", "-P", "-b", kafka.bootstrap, "-t", topic, "-z", codec]
        try:
            subprocess.run(command, input=b"\n".join(lines), check=True, timeout=60)
        except FileNotFoundError:
            pytest.skip("kcat is not on PATH: batches of librdkafka were NOT tested (apt-get install kcat)")
    land_today(kafka, topic, store)
    assert landed(store, topic) == lines * 5


def test_gaps_of_compaction_are_no_loss(kafka: KafkaServer, store: LocalObjectStore) -> None:
    topic = kafka.create_topic(
        f"compacted-{uuid.uuid4().hex[:8]}", cleanup_policy="compact", segment_ms="100", segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01", max_compaction_lag_ms="100", delete_retention_ms="100",
    )  # fmt: skip
    lines = [numbered(number) for number in range(3000)]
    produce(kafka, topic, list(lines), key=lambda number: b"%d" % (number if number % 4 == 0 else 1))
    # A later record closes the segment, so that the cleaner takes it.
    deadline = time.monotonic() + 60
    kept: list[bytes] = []
    while time.monotonic() < deadline:
        produce(kafka, topic, [numbered(1, rid="f" * 32)], key=lambda _: b"closing")
        kept = everything(kafka, topic)
        if len(kept) < 1500:
            break
        time.sleep(0.5)
    assert 700 <= len(kept) < 1500, "the cleaner has removed records"
    report = land(kafka, topic, store)
    found = landed(store, topic)
    assert report.records > report.lines == len(found)
    assert report.expired == 0
    # The cleaner goes on meanwhile.
    there = iter(kept)
    assert all(each in there for each in found), "in order, each once"
    assert {*everything(kafka, topic)} <= {*found}


def wait_for(happened: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def everything(kafka: KafkaServer, topic: str) -> list[bytes]:
    """All values of partition 0, by a plain consumer."""
    at = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, consumer_timeout_ms=500, auto_offset_reset="earliest")
    consumer.assign([at])
    consumer.seek_to_beginning(at)
    values = [record.value for record in consumer]
    consumer.close()
    return values


def test_only_what_a_transaction_committed_is_landed(kafka: KafkaServer, topic: str, store: LocalObjectStore) -> None:
    committed = [numbered(number) for number in range(50)]
    # At the time it is now, as the markers that end transactions are.
    produce(kafka, topic, list(committed), at_s=None, transactional_id="a", transactions="commit_transaction")
    produce(kafka, topic, [numbered(99)] * 30, at_s=None, transactional_id="b", transactions="abort_transaction")
    produce(kafka, topic, [numbered(100)], at_s=None)
    produce(kafka, topic, [numbered(101)], at_s=None, transactional_id="c", transactions="commit_transaction")
    with open_topic(kafka.bootstrap, topic) as opened:
        # The coordinator writes the marker that ends a transaction a little later than it says so.
        wait_for(lambda: opened.end_offsets() == {0: 50 + 1 + 30 + 1 + 1 + 1 + 1})
    land_today(kafka, topic, store)
    assert landed(store, topic) == [*committed, numbered(100), numbered(101)]


def test_records_that_no_line_is_in_are_set_aside(kafka: KafkaServer, topic: str, store: LocalObjectStore) -> None:
    odd: list[bytes | None] = [
        b"\xff\xfe\x00",
        b"plain text",
        None,
        b"",
        b"x" * 900_000,
        numbered(1) + b"\n" + numbered(2),
    ]
    produce(kafka, topic, [numbered(1), *odd, numbered(8)], compression_type="gzip", key=lambda _: b"host-1")
    report = land(kafka, topic, store)
    assert landed(store, topic) == [numbered(1), numbered(8)]
    assert sum(report.quarantined.values()) == len(odd)
    with open_topic(kafka.bootstrap, topic) as opened:
        assert opened._consumer.committed(TopicPartition(topic, 0)) == 8


class Tapped(KafkaTopic):
    """A topic that calls back once after each batch, so that a test can do harm in the middle."""

    def tap(self, harm: Callable[[], None]) -> "Tapped":
        self._harm: Callable[[], None] | None = harm
        return self

    def read(self, partition: int, start: int, end: int) -> Iterator[Any]:
        for records in super().read(partition, start, end):
            yield records
            if self._harm:
                harm, self._harm = self._harm, None
                harm()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_goes_and_comes_back(
    how: str, own_kafka: KafkaServer, store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hour_writer, "OBJECT_OFFSETS", 5000)
    lines = [numbered(number, uri="/products/" + "y" * 500) for number in range(40_000)]
    with ended(own_kafka):
        topic = own_kafka.create_topic("access")
        produce(own_kafka, topic, list(lines), linger_ms=20)
        with open_topic(own_kafka.bootstrap, topic) as opened:
            opened.__class__ = Tapped
            back = threading.Thread(target=lambda: (time.sleep(2), own_kafka.start()))

            def harm() -> None:
                getattr(own_kafka, how)()
                back.start()

            report = land_hour(store, opened.tap(harm), HOUR)  # type: ignore[attr-defined]
        back.join()
    assert landed(store, topic) == lines
    assert report.lines == len(lines)


def test_a_broker_that_stays_away_is_told_and_the_next_attempt_goes_on(
    own_kafka: KafkaServer, store: LocalObjectStore
) -> None:
    lines = [numbered(number, uri="/products/" + "y" * 500) for number in range(40_000)]
    with ended(own_kafka):
        topic = own_kafka.create_topic("access")
        produce(own_kafka, topic, list(lines), linger_ms=20)
        with pytest.raises(InputError, match="see that"), open_topic(own_kafka.bootstrap, topic, stall_s=2) as opened:
            opened.__class__ = Tapped
            land_hour(store, opened.tap(own_kafka.kill), HOUR)  # type: ignore[attr-defined]
        own_kafka.start()
        land(own_kafka, topic, store)
    assert landed(store, topic) == lines


def test_a_rebalance_of_its_group_takes_nothing_away(
    kafka: KafkaServer, store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others subscribe under landing's own group and come and go while it lands."""
    monkeypatch.setattr(hour_writer, "OBJECT_OFFSETS", 5000)
    topic = kafka.create_topic(f"shared-{uuid.uuid4().hex[:8]}")
    lines = [numbered(number) for number in range(60_000)]
    produce(kafka, topic, list(lines), linger_ms=20)
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            other = KafkaConsumer(
                topic, bootstrap_servers=kafka.bootstrap, group_id=f"perf-pipeline.{topic}",
                auto_offset_reset="earliest", session_timeout_ms=3000, heartbeat_interval_ms=500,
            )  # fmt: skip
            other.poll(500)
            other.close()

    others = threading.Thread(target=come_and_go)
    others.start()
    try:
        report = land(kafka, topic, store)
    finally:
        stop.set()
        others.join()
    assert landed(store, topic) == lines
    assert report.lines == len(lines)


def test_bytes_damaged_on_the_broker_s_disk_are_set_aside(own_kafka: KafkaServer, store: LocalObjectStore) -> None:
    with ended(own_kafka):
        topic = own_kafka.create_topic("access")
        for number in range(5):
            produce(own_kafka, topic, [numbered(10 * number + each) for each in range(10)], linger_ms=200)
        own_kafka.stop()
        (segment,) = (own_kafka.data / "access-0").glob("*.log")
        data = segment.read_bytes()
        segment.write_bytes(data.replace(b"/products/25", b"/pr0ducts/25"))
        own_kafka.start()
        report = land(own_kafka, topic, store)
    lost = report.quarantined["damaged in the broker"]
    assert report.lines == 50 - lost and 1 <= lost <= 10
    assert numbered(19) in landed(store, topic) and numbered(30) in landed(store, topic)
    assert numbered(25) not in landed(store, topic)


def test_a_topic_or_a_cluster_that_is_not_there(kafka: KafkaServer, store: LocalObjectStore, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no topic 'none'"):
        land(kafka, "none", store)
    settings = tmp_path / "kafka.yaml"
    settings.write_text("security_protocol: SSL\nbootstrap_timeout_ms: 500\n")
    with pytest.raises(InputError, match="cannot be used"), open_topic(kafka.bootstrap, "none", settings):
        pass
    for text, message in (
        ("enable_auto_commit: true", "sets enable_auto_commit"),
        ("- a", "no list of settings"),
        ("a: [", "cannot be read"),
        ("surprise: 1", "surprise"),
    ):
        settings.write_text(text)
        with pytest.raises(InputError, match=message), open_topic(kafka.bootstrap, "none", settings):
            pass

"""Landing is killed 100 times at random points, with a real broker and a real bucket: no line is lost, none doubled."""

import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest
from kafka import KafkaProducer

from perf_pipeline.capture.hours import hour_of
from perf_pipeline.capture.raw_objects import landed_objects, read_object
from perf_pipeline.storage import ObjectStore, open_store
from tests.access_log_lines import HOUR, HOUR_START_S, line
from tests.integration.servers import KafkaServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
KILLS = 100
NEXT = "2026-11-30-05:00"
HOURS = ["2026-11-30-03:00", HOUR, NEXT]
"""Hours that are landed. The latest lines belong to the hour before them."""
LINES = 12_000


@pytest.fixture(scope="module")
def lines(kafka: KafkaServer) -> tuple[str, Counter[tuple[str, bytes]], int]:
    """A topic of two partitions with two hours of traffic: late lines, lines around the full hour, no lines."""
    topic = kafka.create_topic(f"killed-{uuid.uuid4().hex[:8]}", partitions=2, retention_ms="-1")
    chance = random.Random(5)
    written: Counter[tuple[str, bytes]] = Counter()
    bad = 0
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, compression_type="lz4", linger_ms=50)
    for number in range(LINES):
        came_s = HOUR_START_S + 7200 * number / LINES
        late_s = chance.choice([0.5] * 20 + [40, 300, 4000, -20])
        value = line(msec=f"{came_s - late_s:.3f}", rid=f"{number:032x}", uri=f"/products/{chance.getrandbits(64)}")
        if number % 500 == 0:
            value, bad = b"\xff no line %d" % number, bad + 1
        else:
            written[hour_of(int(came_s - late_s)), value] += 1
        producer.send(topic, value, partition=number % 2, timestamp_ms=int(came_s * 1000))
    producer.flush()
    producer.close()
    return topic, written, bad


def test_killed_a_hundred_times(
    kafka: KafkaServer, bucket: str, lines: tuple[str, Counter[tuple[str, bytes]], int]
) -> None:
    topic, written, bad = lines
    chance = random.Random(11)
    kills = 0
    whole_s = 2.0
    contents: dict[str, bytes] | None = None
    where: Counter[int] = Counter()
    while kills < KILLS:
        location = f"s3://{bucket}/{uuid.uuid4().hex[:8]}"
        store = open_store(location)
        while True:
            delay_s = chance.uniform(0, whole_s) if kills < KILLS else None
            took_s = land_in_a_process(kafka.bootstrap, topic, location, delay_s)
            if took_s is not None:
                whole_s = 0.7 * whole_s + 0.3 * took_s
                break
            kills += 1
            where[len(store.keys(f"raw/{topic}"))] += 1
        found = {key.removeprefix(f"raw/{topic}/"): store.get(key) for key in store.keys("")}
        contents = contents or found
        assert found == contents, "the same objects, byte for byte, wherever it was killed"
    assert len(where) > 5, "kills at different points"
    assert landed(store, topic) == written
    aside = [key for key in store.keys("raw") if "/quarantine/" in key]
    assert sum(read_object(store, key).to_pybytes().count(b"\n") for key in aside) == bad


def land_in_a_process(bootstrap: str, topic: str, location: str, kill_after_s: float | None) -> float | None:
    """Land the hours in a process of its own; the seconds it took, or None when it was killed before it ended."""
    command = [sys.executable, "-m", "tests.integration.landing_process", bootstrap, topic, location, *HOURS]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            start_s = time.monotonic()
            process.stdin.write(b"go\n")
            process.stdin.flush()
            code = process.wait(kill_after_s if kill_after_s is not None else 60)
        except subprocess.TimeoutExpired:
            return None
        finally:
            process.kill()
        assert code == 0
        return time.monotonic() - start_s


def landed(store: ObjectStore, topic: str) -> Counter[tuple[str, bytes]]:
    """Every line that is landed, with its hour."""
    return Counter(
        (hour, each)
        for hour in ["2026-11-30-02:00", *HOURS]
        for key in landed_objects(store, topic, hour)
        for each in read_object(store, key).to_pybytes().splitlines()
    )

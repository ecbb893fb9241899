"""Messages per second on one core: landing from Kafka against kcat and a bare kafka-python loop on the same topic.

    PYTHONPATH=. .venv/bin/python bench/landing.py [--lines 500000] [--rounds 3]

A broker of `make services` holds an hour of the log of bench/capture_requests.py in zstd batches. Each way reads all of
it, in turns, pinned to one core; the broker runs on the others. kcat writes the lines to a file, and so does
confluent-kafka where it is installed (it is no dependency). The bare loop polls and drops what it gets.
`land_hour` also tells the hour of each line, checks that it is JSON, compresses, and puts objects into a local folder.
Times are processor seconds of the process, the smallest of the rounds.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from capture_requests import HOUR, HOUR_START_S, log_lines
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from perf_pipeline.capture import hour_writer
from perf_pipeline.capture.kafka_landing import land_hour
from perf_pipeline.capture.kafka_topic import KafkaTopic, open_topic
from perf_pipeline.capture.record_lines import JsonCheck
from perf_pipeline.lab.programs import programs
from perf_pipeline.storage import LocalObjectStore
from tests.integration.servers import KafkaServer, ended

TOPIC = "bench"
PROMISED = 0.9


def fill(bootstrap: str, count: int) -> None:
    """Write the lines, each at its time."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="zstd", linger_ms=50, batch_size=2**19)
    for number, line in enumerate(log_lines(count)):
        at_ms = HOUR_START_S * 1000 + 3_600_000 * number // count + 500
        producer.send(TOPIC, line.rstrip("\n").encode(), timestamp_ms=at_ms)
    producer.flush()
    producer.close()


def bare_loop(bootstrap: str, count: int) -> None:
    """Poll with what kafka-python does by default, and drop what it returns."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    at = TopicPartition(TOPIC, 0)
    consumer.assign([at])
    consumer.seek(at, 0)
    read = 0
    while read < count:
        read += sum(len(records) for records in consumer.poll(1000).values())
    consumer.close()


def confluent_loop(bootstrap: str, count: int, out: Path) -> None:
    """The same with librdkafka under Python: each message's bytes to a file."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "b", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    read = 0
    with out.open("wb") as file:
        while read < count:
            messages = consumer.consume(5000, 1.0)
            read += len(messages)
            file.writelines(message.value() + b"\n" for message in messages)
    consumer.close()


def kcat(bootstrap: str, out: Path) -> None:
    """All lines to a file."""
    with out.open("wb") as file:
        subprocess.run(
            ["kcat", "-C", "-q", "-b", bootstrap, "-t", TOPIC, "-e", "-o", "beginning"], stdout=file, check=True
        )


def spent_s() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Processor seconds and seconds that some work took."""
    cpu_s, clock_s = spent_s(), time.monotonic()
    work()
    return spent_s() - cpu_s, time.monotonic() - clock_s


def main() -> None:
    """Fill a topic, and let all take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count = options.lines
    with tempfile.TemporaryDirectory(prefix="bench-landing-") as name, programs() as started:
        folder = Path(name)
        broker = KafkaServer(started, folder / "kafka")
        with ended(broker):
            broker.create_topic(TOPIC)
            fill(broker.bootstrap, count)
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

            def land(number: int) -> None:
                with open_topic(broker.bootstrap, TOPIC) as topic:
                    report = land_hour(LocalObjectStore(folder / f"store-{number}"), topic, HOUR)
                assert report.lines == count

            ways: dict[str, Callable[[int], None]] = {
                "kcat to a file": lambda _: kcat(broker.bootstrap, folder / "kcat"),
                "bare kafka-python loop": lambda _: bare_loop(broker.bootstrap, count),
                "land_hour": land,
            }
            if find_spec("confluent_kafka"):
                ways["confluent-kafka to a file"] = lambda _: confluent_loop(broker.bootstrap, count, folder / "ck")
            best: dict[str, tuple[float, float]] = {}
            for number in range(options.rounds):
                for way, work in ways.items():
                    took = timed(lambda work=work, number=number: work(number))
                    best[way] = min(best.get(way, took), took)
            steps = steps_of_landing(broker.bootstrap, folder / "steps")
    print(f"{count:,} lines in one partition, zstd batches, one core")
    for way, (cpu_s, clock_s) in best.items():
        print(f"  {way:<28} {cpu_s:6.2f} s cpu {clock_s:6.2f} s clock {count / cpu_s:12,.0f} messages/s per core")
    ratio = best["bare kafka-python loop"][0] / best["land_hour"][0]
    print(f"  land_hour / bare loop        {ratio:6.2f}    (promised: at least {PROMISED})")
    print(f"  land_hour / kcat             {best['kcat to a file'][0] / best['land_hour'][0]:6.2f}")
    print("land_hour by step")
    for step, seconds in sorted(steps.items(), key=lambda item: -item[1]):
        print(f"  {step:<28} {seconds:6.2f} s {seconds / sum(steps.values()):5.0%}")
    sys.exit(0 if ratio >= PROMISED else 1)


def steps_of_landing(bootstrap: str, folder: Path) -> dict[str, float]:
    """Processor seconds of landing by its steps."""
    steps = {"read records (kafka-python)": 0.0, "tell hours": 0.0, "check JSON": 0.0, "compress and put": 0.0}
    original = (KafkaTopic.read, hour_writer.HourWriter.take, JsonCheck.unreadable, hour_writer.put_once)

    def read(*arguments: object) -> object:
        batches = original[0](*arguments)
        while True:
            start = time.process_time()
            batch = next(batches, None)
            steps["read records (kafka-python)"] += time.process_time() - start
            if batch is None:
                return
            yield batch

    def clocked(step: str, function: Callable[..., object], *outer: str) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            start = time.process_time()
            try:
                return function(*arguments)
            finally:
                spent = time.process_time() - start
                steps[step] += spent
                for name in outer:
                    steps[name] -= spent

        return call

    KafkaTopic.read = read
    hour_writer.HourWriter.take = clocked("tell hours", original[1])
    JsonCheck.unreadable = clocked("check JSON", original[2], "tell hours")
    hour_writer.put_once = clocked("compress and put", original[3], "tell hours")
    try:
        with open_topic(bootstrap, TOPIC) as topic:
            land_hour(LocalObjectStore(folder), topic, HOUR)
    finally:
        KafkaTopic.read, hour_writer.HourWriter.take, JsonCheck.unreadable, hour_writer.put_once = original
    return steps


if __name__ == "__main__":
    main()

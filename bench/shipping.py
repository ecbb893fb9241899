"""Lines per second on one core that rsyslog ships, with the configuration of examples/capture, against kcat.

    PYTHONPATH=. .venv/bin/python bench/shipping.py [--lines 300000]

A broker of `make services` takes the log of bench/capture_requests.py, handed over as one file: once from rsyslog, once
from `kcat -P -l`, which keeps no place in the file and knows no rotation. Times are processor seconds of the shipper.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from capture_requests import log_lines
from kafka import KafkaConsumer, TopicPartition

from perf_pipeline.lab.programs import programs
from tests.integration.servers import KafkaServer, ended
from tests.integration.shipper import shipping


def arrived(bootstrap: str, topic: str) -> int:
    """How many records a topic has."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        return consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    finally:
        consumer.close()


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def main() -> None:
    """Ship, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=300_000)
    lines = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as name, programs() as started:
        folder = Path(name)
        (folder / "log").write_text("".join(log_lines(lines)))
        broker = KafkaServer(started, folder / "kafka")
        with ended(broker):
            for topic in ("rsyslog", "kcat"):
                broker.create_topic(topic)
            pattern = folder / "capture-*.log"
            with shipping(started, folder / "shipper", pattern, broker.bootstrap, "rsyslog") as shipper:
                time.sleep(2)
                assert shipper.program is not None
                before_s = cpu_s(shipper.program.pid)
                (folder / "log").rename(folder / "capture-1.log")
                while arrived(broker.bootstrap, "rsyslog") < lines:
                    time.sleep(0.2)
                spent_s = cpu_s(shipper.program.pid) - before_s
                peak_mib = psutil.Process(shipper.program.pid).memory_info().rss / 2**20
            print(f"rsyslog  {lines / spent_s:10,.0f} lines/s per core, {peak_mib:,.0f} MiB")
            settings = ["-X", "acks=all", "-X", "enable.idempotence=true", "-z", "zstd"]
            kcat = ["kcat", "-P", "-q", "-b", broker.bootstrap, "-t", "kcat", *settings, "-l", folder / "capture-1.log"]
            process = psutil.Popen(list(map(str, kcat)), stderr=subprocess.DEVNULL)
            spent_s = 0.0
            while process.poll() is None:
                with process.oneshot():
                    spent_s = max(spent_s, sum(process.cpu_times()[:2]) if process.is_running() else 0.0)
                time.sleep(0.01)
            print(f"kcat     {lines / spent_s:10,.0f} lines/s per core")
            sys.exit(arrived(broker.bootstrap, "kcat") != lines)


if __name__ == "__main__":
    main()

"""A process that lands hours from Kafka into a bucket, for tests that kill it.

    python -m tests.integration.landing_process <bootstrap> <topic> <store> <hour>...

It imports everything first, then says `ready` and waits for a line, so that whoever kills it can choose the moment.
"""

import sys

from perf_pipeline.capture.kafka_landing import land_hour
from perf_pipeline.capture.kafka_topic import open_topic
from perf_pipeline.storage import open_store

if __name__ == "__main__":
    bootstrap, name, location, *hours = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    store = open_store(location)
    with open_topic(bootstrap, name) as topic:
        for hour in hours:
            land_hour(store, topic, hour, margin_s=60, now_s=4e9)

"""Fixtures of the tests with real servers: a broker, a bucket, and Dagster as `perf-pipeline ui` serves it.

`kafka` and `s3` start once a session; `topic`, `bucket` and `deployment` are new for each test. A test that stops the
broker takes `own_kafka`.
"""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from perf_pipeline.lab.programs import Programs, programs
from tests.integration.deployment import Deployment
from tests.integration.servers import KafkaServer, S3Server, ended, missing_for_kafka, missing_for_s3


def skip_without(lacking: list[str], what: str) -> None:
    """Skip, and say so, what needs a server that is not there."""
    if lacking:
        pytest.skip(f"{', '.join(lacking)} not found: capture with {what} was NOT tested (make services)")


@pytest.fixture
def own_kafka(server_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> KafkaServer:
    """A broker that does not run yet, for a test that stops it."""
    skip_without(missing_for_kafka(), "a real Kafka broker")
    return KafkaServer(server_programs, tmp_path_factory.mktemp("own-kafka"))


@pytest.fixture(scope="session")
def server_programs() -> Iterator[Programs]:
    """What starts servers and ends them, also when the tests are killed."""
    with programs() as started:
        yield started


@pytest.fixture(scope="session")
def kafka(server_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A real Kafka broker; `kafka.bootstrap` is its address."""
    skip_without(missing_for_kafka(), "a real Kafka broker")
    server = KafkaServer(server_programs, tmp_path_factory.mktemp("kafka"))
    with ended(server):
        yield server


@pytest.fixture(scope="session")
def s3(server_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3-compatible server."""
    skip_without(missing_for_s3(), "a real S3 server")
    server = S3Server(server_programs, tmp_path_factory.mktemp("s3"))
    with ended(server):
        yield server


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    """A new topic with one partition."""
    return kafka.create_topic(f"access-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket; the environment says how to reach it, as it would for AWS S3."""
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    for variable, value in s3.environ.items():
        monkeypatch.setenv(variable, value)
    return s3.create_bucket()


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A home of its own for Dagster, which does not run yet."""
    made = Deployment(tmp_path)
    try:
        yield made
    finally:
        made.stop()

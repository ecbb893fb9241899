"""Real servers for the tests of capture: Apache Kafka in KRaft mode, and SeaweedFS with its S3 gateway.

What belongs here: starting them on free ports of 127.0.0.1, waiting until they serve, ending them. `make services` gets
them into `.services/`. They run under the lab's `programs`, so that nothing outlives the tests, however these end.
"""

import contextlib
import json
import os
import random
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from perf_pipeline.lab.programs import Program, Programs

SERVICES = Path(__file__).parents[2] / ".services"
KAFKA_JARS = SERVICES / "kafka"
WEED = SERVICES / "bin" / "weed"
HOST = "127.0.0.1"
REGION = "eu-test-1"
_START_S = 60
# Small and quick to start: a broker of a few seconds, on two cores that other tests use as well.
_JAVA = ["java", "-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
_KAFKA = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.bootstrap.servers={host}:{controller}
log.dirs={folder}
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.backoff.ms=200
log.retention.check.interval.ms=500
log.retention.ms=-1
log.message.timestamp.after.max.ms=9223372036854775807
log.initial.task.delay.ms=500
controlled.shutdown.enable=false
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=200
controller.quorum.fetch.timeout.ms=400
"""


def missing_for_kafka() -> list[str]:
    """What is needed for a broker and is not there."""
    jars = [] if any(KAFKA_JARS.glob("kafka_2.13-*.jar")) else [".services/kafka"]
    return jars if shutil.which("java") else [*jars, "java"]


def missing_for_s3() -> list[str]:
    """What is needed for an S3 server and is not there."""
    return [] if WEED.is_file() else [".services/bin/weed"]


class KafkaServer:
    """One broker that is its own controller, with its data in a folder: it can be stopped and started again."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        """Format the data folder; nothing runs yet."""
        folder.mkdir(parents=True, exist_ok=True)
        self._programs, self._folder = programs, folder
        self.data = folder / "data"
        port, controller = free_ports(2)
        self.bootstrap = f"{HOST}:{port}"
        self._config = folder / "server.properties"
        self._config.write_text(_KAFKA.format(host=HOST, port=port, controller=controller, folder=self.data))
        self._program: Program | None = None
        cluster = uuid.uuid4().hex[:22]
        self._run("format", "kafka.tools.StorageTool", "format", "-t", cluster, "--standalone", "-c", self._config)

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        self._program = self._java("broker", "kafka.Kafka", self._config)
        wait_until(self._answers, f"Kafka on {self.bootstrap}", self._program)

    def stop(self) -> None:
        """Stop the broker, its data staying where it is."""
        if self._program is not None:
            self._programs.end(self._program, grace_s=15)
            self._program = None

    def kill(self) -> None:
        """End the broker at once, as a crash would."""
        if self._program is not None:
            self._programs.end(self._program, grace_s=0)
            self._program = None

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Make a topic; `config` has its settings, with `_` for the dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
        finally:
            admin.close()
        return name

    def _java(self, name: str, *arguments: object) -> Program:
        command = [*_JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{KAFKA_JARS}/*"]
        log = self._folder / f"{name}.log"
        return self._programs.start(name, [*command, *map(str, arguments)], os.environ, log, self._folder)

    def _run(self, name: str, *arguments: object) -> None:
        program = self._java(name, *arguments)
        code = program.process.wait(_START_S)
        self._programs.end(program)
        if code:
            raise AssertionError(f"kafka {name} exited with {code}:\n{program.last_lines(20)}")

    def _answers(self) -> bool:
        host, _, port = self.bootstrap.partition(":")
        with socket.create_connection((host, int(port)), timeout=1):
            pass
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=2000, request_timeout_ms=2000)
        admin.close()
        return True


class S3Server:
    """SeaweedFS: master, volume, filer and S3 gateway in one process, with one pair of keys."""

    access_key = "perf-pipeline"
    secret_key = "not-a-secret-outside-tests"

    def __init__(self, programs: Programs, folder: Path) -> None:
        """Choose ports and write the configuration; nothing runs yet."""
        folder.mkdir(parents=True, exist_ok=True)
        self._programs, self._folder = programs, folder
        self._ports = free_weed_ports()
        self.endpoint = f"http://{HOST}:{self._ports['s3']}"
        keys = {"accessKey": self.access_key, "secretKey": self.secret_key}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = {"identities": [{"name": "tests", "credentials": [keys], "actions": actions}]}
        (folder / "s3.json").write_text(json.dumps(identities))
        # A bucket begins with one volume instead of seven.
        (folder / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
        self._program: Program | None = None

    @property
    def environ(self) -> dict[str, str]:
        """What a process needs in its environment to use the server as if it were AWS S3."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
        }

    def start(self) -> None:
        """Start the server and wait until a bucket can be made and written to."""
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        ports = self._ports
        command = [
            str(WEED), "-logtostderr=true", "server", f"-dir={data}", f"-ip={HOST}", f"-ip.bind={HOST}",
            f"-master.port={ports['master']}", f"-volume.port={ports['volume']}", f"-filer.port={ports['filer']}",
            "-master.volumeSizeLimitMB=64", "-master.electionTimeout=1s", "-master.heartbeatInterval=200ms",
            "-volume.max=400", "-master.telemetry=false",
            "-s3", f"-s3.port={ports['s3']}", f"-s3.config={self._folder / 's3.json'}", "-s3.iam=false",
            "-s3.port.iceberg=0", "-s3.port.lance=0",
        ]  # fmt: skip
        self._program = self._programs.start("weed", command, os.environ, self._folder / "weed.log", self._folder)
        wait_until(self._writes, f"SeaweedFS on {self.endpoint}", self._program)

    def stop(self) -> None:
        """Stop the server, its data staying where it is."""
        if self._program is not None:
            # It takes 10 s to leave in good order, which nobody waits for here.
            self._programs.end(self._program, grace_s=0)
            self._program = None
            for port in self._ports.values():
                for number in (port, port + 10_000):
                    for left in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
                        left.unlink(missing_ok=True)

    def client(self) -> Any:
        """A boto3 client of the server."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )

    def create_bucket(self) -> str:
        """A new empty bucket."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def _writes(self) -> bool:
        client, bucket = self.client(), "ready"
        with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
            # It is there already when the server was stopped, or when another try made it.
            client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        client.put_object(Bucket=bucket, Key="ready", Body=b"ready")
        return True


@contextlib.contextmanager
def ended(server: KafkaServer | S3Server) -> Iterator[None]:
    """Start a server, and stop it when the block is left."""
    server.start()
    try:
        yield
    finally:
        server.stop()


def wait_until(ready: Callable[[], bool], what: str, program: Program) -> None:
    """Wait until a program serves. Raises AssertionError with its last lines when it ends or takes too long."""
    deadline = time.monotonic() + _START_S
    trouble: Exception | None = None
    while time.monotonic() < deadline:
        if program.exit_code() is not None:
            raise AssertionError(f"{what} exited with {program.exit_code()}:\n{program.last_lines(30)}")
        try:
            if ready():
                return
        except Exception as error:
            trouble = error
        time.sleep(0.1)
    raise AssertionError(f"{what} did not serve within {_START_S} s ({trouble}):\n{program.last_lines(30)}")


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, and neither on the ones above each."""
    return _chosen_ports(count, beside=1)


def free_weed_ports() -> dict[str, int]:
    """A port for each part of SeaweedFS, which takes the port 10,000 above each for gRPC as well."""
    parts = ("master", "volume", "filer", "s3")
    return dict(zip(parts, _chosen_ports(len(parts), beside=10_000), strict=True))


def _chosen_ports(count: int, beside: int) -> list[int]:
    """Ports that are free as well as those `beside` above them.

    All are below those that systems give to connections (from 32,768 on Linux, 49,152 elsewhere), so that no connection
    takes one before the server that it is meant for.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000 - beside, 32_000 - beside, 2)
        taken = {place for each in ports for place in (each, each + beside)}
        if not taken & {port, port + beside} and _is_free(port) and _is_free(port + beside):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True

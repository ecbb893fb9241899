"""The nginx of examples/capture, started for tests on free ports, and requests to it at speed.

What belongs here: starting it with a chosen sampling, sending raw requests, rotating, reading the lines it has written.
Its stand-in plays the service; the test's folder holds everything.
"""

import json
import os
import random
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from perf_pipeline.lab.programs import Program, Programs
from tests.integration.servers import free_ports, wait_until

NGINX = Path(__file__).parents[2] / "examples/capture/nginx"
HOST = "127.0.0.1"
_PIPELINED = 100
_READ_S = 30


def need_nginx() -> None:
    """Skip, loudly, where there is no nginx."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not on PATH: the capture of a real nginx was NOT tested (apt-get install nginx-light)")


@dataclass(frozen=True)
class CaptureNginx:
    """A running nginx and where it logs."""

    port: int
    folder: Path
    program: Program

    @property
    def log(self) -> Path:
        """The capture log that it writes to now."""
        return self.folder / "captured" / "capture.log"

    def get(
        self, targets: Sequence[str | bytes], user: str | None = None, headers: str = "", method: str = "GET"
    ) -> None:
        """Send requests one behind the other on one connection, and read all answers."""
        authorization = f"Authorization: Bearer {user}\r\n" if user else ""
        head = f" HTTP/1.1\r\nHost: shop.test\r\n{authorization}{headers}\r\n".encode()
        requests = [
            method.encode() + b" " + (target if isinstance(target, bytes) else target.encode()) + head
            for target in targets
        ]
        self.send(requests)

    def send(self, requests: Sequence[bytes]) -> None:
        """Send raw requests and read an answer for each."""
        with (
            socket.create_connection((HOST, self.port), timeout=_READ_S) as connection,
            connection.makefile("rb") as answers,
        ):
            for start in range(0, len(requests), _PIPELINED):
                batch = requests[start : start + _PIPELINED]
                connection.sendall(b"".join(batch))
                for request in batch:
                    _read_answer(answers, request.startswith(b"HEAD"))

    def rotate(self) -> subprocess.CompletedProcess[str]:
        """Rotate the log as a newcomer would."""
        command = ["sh", str(NGINX / "rotate.sh"), str(self.log), str(self.folder / "nginx.pid")]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def reload(self) -> None:
        """Have new workers take over, as after a change of the configuration."""
        os.kill(self.program.pid, 1)

    def files(self) -> list[Path]:
        """The capture log and what it was handed over as."""
        return sorted(self.log.parent.iterdir())

    @property
    def handed_over(self) -> Path:
        """The pattern of the files that a shipper reads."""
        return self.log.with_name("capture-*.log")

    def lines(self) -> list[bytes]:
        """All lines in all files, in no order, once nginx has flushed them."""
        return [line for path in self.files() for line in path.read_bytes().splitlines(keepends=True)]

    def records(self) -> list[dict[str, str]]:
        """The same, read."""
        return [json.loads(line.decode("utf-8", "surrogateescape")) for line in self.lines()]

    def flushed(self) -> "CaptureNginx":
        """Wait until what is in the buffers of nginx is in the log (flush=1s)."""
        time.sleep(1.3)
        return self


@contextmanager
def capture_nginx(
    programs: Programs, folder: Path, by: str = "request", percent: str = "100%", share: str = "1", **changed: str
) -> Iterator[CaptureNginx]:
    """nginx with the configuration of examples/capture; `changed` replaces texts in nginx.conf, by their marks."""
    need_nginx()
    port, service = free_ports(2)
    for name in ("conf", "logs", "tmp", "captured"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path in NGINX.glob("*.conf"):
        text = path.read_text()
        text = text.replace("127.0.0.1:8080", f"{HOST}:{port}").replace("127.0.0.1:9000", f"{HOST}:{service}")
        text = text.replace("/var/log/nginx-capture", str(folder / "captured"))
        (folder / "conf" / path.name).write_text(text)
    edit(folder / "conf" / f"sampling-by-{by}.conf", {"1% 0.01;": f"{percent} {share};"})
    chosen = {"include sampling-by-request.conf;": f"include sampling-by-{by}.conf;"}
    # Two workers, so that lines of both meet in one file; connections that are not closed after 1000 requests.
    chosen |= {"worker_processes auto;": "worker_processes 2;" + ("\nuser root;" if os.getuid() == 0 else "")}
    chosen |= {"events {": "events { accept_mutex off;", "keepalive 64;": "keepalive 64; keepalive_requests 1000000;"}
    chosen |= {"proxy_http_version 1.1;": "proxy_http_version 1.1; keepalive_requests 1000000;"}
    edit(folder / "conf" / "nginx.conf", chosen | changed)
    command = ["nginx", "-p", f"{folder}/", "-e", "logs/error.log", "-c", str(folder / "conf/nginx.conf")]
    program = programs.start("nginx", command, os.environ, folder / "logs" / "printed.log", folder)
    wait_until(lambda: _accepts(port), f"nginx on port {port}", program)
    try:
        yield CaptureNginx(port, folder, program)
    finally:
        programs.end(program)


def edit(path: Path, texts: dict[str, str]) -> None:
    """Replace texts that each stand in a file."""
    content = path.read_text()
    for old, new in texts.items():
        assert old in content, f"{path} does not have {old!r}"
        content = content.replace(old, new)
    path.write_text(content)


def user_ids(count: int, seed: int) -> list[str]:
    """UUIDs that follow from the seed."""
    chance = random.Random(seed)
    return [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(count)]


def _read_answer(answers, to_head: bool) -> None:
    status = answers.readline()
    assert status.startswith(b"HTTP/1.1 "), status
    length = 0
    while (header := answers.readline()) not in (b"\r\n", b""):
        if header.lower().startswith(b"content-length:"):
            length = int(header.partition(b":")[2])
    if not to_head:
        answers.read(length)


def _accepts(port: int) -> bool:
    with socket.create_connection((HOST, port), timeout=1):
        return True

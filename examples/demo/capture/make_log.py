"""Make access.log.zst: a real nginx in front of the demo shop, and traffic from a seed.

    python examples/demo/capture/make_log.py [--requests 24000] [--seed 1] [--out FILE]

What belongs here: starting and stopping the programs, sending the traffic, and shipping the log as shippers do: some
lines twice, some broken. Everything runs on 127.0.0.1, is bounded, and is gone afterwards; the log is written whole.
The lines differ from run to run in times, request ids and order, not in what is asked for.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import jwt
import yarl
import zstandard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from odd_requests import odd_requests, send
from traffic import Ask, Traffic

HERE = Path(__file__).parent
SERVICE = HERE.parent / "service"
ISSUER, AUDIENCE = "shop-login", "shop"
CONNECTIONS = 24
LONGEST_S = 300
RESENT_LINES = 400


class Login:
    """Issues the tokens of the users; nothing of it is kept."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self._tokens: dict[tuple[str, str], str] = {}
        self._issued = 0

    def public_key_pem(self) -> str:
        """What the shop verifies tokens with."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def authorization(self, user: str, scope: str = "read write") -> str:
        """The header value of a user who is logged in."""
        if (user, scope) not in self._tokens:
            self._issued += 1
            claims = {
                "iss": ISSUER, "aud": AUDIENCE, "sub": user, "scope": scope, "exp": time.time() + 3600,
                "jti": str(self._issued),
            }  # fmt: skip
            self._tokens[user, scope] = jwt.encode(claims, self._key, algorithm="EdDSA")
        return f"Bearer {self._tokens[user, scope]}"

    def forget(self, user: str) -> None:
        """The user has logged out, and logs in again with the next request."""
        self._tokens.pop((user, "read write"), None)


class Programs:
    """nginx, the shop and its upstream on free ports, from a folder of their own."""

    def __init__(self, folder: Path, login: Login) -> None:
        self.folder = folder
        self.port, self._shop_port, self._upstream_port = _free_ports(3)
        self._login = login
        self._stack = contextlib.ExitStack()
        self._upstream: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Programs":
        for name in ("logs", "tmp"):
            (self.folder / name).mkdir()
        conf = (HERE / "nginx.conf").read_text()
        conf = conf.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        conf = conf.replace("127.0.0.1:9000", f"127.0.0.1:{self._shop_port}")
        (self.folder / "nginx.conf").write_text(conf)
        try:
            self._start_upstream()
            shop = [sys.executable, SERVICE / "shop.py", "--version", "1.0.0", "--port", str(self._shop_port)]
            settings = {
                "SHOP_UPSTREAM_URL": f"http://127.0.0.1:{self._upstream_port}", "SHOP_TOKEN_ISSUER": ISSUER,
                "SHOP_TOKEN_PUBLIC_KEY": self._login.public_key_pem(), "SHOP_TOKEN_AUDIENCE": AUDIENCE,
            }  # fmt: skip
            self._start("shop", shop, self._shop_port, settings)
            nginx = ["nginx", "-p", f"{self.folder}/", "-e", "logs/error.log", "-c", "nginx.conf"]
            self._start("nginx", nginx, self.port)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, name: str, command: list, port: int, settings: dict[str, str] | None = None) -> subprocess.Popen:
        output = self._stack.enter_context((self.folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(
            [str(word) for word in command], stdout=output, stderr=output, env={**os.environ, **(settings or {})}
        )
        self._stack.callback(_stop, process)
        for _ in range(200):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return process
            if process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"{name} does not answer:\n{(self.folder / f'{name}.log').read_text()[-2000:]}")

    def _start_upstream(self) -> None:
        command = [sys.executable, SERVICE / "upstream.py", "--port", str(self._upstream_port)]
        self._upstream = self._start("upstream", command, self._upstream_port)

    def restart_upstream(self) -> None:
        """What a deployment does to callers that do not retry: some requests fail."""
        if self._upstream:
            _stop(self._upstream)
        self._start_upstream()

    def log_lines(self) -> list[bytes]:
        """Stop everything; what nginx has logged."""
        self._stack.close()
        return (self.folder / "logs/access.json").read_bytes().splitlines(keepends=True)


def _stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


async def ask_all(asks: list[Ask], port: int, login: Login) -> None:
    """Send the requests over a few connections, each as soon as a connection is free."""
    waiting: Iterator[Ask] = iter(asks)
    etags: dict[tuple[str | None, str], str] = {}

    async def work(session: aiohttp.ClientSession) -> None:
        for ask in waiting:
            headers = {"Host": "shop.example.test", **ask.headers}
            if ask.user:
                headers["Authorization"] = login.authorization(ask.user, "read" if ask.read_only else "read write")
            if ask.revalidate and (etag := etags.get((ask.user, ask.target))):
                headers["If-None-Match"] = etag
            url = yarl.URL(f"http://127.0.0.1:{port}{ask.target}", encoded=True)
            async with session.request(
                ask.method, url, headers=headers, data=ask.body, skip_auto_headers=("Accept-Encoding",)
            ) as answer:
                await answer.read()
                if "ETag" in answer.headers:
                    etags[ask.user, ask.target] = answer.headers["ETag"]
            if ask.target == "/logout" and ask.user:
                login.forget(ask.user)

    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        await asyncio.wait_for(asyncio.gather(*(work(session) for _ in range(CONNECTIONS))), LONGEST_S)


def shipped(lines: list[bytes], seed: int) -> list[bytes]:
    """The lines as a shipper delivers them: copy and truncate sends some again, tears one and leaves a hole."""
    rnd = random.Random(seed)
    cut = len(lines) * 3 // 5  # where the rotation fell
    torn = lines[cut][: len(lines[cut]) // 2] + b"\n"
    hole = b"\0" * 300 + lines[cut + 1]
    resent = lines[max(cut - RESENT_LINES, 0) : cut]
    late = lines[cut + 2 : cut + 500]
    rnd.shuffle(late)
    return [*lines[:cut], torn, *resent, hole, b"\n", *late, *lines[cut + 500 :], lines[-1][:40]]


def main() -> None:
    """Make the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=24_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE / "access.log.zst")
    options = parser.parse_args()

    asks = Traffic(options.seed).asks(options.requests)
    login = Login()
    with tempfile.TemporaryDirectory(prefix="make-log-") as folder, Programs(Path(folder), login) as programs:
        third = len(asks) // 3
        asyncio.run(ask_all(asks[:third], programs.port, login))
        for request in odd_requests(login.authorization(next(ask.user for ask in asks if ask.user))):
            send(programs.port, request)
        asyncio.run(ask_all(asks[third : 2 * third], programs.port, login))
        asyncio.run(_with_restart(asks[2 * third :], programs, login))
        lines = shipped(programs.log_lines(), options.seed)
    data = b"".join(lines)
    partial = options.out.with_suffix(".partial")
    partial.write_bytes(zstandard.ZstdCompressor(level=19, write_checksum=True).compress(data))
    partial.replace(options.out)
    _summarise(lines, options.out)


async def _with_restart(asks: list[Ask], programs: Programs, login: Login) -> None:
    traffic = asyncio.create_task(ask_all(asks, programs.port, login))
    await asyncio.sleep(2)
    await asyncio.to_thread(programs.restart_upstream)
    await traffic


def _summarise(lines: list[bytes], out: Path) -> None:
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        try:
            record = json.loads(line.decode("utf-8", "surrogateescape"))
            counts[f"{record['m'] or '(none)'} {record['st']}"] += 1
        except ValueError:
            counts["broken"] += 1
    for what, count in counts.most_common():
        print(f"{count:7,}  {what}")
    print(f"{len(lines):,} lines, {out.stat().st_size:,} bytes, {out}")
    hours = sorted({int(time_s) // 3600 for time_s in re.findall(rb'"msec":"(\d{10})', b"".join(lines))})
    print("workload.hours:", ", ".join(time.strftime("%Y-%m-%d-%H:00", time.gmtime(3600 * hour)) for hour in hours))


if __name__ == "__main__":
    main()

"""How long it takes from `perf-pipeline ui` until the asset graph is served.

    .venv/bin/python bench/ui_time.py                 # a quarter of a minute; --rounds 3

`make ui` is the same command behind a check that .venv is there. Served is when GraphQL, which the page of the graph
asks, lists every asset; drawn is when a real Chromium, opened then, shows the graph with the last of its groups.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the bench is run as a file

from bench.chromium import PROGRAM, chromium

LAST_ASSET, LAST_GROUP = "release_history", "release"
PATIENCE_S = 120.0
PAUSE_S = 0.05
QUERY = json.dumps({"query": "{ assetNodes { assetKey { path } } }"}).encode()


@contextmanager
def started(command: list[str], environ: dict[str, str]) -> Iterator[None]:
    """A program and all that it starts, until the end of the block."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environ, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, there: Callable[[], bool]) -> None:
    """Ask until it is there."""
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} was not there after {PATIENCE_S:g} s")
        time.sleep(PAUSE_S)


def lists_the_assets(address: str) -> bool:
    """Whether GraphQL knows the last asset."""
    request = urllib.request.Request(f"{address}/graphql", QUERY, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return LAST_ASSET.encode() in answer.read()
    except (OSError, urllib.error.URLError):
        return False


def drawn_after(address: str, began: float) -> str:
    """When Chromium shows the graph, in words."""
    if PROGRAM is None:
        return "not drawn: Chromium is not installed"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, chromium(Path(profile)) as browser:
        browser.do("Page.navigate", url=f"{address}/asset-groups")
        wait_for("the graph", lambda: LAST_GROUP in (browser.value("document.body.innerText") or "").split())
        return f"drawn after {time.perf_counter() - began:.1f} s"


def main() -> int:
    """Start, wait, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended too
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            port = free_port()
            address = f"http://127.0.0.1:{port}"
            command = [str(Path(sys.executable).parent / "perf-pipeline"), "ui", "--port", str(port)]
            began = time.perf_counter()
            with started(command, os.environ | {"PERF_PIPELINE_HOME": folder}):
                wait_for("the UI", lambda at=address: lists_the_assets(at))  # type: ignore[misc]
                served_s = time.perf_counter() - began
                print(f"served after {served_s:.1f} s, {drawn_after(address, began)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

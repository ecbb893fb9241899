"""How long it takes from `perf-pipeline ui` to a loaded graph: served by Dagster, and shown by a browser.

    .venv/bin/python bench/ui_time.py                 # a quarter of a minute; --rounds 3

`make ui` is the same command behind a check that .venv is there. "Served" is when GraphQL lists every asset, "shown"
when headless Chromium has the last asset's name on the page of all groups; without Chromium only the first is measured.
"""

import argparse
import json
import os
import shutil
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

LAST_ASSET = "release_history"
PATIENCE_S = 120.0
PAUSE_S = 0.05
QUERY = json.dumps({"query": "{ assetNodes { assetKey { path } } }"}).encode()
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


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


def shown_after_s(address: str, folder: Path) -> float:
    """Seconds from asking a browser that runs already for the graph until the last asset's name is on the page."""
    import websocket

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
    with started([str(BROWSER), *flags, f"--user-data-dir={folder}", "about:blank"], dict(os.environ)):
        told = folder / "DevToolsActivePort"
        wait_for("the browser", lambda: told.is_file() and len(told.read_text().split()) == 2)
        with urllib.request.urlopen(f"http://127.0.0.1:{told.read_text().split()[0]}/json", timeout=10) as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        browser = websocket.create_connection(page["webSocketDebuggerUrl"], suppress_origin=True, timeout=60)

        def do(method: str, **parameters: object) -> dict:
            browser.send(json.dumps({"id": 1, "method": method, "params": parameters}))
            while (message := json.loads(browser.recv())).get("id") != 1:
                pass
            return message.get("result", {})

        began = time.perf_counter()
        do("Page.navigate", url=f"{address}/asset-groups")
        look = f"document.body !== null && document.body.innerText.includes('{LAST_ASSET}')"
        wait_for("the graph", lambda: do("Runtime.evaluate", expression=look).get("result", {}).get("value") is True)
        taken_s = time.perf_counter() - began
        browser.close()
    return taken_s


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
                shown = f", shown {shown_after_s(address, Path(folder) / 'browser'):.1f} s later" if BROWSER else ""
            print(f"served after {served_s:.1f} s{shown}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A Chromium that is driven through its DevTools protocol, for the tests of the report and for its figures.

What belongs here: starting and ending the browser, showing a page, and asking it. What is asked is where it is asked.
"""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]


class Browser:
    """One page of a Chromium that was started for it."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, suppress_origin=True, timeout=30)
        self._number = 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol. What happens until it comes is kept in `events`."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.do("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def show(self, address: str, width: int, height: int, *, dark: bool = False) -> None:
        """Open a page in a window of so many CSS pixels (a phone below 600), and wait until it has loaded."""
        self.events.clear()
        self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.do("Page.navigate", url="about:blank")
        self.do("Page.navigate", url=address)
        while not self.value(f"document.readyState === 'complete' && location.href === {json.dumps(address)}"):
            time.sleep(0.02)

    def messages(self) -> list[dict[str, Any]]:
        """What the page reported to the console, and every error."""
        loud = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [event for event in self.events if event.get("method") in loud]

    def close(self) -> None:
        """Let go of the page."""
        self._socket.close()


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A Chromium with its profile in an empty folder; it has ended when the context ends."""
    assert PROGRAM, "Chromium is not installed"
    process = subprocess.Popen(
        [PROGRAM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        found = profile / "DevToolsActivePort"
        deadline = time.monotonic() + 30
        while not (found.is_file() and len(found.read_text().split()) == 2):
            assert process.poll() is None, "Chromium ended at once"
            assert time.monotonic() < deadline, "Chromium did not open its DevTools port within 30 s"
            time.sleep(0.05)
        port = found.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=10) as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        opened = Browser(page["webSocketDebuggerUrl"])
        yield opened
        opened.close()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)

"""Notifications: delivering to a real local server is tried again, never raises and shows no secret."""

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from perf_pipeline import notify
from perf_pipeline.notify import deliver, links_of

SECRET = "T000/B000/very-secret"


class Webhook:
    """A server on this machine that answers posts with the given statuses, the last one for ever; or hangs up."""

    def __init__(self, *answers: tuple[int, dict[str, str]]) -> None:
        self.answers = list(answers)
        self.bodies: list[dict] = []
        self.slow_s = 0.0
        """How long it thinks about a message that it has read."""
        self.closing = threading.Event()

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The address while it serves."""
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                webhook.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                webhook.closing.wait(webhook.slow_s)
                if not webhook.answers:
                    self.close_connection = True
                    return
                status, headers = webhook.answers.pop(0) if len(webhook.answers) > 1 else webhook.answers[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/services/{SECRET}"
            finally:
                self.closing.set()
                server.shutdown()
                thread.join()


def test_only_places_that_are_known_are_linked() -> None:
    assert links_of("a__b", None, {"PERF_PIPELINE_DAGSTER_URL": "https://d.example"}) == ()
    assert links_of("", None, {"PERF_PIPELINE_REPORTS_URL": "https://r.example"}) == (), "a night has no report"


def test_links_are_made_of_the_places_that_the_environment_names() -> None:
    environ = {
        "PERF_PIPELINE_REPORTS_URL": "https://reports.example/",
        "PERF_PIPELINE_DAGSTER_URL": "https://dagster.example",
        "PERF_PIPELINE_STOP_URL": "https://stop.example/now",
    }
    assert links_of("1.0.0__1.1.0", "abc", environ) == (
        ("Report", "https://reports.example/1.0.0__1.1.0/report.html"),
        ("Dagster run", "https://dagster.example/runs/abc"),
        ("Stop page", "https://stop.example/now"),
    )


def test_a_message_arrives() -> None:
    webhook = Webhook((200, {}))
    with webhook.serving() as address:
        assert deliver(address, {"text": "hello"}).arrived
    assert webhook.bodies == [{"text": "hello"}]


def test_a_webhook_that_is_down_for_a_while_is_tried_again() -> None:
    webhook, pauses = Webhook((503, {}), (429, {"Retry-After": "7"}), (200, {})), []
    with webhook.serving() as address:
        assert deliver(address, {"text": "hello"}, pauses.append).arrived
    assert pauses == [1.0, 7.0]
    assert len(webhook.bodies) == 3


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (302, 1), (500, 5)])
def test_a_webhook_that_refuses_is_said_without_its_secret(
    status: int, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    webhook = Webhook((status, {"Location": "http://127.0.0.1:1/"} if status == 302 else {}))
    with caplog.at_level(logging.INFO), webhook.serving() as address:
        delivery = deliver(address, {"text": "hello"}, lambda _: None)
    assert not delivery.arrived
    assert f"127.0.0.1 answered {status}" in delivery.words
    assert len(webhook.bodies) == tries
    assert SECRET not in delivery.words + caplog.text


def test_no_webhook_there_is_said_without_its_secret(caplog: pytest.LogCaptureFixture) -> None:
    with Webhook((200, {})).serving() as address:
        pass
    pauses: list[float] = []
    with caplog.at_level(logging.INFO):
        delivery = deliver(address, {"text": "hello"}, pauses.append)
    assert delivery.words == "127.0.0.1 could not be reached (ConnectionError)"
    assert len(pauses) == 4
    assert SECRET not in caplog.text


def test_a_webhook_that_is_slow_gets_the_message_once() -> None:
    webhook = Webhook((200, {}))
    webhook.slow_s = 60
    with webhook.serving() as address:
        delivery = deliver(address, {"text": "hello"}, lambda _: None, budget_s=20, timeouts_s=(5, 2))
        assert webhook.bodies == [{"text": "hello"}]
    assert not delivery.arrived
    assert delivery.words == (
        "127.0.0.1 gave no answer within 2 s: the message may have arrived, and is not sent again"
    )
    assert len(webhook.bodies) == 1


def test_a_webhook_that_closes_without_an_answer_gets_the_message_once() -> None:
    webhook = Webhook()  # reads the message, and has no answer to send
    with webhook.serving() as address:
        delivery = deliver(address, {"text": "hello"}, lambda _: None)
    assert delivery.words == "127.0.0.1 gave no answer: the message may have arrived, and is not sent again"
    assert webhook.bodies == [{"text": "hello"}]


def test_a_handshake_that_is_not_answered_is_tried_again() -> None:
    pauses: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"https://127.0.0.1:{mute.getsockname()[1]}/{SECRET}"
        delivery = deliver(address, {"text": "hello"}, pauses.append, timeouts_s=(0.2, 0.2))
    assert delivery.words.startswith("127.0.0.1 could not be reached ("), "nothing was sent yet"
    assert len(pauses) == 4


@pytest.mark.parametrize(
    ("asked_for", "pauses"), [("30", [30.0]), ("31", [30.0]), ("5", [5.0, 5.0, 5.0, 8.0]), ("", [1.0, 2.0, 4.0, 8.0])]
)
def test_all_of_it_takes_no_longer_than_its_budget(
    asked_for: str, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    webhook = Webhook((503, {"Retry-After": asked_for}))
    with webhook.serving() as address:
        monkeypatch.setattr(notify, "time", SimpleNamespace(monotonic=lambda: now[0]))
        delivery = deliver(address, {"text": "hello"}, sleep)
    assert slept == pauses
    assert now[0] <= notify.BUDGET_S - 1
    assert "answered 503" in delivery.words


def test_a_try_that_no_time_is_left_for_is_not_made() -> None:
    webhook = Webhook((503, {"Retry-After": "30"}))
    with webhook.serving() as address:
        delivery = deliver(address, {"text": "hello"}, lambda _: pytest.fail("waits too long"), budget_s=20)
    assert len(webhook.bodies) == 1
    assert "answered 503" in delivery.words


def test_an_answer_that_comes_drop_by_drop_is_not_waited_for() -> None:
    got: list[bytes] = []

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            got.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n")
            for _ in range(600):
                time.sleep(0.1)
                try:
                    connection.sendall(b".")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        began_s = time.monotonic()
        assert deliver(f"http://127.0.0.1:{server.getsockname()[1]}/", {"text": "hello"}).arrived
        assert time.monotonic() - began_s < 45
        thread.join()
    assert b"Content-Length" in got[0]


@pytest.mark.parametrize("address", ["", "not an address", "ftp://127.0.0.1/x", "http://[1/very-secret"])
def test_an_address_that_is_none_is_said_and_tried_once(address: str) -> None:
    delivery = deliver(address, {}, lambda _: pytest.fail("there is no use in another try"))
    assert delivery.words == "PERF_PIPELINE_WEBHOOK is not an address that can be posted to"

"""Notifications: delivering to a real local server is tried again, never raises and shows no secret."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from perf_pipeline.notify import deliver, links_of

SECRET = "T000/B000/very-secret"


class Webhook:
    """A server on this machine that answers posts with the given statuses, the last one for ever."""

    def __init__(self, *answers: tuple[int, dict[str, str]]) -> None:
        self.answers = list(answers)
        self.bodies: list[dict] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The address while it serves."""
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                webhook.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
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
                server.shutdown()
                thread.join()


def test_only_places_that_are_known_are_linked() -> None:
    assert links_of("a__b", None, {"PERF_PIPELINE_DAGSTER_URL": "https://d.example"}) == ()


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


@pytest.mark.parametrize("address", ["", "not an address", "ftp://127.0.0.1/x", "http://[1/very-secret"])
def test_an_address_that_is_none_is_said_and_tried_once(address: str) -> None:
    delivery = deliver(address, {}, lambda _: pytest.fail("there is no use in another try"))
    assert delivery.words == "PERF_PIPELINE_WEBHOOK is not an address that can be posted to"

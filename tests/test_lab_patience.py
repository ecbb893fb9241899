"""A place that cannot be written for a while is waited for, and one that stays so is not waited for for ever."""

import logging
import signal
import threading
import time

import pytest

from perf_pipeline.errors import InputError, Problem, StoreAwayError
from perf_pipeline.lab import patience
from perf_pipeline.lab.patience import patiently


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_TRY_EVERY_S", 0)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(30, "Read-only file system"), "Read-only file system"),
        (StoreAwayError(Problem("s3://b/k", "no connection", "see that it runs")), "for the store: no connection"),
    ],
)
def test_what_works_again_is_done_once_and_the_wait_is_said_once(
    error: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [error] * 3
    done = []

    def write() -> str:
        if errors:
            raise errors.pop()
        done.append("written")
        return "answer"

    with caplog.at_level(logging.WARNING):
        assert patiently(write, "the store") == "answer"
    assert done == ["written"]
    (record,) = caplog.records
    assert "for the store" in record.message and said in record.message
    assert "\n" not in record.message, "the remedy is for when it does not pass"


@pytest.mark.parametrize("error", [OSError(28, "No space"), StoreAwayError(Problem("s3://b", "No connection"))])
def test_patience_ends(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.05)
    tries: list[float] = []

    def write() -> None:
        tries.append(time.monotonic())
        raise error

    with pytest.raises(type(error), match="No "):
        patiently(write, "the store")
    assert len(tries) > 1


@pytest.mark.parametrize("error", [ValueError(), InputError(Problem("s3://b", "the key is refused"))])
def test_a_defect_and_a_refusal_are_not_waited_for(error: Exception) -> None:
    tries: list[Exception] = []

    def write() -> None:
        tries.append(error)
        raise error

    with pytest.raises(type(error)):
        patiently(write, "the store")
    assert len(tries) == 1


def test_a_stop_ends_the_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_TRY_EVERY_S", 600)
    main = threading.main_thread()

    def write() -> None:
        stopper.start()
        raise StoreAwayError(Problem("s3://b", "no connection"))

    stopper = threading.Timer(0.3, lambda: signal.pthread_kill(main.ident or 0, signal.SIGINT))
    began_s = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            patiently(write, "the store")
    finally:
        stopper.cancel()
        stopper.join()
    assert time.monotonic() - began_s < 300

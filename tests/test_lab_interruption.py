"""Signals become exceptions at the right moment, in the main thread, and handlers are put back."""

import signal
import threading
from collections.abc import Iterator

import pytest

from perf_pipeline.lab.interruption import orderly_end, raise_if_abandoned, uninterrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    """As in a fresh process: a library that another test imported may have set its own."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_ended_becomes_an_exception_with_the_shells_exit_code(number: signal.Signals) -> None:
    before = handlers()
    with pytest.raises(SystemExit) as caught, orderly_end():
        signal.raise_signal(number)
        pytest.fail("the signal was swallowed")
    assert caught.value.code == 128 + number
    assert handlers() == before


def test_a_handler_of_somebody_else_stays_in_place() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    try:
        with orderly_end():
            signal.raise_signal(signal.SIGTERM)
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_waits_for_the_end_of_the_block_and_is_then_delivered_once() -> None:
    before = handlers()
    steps = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            steps.append("inner")
        steps.append("outer")
    assert steps == ["inner", "outer"]
    assert handlers() == before


def test_a_signal_is_delivered_after_an_exception_too() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, uninterrupted():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("first")
    assert isinstance(caught.value.__context__, ValueError)


def test_other_threads_change_nothing() -> None:
    before = handlers()
    during: list[list[object]] = []

    def work() -> None:
        with orderly_end(), uninterrupted():
            during.append(handlers())
        raise_if_abandoned()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert during == [before]


def test_a_thread_whose_main_thread_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = threading.Thread(target=lambda: None)
    gone.start()
    gone.join()
    monkeypatch.setattr(threading, "main_thread", lambda: gone)
    with pytest.raises(KeyboardInterrupt):
        raise_if_abandoned()

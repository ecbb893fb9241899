"""Being told to stop in the middle of a run: by Ctrl-C, SIGTERM or a terminal that closes.

What belongs here: turning signals into exceptions, so that `finally` blocks take everything down, and holding them back
while something must not be cut in half (a program that was started and not yet noted down, a teardown). Python lets
only the main thread handle signals; in any other thread these functions change nothing, and `raise_if_abandoned`
notices that the main thread has ended.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_HELD_BACK = (signal.SIGINT, *_ENDING)


@contextmanager
def orderly_end() -> Iterator[None]:
    """Within this block SIGTERM and SIGHUP raise SystemExit(128 + number) instead of ending the process at once.

    A handler that somebody else has set, such as an orchestrator's, is left in place: it knows what it wants. What was
    there before is there again at the end.
    """
    if not _in_main_thread():
        yield
        return
    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in ours:
            signal.signal(number, _leave)
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals back within this block and deliver them at its end. What stands in it is bounded in time."""
    if not _in_main_thread():
        yield
        return
    held: list[int] = []
    # None is a handler that Python did not set and could not put back.
    before = {number: signal.getsignal(number) for number in _HELD_BACK}
    before = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in before:
            signal.signal(number, lambda received, _frame: held.append(received))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for received in dict.fromkeys(held):
            signal.raise_signal(received)


def raise_if_abandoned() -> None:
    """Raise KeyboardInterrupt in a thread whose main thread has ended: nobody waits for the result any more."""
    if not threading.main_thread().is_alive():
        raise KeyboardInterrupt("the main thread has ended")


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()

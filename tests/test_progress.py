"""Progress: plain lines in a log, a bar on a terminal, and the items unchanged."""

import logging
import os
import pty

import pytest

from perf_pipeline.progress import TERMINAL_VARIABLE, track


def test_a_log_gets_a_line_an_item(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert list(track(["a", "b"], total=2, what="runs", label=str.upper)) == ["a", "b"]
    assert [record.getMessage() for record in caplog.records] == ["runs: 1 of 2 A", "runs: 2 of 2 B"]


def test_a_terminal_handed_on_by_its_descriptor_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = pty.openpty()
    monkeypatch.setenv(TERMINAL_VARIABLE, str(terminal))
    assert list(track(range(3), total=3, what="Measuring runs")) == [0, 1, 2]
    os.close(terminal)
    drawn = _everything_on(controller)
    assert "Measuring runs" in drawn and "3/3" in drawn


def _everything_on(controller: int) -> str:
    """What was written to the terminal: a refresh may have cut it into several pieces."""
    with os.fdopen(controller, "rb", buffering=0) as screen:
        pieces = []
        try:
            while piece := screen.read(65536):
                pieces.append(piece)
        except OSError:  # how Linux says that the other end was closed
            pass
    return b"".join(pieces).decode()

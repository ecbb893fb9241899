"""Progress: plain lines in a log, a bar on a terminal, and the items unchanged."""

import logging
import os
import pty
from pathlib import Path

import pytest

from perf_pipeline.progress import TERMINAL_VARIABLE, told_to_the_user, track


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


def test_what_is_logged_reaches_a_file_that_the_command_line_was_given(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file, told_to_the_user({TERMINAL_VARIABLE: str(file.fileno())}):
        logging.getLogger("perf_pipeline.anything").info("Measuring: %d of %d", 1, 20)
    logging.getLogger("perf_pipeline.anything").info("later")
    assert (tmp_path / "log").read_text() == "Measuring: 1 of 20\n"

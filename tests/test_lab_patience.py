"""A place that cannot be written for a while is waited for, and one that stays so is not waited for for ever."""

import logging

import pytest

from perf_pipeline.lab import patience
from perf_pipeline.lab.patience import patiently


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_TRY_EVERY_S", 0)


def test_what_works_again_is_done_once_and_the_wait_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    errors = [OSError(30, "Read-only file system")] * 3
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
    assert "for the store" in record.message and "Read-only file system" in record.message


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.05)

    def write() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        patiently(write, "the store")


def test_a_defect_is_not_waited_for() -> None:
    def write() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        patiently(write, "the store")

"""One campaign at a time: the second one waits, and says for whom."""

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.lab.lock import one_campaign_at_a_time


def test_a_second_campaign_is_told_who_measures(tmp_path: Path) -> None:
    with one_campaign_at_a_time("1.0__1.1", folder=tmp_path):
        refused = pytest.raises(InputError, match=r"is measuring: the campaign of 1.0__1.1 \(process \d+\)")
        with refused, one_campaign_at_a_time("1.0__1.2", patience_s=0, folder=tmp_path):
            pytest.fail("two at once")
    with one_campaign_at_a_time("1.0__1.2", patience_s=0, folder=tmp_path):
        pass


def until(condition: Callable[[], bool]) -> bool:
    while not condition():
        time.sleep(0.01)
    return True


def test_a_second_campaign_waits_for_the_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    order = []
    holding, release = threading.Event(), threading.Event()

    def first() -> None:
        with one_campaign_at_a_time("1.0__1.1", folder=tmp_path):
            holding.set()
            release.wait()
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    holding.wait()
    waiting = threading.Thread(target=lambda: until(lambda: bool(caplog.records)) and release.set())
    waiting.start()
    with caplog.at_level(logging.WARNING), one_campaign_at_a_time("1.0__1.2", folder=tmp_path):
        order.append("second")
    thread.join()
    waiting.join()
    assert order == ["first", "second"]
    assert [record.message for record in caplog.records] == [
        next(
            record.message
            for record in caplog.records
            if record.message.startswith("Waiting, up to ") and "for the campaign of 1.0__1.1" in record.message
        )
    ]


def test_a_holder_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, os; from pathlib import Path; from perf_pipeline.lab.lock import one_campaign_at_a_time\n"
        "with one_campaign_at_a_time('x', folder=Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code, tmp_path], env={"PYTHONPATH": ":".join(sys.path)}).returncode == -9
    )
    with one_campaign_at_a_time("y", patience_s=0, folder=tmp_path):
        pass


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    with one_campaign_at_a_time("x", folder=tmp_path):
        pass
    (lock,) = tmp_path.iterdir()
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), one_campaign_at_a_time("x", folder=tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()

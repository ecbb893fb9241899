"""A process is told from a later one with its id, whatever is done to the clock meanwhile."""

import subprocess
import sys

import psutil
import pytest

from perf_pipeline.process_start import process_start, runs_since


def test_a_process_runs_since_its_start_until_its_end() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = process_start(process.pid)
    assert runs_since(process.pid, start)
    assert not {" ", "-"} & set(start)
    process.communicate(b"\n")
    assert not runs_since(process.pid, start)


def test_another_start_is_another_process() -> None:
    process = psutil.Process()
    for start in ("t1", "", "1", f"{process.create_time() - 3600:.0f}"):
        assert not runs_since(process.pid, start)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a start is told by the clock alone")
def test_setting_the_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    process = psutil.Process()
    start = process_start(process.pid)
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: 1.0)
    assert runs_since(process.pid, start)


def test_where_only_the_clock_tells_it_may_be_set_by_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    process = psutil.Process()
    started_s = process.create_time()
    assert runs_since(process.pid, f"{started_s + 20:.0f}")
    assert not runs_since(process.pid, f"{started_s + 200:.0f}")


def test_a_process_that_is_not_there_is_said() -> None:
    with pytest.raises(psutil.NoSuchProcess):
        process_start(2**22 + 1)

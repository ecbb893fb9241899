"""What a killed process left half-written is removed; what is being written, here or elsewhere, never is."""

import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from perf_pipeline import half_written
from perf_pipeline.half_written import is_partial, new_partial, remove_partials_of_the_dead
from perf_pipeline.storage import LocalObjectStore, remove_abandoned

WRITER = """
import os, signal, sys
from pathlib import Path
from perf_pipeline.storage import LocalObjectStore, working_folder
store = LocalObjectStore(Path(sys.argv[1]))
with working_folder(store, "name-of-two-words") as folder:
    (folder / "k6.csv").write_text("x")
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    store.put("runs/c/object", b"x")
"""


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    store = LocalObjectStore(tmp_path)
    store.put("runs/c/whole", b"x")
    done = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], check=False)
    assert done.returncode == -9
    left = set(tmp_path.rglob(".partial-*"))
    assert {path.parent for path in left} == {tmp_path, tmp_path / "runs/c"}, "a folder and a file"
    assert set(remove_abandoned(store)) == left
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "runs/c/whole"]
    assert not list(tmp_path.rglob(".partial-*"))


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    host = socket.gethostname()
    process = psutil.Process()
    started_s = int(process.create_time())
    mine = new_partial(tmp_path)
    others = [f".partial-1-1-not-{host}-abc", ".partial-abc", f".partial-x-1-{host}-abc", "partial"]
    for name in [*others, f".partial-{process.pid}-{started_s + 5}-{host}-abc"]:
        (tmp_path / name).mkdir()
    reused_pid = tmp_path / f".partial-{process.pid}-{started_s - 3600}-{host}-abc"
    reused_pid.write_text("a file")
    assert remove_partials_of_the_dead(tmp_path) == [reused_pid]
    assert mine.is_dir() and len(list(tmp_path.iterdir())) == 6


def test_a_process_that_may_not_be_looked_at_is_taken_to_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = new_partial(tmp_path)

    def refuse(_pid: int) -> psutil.Process:
        raise psutil.AccessDenied

    monkeypatch.setattr(half_written.psutil, "Process", refuse)
    assert remove_partials_of_the_dead(tmp_path) == []
    assert mine.is_dir()


def test_what_lies_in_something_half_written_is_half_written(tmp_path: Path) -> None:
    assert is_partial(new_partial(tmp_path) / "logs" / "k6.log")
    assert not is_partial(Path("runs/c/partial-1/run.json"))

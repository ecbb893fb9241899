"""Programs end, with all that they have started: on return, on an exception, when stubborn, when the lab is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.lab.dead_mans_switch import watch
from perf_pipeline.lab.programs import Programs, programs

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], stdout=subprocess.DEVNULL)
alone = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], stdout=subprocess.DEVNULL, start_new_session=True)
print(child.pid, alone.pid, flush=True)
time.sleep(60)
"""


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def start(running: Programs, tmp_path: Path, code: str = SLEEPER, name: str = "one"):
    program = running.start(name, [sys.executable, "-c", code], {"PATH": "/bin"}, tmp_path / f"{name}.log")
    assert until(lambda: program.last_lines() != "")
    return program


def test_everything_ends_with_the_block(tmp_path: Path) -> None:
    with programs() as running:
        first, second = start(running, tmp_path), start(running, tmp_path, name="two")
        assert first.exit_code() is None
        assert os.getsid(first.pid) == first.pid
    assert first.exit_code() == second.exit_code() == -signal.SIGTERM


def test_everything_ends_when_something_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), programs() as running:
        program = start(running, tmp_path)
        raise ZeroDivisionError
    assert program.exit_code() == -signal.SIGTERM


def test_what_programs_have_started_ends_too_even_when_stubborn(tmp_path: Path) -> None:
    with programs() as running:
        parent = start(running, tmp_path, PARENT)
        child, alone = (int(word) for word in parent.last_lines(1).split())
        assert not gone(child)
        running.end(parent, grace_s=0.2)
        assert until(lambda: gone(child) and gone(alone))


def test_a_stubborn_program_is_killed_after_its_grace(tmp_path: Path) -> None:
    with programs() as running:
        program = start(running, tmp_path, STUBBORN)
        began = time.monotonic()
        running.end(program, grace_s=0.2)
        assert program.exit_code() == -signal.SIGKILL
        assert time.monotonic() - began < 20


def test_a_program_gets_exactly_its_variables_and_no_input(tmp_path: Path) -> None:
    code = "import os, sys; print(sorted(os.environ), repr(sys.stdin.read()))"
    with programs() as running:
        program = running.start("env", [sys.executable, "-c", code], {"ONLY": "1"}, tmp_path / "log")
        assert until(lambda: program.exit_code() == 0)
    names = program.last_lines().replace(", 'LC_CTYPE'", "").replace("'LC_CTYPE', ", "")
    assert names == "['ONLY'] ''"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with programs() as running, pytest.raises(InputError, match="plan: command: /no/such/program cannot be started"):
        running.start("plan: command", ["/no/such/program"], {}, tmp_path / "log")


def test_the_last_lines_are_the_last_ones(tmp_path: Path) -> None:
    with programs() as running:
        program = running.start(
            "talker", [sys.executable, "-c", "for i in range(5000): print(i)"], {}, tmp_path / "log"
        )
        assert until(lambda: program.exit_code() == 0)
        assert program.last_lines(3) == "4997\n4998\n4999"
        (tmp_path / "log").unlink()
        assert program.last_lines() == ""


LAB = """
import sys, time
from pathlib import Path
from perf_pipeline.lab.programs import programs
with programs() as running:
    folder = Path(sys.argv[1]) / 'private'
    folder.mkdir()
    running.remove_if_abandoned(folder)
    program = running.start('one', [sys.executable, '-c', sys.argv[2]], {}, Path(sys.argv[1]) / 'log')
    ended = running.start('two', [sys.executable, '-c', 'pass'], {}, Path(sys.argv[1]) / 'log2')
    running.end(ended)
    while not program.last_lines():
        time.sleep(0.01)
    print(program.pid, flush=True)
    time.sleep(60)
"""


def test_when_the_lab_is_killed_its_programs_and_private_folders_go_with_it(tmp_path: Path) -> None:
    lab = subprocess.Popen(
        [sys.executable, "-c", LAB, str(tmp_path), STUBBORN], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert lab.stdout is not None
    with lab, lab.stdout:
        pid = int(lab.stdout.readline())
        assert not gone(pid)
        lab.kill()
    assert until(lambda: gone(pid))
    assert until(lambda: not (tmp_path / "private").exists())


def test_the_switch_leaves_alone_what_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: killed.append((group, number)))
    folder = tmp_path / "with space"
    folder.mkdir()
    watch([f"folder {folder}\n", "group 101\n", "group 102\n", "ended 101\n", "nonsense\n"])
    assert killed == [(102, signal.SIGKILL)]
    assert not folder.exists()

"""The clock of the machine: set during a run it is noticed, corrected slowly or read late it is not."""

import time
from collections.abc import Iterator

import pytest

from perf_pipeline.lab.clock import STEP_S, ClockWatch


class Machine:
    """A machine whose clock and time are turned by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s, self.set_by_s = 100.0, 0.0
        self.waits_s: Iterator[float] = iter(())
        monkeypatch.setattr(time, "monotonic", lambda: self.passed_s)
        monkeypatch.setattr(time, "time", self.clock)

    def clock(self) -> float:
        self.passed_s += next(self.waits_s, 0.0)
        return 1_796_000_000 + self.passed_s + self.set_by_s


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 0.5, -0.5])
def test_a_clock_that_is_set_is_noticed_once(machine: Machine, step_s: float) -> None:
    watch = ClockWatch()
    machine.passed_s += 5
    assert watch.step_s() is None
    machine.set_by_s += step_s
    assert watch.step_s() == pytest.approx(step_s, abs=1e-3)
    assert watch.step_s() is None


def test_slow_corrections_are_none(machine: Machine) -> None:
    watch = ClockWatch()
    for _ in range(1000):
        machine.passed_s += 1
        machine.set_by_s += STEP_S / 100
        assert watch.step_s() is None


def test_a_process_that_is_kept_waiting_while_it_reads_sees_no_step(machine: Machine) -> None:
    watch = ClockWatch()
    machine.waits_s = iter([1.0] * 3)
    assert watch.step_s() is None, "the fourth reading was quick"
    machine.waits_s = iter([1.0] * 5)
    assert watch.step_s() is None, "none was"
    machine.set_by_s += 7
    machine.waits_s = iter([1.0] * 5)
    assert watch.step_s() is None
    assert watch.step_s() == pytest.approx(7), "what could not be told then is told later"

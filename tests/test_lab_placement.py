"""CPUs: the service shares none, and every thread gets back what it had."""

import os
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.lab.placement import Placement, _parse_ranges, _ranges, divide_cpus, lab_on, pinned, usable_cores

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins")


def cores(count: int) -> list[frozenset[int]]:
    return [frozenset({2 * number, 2 * number + 1}) for number in range(count)]


def test_two_cores_leave_one_to_the_service_alone() -> None:
    assert divide_cpus([frozenset({0}), frozenset({1})]) == Placement(
        service=frozenset({1}), upstream=frozenset({0}), load=frozenset({0})
    )


@settings(deadline=None)
@given(st.integers(2, 64))
def test_the_service_shares_no_core_and_gets_the_most(count: int) -> None:
    placement = divide_cpus(cores(count))
    assert placement.service and placement.upstream and placement.load
    assert not placement.service & (placement.upstream | placement.load)
    assert placement.service | placement.upstream | placement.load == frozenset(range(2 * count))
    if count > 2:
        assert not placement.upstream & placement.load
    assert len(placement.service) >= len(placement.load)


@pytest.mark.parametrize("count", [0, 1])
def test_one_core_cannot_be_divided(count: int) -> None:
    assert str(divide_cpus(cores(count))) == "not pinned"


def test_a_placement_says_which_cpus() -> None:
    assert str(divide_cpus(cores(8))) == "service 8-15, upstream 4-7, load 0-3"


@settings(deadline=None)
@given(st.frozensets(st.integers(0, 40), min_size=1))
def test_lists_of_cpus_read_back(cpus: frozenset[int]) -> None:
    assert _parse_ranges(_ranges(cpus)) == cpus


@pytest.fixture
def last_cpu() -> Iterator[frozenset[int]]:
    before = os.sched_getaffinity(0)
    yield frozenset({max(before)})
    assert os.sched_getaffinity(0) == before


@linux
def test_a_thread_is_pinned_for_the_block_only(last_cpu: frozenset[int]) -> None:
    before = os.sched_getaffinity(0)
    with pinned(last_cpu):
        assert os.sched_getaffinity(0) == last_cpu
    with pytest.raises(RuntimeError), pinned(last_cpu):
        raise RuntimeError
    with pinned(None):
        assert os.sched_getaffinity(0) == before


@linux
def test_every_thread_of_the_lab_moves_and_moves_back(last_cpu: frozenset[int]) -> None:
    before = os.sched_getaffinity(0)
    stop = threading.Event()
    old, new = threading.Thread(target=stop.wait), threading.Thread(target=stop.wait)
    old.start()
    try:
        with lab_on(last_cpu):
            new.start()
            assert os.sched_getaffinity(0) == last_cpu
            assert all(os.sched_getaffinity(thread.native_id or 0) == last_cpu for thread in (old, new))
        assert all(os.sched_getaffinity(thread.native_id or 0) == before for thread in (old, new))
    finally:
        stop.set()
        old.join()
        new.join()


@linux
def test_usable_cores_are_those_of_this_process(last_cpu: frozenset[int]) -> None:
    assert frozenset().union(*usable_cores()) == os.sched_getaffinity(0)
    with pinned(last_cpu):
        assert usable_cores() == [last_cpu]


def test_without_pinning_nothing_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perf_pipeline.lab.placement._CAN_PIN", False)
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert divide_cpus(usable_cores()) == Placement()
    with lab_on(frozenset({0})), pinned(frozenset({0})):
        pass

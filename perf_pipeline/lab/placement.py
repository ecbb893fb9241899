"""Which CPUs the programs of a run use: the tools that measure never share one with what is measured.

What belongs here: dividing the CPUs that this process may use among the service, its upstream and the load (k6, the
scrapes, the lab itself), and pinning. Linux can pin (`sched_setaffinity`); macOS cannot, and there the system places
programs as it likes.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Cpus: TypeAlias = frozenset[int] | None
"""CPU numbers, or None where nothing is pinned."""

_CAN_PIN = sys.platform == "linux"


@dataclass(frozen=True)
class Placement:
    """The CPUs of each part of a run."""

    service: Cpus = None
    upstream: Cpus = None
    load: Cpus = None

    def __str__(self) -> str:
        """The placement in words, as part of the environment's identity."""
        if self.service is None:
            return "not pinned"
        parts = (("service", self.service), ("upstream", self.upstream), ("load", self.load))
        return ", ".join(f"{name} {_ranges(cpus)}" for name, cpus in parts if cpus is not None)


def divide_cpus(cores: list[frozenset[int]]) -> Placement:
    """Divide cores, each the set of its CPUs, so that the service shares none.

    One core cannot be divided. With two, the load and the upstream share one: an upstream that mostly waits disturbs k6
    less than the service. With more, load and upstream get a quarter each, at least one, and the service the rest: the
    ones with the highest numbers, because the first one serves most interrupts.
    """
    if len(cores) < 2:
        return Placement()
    share = max(1, len(cores) // 4)
    load, upstream = cores[:share], cores[share : 2 * share]
    service = cores[2 * share :]
    if len(cores) == 2:
        load, upstream, service = cores[:1], cores[:1], cores[1:]
    return Placement(service=_joined(service), upstream=_joined(upstream), load=_joined(load))


def usable_cores() -> list[frozenset[int]]:
    """The cores that this process may use, each as the set of its CPUs; empty where programs cannot be pinned.

    CPUs that share a core (hyper-threads) share its caches and its clock, so they are never divided, unless there is
    one core only.
    """
    if not _CAN_PIN:
        return []
    allowed = os.sched_getaffinity(0)
    cores = sorted({frozenset(_siblings(cpu) & allowed) for cpu in allowed}, key=min)
    return cores if len(cores) > 1 else [frozenset({cpu}) for cpu in sorted(allowed)]


@contextmanager
def pinned(cpus: Cpus) -> Iterator[None]:
    """Let this thread, and what it starts in this block, use only these CPUs.

    A program that is started inherits them, so it never runs elsewhere, not even at its start.
    """
    if cpus is None or not _CAN_PIN:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def lab_on(cpus: Cpus) -> Iterator[None]:
    """Keep every thread of this process on these CPUs within the block; afterwards each may use again what it could."""
    if cpus is None or not _CAN_PIN:
        yield
        return
    before = {thread: os.sched_getaffinity(thread) for thread in _threads()}
    own = os.sched_getaffinity(0)
    try:
        for thread in before:
            _set_affinity(thread, cpus)
        yield
    finally:
        # A thread that began meanwhile inherited the narrow set from the one that started it.
        for thread in _threads():
            _set_affinity(thread, before.get(thread, own))


def _set_affinity(thread: int, cpus: frozenset[int] | set[int]) -> None:
    with suppress(ProcessLookupError):
        os.sched_setaffinity(thread, cpus)


def _threads() -> list[int]:
    return [int(task.name) for task in Path("/proc/self/task").iterdir()]


def _siblings(cpu: int) -> set[int]:
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return _parse_ranges(path.read_text())
    except (OSError, ValueError):
        return {cpu}


def _parse_ranges(text: str) -> set[int]:
    """CPU numbers of a list such as 0-3,8."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _ranges(cpus: frozenset[int]) -> str:
    """CPU numbers as a list such as 0-3,8."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _joined(cores: list[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*cores)

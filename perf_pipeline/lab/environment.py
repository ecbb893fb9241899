"""Where runs happen: the protocol that every environment follows.

What belongs here: what a run needs of its environment, whatever it is made of. Processes on this machine are in
`local`. An environment is started fresh for each run and taken down whatever happens; what it says about itself is the
same for both versions, or their runs must not be compared.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perf_pipeline.plan import ScenarioSection
from perf_pipeline.plan_metrics import Process


@dataclass(frozen=True)
class Endpoint:
    """A program of the environment that serves, and where."""

    name: Process
    url: str
    """Base URL, without a slash at the end."""
    metrics_url: str | None
    """Its Prometheus text page; None when it has none."""
    pid: int | None
    """Its process, where that is on this machine."""


class Load(Protocol):
    """The load generator of a run."""

    @property
    def pid(self) -> int | None:
        """Its process, where that is on this machine."""

    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""

    def last_lines(self, count: int = 10) -> str:
        """The last lines that it printed."""


class Started(Protocol):
    """An environment that is ready to be loaded."""

    @property
    def service(self) -> Endpoint:
        """The service under test."""

    @property
    def upstream(self) -> Endpoint | None:
        """What stands behind it."""

    @property
    def load_cpus(self) -> int | None:
        """Number of CPUs that the load generator may use; None when that is not fixed."""

    def start_load(self, command: Sequence[str], variables: Mapping[str, str], log: Path) -> Load:
        """Start the load generator where it does not disturb the service."""

    def end_load(self, load: Load) -> None:
        """Stop the load generator now."""

    def remove_if_abandoned(self, folder: Path) -> None:
        """Have a folder removed if this process is killed before it can do so itself."""

    def failure(self) -> str | None:
        """Why the environment can serve no more, with the last lines of what has ended; None while it can."""


class Environment(Protocol):
    """Something that can be started for a version in a scenario."""

    def identity(self) -> dict[str, str]:
        """What must be equal for runs to be comparable: machine, system, CPUs, upstream; nothing of a version."""

    def service_parts(self, version: str, scenario: ScenarioSection) -> Mapping[str, str]:
        """What the service of a version is made of: what each part holds, or its hash, by the part's name."""

    def service_digest(self, version: str, scenario: ScenarioSection) -> str:
        """The same as one hash: equal for all its runs, or it was changed in between."""

    def started(self, version: str, scenario: ScenarioSection, logs: Path) -> AbstractContextManager[Started]:
        """A fresh environment, ready to be loaded; taken down when the block is left.

        `logs` gets what each program prints. Raises InputError when a program cannot be started or never becomes ready.
        """

"""The local lab: service and upstream as fresh processes on this machine.

What belongs here: ports, placeholders of the plan's commands, readiness and CPU sets. Starting and ending processes is
in `programs`, dividing the CPUs in `placement`.

A program sees the environment variables of its plan section, those of `_KEPT_VARIABLES`, and no others: what the shell
that started the lab happens to hold is not part of a measurement, and the key that signs tokens is nobody else's.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.lab.environment import Endpoint, Load
from perf_pipeline.lab.interruption import raise_if_abandoned
from perf_pipeline.lab.machine import machine_identity
from perf_pipeline.lab.placement import Cpus, Placement, divide_cpus, usable_cores
from perf_pipeline.lab.programs import Program, Programs, programs
from perf_pipeline.plan import Plan, ProcessSection, ScenarioSection
from perf_pipeline.plan_metrics import Process

HOST = "127.0.0.1"
_PROBE_EVERY_S = 0.03
_PROBE_TIMEOUT_S = 1.0
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "JAVA_HOME",
                   "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")  # fmt: skip


class LocalEnvironment:
    """The environment of a plan as processes of this machine. Follows the protocol `Environment`."""

    def __init__(self, plan: Plan, public_key: str, placement: Placement | None = None) -> None:
        """`public_key` is the PEM text that verifies tokens; the CPUs are divided once, as they are usable now."""
        self._plan = plan
        self._public_key = public_key
        self.placement = placement or divide_cpus(usable_cores())

    def identity(self) -> dict[str, str]:
        """Machine, system, CPU sets and a digest of the upstream."""
        upstream = self._plan.environment.upstream
        digest = {"upstream": _digest(_parts(upstream, self._plan.folder, "", {}))} if upstream else {}
        return machine_identity() | {"cpus": str(self.placement)} | digest

    def service_parts(self, version: str, scenario: ScenarioSection) -> Mapping[str, str]:
        """The service's command and variables (placeholders of the run left open), program and source files.

        Source files are those that a word of the command names below the plan's folder, each with all files of its own
        folder, unless that is the plan's, where much else may lie.
        """
        return _parts(self._plan.environment.service, self._plan.folder, version, scenario.env)

    def service_digest(self, version: str, scenario: ScenarioSection) -> str:
        """Hash of these parts (16 hex digits)."""
        return _digest(self.service_parts(version, scenario))

    @contextmanager
    def started(self, version: str, scenario: ScenarioSection, logs: Path) -> "Iterator[StartedLocally]":
        """Upstream and service, started in this order, each ready. Taken down when the block is left.

        Raises InputError when a port is in use, a program cannot be started, or one never becomes ready.
        """
        sections = self._plan.environment
        with programs() as running:
            upstream = None
            values = {"version": version, "upstream_url": "", "token_public_key": self._public_key}
            if sections.upstream:
                upstream = self._start(
                    running, "upstream", sections.upstream, values, {}, logs, self.placement.upstream
                )
                values["upstream_url"] = upstream[1].url
            service = self._start(
                running, "service", sections.service, values, scenario.env, logs, self.placement.service
            )
            yield StartedLocally(running, self.placement, service, upstream)

    def _start(
        self,
        running: Programs,
        name: Process,
        section: ProcessSection,
        values: Mapping[str, str],
        scenario_env: Mapping[str, str],
        logs: Path,
        cpus: Cpus,
    ) -> tuple[Program, Endpoint]:
        """Start one program and wait until it is ready."""
        where = f"{self._plan.name}: environment.{name}"
        port = _port(section, where)
        filled = {**values, "port": str(port), "python": sys.executable, "plan_dir": str(self._plan.folder)}
        command = [_fill(word, filled) for word in section.command]
        variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        variables |= {name: _fill(text, filled) for name, text in (section.env | dict(scenario_env)).items()}
        program = running.start(
            f"{where}.command", command, variables, logs / f"{name}.log", folder=self._plan.folder, cpus=cpus
        )
        url = f"http://{HOST}:{port}"
        _wait_until_ready(program, url + section.ready, section.ready_timeout_s, where)
        metrics_url = url + section.metrics if section.metrics else None
        return program, Endpoint(name, url, metrics_url, program.pid)


@dataclass(frozen=True)
class StartedLocally:
    """Processes of this machine that are ready to be loaded. Follows the protocol `Started`."""

    _programs: Programs
    _placement: Placement
    _service: tuple[Program, Endpoint]
    _upstream: tuple[Program, Endpoint] | None

    @property
    def service(self) -> Endpoint:
        """The service under test."""
        return self._service[1]

    @property
    def upstream(self) -> Endpoint | None:
        """What stands behind it."""
        return self._upstream[1] if self._upstream else None

    @property
    def load_cpus(self) -> int | None:
        """Number of CPUs that the load generator may use; None when nothing is pinned."""
        return len(self._placement.load) if self._placement.load else None

    def start_load(self, command: Sequence[str], variables: Mapping[str, str], log: Path) -> Load:
        """Start the load generator on the CPUs that are the load's."""
        return self._programs.start("k6", command, variables, log, cpus=self._placement.load)

    def end_load(self, load: Load) -> None:
        """Stop the load generator now."""
        if isinstance(load, Program):
            self._programs.end(load)

    def remove_if_abandoned(self, folder: Path) -> None:
        """Have a folder removed if this process is killed before it can do so itself."""
        self._programs.remove_if_abandoned(folder)

    def failure(self) -> str | None:
        """Which program has ended, how, and its last lines; None while all run."""
        for program, endpoint in filter(None, (self._service, self._upstream)):
            if (code := program.exit_code()) is not None:
                lines = program.last_lines(5)
                how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                return f"the {endpoint.name} ended {how}" + (f"; its last lines:\n{lines}" if lines else "")
        return None


def _port(section: ProcessSection, where: str) -> int:
    """The port that a program is to listen on: the plan's, or one that is free now.

    Raises InputError when it is in use, or when the program is never told it.
    """
    told = any("{port}" in text for text in (*section.command, *section.env.values()))
    if section.port is None and not told:
        remedy = "put {port} into the command or its env, or name the port that it listens on as `port`"
        raise InputError(Problem(where, "does not say which port the program listens on", remedy))
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still being closed is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, section.port or 0))
        except OSError as error:
            remedy = f"stop what listens on port {section.port}, or put {{port}} into the command and leave `port` out"
            raise InputError(Problem(f"{where}.port", f"port {section.port} is in use", remedy)) from error
        return int(probe.getsockname()[1])


def _wait_until_ready(program: Program, url: str, timeout_s: float, where: str) -> None:
    """Probe until the answer is 200. Raises InputError with the last log lines when the program ends or time is up."""
    deadline = time.monotonic() + timeout_s
    last = "no answer"
    with requests.Session() as session:
        # A proxy of the user's has no part in this.
        session.trust_env = False
        while time.monotonic() < deadline:
            raise_if_abandoned()
            if (code := program.exit_code()) is not None:
                what = f"ended with exit code {code} before it was ready"
                raise InputError(_not_ready(program, where, what))
            try:
                status = session.get(url, timeout=_PROBE_TIMEOUT_S, allow_redirects=False).status_code
            except requests.RequestException as error:
                last = f"no answer ({type(error).__name__})"
            else:
                # Somebody else's program could have taken the port; ours would have ended then.
                if status == 200 and program.exit_code() is None:
                    return
                last = f"status {status}"
            time.sleep(_PROBE_EVERY_S)
    raise InputError(_not_ready(program, where, f"did not become ready within {timeout_s:g} s: {url} gave {last}"))


def _not_ready(program: Program, where: str, what: str) -> Problem:
    lines = program.last_lines()
    shown = "; its last lines:\n" + "\n".join(f"    | {line}" for line in lines.splitlines()) if lines else ""
    remedy = "mend the command, its env, `ready` or `ready_timeout_s`" + ("" if lines else "; it printed nothing")
    return Problem(where, what + shown, remedy)


def _fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders replaced; the plan has been checked to hold none that are unknown."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)


def _parts(section: ProcessSection, folder: Path, version: str, scenario_env: Mapping[str, str]) -> dict[str, str]:
    """What a program is made of, by name: words of its command, variables, hashes of the program and source files."""
    known = {"version": version}
    parts = {f"word {number} of the command": _fill(text, known) for number, text in enumerate(section.command)}
    parts |= {f"variable {name}": _fill(text, known) for name, text in {**section.env, **scenario_env}.items()}
    places = {"version": version, "plan_dir": str(folder), "python": sys.executable}
    words = [_fill(text, places) for text in section.command]
    files: dict[str, Path] = {}
    if program := shutil.which(words[0], path=os.environ.get("PATH")):
        files[f"program {Path(program).name}"] = Path(program)
    root = folder.resolve()
    for word in words:
        path = (folder / word).resolve()
        if path.is_file() and path.is_relative_to(root):
            beside = path.parent.rglob("*") if path.parent != root else [path]
            files |= {f"file {found.relative_to(root).as_posix()}": found
                      for found in beside if found.is_file() and "__pycache__" not in found.parts}  # fmt: skip
    for name, path in files.items():
        with contextlib.suppress(FileNotFoundError):  # gone since it was listed: no part of it
            parts[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return parts


def _digest(parts: Mapping[str, str]) -> str:
    """Hash of a program's parts, whatever their order (16 hex digits)."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

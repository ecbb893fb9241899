"""The plan file: what to compare, with which traffic, in which environment, how often.

One pydantic model per section, every field with its unit and its meaning, so that `perf-pipeline plan schema` is the
reference. `load_plan` reports every error of a file at once, each with its line and its field path. The limits of the
gates are not here: they are the policy's (`gates/policy.py`).
"""

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, field_validator, model_validator

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.files import own_command
from perf_pipeline.plan_base import VERSION_PATTERN, Name, Section, Version
from perf_pipeline.plan_metrics import MetricsSection
from perf_pipeline.plan_operation import RetentionSection, VersionSource
from perf_pipeline.plan_rules import plan_rules
from perf_pipeline.plan_tokens import TokenSection
from perf_pipeline.yaml_model import parse_yaml_model

Hour = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}-\d{2}:00$")]
"""A captured hour in UTC, as Dagster writes hourly partition keys: `2026-11-30-04:00`."""

_NOT_OF_A_RUN: dict = {
    "name": True,
    "service": True,
    "versions": True,
    "baseline": True,
    "candidate": True,
    "version_source": True,
    "anchor": True,
    "policy": True,
    "capture": True,
    "workload": True,
    "retention": True,
    "schedule": {"repeats": True},
    "tokens": {"ttl_s": True, "skew_s": True, "minted": True, "expired": True, "exchange": True},
    "environment": {"service": {"ready_timeout_s": True}, "upstream": {"ready_timeout_s": True}},
}
"""Fields of a plan on which no run depends: runs stay what they were when one of these changes. What is captured and
kept of it has the hash of the workload, more repeats are more runs like those that are there, and a run sends a valid
token whichever way it was made."""

LOAD_MARGIN_S = 60.0
"""Seconds that k6 may take beyond its scenarios, for its start and its end, before it counts as hung."""

COMPARISON_SEPARATOR = "__"
PLACEHOLDERS = ("python", "plan_dir", "version", "port", "upstream_url", "token_public_key")


class CaptureSection(Section):
    """Which captured requests may be replayed, and what is taken out of them."""

    topic: Name = Field(description="Kafka topic of the access log; also the folder of its raw objects")
    log: str | None = Field(
        None, description="embedded capture: path of a JSON access log (plain, .gz or .zst), relative to the plan"
    )
    routes: list[str] = Field(
        min_length=1,
        description="allow-list of route templates; {name} matches one path segment; other paths are rejected",
    )
    deny: list[str] = Field(
        default_factory=list,
        description="more regular expressions on the decoded path that reject a request, beside the built-in list",
    )
    redact_query: list[str] = Field(
        default_factory=lambda: ["email", "e-mail", "phone", "name"],
        description="query parameters whose value is replaced by REDACTED",
    )
    drop_query: list[str] = Field(
        default_factory=lambda: ["access_token", "token", "code", "signature", "sig", "password", "secret", "api_key"],
        description="query parameters whose presence rejects the request: it carried a secret",
    )

    @field_validator("routes")
    @classmethod
    def _routes_are_templates(cls, routes: list[str]) -> list[str]:
        for route in routes:
            if not re.fullmatch(r"(/([A-Za-z0-9._~-]+|\{[a-z_]+\}))+|/", route):
                raise ValueError(f"{route!r} is not a route template such as /products/{{id}}")
        return routes

    @field_validator("deny")
    @classmethod
    def _deny_compiles(cls, deny: list[str]) -> list[str]:
        for pattern in deny:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return deny


class WorkloadSection(Section):
    """Which captured hours make the workload, frozen once per comparison."""

    hours: list[Hour] = Field(min_length=1, description="captured hours in UTC, such as 2026-11-30-04:00")
    max_requests: int = Field(
        200_000, ge=1, description="requests kept, the first ones in order of arrival; a run starts over at the end"
    )


class ProcessSection(Section):
    """A program that the local lab starts fresh for each run.

    Placeholders in `command` and `env`: {python}, {plan_dir}, {version}, {port}, {upstream_url}, {token_public_key}.
    """

    command: list[str] = Field(min_length=1, description="program and arguments, run without a shell")
    env: dict[str, str] = Field(default_factory=dict, description="further environment variables")
    port: int | None = Field(
        None, ge=1, le=65_535, description="port that the program listens on; null picks a free one, told as {port}"
    )
    ready: str = Field("/health", description="path that answers 200 once the program can serve")
    ready_timeout_s: float = Field(20, gt=0, le=600, description="seconds to become ready")
    metrics: str | None = Field("/metrics", description="path of the Prometheus text page; null when there is none")

    @field_validator("command", "env")
    @classmethod
    def _placeholders_are_known(cls, value: list[str] | dict[str, str]) -> list[str] | dict[str, str]:
        for text in value.values() if isinstance(value, dict) else value:
            for name in re.findall(r"\{(\w+)\}", text):
                if name not in PLACEHOLDERS:
                    raise ValueError(f"unknown placeholder {{{name}}}; known: {', '.join(PLACEHOLDERS)}")
        return value


class EnvironmentSection(Section):
    """What is started for a run: the service, and what stands behind it."""

    kind: Literal["local"] = Field("local", description="where the environment lives: processes on this machine")
    service: ProcessSection = Field(description="the service under test")
    upstream: ProcessSection | None = Field(None, description="what the service calls; the same on both sides")


class ScenarioSection(Section):
    """One workload shape at one target rate."""

    name: Name
    rate_per_s: int = Field(ge=1, le=100_000, description="target rate in requests per second (open model)")
    routes: list[str] | None = Field(None, description="only these route templates of the workload; null for all")
    env: dict[str, str] = Field(default_factory=dict, description="further environment variables of the service")


class LoadSection(Section):
    """How k6 drives a run: warm-up, then hold, at a constant arrival rate."""

    warmup_s: int = Field(ge=1, le=3600, description="seconds of load before the hold; never measured")
    hold_s: int = Field(ge=4, le=86_400, description="seconds of steady load that are measured")
    request_timeout_s: float = Field(5, gt=0, le=60, description="seconds until k6 gives up on a request")
    max_latency_s: float = Field(
        0.5, gt=0, description="slowest answer to plan for: virtual users = rate x this x 1.5, all made beforehand"
    )

    @property
    def longest_s(self) -> float:
        """Seconds within which the load of a run has certainly ended, unless it hangs."""
        return self.warmup_s + self.max_latency_s + self.hold_s + self.request_timeout_s + LOAD_MARGIN_S


class ScheduleSection(Section):
    """How many runs, in which order: randomised complete blocks."""

    repeats: int = Field(
        5, ge=2, le=200, description="runs of each version in each scenario; with looks the last of them"
    )
    looks: tuple[Annotated[int, Field(ge=2, le=200)], ...] = Field(
        (),
        description="repeats at which the campaign is judged, rising, such as [5, 8, 12]: only scenarios that are "
        "still open get more, and every look is paid for in the intervals. Empty for one look at the end",
    )
    paired: bool = Field(
        False, description="analyse the two runs of a block as a pair: for labs whose level wanders from block to block"
    )
    aa_arm: bool = Field(
        False, description="measure the baseline a second time in each block, as a candidate that cannot have changed"
    )
    seed: int = Field(1, ge=0, description="seed of the order of runs and of the order of requests in a run")

    @model_validator(mode="before")
    @classmethod
    def _repeats_are_those_of_the_last_look(cls, section: Any) -> Any:
        looks = section.get("looks") if isinstance(section, dict) else None
        if isinstance(looks, list | tuple) and looks and "repeats" not in section:
            return {**section, "repeats": looks[-1]}
        return section

    @model_validator(mode="after")
    def _looks_rise_to_repeats(self) -> Self:
        if list(self.looks) != sorted(set(self.looks)):
            raise ValueError(f"looks have to rise: {', '.join(map(str, self.looks))}")
        if self.looks and self.looks[-1] != self.repeats:
            raise ValueError(f"repeats is {self.repeats} and the last look {self.looks[-1]}: leave repeats out")
        return self


class Plan(Section):
    """A plan file: everything that the runs of a comparison have in common."""

    name: Name = Field(description="name of the plan, in titles and partition keys")
    service: str = Field(description="what is being tested, in words")
    versions: list[Name] = Field(min_length=1, description="versions of the service that the environment can start")
    baseline: Name = Field(description="default baseline")
    candidate: Name = Field(description="default candidate")
    version_source: VersionSource | None = Field(
        None, description="where nightly and deploy comparisons learn of new versions; null compares the two defaults"
    )
    anchor: Version | None = Field(
        None, description="release that slow drift is measured from; null for the first one that a chain leads back to"
    )
    policy: str = Field("default", description="a built-in policy by name, or the path of a policy file")
    capture: CaptureSection
    tokens: TokenSection
    workload: WorkloadSection
    environment: EnvironmentSection
    scenarios: list[ScenarioSection] = Field(min_length=1)
    load: LoadSection
    schedule: ScheduleSection
    metrics: MetricsSection
    retention: RetentionSection = Field(default_factory=lambda: RetentionSection.model_validate({}))

    _path: Path = Path("plan.yaml")

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        for side in ("baseline", "candidate"):
            if getattr(self, side) not in self.versions:
                raise ValueError(f"{side} {getattr(self, side)} is not among versions: {', '.join(self.versions)}")
        names = [scenario.name for scenario in self.scenarios]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"scenario names stand twice: {', '.join(doubled)}")
        for scenario in self.scenarios:
            if unknown := [route for route in scenario.routes or [] if route not in self.capture.routes]:
                raise ValueError(f"scenario {scenario.name}: routes not in capture.routes: {', '.join(unknown)}")
        if self.metrics.upstream_latency and not self.environment.upstream:
            raise ValueError("metrics.upstream_latency needs environment.upstream")
        return self

    @property
    def folder(self) -> Path:
        """The folder of the plan file, which relative paths in it start from."""
        return self._path.parent

    @property
    def path(self) -> Path:
        """The plan file."""
        return self._path

    @property
    def comparison_s(self) -> float:
        """Seconds of load in all runs of a comparison, and the end of the last one."""
        runs = 2 * len(self.scenarios) * self.schedule.repeats
        return runs * (self.load.longest_s - LOAD_MARGIN_S) + LOAD_MARGIN_S

    @property
    def hash(self) -> str:
        """Content hash of everything in the plan that a run depends on (16 hex digits)."""
        return _short_hash(self._of_a_run())

    def field_hashes(self) -> dict[str, str]:
        """A hash of each field that a run depends on, by its path: what changed can be named, and nothing is shown."""
        return {path: _short_hash(value) for path, value in _leaves(self._of_a_run())}

    def _of_a_run(self) -> dict:
        return self.model_dump(mode="json", exclude=_NOT_OF_A_RUN)

    def scenario(self, name: str) -> ScenarioSection:
        """The scenario of that name. Raises KeyError when there is none."""
        return {scenario.name: scenario for scenario in self.scenarios}[name]


def _short_hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Each value that holds no others, with its path such as `scenarios[0].rate_per_s`."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def comparison_key(baseline: str, candidate: str) -> str:
    """The partition key `<baseline>__<candidate>`.

    Raises InputError when a version cannot stand in a key or both are the same.
    """
    problems = [
        Problem(
            side, f"{version!r} cannot be part of a comparison key", "use letters, digits, '.', '_' (single) and '-'"
        )
        for side, version in (("baseline", baseline), ("candidate", candidate))
        if not re.fullmatch(VERSION_PATTERN, version)
    ]
    if not problems and baseline == candidate:
        problems.append(Problem("candidate", f"{candidate} is also the baseline", "name two different versions"))
    if problems:
        raise InputError(problems)
    return f"{baseline}{COMPARISON_SEPARATOR}{candidate}"


def split_comparison_key(key: str) -> tuple[str, str]:
    """Baseline and candidate of a partition key. Raises InputError when it is none."""
    baseline, separator, candidate = key.partition(COMPARISON_SEPARATOR)
    if not separator or comparison_key(baseline, candidate) != key:
        raise InputError(Problem("comparison", f"{key!r} is not <baseline>__<candidate>", "for example 1.0.0__1.1.0"))
    return baseline, candidate


def compare_command(plan: Plan, key: str) -> str:
    """The command that measures and judges a comparison of the plan again, as a shell takes it."""
    baseline, candidate = split_comparison_key(key)
    arguments = ["compare", str(plan.path), "--baseline", baseline, "--candidate", candidate]
    return shlex.join([own_command(), *arguments])


def check_versions(plan: Plan, *versions: str) -> None:
    """Raise InputError for each version that the plan cannot start.

    A plan with a version source can start whatever that source names, so it refuses none here.
    """
    if plan.version_source is not None:
        return
    unknown = [version for version in versions if version not in plan.versions]
    if unknown:
        raise InputError(
            Problem(
                f"{plan.path}: versions",
                f"unknown version {version}",
                f"the plan starts {', '.join(plan.versions)}; add the version there or name one of them",
            )
            for version in unknown
        )


def load_plan(path: Path, with_files: bool = False) -> Plan:
    """Read a plan file; `with_files` also looks for the files that it names.

    Raises InputError with every error of the file at once, each with its line and field path.
    """
    text = _read(path)
    plan = parse_yaml_model(
        Plan, text, str(path), lambda data: plan_rules(data, path.resolve().parent if with_files else None)
    )
    plan._path = path.resolve()
    return plan


def named_policy(path: Path) -> str:
    """The policy that a plan file names, even where other parts of it are wrong; the default when it names none."""
    try:
        data = yaml.safe_load(_read(path))
    except (yaml.YAMLError, ValueError):
        data = None
    policy = data.get("policy") if isinstance(data, dict) else None
    return policy if isinstance(policy, str) else str(Plan.model_fields["policy"].default)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error.strerror}", "name a plan file")) from error
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), f"is not UTF-8: {error.reason}", "save the file as UTF-8")) from error

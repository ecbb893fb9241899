"""The plan file: what to compare, with which traffic, in which environment, how often.

One pydantic model per section, every field with its unit and its meaning, so that `perf-pipeline plan schema` is the
reference. `load_plan` reports every error of a file at once, each with its line and its field path. The limits of the
gates are not here: they are the policy's (`gates/policy.py`).
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.yaml_model import parse_yaml_model

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
"""A name that is safe in paths, partition keys and labels."""

Hour = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}-\d{2}:00$")]
"""A captured hour in UTC, as Dagster writes hourly partition keys: `2026-11-30-04:00`."""

LOAD_MARGIN_S = 60.0
"""Seconds that k6 may take beyond its scenarios, for its start and its end, before it counts as hung."""

_HOW_TOKENS_ARE_MADE = {"ttl_s", "skew_s", "minted", "expired", "exchange"}
"""What may change while a comparison goes on: a run sends a valid token whichever way it was made."""

COMPARISON_SEPARATOR = "__"
PLACEHOLDERS = ("python", "plan_dir", "version", "port", "upstream_url", "token_public_key")


class _Section(BaseModel):
    """A section of the plan: unknown fields are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CaptureSection(_Section):
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


class ExchangeSection(_Section):
    """Where tokens come from when a service of the company issues them: OAuth 2.0 Token Exchange (RFC 8693)."""

    endpoint: str = Field(description="token endpoint: an https address, or http on this machine")
    timeout_s: float = Field(10, gt=0, le=120, description="seconds until one answer of the endpoint counts as lost")
    attempts: int = Field(
        4, ge=1, le=10, description="how often one exchange is tried when the endpoint fails or is busy"
    )
    concurrency: int = Field(4, ge=1, le=64, description="exchanges under way at the same time")

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_private(cls, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
        if not parts.hostname or not (parts.scheme == "https" or local):
            raise ValueError("is not an https address, and tokens would travel in the clear")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("holds a user, a query or a fragment; the client's secret is never part of the plan")
        return endpoint


class TokenSection(_Section):
    """The read-only scoped token that each replayed request carries."""

    issuer: str = Field(description="claim iss")
    audience: str = Field(description="claim aud: the service that accepts the token")
    actor: str = Field(
        "perf_pipeline",
        pattern=r"^[\x21-\x39\x3b-\x7e]+$",
        description="claim act.sub and client_id: who acts for the user, so that audit logs can tell",
    )
    ttl_s: int = Field(
        3600, ge=60, le=86_400, description="lifetime of a token in seconds; with `exchange` the longest that is taken"
    )
    skew_s: int = Field(
        30, ge=0, le=600, description="seconds that a token outlives its last use by, since clocks differ"
    )
    minted: Literal["capture", "replay"] = Field(
        "capture",
        description="capture: with the requests of an hour, one per user, stored beside them; "
        "replay: just before they are used, and held in memory only",
    )
    expired: Literal["renew", "refuse"] = Field(
        "renew",
        description="what becomes of a comparison whose stored tokens expire before its planned end: "
        "renew: users get new tokens before a run; refuse: nothing is measured",
    )
    exchange: ExchangeSection | None = Field(
        None, description="the service that issues tokens; null: they are signed here, with the key of this deployment"
    )


class WorkloadSection(_Section):
    """Which captured hours make the workload, frozen once per comparison."""

    hours: list[Hour] = Field(min_length=1, description="captured hours in UTC, such as 2026-11-30-04:00")
    max_requests: int = Field(
        200_000, ge=1, description="requests kept, the first ones in order of arrival; a run starts over at the end"
    )


class ProcessSection(_Section):
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


class EnvironmentSection(_Section):
    """What is started for a run: the service, and what stands behind it."""

    kind: Literal["local"] = Field("local", description="where the environment lives: processes on this machine")
    service: ProcessSection = Field(description="the service under test")
    upstream: ProcessSection | None = Field(None, description="what the service calls; the same on both sides")


class ScenarioSection(_Section):
    """One workload shape at one target rate."""

    name: Name
    rate_per_s: int = Field(ge=1, le=100_000, description="target rate in requests per second (open model)")
    routes: list[str] | None = Field(None, description="only these route templates of the workload; null for all")
    env: dict[str, str] = Field(default_factory=dict, description="further environment variables of the service")


class LoadSection(_Section):
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


class ScheduleSection(_Section):
    """How many runs, in which order: randomised complete blocks."""

    repeats: int = Field(5, ge=2, le=200, description="runs of each version in each scenario")
    seed: int = Field(1, ge=0, description="seed of the order of runs and of the order of requests in a run")


Process = Literal["service", "upstream"]


class HistogramSource(_Section):
    """A Prometheus histogram in seconds, scraped from a process of the environment."""

    histogram: str = Field(description="name without _bucket, such as http_request_duration_seconds")
    process: Process | None = Field("service", description="label `job` of the series; null takes any")
    labels: dict[str, str] = Field(default_factory=dict, description="only series with these labels")


class GaugeSource(_Section):
    """A Prometheus gauge, scraped from a process of the environment."""

    gauge: str = Field(description="name of the gauge, such as process_resident_memory_bytes")
    process: Process | None = Field("service", description="label `job` of the series; null takes any")
    labels: dict[str, str] = Field(default_factory=dict, description="only series with these labels")


class MetricsSection(_Section):
    """Where each metric comes from. A metric without a source is absent, and the report says so."""

    client_latency: Literal["k6"] | None = Field("k6", description="distribution of latency at k6")
    service_latency: HistogramSource | None = Field(None, description="distribution of latency inside the service")
    service_p99: Literal["service_latency"] | None = Field(None, description="p99 of service_latency as one number")
    service_memory: GaugeSource | None = Field(None, description="memory of the service in bytes")
    http_error_rate: Literal["k6"] | None = Field("k6", description="share of requests with a 4xx or 5xx or no answer")
    graphql_error_rate: Literal["k6"] | None = Field(
        None, description="share of answers whose body carries an errors array; only for GraphQL operations"
    )
    upstream_latency: HistogramSource | None = Field(
        None, description="negative control: latency inside the upstream, which no version of the service can change"
    )

    @model_validator(mode="after")
    def _p99_has_its_distribution(self) -> Self:
        if self.service_p99 and not self.service_latency:
            raise ValueError("service_p99 is read from service_latency, which has no source")
        return self


class Plan(_Section):
    """A plan file: everything that the runs of a comparison have in common."""

    name: Name = Field(description="name of the plan, in titles and partition keys")
    service: str = Field(description="what is being tested, in words")
    versions: list[Name] = Field(min_length=1, description="versions of the service that the environment can start")
    baseline: Name = Field(description="default baseline")
    candidate: Name = Field(description="default candidate")
    policy: str = Field("default", description="a built-in policy by name, or the path of a policy file")
    capture: CaptureSection
    tokens: TokenSection
    workload: WorkloadSection
    environment: EnvironmentSection
    scenarios: list[ScenarioSection] = Field(min_length=1)
    load: LoadSection
    schedule: ScheduleSection
    metrics: MetricsSection

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

    @model_validator(mode="after")
    def _tokens_outlive_a_run(self) -> Self:
        if self.load.longest_s + self.tokens.skew_s >= self.tokens.ttl_s:
            raise ValueError(
                f"tokens.ttl_s is {self.tokens.ttl_s} s, but a run takes up to {self.load.longest_s:g} s and clocks "
                f"may differ by tokens.skew_s, {self.tokens.skew_s} s: raise ttl_s, or shorten the run"
            )
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
        not_measured: dict[str, Any] = {"policy": True, "baseline": True, "candidate": True, "tokens": _HOW_TOKENS_ARE_MADE}
        text = json.dumps(self.model_dump(mode="json", exclude=not_measured), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def scenario(self, name: str) -> ScenarioSection:
        """The scenario of that name. Raises KeyError when there is none."""
        return {scenario.name: scenario for scenario in self.scenarios}[name]


def comparison_key(baseline: str, candidate: str) -> str:
    """The partition key `<baseline>__<candidate>`.

    Raises InputError when a version cannot stand in a key or both are the same.
    """
    problems = [
        Problem(
            side, f"{version!r} cannot be part of a comparison key", "use letters, digits, '.', '_' (single) and '-'"
        )
        for side, version in (("baseline", baseline), ("candidate", candidate))
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]|_(?!_))*", version) or version.endswith("_")
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
    """The command that measures and judges a comparison of the plan again."""
    baseline, candidate = split_comparison_key(key)
    return f"perf-pipeline compare {plan.path} --baseline {baseline} --candidate {candidate}"


def check_versions(plan: Plan, *versions: str) -> None:
    """Raise InputError for each version that the plan cannot start."""
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


def load_plan(path: Path) -> Plan:
    """Read a plan file.

    Raises InputError with every error of the file at once, each with its line and field path.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error.strerror}", "name a plan file")) from error
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), f"is not UTF-8: {error.reason}", "save the file as UTF-8")) from error
    plan = parse_yaml_model(Plan, text, str(path))
    plan._path = path.resolve()
    return plan

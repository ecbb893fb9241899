"""The sections of a plan about operating it: where new versions are learned of, and how long things are kept.

What belongs here: fields that no run depends on. What they are used for is in `version_source` and `retention`.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from perf_pipeline.plan_base import Section


class ManifestSource(Section):
    """Versions from a file: YAML or JSON with `release` and `builds`."""

    kind: Literal["manifest"] = Field(description="versions come from a file")
    path: str = Field(description="path of the file, relative to the plan")


class ObjectSource(Section):
    """Versions from an object of the store: YAML or JSON with `release` and `builds`."""

    kind: Literal["object"] = Field(description="versions come from an object of the store")
    key: str = Field(description="key of the object, such as builds/shop.json")


class CommandSource(Section):
    """Versions from a command that prints YAML or JSON with `release` and `builds`."""

    kind: Literal["command"] = Field(description="versions come from what a command prints")
    command: list[str] = Field(min_length=1, description="program and arguments, run in the plan's folder, no shell")
    timeout_s: float = Field(20, gt=0, le=50, description="seconds that it may take")


class GitTagSource(Section):
    """Versions from the tags of a git repository; {version} stands for the version in a tag."""

    kind: Literal["git_tags"] = Field(description="versions come from tags of a git repository")
    repository: str = Field(".", description="folder of the repository, relative to the plan")
    release: str = Field("v{version}", description="tags of releases; the highest version is what runs today")
    build: str = Field("build-{version}", description="tags of builds; the one made last is the newest")
    timeout_s: float = Field(20, gt=0, le=50, description="seconds that git may take")

    @field_validator("release", "build")
    @classmethod
    def _pattern_names_the_version(cls, pattern: str) -> str:
        if pattern.count("{version}") != 1:
            raise ValueError(f"{pattern!r} does not hold {{version}} once, such as v{{version}}")
        return pattern

    @model_validator(mode="after")
    def _builds_are_told_from_releases(self) -> Self:
        if self.release == self.build:
            raise ValueError(
                f"release and build are both {self.build!r}: no build would ever be newer than the release"
            )
        return self


VersionSource = Annotated[ManifestSource | ObjectSource | CommandSource | GitTagSource, Field(discriminator="kind")]
"""Where a plan learns which release runs today and which builds there are."""


class RetentionSection(Section):
    """How long each kind of thing is kept; `perf-pipeline prune` removes what is older. null keeps it for ever.

    Raw logs and requests of the hours that `workload.hours` names stay as long as it does.
    """

    raw_days: float | None = Field(30, ge=0, description="days of raw access log, which holds whatever users sent")
    requests_days: float | None = Field(30, ge=0, description="days of requests that may be replayed")
    tokens_hours: float = Field(24, ge=0, description="hours until the tokens beside the requests are blanked")
    quarantine_days: float | None = Field(
        7, ge=0, description="days of rejected lines: they are raw, secrets included, and wanted only to mend capture"
    )
    workloads_days: float | None = Field(
        90, ge=0, description="days of frozen workloads, from the arrival of their last request"
    )
    runs_days: float | None = Field(180, ge=0, description="days of run directories")
    reports_days: float | None = Field(None, ge=0, description="days of reports")
    metrics_days: float | None = Field(None, ge=0, description="days of measured tables, which the history rests on")

    @model_validator(mode="after")
    def _reports_go_before_their_metrics(self) -> Self:
        # A report ages from the last hold that its metrics tell of: without them it would be kept for ever.
        if self.metrics_days is not None and (self.reports_days is None or self.reports_days > self.metrics_days):
            raise ValueError(f"metrics_days is {self.metrics_days:g}: reports_days must be set and no longer than that")
        return self

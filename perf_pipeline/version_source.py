"""Where versions come from: which release runs today, and which builds there are.

What belongs here: asking the plan's version source (a manifest file, an object of the store, a command, git tags) and
checking its answer. What is done with a new build is the orchestration's affair.

A manifest, and what a command prints, is YAML or JSON:

    release: 1.0.0                  # what runs today
    builds: [1.0.1, 1.1.0]          # what might be released, the newest last
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.plan import Plan
from perf_pipeline.plan_base import VERSION_PATTERN, Version
from perf_pipeline.plan_operation import CommandSource, GitTagSource, ManifestSource, ObjectSource
from perf_pipeline.storage import ObjectStore
from perf_pipeline.yaml_model import parse_yaml_model

VERSION_PLACEHOLDER = "{version}"


@dataclass(frozen=True)
class KnownVersions:
    """What a version source says now."""

    release: str
    """The version that runs today."""
    builds: tuple[str, ...]
    """Versions that might be released, the newest last; at least one."""

    @property
    def newest(self) -> str:
        """The newest build."""
        return self.builds[-1]


_NUMBERED = re.compile(r"v?(\d+(?:\.\d+)+)(?:([.-]?(?:alpha|beta|dev|pre|rc|snapshot).*)|(.+))?", re.IGNORECASE)
"""A version that begins with numbers between dots; what follows makes it a pre-release or says nothing of its place."""


def nothing_newer(plan: Plan, versions: KnownVersions) -> str | None:
    """Why there is nothing to compare; None where the newest build is newer than the release, or may be.

    A plan without a source says itself what it wants to have compared, and may mean a version that is older.
    """
    if versions.newest == versions.release:
        return f"no build is newer than the release {versions.release}"
    if plan.version_source is not None and is_older(versions.newest, versions.release):
        return f"the newest build, {versions.newest}, is older than the release {versions.release}"
    return None


def is_older(version: str, other: str) -> bool:
    """Whether a version is surely older than another: by its numbers, else as the pre-release of the same ones.

    Where their order is not known, such as of commits, single numbers, or what follows the same numbers, it is not.
    """
    one, two = _NUMBERED.fullmatch(version), _NUMBERED.fullmatch(other)
    if one is None or two is None:
        return False
    numbers, others = (_numbers(found.group(1)) for found in (one, two))
    if numbers != others:
        return numbers < others
    return one.group(2) is not None and two.group(2) is None and two.group(3) is None


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers between the dots, without zeros at the end: 1.1 and 1.1.0 are one version."""
    numbers = [int(part) for part in text.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


class _Manifest(BaseModel):
    """The form of a manifest."""

    model_config = ConfigDict(extra="ignore")

    release: Version
    builds: list[Version] = Field(min_length=1)


def read_versions(plan: Plan, store: ObjectStore) -> KnownVersions:
    """What the plan's version source says now; a plan without one has its own baseline and candidate.

    Raises InputError when the source cannot be asked, or its answer is none. An unknown answer is never an empty one.
    """
    source = plan.version_source
    if source is None:
        return KnownVersions(plan.baseline, (plan.candidate,))
    if isinstance(source, ManifestSource):
        return _from_file(plan.folder / source.path)
    if isinstance(source, ObjectSource):
        return _from_object(store, source.key)
    if isinstance(source, CommandSource):
        return _parsed(_printed_by(source.command, plan.folder, source.timeout_s), f"what `{source.command[0]}` prints")
    return _from_tags(source, plan.folder)


def _from_file(path: Path) -> KnownVersions:
    try:
        return _parsed(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            Problem(str(path), f"the manifest of versions cannot be read: {error}", "write it, or mend version_source")
        ) from error


def _from_object(store: ObjectStore, key: str) -> KnownVersions:
    try:
        return _parsed(store.get(key).decode(), store.uri(key))
    except KeyError:
        raise InputError(
            Problem(store.uri(key), "the manifest of versions is not there", "put it there, or mend version_source")
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(store.uri(key), f"is not UTF-8: {error.reason}", "save it as UTF-8")) from error


def _parsed(text: str, where: str) -> KnownVersions:
    manifest = parse_yaml_model(_Manifest, text, where)
    return KnownVersions(manifest.release, tuple(manifest.builds))


def _from_tags(source: GitTagSource, folder: Path) -> KnownVersions:
    """The newest release tag by its version, the build tags by the time at which they were made.

    A tag without a message has no time of its own but that of its commit; tags of one time go by their versions.
    """
    repository = folder / source.repository
    if not repository.is_dir():
        what = "the repository of version_source is not there"
        raise InputError(Problem(str(repository), what, "clone it there, or mend version_source.repository"))
    releases = _tags(repository, source.release, ["version:refname"], source.timeout_s)
    builds = _tags(repository, source.build, ["version:refname", "creatordate"], source.timeout_s)
    problems = [
        Problem(str(repository), f"no tag matches {pattern}", f"tag one, or mend version_source.{field}")
        for field, pattern, found in (("release", source.release, releases), ("build", source.build, builds))
        if not found
    ]
    if problems:
        raise InputError(problems)
    return KnownVersions(releases[-1], tuple(builds))


def _tags(repository: Path, pattern: str, order: list[str], timeout_s: float) -> list[str]:
    """The versions in the tags that match the pattern, in git's order, by the last key first.

    Tags that hold no version are others' affair.
    """
    before, _, after = pattern.partition(VERSION_PLACEHOLDER)
    # Without the suffix setting git sorts 1.1.0-rc1 after 1.1.0.
    command = ["git", "-c", "versionsort.suffix=-", "-C", str(repository), "for-each-ref"]
    command += [f"--sort={key}" for key in order]
    command += ["--format=%(refname:strip=2)", f"refs/tags/{before}*{after}"]
    tags = _printed_by(command, repository, timeout_s).split()
    versions = [tag[len(before) : len(tag) - len(after)] for tag in tags]
    return [version for version in versions if re.fullmatch(VERSION_PATTERN, version)]


def _printed_by(command: list[str], folder: Path, timeout_s: float) -> str:
    """What a command prints. Raises InputError when it cannot be run, fails, or takes too long."""
    what = f"version_source: `{' '.join(command)}`"
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=timeout_s, check=True
        )
    except FileNotFoundError as error:
        raise InputError(Problem(what, f"cannot be run: {error.strerror}: {error.filename}", "install it")) from error
    except OSError as error:  # no permission to execute it, or a script that does not say what executes it
        remedy = "make it executable, with a first line such as #!/bin/sh, or begin the command with its interpreter"
        raise InputError(Problem(what, f"cannot be run: {error.strerror}: {command[0]}", remedy)) from error
    except UnicodeDecodeError as error:
        raise InputError(Problem(what, f"prints what is not UTF-8: {error.reason}", "have it print UTF-8")) from error
    except subprocess.TimeoutExpired as error:
        raise InputError(
            Problem(what, f"did not end within {timeout_s:g} s", "make it faster, or raise timeout_s")
        ) from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise InputError(
            Problem(what, f"ended with exit code {error.returncode}: {last}", "run it by hand and mend it")
        ) from error
    return done.stdout

"""Version sources: each kind with real files, commands and a real git repository, and what they do when they fail."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.plan import Plan, load_plan
from perf_pipeline.storage import LocalObjectStore
from perf_pipeline.version_source import KnownVersions, is_older, nothing_newer, read_versions

DEMO = Path(__file__).parent.parent / "examples" / "demo" / "plan.yaml"
TODAY = KnownVersions("1.0.0", ("1.0.1", "1.1.0"))
MANIFEST = 'release: "1.0.0"\nbuilds: ["1.0.1", "1.1.0"]\n'


def plan_with(folder: Path, source: dict | None) -> Plan:
    """The demo's plan in a folder of its own, with this version source."""
    text = DEMO.read_text()
    if source is not None:
        text += f"version_source: {json.dumps(source)}\n"
    path = folder / "plan.yaml"
    path.write_text(text)
    return load_plan(path)


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "objects")


def refused(plan: Plan, store: LocalObjectStore) -> str:
    with pytest.raises(InputError) as raised:
        read_versions(plan, store)
    return str(raised.value)


def test_a_plan_without_a_source_has_its_defaults(tmp_path: Path, store: LocalObjectStore) -> None:
    assert read_versions(plan_with(tmp_path, None), store) == KnownVersions("1.0.0", ("1.1.0",))


def test_a_manifest_file(tmp_path: Path, store: LocalObjectStore) -> None:
    plan = plan_with(tmp_path, {"kind": "manifest", "path": "versions.yaml"})
    assert "versions.yaml: the manifest of versions cannot be read" in refused(plan, store)
    (tmp_path / "versions.yaml").write_text(MANIFEST)
    assert read_versions(plan, store) == TODAY
    assert read_versions(plan, store).newest == "1.1.0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("release: 1.10\nbuilds: []\n", ("versions.yaml:1: release", "versions.yaml:2: builds")),
        ("release: a__b\nbuilds: [1.0.0]\n", ("versions.yaml:1: release",)),
        ("builds: [1.0.0]\n", ("release is missing",)),
        ("", ("is empty",)),
    ],
)
def test_a_manifest_with_errors_names_all_of_them(
    tmp_path: Path, store: LocalObjectStore, text: str, said: tuple[str, ...]
) -> None:
    (tmp_path / "versions.yaml").write_text(text)
    message = refused(plan_with(tmp_path, {"kind": "manifest", "path": "versions.yaml"}), store)
    for words in said:
        assert words in message.replace(": is missing", " is missing")


def test_an_object_of_the_store(tmp_path: Path, store: LocalObjectStore) -> None:
    plan = plan_with(tmp_path, {"kind": "object", "key": "builds/shop.json"})
    assert "is not there" in refused(plan, store)
    store.put("builds/shop.json", json.dumps({"release": "1.0.0", "builds": ["1.0.1", "1.1.0"]}).encode())
    assert read_versions(plan, store) == TODAY
    store.put("builds/shop.json", b"\xff\xfe")
    assert "is not UTF-8" in refused(plan, store)


def test_a_command(tmp_path: Path, store: LocalObjectStore) -> None:
    script = f"import os; assert os.getcwd() == {str(tmp_path)!r}; print({MANIFEST!r})"
    plan = plan_with(tmp_path, {"kind": "command", "command": [sys.executable, "-c", script]})
    assert read_versions(plan, store) == TODAY


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], "cannot be run"),
        ([sys.executable, "-c", "import sys; sys.exit('registry says no')"], "exit code 1: registry says no"),
        ([sys.executable, "-c", "import time; time.sleep(30)"], "did not end within 0.5 s"),
        ([sys.executable, "-c", "print('nothing')"], "is empty or not a mapping"),
        ([sys.executable, "-c", "import sys; sys.stdout.buffer.write(bytes([255]))"], "is not UTF-8"),
    ],
)
def test_a_command_that_fails_is_never_an_empty_answer(
    tmp_path: Path, store: LocalObjectStore, command: list[str], said: str
) -> None:
    plan = plan_with(tmp_path, {"kind": "command", "command": command, "timeout_s": 0.5})
    assert said in refused(plan, store)


def git(folder: Path, *arguments: str, when: str = "2026-11-01T00:00:00Z") -> None:
    environ = {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when, "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    name = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    subprocess.run(["git", *name, "-C", str(folder), *arguments], check=True, capture_output=True, env=environ)


def test_tags_of_a_git_repository(tmp_path: Path, store: LocalObjectStore) -> None:
    git(tmp_path, "init", "-q")
    source = {"kind": "git_tags", "release": "v{version}", "build": "build-{version}"}
    plan = plan_with(tmp_path, source)
    message = refused(plan, store)
    assert "no tag matches v{version}" in message
    assert "no tag matches build-{version}" in message
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    for tag, day in [("v1.9.0", 1), ("v1.10.0", 2), ("v1.10.0-rc1", 3), ("v1.2/x", 3), ("v1.8.3", 4)]:
        git(tmp_path, "tag", "-a", "-m", tag, tag, when=f"2026-11-{day:02d}T00:00:00Z")
    for tag, day in [("build-2.0", 7), ("build-1.11.0-dev", 8)]:
        git(tmp_path, "tag", "-a", "-m", tag, tag, when=f"2026-11-{day:02d}T00:00:00Z")
    assert read_versions(plan, store) == KnownVersions("1.10.0", ("2.0", "1.11.0-dev"))


def test_tags_without_a_time_of_their_own_go_by_their_versions(tmp_path: Path, store: LocalObjectStore) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    for tag in ("v1.0.0", "build-1.0.10", "build-1.0.9"):
        git(tmp_path, "tag", tag)
    assert read_versions(plan_with(tmp_path, {"kind": "git_tags"}), store).builds == ("1.0.9", "1.0.10")


def test_a_repository_that_is_not_there_is_named(tmp_path: Path, store: LocalObjectStore) -> None:
    plan = plan_with(tmp_path, {"kind": "git_tags", "repository": "shop"})
    assert f"{tmp_path / 'shop'}: the repository of version_source is not there" in refused(plan, store)


@pytest.mark.parametrize(("text", "mode"), [("#!/bin/sh\necho", 0o644), ("no interpreter", 0o755)])
def test_a_script_that_cannot_be_executed_is_said(
    tmp_path: Path, store: LocalObjectStore, text: str, mode: int
) -> None:
    script = tmp_path / "newest-builds.sh"
    script.write_text(text)
    script.chmod(mode)
    message = refused(plan_with(tmp_path, {"kind": "command", "command": ["./newest-builds.sh"]}), store)
    assert "cannot be run: " in message and "make it executable" in message


def test_a_source_that_is_wrong_is_an_error_of_the_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no build would ever be newer"):
        plan_with(tmp_path, {"kind": "git_tags", "build": "v{version}"})
    with pytest.raises(InputError, match="does not hold"):
        plan_with(tmp_path, {"kind": "git_tags", "release": "v*"})
    with pytest.raises(InputError, match="version_source"):
        plan_with(tmp_path, {"kind": "guess"})


def test_new_versions_make_no_other_runs_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with_source = plan_with(tmp_path / "a", {"kind": "manifest", "path": "versions.yaml"})
    assert with_source.hash == plan_with(tmp_path, None).hash


@pytest.mark.parametrize(
    ("version", "other", "older"),
    [
        ("1.9.0", "1.10.0", True),
        ("1.10.0", "1.9.0", False),
        ("v1.1", "1.1.0", False),
        ("1.1", "1.1.1", True),
        ("1.1.0-rc2", "1.1.0", True),
        ("1.1.0rc2", "1.1.0", True),
        ("1.1.0", "1.1.0-rc2", False),
        ("1.1.0-rc1", "1.1.0-rc2", False),  # not known
        ("1.1.0-3-gabc1234", "1.1.0", False),  # of git describe: newer
        ("1.1.0", "1.1.0-3-gabc1234", False),  # not known
        ("1.1.0-rc1", "1.1.0-3-gabc1234", False),
        ("17", "18", False),
        ("0aa1bb2", "9f8e7d6", False),
        ("main", "1.1.0", False),
    ],
)
def test_a_version_is_older_only_where_their_order_is_known(version: str, other: str, older: bool) -> None:
    assert is_older(version, other) is older


def test_a_build_that_is_older_than_the_release_is_nothing_to_compare(tmp_path: Path) -> None:
    sourced, itself = plan_with(tmp_path, {"kind": "manifest", "path": "versions.yaml"}), plan_with(tmp_path, None)
    assert "1.1.0, is older than the release 1.2.0" in str(nothing_newer(sourced, KnownVersions("1.2.0", ("1.1.0",))))
    assert nothing_newer(sourced, TODAY) is None
    assert nothing_newer(itself, KnownVersions("1.2.0", ("1.1.0",))) is None, "its plan asks for just that"

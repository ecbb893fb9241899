"""The object store: whole writes, clear keys, folders that move into place."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline import storage
from perf_pipeline.errors import InputError
from perf_pipeline.storage import LocalObjectStore, open_store, working_folder


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "objects")


def test_an_object_is_read_back_and_listed(store: LocalObjectStore) -> None:
    store.put("raw/t/b", b"two")
    store.put("raw/t/a", b"one")
    assert store.get("raw/t/a") == b"one"
    assert store.keys("raw") == ["raw/t/a", "raw/t/b"]
    assert store.exists("raw/t/a") and not store.exists("raw/t")


def test_of_many_writers_of_a_new_object_one_succeeds(store: LocalObjectStore) -> None:
    won: list[int] = []

    def write(number: int) -> None:
        if store.put_new("a/race", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.get("a/race") == b"%d" % won[0]
    assert [path.name for path in (store.root / "a").iterdir()] == ["race"]
    assert not store.put_new("a/race", b"late") and store.get("a/race") == b"%d" % won[0]


def test_what_is_not_there_is_a_key_error(store: LocalObjectStore) -> None:
    with pytest.raises(KeyError):
        store.get("raw/none")
    with pytest.raises(KeyError):
        store.local_folder("raw")
    assert store.keys("raw") == []
    store.delete("raw/none")


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", "/etc/passwd", ""])
def test_a_key_never_leaves_the_store(store: LocalObjectStore, key: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        store.put(key, b"x")


def test_a_failed_write_leaves_the_old_object_and_nothing_else(
    store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/object", b"old")

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        store.put("a/object", b"new")
    assert store.get("a/object") == b"old"
    assert [path.name for path in (store.root / "a").iterdir()] == ["object"]


def test_a_folder_moves_into_place_and_replaces_what_was_there(store: LocalObjectStore, tmp_path: Path) -> None:
    for content in ("first", "second"):
        folder = tmp_path / content
        (folder / "logs").mkdir(parents=True)
        (folder / f"{content}.txt").write_text(content)
        (folder / "logs" / "log").write_text(content)
        store.put_folder("runs/c/r", folder)
        assert not folder.exists()
    assert store.keys("runs") == ["runs/c/r/logs/log", "runs/c/r/second.txt"]
    assert (store.local_folder("runs/c/r") / "second.txt").read_text() == "second"


def test_a_folder_that_cannot_be_written_is_not_there_at_all(
    store: LocalObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(OSError, match="No space"):
        store.put_folder("runs/c/r", folder)
    assert store.keys("runs") == []
    assert (folder / "run.json").exists()


def test_a_folder_that_cannot_replace_what_is_there_leaves_it_there(
    store: LocalObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("runs/c/r/old", b"old")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "new").write_text("new")
    replace = os.replace

    def no_space(source: Path, target: Path) -> None:
        if source == folder:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(OSError, match="No space"):
        store.put_folder("runs/c/r", folder)
    assert store.keys("") == ["runs/c/r/old"]
    assert [path.name for path in (store.root / "runs/c").iterdir()] == ["r"]
    assert (folder / "new").exists()


def test_a_folder_is_moved_and_on_the_disk_before_it_is_seen(
    store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    with working_folder(store, "run") as folder:
        (folder / "logs").mkdir()
        (folder / "logs" / "log").write_text("x")
        before = {path.stat().st_ino for path in (folder, folder / "logs", folder / "logs/log")}
        store.put_folder("runs/c/r", folder)
    assert (store.root / "runs/c/r/logs/log").stat().st_ino in before, "it is moved, not copied"
    assert set(synced[:3]) == before
    assert synced[3:] == [(store.root / "runs/c").stat().st_ino]


def test_a_folder_comes_from_another_file_system_too(
    store: LocalObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    stat, replace = Path.stat, os.replace

    class Elsewhere:
        st_dev = -1

    def no_rename(source: Path, target: Path) -> None:
        if source == folder:
            raise OSError(18, "Invalid cross-device link")
        replace(source, target)

    monkeypatch.setattr(Path, "stat", lambda path, **kwargs: Elsewhere() if path == folder else stat(path, **kwargs))
    monkeypatch.setattr(os, "replace", no_rename)
    store.put_folder("runs/c/r", folder)
    monkeypatch.undo()
    assert store.keys("") == ["runs/c/r/run.json"]
    assert not folder.exists()
    assert [path.name for path in (store.root / "runs/c").iterdir()] == ["r"]


@pytest.mark.parametrize(("prefix", "is_open"), [("runs/c/r", True), ("raw/t/dt=1", False), ("quarantine/x", False)])
def test_what_is_captured_is_its_owners_and_all_else_as_open_as_other_files(
    store: LocalObjectStore, prefix: str, is_open: bool
) -> None:
    store.put(f"{prefix}-put", b"x")
    with working_folder(store, "run") as folder:
        (folder / "logs").mkdir()
        (folder / "logs" / "log").write_text("x")
        (folder / "secret").touch(mode=0o600)
        store.put_folder(prefix, folder)
    path = store.root / prefix
    mode = 0o777 & ~storage._UMASK & (0o777 if is_open else 0o700)
    assert [entry.stat().st_mode & 0o777 for entry in (path, path / "logs")] == [mode, mode]
    assert [entry.stat().st_mode & 0o777 for entry in (path / "logs/log", path.with_name(f"{path.name}-put"))] == [
        mode & 0o666,
        mode & 0o666,
    ]
    assert (path / "secret").stat().st_mode & 0o777 == 0o600


def test_the_umask_is_not_touched_by_a_write(store: LocalObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that makes a file meanwhile would make it for everybody."""
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was set"))
    store.put("a/object", b"x")


def test_half_written_objects_are_never_listed(store: LocalObjectStore) -> None:
    store.put("runs/c/r/run.json", b"{}")
    (store.root / "runs" / "c" / ".partial-x").mkdir()
    (store.root / "runs" / "c" / ".partial-x" / "run.json").write_text("{}")
    assert store.keys("runs") == ["runs/c/r/run.json"]


def test_a_working_folder_goes_whatever_happens(store: LocalObjectStore) -> None:
    with pytest.raises(RuntimeError), working_folder(store, "run") as folder:
        (folder / "file").write_text("x")
        raise RuntimeError
    assert not folder.exists()


def test_an_unknown_location_names_the_remedy() -> None:
    with pytest.raises(InputError, match="name a folder"):
        open_store("gopher://host/x")


def test_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"PERF_PIPELINE_STORE: .*file/objects cannot be used: Not a directory\n"):
        open_store(str(tmp_path / "file/objects"))


@given(st.text("abc/.", min_size=1, max_size=12))
def test_any_accepted_key_reads_back(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    store = LocalObjectStore(tmp_path_factory.mktemp("store"))
    try:
        store.put(key, b"data")
    except (ValueError, OSError):
        return
    assert store.get(key) == b"data"
    assert len(store.keys("")) == 1

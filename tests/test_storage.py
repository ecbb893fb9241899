"""The object store: whole writes, clear keys, folders that move into place."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.text("abc/.", min_size=1, max_size=12))
def test_any_accepted_key_reads_back(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    store = LocalObjectStore(tmp_path_factory.mktemp("store"))
    try:
        store.put(key, b"data")
    except (ValueError, OSError):
        return
    assert store.get(key) == b"data"
    assert len(store.keys("")) == 1

"""Where objects are kept: one protocol over a local folder (the embedded default) and a bucket (`bucket`).

What belongs here: bytes under keys, and the local folder. Keys are relative paths with `/`:

    raw/<topic>/dt=YYYY-MM-DD/hour=HH/part=<p>/<first offset>.ndjson.zst
    requests/dt=/hour=/*.parquet      quarantine/dt=/hour=/*.parquet
    workloads/<hash>/                 runs/<comparison>/<run_id>/
    metrics/<comparison>/*.parquet    reports/<comparison>/

A write is whole or not at all: here it goes to a temporary name on the same file system and is moved into place
(`half_written`).
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Protocol

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.half_written import is_partial, new_partial, partial_prefix, remove_partials_of_the_dead

_PRIVATE = ("raw", "requests", "quarantine")
"""What is captured holds addresses, secrets of queries and tokens: only its owner reads it, whatever the umask."""
_PRIVATE_MASK = 0o077


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_UMASK = _read_umask()
"""The process's file mode mask. It can only be read by setting it, for a moment in which other threads may be making
files: so once, and to the narrowest."""


class ObjectStore(Protocol):
    """Objects under keys. Every write is whole or not at all."""

    def put(self, key: str, data: bytes) -> None:
        """Write one object, replacing what was there."""

    def put_new(self, key: str, data: bytes) -> bool:
        """Write one object unless there is one: of several writers exactly one succeeds. Whether this one did."""

    def get(self, key: str) -> bytes:
        """Read one object. Raises KeyError when it is not there."""

    def exists(self, key: str) -> bool:
        """Whether the object is there."""

    def keys(self, prefix: str) -> list[str]:
        """The keys of all objects below a folder prefix, sorted."""

    def delete(self, prefix: str) -> None:
        """Remove an object, or all objects below a folder prefix; no error when there are none."""

    def put_folder(self, prefix: str, folder: Path) -> None:
        """Move the files of a local folder below the prefix, replacing what was there; the folder is gone then."""

    def local_folder(self, prefix: str) -> Path:
        """A local folder with the objects below the prefix, to read only. Raises KeyError when there are none."""

    def uri(self, key: str) -> str:
        """Where a person finds the object."""


class LocalObjectStore:
    """Objects in a folder of this machine."""

    def __init__(self, root: Path) -> None:
        """Keep objects below `root`, which is made when it is not there."""
        self.root = root.resolve()
        self.root.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        path = (self.root / key).resolve()
        if path == self.root or not path.is_relative_to(self.root):
            raise ValueError(f"{key!r} is not a key of an object")
        return path

    def put(self, key: str, data: bytes) -> None:
        """Write one object, replacing what was there."""
        write_file(self._path(key), data, _mask(key))

    def put_new(self, key: str, data: bytes) -> bool:
        """Write one object unless there is one: of several writers exactly one succeeds. Whether this one did."""
        path = self._path(key)
        if path.exists():
            return False
        with _partial_file(path, data, _mask(key)) as partial:
            # A hard link is made whole, and only where nothing is.
            try:
                os.link(partial, path)
            except FileExistsError:
                return False
        return True

    def get(self, key: str) -> bytes:
        """Read one object. Raises KeyError when it is not there."""
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None

    def exists(self, key: str) -> bool:
        """Whether the object is there."""
        return self._path(key).is_file()

    def keys(self, prefix: str) -> list[str]:
        """The keys of all objects below a folder prefix, sorted."""
        folder = self.root / prefix if prefix else self.root
        paths = folder.rglob("*") if folder.is_dir() else ()
        return sorted(
            path.relative_to(self.root).as_posix()
            for path in paths
            if path.is_file() and not is_partial(path.relative_to(self.root))
        )

    def delete(self, prefix: str) -> None:
        """Remove an object, or all objects below a folder prefix; no error when there are none."""
        path = self._path(prefix)
        if path.is_dir():
            # Renamed first, so that a reader sees all of the folder or nothing of it.
            shutil.rmtree(_set_aside(path))
        else:
            path.unlink(missing_ok=True)

    def put_folder(self, prefix: str, folder: Path) -> None:
        """Move the files of a local folder below the prefix, replacing what was there; the folder is gone then.

        When that fails, what was there is there, and so is the folder.
        """
        path = self._path(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        source = folder
        try:
            if folder.stat().st_dev != path.parent.stat().st_dev:
                source = new_partial(path.parent)
                shutil.copytree(folder, source, dirs_exist_ok=True)
            _settle(source, _mask(prefix))
            _move_into_place(source, path)
        finally:
            if source != folder:
                shutil.rmtree(source, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)

    def local_folder(self, prefix: str) -> Path:
        """A local folder with the objects below the prefix, to read only. Raises KeyError when there are none."""
        path = self._path(prefix)
        if not path.is_dir():
            raise KeyError(prefix)
        return path

    def uri(self, key: str) -> str:
        """Where a person finds the object."""
        return str(self.root / key)


def write_file(path: Path, data: bytes, mask: int = _UMASK) -> None:
    """Write a local file, whole or not at all; its folder is made when it is not there.

    `mask` holds the bits of the file mode that it does not get: by default it is as open as any other file.
    """
    with _partial_file(path, data, mask) as partial:
        os.replace(partial, path)


@contextmanager
def _partial_file(path: Path, data: bytes, mask: int) -> Iterator[Path]:
    """A file beside the path that holds the data and is on the disk; it is gone at the end, unless it was moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=partial_prefix(), dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner reads.
        Path(name).chmod(0o666 & ~mask)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def remove_abandoned(store: ObjectStore) -> list[Path]:
    """Remove what processes of this machine that were killed left half-written, and return the paths.

    It may hold tokens, or samples before they are compressed.
    """
    return remove_partials_of_the_dead(store.root) if isinstance(store, LocalObjectStore) else []


def open_store(location: str) -> ObjectStore:
    """The object store at a location: the path of a local folder, or a bucket as `bucket.open_bucket` reads it.

    Raises InputError when the location is none, or the folder or bucket can neither be used nor made.
    """
    if location.startswith("s3://"):
        from perf_pipeline.bucket import open_bucket  # boto3 takes a third of a second that a local folder can spare

        return open_bucket(location)
    if "://" in location:
        what = f"{location} is neither a local folder nor a bucket"
        raise InputError(Problem("PERF_PIPELINE_STORE", what, "name a folder, or s3://<bucket>/<prefix>"))
    try:
        return LocalObjectStore(Path(location))
    except OSError as error:
        what = f"{location} cannot be used: {error.strerror}"
        remedy = "bring it back (is it mounted, and writable?), or name another folder; nothing is lost meanwhile"
        raise InputError(Problem("PERF_PIPELINE_STORE", what, remedy)) from error


@contextmanager
def working_folder(store: ObjectStore, name: str) -> Iterator[Path]:
    """A new empty folder to build in, near the local store so that the last move is cheap; removed at the end."""
    near = store.root if isinstance(store, LocalObjectStore) else None
    folder = new_partial(near, name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _mask(key: str) -> int:
    """The bits of the file mode that an object of this key does not get."""
    return _UMASK | (_PRIVATE_MASK if PurePath(key).parts[0] in _PRIVATE else 0)


def _settle(folder: Path, mask: int) -> None:
    """Give a new folder and its files the modes that they keep, and have the disk hold all of it."""
    for place, _, names in os.walk(folder):
        for path in (*(Path(place, name) for name in names), Path(place)):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                continue
            # mkdtemp makes folders that only their owner reads. A file that was made so is meant so.
            path.chmod((0o777 if stat.S_ISDIR(mode) else stat.S_IMODE(mode)) & ~mask)
            _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move_into_place(folder: Path, path: Path) -> None:
    """Rename a folder to a path of the same file system. What was there stays unless that succeeds."""
    old = _set_aside(path) if path.is_dir() else None
    try:
        os.replace(folder, path)
    except BaseException:
        if old:
            os.replace(old, path)
        raise
    _sync(path.parent)
    if old:
        shutil.rmtree(old, ignore_errors=True)


def _set_aside(path: Path) -> Path:
    """Rename a folder to where nobody looks, and return where."""
    aside = new_partial(path.parent)
    try:
        os.replace(path, aside)
    except BaseException:
        aside.rmdir()
        raise
    return aside

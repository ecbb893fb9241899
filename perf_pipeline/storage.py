"""Where objects are kept: one protocol over a local folder (the embedded default) and a bucket (`bucket`).

What belongs here: bytes under keys, and the local folder. Keys are relative paths with `/`:

    raw/<topic>/dt=YYYY-MM-DD/hour=HH/part=<p>/<first offset>.ndjson.zst
    requests/dt=/hour=/*.parquet      quarantine/dt=/hour=/*.parquet
    workloads/<hash>/                 runs/<comparison>/<run_id>/
    metrics/<comparison>/*.parquet    reports/<comparison>/

A write is whole or not at all: here it goes to a temporary name on the same file system and is moved into place.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from perf_pipeline.errors import InputError, Problem

_PARTIAL = ".partial-"


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
        write_file(self._path(key), data)

    def put_new(self, key: str, data: bytes) -> bool:
        """Write one object unless there is one: of several writers exactly one succeeds. Whether this one did."""
        path = self._path(key)
        if path.exists():
            return False
        with _partial_file(path, data) as partial:
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
            if path.is_file() and not any(part.startswith(_PARTIAL) for part in path.relative_to(self.root).parts)
        )

    def delete(self, prefix: str) -> None:
        """Remove an object, or all objects below a folder prefix; no error when there are none."""
        path = self._path(prefix)
        if path.is_dir():
            # Renamed first, so that a reader sees all of the folder or nothing of it.
            doomed = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=path.parent))
            os.replace(path, doomed)
            shutil.rmtree(doomed)
        else:
            path.unlink(missing_ok=True)

    def put_folder(self, prefix: str, folder: Path) -> None:
        """Move the files of a local folder below the prefix, replacing what was there; the folder is gone then."""
        path = self._path(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=path.parent))
        try:
            shutil.copytree(folder, partial, dirs_exist_ok=True)
            self.delete(prefix)
            os.replace(partial, path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        shutil.rmtree(folder)

    def local_folder(self, prefix: str) -> Path:
        """A local folder with the objects below the prefix, to read only. Raises KeyError when there are none."""
        path = self._path(prefix)
        if not path.is_dir():
            raise KeyError(prefix)
        return path

    def uri(self, key: str) -> str:
        """Where a person finds the object."""
        return str(self.root / key)


def write_file(path: Path, data: bytes) -> None:
    """Write a local file, whole or not at all; its folder is made when it is not there."""
    with _partial_file(path, data) as partial:
        os.replace(partial, path)


@contextmanager
def _partial_file(path: Path, data: bytes) -> Iterator[Path]:
    """A file beside the path that holds the data and is on the disk; it is gone at the end, unless it was moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=_PARTIAL, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner reads; what is kept here is as open as any other file.
        Path(name).chmod(0o666 & ~_umask())
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def open_store(location: str) -> ObjectStore:
    """The object store at a location: the path of a local folder, or a bucket as `bucket.open_bucket` reads it.

    Raises InputError when the location is none, or when the bucket cannot be used.
    """
    if location.startswith("s3://"):
        from perf_pipeline.bucket import open_bucket  # boto3 takes a third of a second that a local folder can spare

        return open_bucket(location)
    if "://" in location:
        what = f"{location} is neither a local folder nor a bucket"
        raise InputError(Problem("PERF_PIPELINE_STORE", what, "name a folder, or s3://<bucket>/<prefix>"))
    return LocalObjectStore(Path(location))


@contextmanager
def working_folder(store: ObjectStore, name: str) -> Iterator[Path]:
    """A new empty folder to build in, near the local store so that the last move is cheap; removed at the end."""
    near = store.root if isinstance(store, LocalObjectStore) else None
    folder = Path(tempfile.mkdtemp(prefix=f"{_PARTIAL}{name}-", dir=near))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask

"""Landing: the lines of an access log become raw objects of the hour in which they were written.

What belongs here: the embedded way, from a log file. The objects' names come from the topic, the part and the offset of
their first line, and their bytes from nothing but the log, so that landing again writes the same bytes.
"""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import zstandard

from perf_pipeline.capture.log_file import LogLine, hours_of_log, read_log
from perf_pipeline.capture.raw_objects import (
    MANIFEST_NAME,
    LandingManifest,
    manifest_to_json,
    object_name,
    part_folder,
)
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.storage import ObjectStore, remove_abandoned, working_folder

__all__ = ["LandingManifest", "hours_of_log", "land_file"]

OBJECT_LINES = 50_000
"""Lines of an object; the last one of a part has fewer."""

OBJECT_BYTES = 256 * 2**20
"""An object of very long lines ends before it holds more than this, so that it can be read in memory."""

_PART = 0
_ZSTD_LEVEL = 3


def land_file(store: ObjectStore, log: Path, topic: str, hour: str) -> LandingManifest:
    """Land the lines that a log (plain, .gz or .zst) holds of one hour in UTC, such as `2026-11-30-04:00`.

    Writes `raw/<topic>/dt=/hour=/part=0/<first offset>.ndjson.zst`, where an offset is the number of a line in the log,
    from 0, and a `manifest.json`; the part appears whole, and replaces what was landed before. Raises InputError when
    the log cannot be read, is no JSON access log, or holds no line of the hour.
    """
    prefix = part_folder(topic, hour, _PART)
    remove_abandoned(store)
    lines = bytes_ = 0
    first_s: int | None = None
    last_s: int | None = None
    objects: list[str] = []
    hours: set[str] = set()
    with working_folder(store, "landing") as folder:
        for batch in _batches(read_log(log), hour, hours):
            data = b"".join(line.line + b"\n" for line in batch)
            name = object_name(batch[0].offset)
            compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
            (folder / name).write_bytes(compressor.compress(data))
            objects.append(f"{prefix}/{name}")
            lines, bytes_ = lines + len(batch), bytes_ + len(data)
            times = [line.time_s for line in batch if line.time_s is not None]
            first_s = min([*times, *([] if first_s is None else [first_s])], default=None)
            last_s = max([*times, *([] if last_s is None else [last_s])], default=None)
        if not objects:
            raise InputError(
                Problem(str(log), f"holds no line of {hour}", f"it holds {_shown(hours)}; name one of them")
            )
        manifest = LandingManifest(
            topic=topic,
            hour=hour,
            part=_PART,
            lines=lines,
            bytes=bytes_,
            first=None if first_s is None else datetime.fromtimestamp(first_s, UTC),
            last=None if last_s is None else datetime.fromtimestamp(last_s, UTC),
            source=log.name,
            source_sha256=_sha256(log),
            objects=tuple(objects),
        )
        (folder / MANIFEST_NAME).write_bytes(manifest_to_json(manifest))
        store.put_folder(prefix, folder)
    return manifest


def _batches(log: Iterator[LogLine], hour: str, hours: set[str]) -> Iterator[list[LogLine]]:
    """The lines of the hour, as many as belong into one object; every hour that is met goes into `hours`."""
    batch: list[LogLine] = []
    size = 0
    for line in log:
        hours.add(line.hour)
        if line.hour != hour:
            continue
        if batch and (len(batch) == OBJECT_LINES or size + len(line.line) >= OBJECT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line.line) + 1
    if batch:
        yield batch


def _shown(hours: set[str]) -> str:
    found = sorted(hours)
    return ", ".join(found) if len(found) <= 3 else f"{found[0]} to {found[-1]}"


def _sha256(log: Path) -> str:
    with log.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

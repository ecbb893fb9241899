"""Raw objects of the access log: how they are named and read, and the manifest beside them.

What belongs here: the layout that every way of landing shares,
`raw/<topic>/dt=YYYY-MM-DD/hour=HH/part=<p>/<first offset, 20 digits>.ndjson.zst` with a `manifest.json` in each part.
An object holds log lines as they came, each with a newline, compressed with zstd. Who lands them is in `landing`.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime

import pyarrow as pa
import zstandard

from perf_pipeline.capture.hours import hour_folder
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.storage import ObjectStore

MANIFEST_NAME = "manifest.json"
OBJECT_SUFFIX = ".ndjson.zst"

_LAND_AGAIN = "land the hour again: materialise raw_access_log"


@dataclass(frozen=True)
class LandingManifest:
    """What one landing of a part left: read from nothing but the log, so that the same log gives the same bytes."""

    topic: str
    hour: str
    part: int
    lines: int
    bytes: int
    """Bytes of the lines with their newlines, uncompressed."""
    first: datetime | None
    """Earliest time in UTC at which a line was written; None when no line tells."""
    last: datetime | None
    source: str
    """Name of the log, without its folder."""
    source_sha256: str
    objects: tuple[str, ...]
    """Keys of the objects, in order."""


def manifest_to_json(manifest: LandingManifest) -> bytes:
    """A manifest as it is stored."""
    return json.dumps(asdict(manifest), indent=2, default=datetime.isoformat).encode() + b"\n"


def manifest_from_json(data: bytes) -> LandingManifest:
    """A manifest from its stored form. Raises ValueError, KeyError or TypeError when it is none."""
    record = json.loads(data)
    for side in ("first", "last"):
        record[side] = record[side] and datetime.fromisoformat(record[side])
    return LandingManifest(**record | {"objects": tuple(record["objects"])})


def part_folder(topic: str, hour: str, part: int) -> str:
    """The folder of one part of an hour of a topic. Raises InputError when the hour is none."""
    return f"raw/{topic}/{hour_folder(hour)}/part={part}"


def object_name(first_offset: int) -> str:
    """The name of the object whose first line has this offset: names sort as offsets do."""
    return f"{first_offset:020d}{OBJECT_SUFFIX}"


def landed_objects(store: ObjectStore, topic: str, hour: str) -> list[str]:
    """The keys of the raw objects of an hour, sorted by part and offset.

    Raises InputError when there are none, or when a manifest names an object that is gone.
    """
    folder = f"raw/{topic}/{hour_folder(hour)}"
    keys = store.keys(folder)
    objects = [key for key in keys if key.endswith(OBJECT_SUFFIX)]
    if not objects:
        raise InputError(Problem(store.uri(folder), "holds no raw objects of the access log", _LAND_AGAIN))
    problems = [
        Problem(store.uri(missing), "is missing, but its manifest names it", _LAND_AGAIN)
        for key in keys
        if key.endswith(f"/{MANIFEST_NAME}")
        for missing in sorted(set(_named_in(store, key)) - set(objects))
    ]
    if problems:
        raise InputError(problems)
    return objects


def _named_in(store: ObjectStore, key: str) -> list[str]:
    """The objects of the hour that a manifest of any way of landing names."""
    try:
        objects = json.loads(store.get(key))["objects"]
        if not isinstance(objects, list):
            raise TypeError("not a list")
        return objects
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(Problem(store.uri(key), "is not a landing manifest", _LAND_AGAIN)) from error


def read_object(store: ObjectStore, key: str) -> pa.Buffer:
    """The lines of a raw object, each with its newline. Raises InputError when it is damaged."""
    try:
        data = _decompress(store.get(key))
    except zstandard.ZstdError as error:
        raise InputError(Problem(store.uri(key), f"is damaged: {error}", _LAND_AGAIN)) from error
    if data.size and data[-1] != ord("\n"):
        data = pa.py_buffer(data.to_pybytes() + b"\n")
    return data


def _decompress(compressed: bytes) -> pa.Buffer:
    """The bytes of all zstd frames. Raises ZstdError when one is damaged or cut off."""
    if compressed and (size := zstandard.frame_content_size(compressed)) >= 0:
        # Arrow reuses its memory from object to object. What it cannot read at once is looked at more closely below.
        with contextlib.suppress(pa.ArrowException, OSError):
            return pa.decompress(compressed, size, codec="zstd")
    frames: list[bytes] = []
    while compressed:
        frame = zstandard.ZstdDecompressor().decompressobj()
        frames.append(frame.decompress(compressed))
        if not frame.eof:
            raise zstandard.ZstdError("the last frame is cut off")
        compressed = frame.unused_data
    return pa.py_buffer(b"".join(frames))

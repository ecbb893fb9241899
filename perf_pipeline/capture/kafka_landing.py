"""Landing from Kafka: the lines of an hour become raw objects, exactly once.

What belongs here: the order of the steps. For each partition, from the range of the hour (`hour_bounds`): read it, put
each line into an object of its own hour, put the objects, put the manifest, commit. Every name and every byte follows
from the offsets and the records alone, and every write is conditional. So an attempt that was killed anywhere is
repeated by the next one, write for write, and two at the same time write the same. Once the manifest is there the
partition is landed for ever, whatever the broker still holds.

    raw/<topic>/dt=/hour=/part=<p>/<first offset>.ndjson.zst             lines of this hour
    raw/<topic>/dt=/hour=/part=<p>/strays/<first offset>.ndjson.zst      that another hour's run found
    raw/<topic>/dt=/hour=/part=<p>/quarantine/<first offset>.jsonl.zst   records that hold no line
    raw/<topic>/dt=/hour=/part=<p>/manifest.json                         the account of all of them
"""

import gc
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from perf_pipeline.capture.hour_bounds import MARGIN_S, HourRange, hour_ranges
from perf_pipeline.capture.hour_writer import HourWriter
from perf_pipeline.capture.kafka_topic import Topic
from perf_pipeline.capture.raw_objects import MANIFEST_NAME, part_folder
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.progress import track
from perf_pipeline.storage import ObjectStore

_ALLOCATIONS = 500_000


@dataclass(frozen=True)
class PartLanding:
    """What one landing of an hour of one partition left: its manifest."""

    topic: str
    hour: str
    part: int
    read: tuple[int, int]
    """Offsets that were read: from the first, to before the second."""
    owned: tuple[int, int]
    """Offsets of the records that came in this hour, by the records' times."""
    records: int
    """Records in `read`; fewer than its length where the topic has gaps."""
    expired: int
    """Offsets of `owned` that had left the topic before they were read: lines that are lost."""
    lines: int
    """Lines of this hour that were landed."""
    bytes: int
    """Bytes of these lines with their newlines, uncompressed."""
    first: datetime | None
    """Earliest time in UTC at which a line of this hour was written; None when there is none."""
    last: datetime | None
    objects: tuple[str, ...]
    """Keys of their objects, in order."""
    strays: dict[str, int] = field(default_factory=dict)
    """Lines of other hours, which came too late or too early for their own hour's run, by their hour."""
    stray_objects: tuple[str, ...] = ()
    quarantined: dict[str, int] = field(default_factory=dict)
    """Records in quarantine, by reason."""
    quarantine_objects: tuple[str, ...] = ()


@dataclass(frozen=True)
class HourLanding:
    """What the landing of an hour left, over all partitions of the topic."""

    topic: str
    hour: str
    parts: tuple[PartLanding, ...]
    lag: int
    """Records in the topic behind those that came in this hour: what is not landed, if no later hour is."""

    @property
    def lines(self) -> int:
        """Lines of this hour that were landed."""
        return sum(part.lines for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of these lines with their newlines, uncompressed."""
        return sum(part.bytes for part in self.parts)

    @property
    def records(self) -> int:
        """Offsets of the records that came in this hour."""
        return sum(part.owned[1] - part.owned[0] for part in self.parts)

    @property
    def expired(self) -> int:
        """Offsets that had left the topic before they were read: lines that are lost."""
        return sum(part.expired for part in self.parts)

    @property
    def first(self) -> datetime | None:
        """Earliest time in UTC at which a line of this hour was written."""
        return min((part.first for part in self.parts if part.first), default=None)

    @property
    def last(self) -> datetime | None:
        """Latest time in UTC at which a line of this hour was written."""
        return max((part.last for part in self.parts if part.last), default=None)

    @property
    def strays(self) -> dict[str, int]:
        """Lines of other hours by their hour, sorted: what was made of these hours before does not have them."""
        counts = sum((Counter(part.strays) for part in self.parts), Counter())
        return dict(sorted(counts.items()))

    @property
    def quarantined(self) -> dict[str, int]:
        """Records in quarantine by reason, most frequent first."""
        return dict(sum((Counter(part.quarantined) for part in self.parts), Counter()).most_common())


def land_hour(
    store: ObjectStore, topic: Topic, hour: str, margin_s: int = MARGIN_S, now_s: float | None = None
) -> HourLanding:
    """Land the lines of an hour in UTC such as `2026-11-30-04:00` from a topic.

    What is landed already is not read again. `margin_s` is how late or early a line may come and still be landed by its
    own hour's run; the hour can be landed once it has passed. Raises InputError when the hour is not over, when it lies
    before the topic's first record, or when the object store holds other lines than the topic under the same offsets.
    """
    ranges = hour_ranges(store, topic, hour, time.time() if now_s is None else now_s, margin_s)
    if not ranges:
        raise InputError(
            Problem(hour, f"topic {topic.name} begins after it", "name an hour in which the shipper was running")
        )
    parts = []
    for part, hour_range in track(
        list(ranges.items()), len(ranges), "Landing partitions", label=lambda each: str(each[0])
    ):
        landed = _landed(store, topic.name, hour, part)
        if landed is None:
            landed = _land_part(store, topic, hour, part, hour_range)
        topic.commit(part, hour_range.end.at)
        parts.append(landed)
    ends = topic.end_offsets()
    lag = sum(max(0, end - ranges[part].end.at) if part in ranges else end for part, end in ends.items())
    return HourLanding(topic.name, hour, tuple(parts), lag)


def _land_part(store: ObjectStore, topic: Topic, hour: str, part: int, hour_range: HourRange) -> PartLanding:
    first = topic.first_offsets()[part]
    start, end = hour_range.read
    writer = HourWriter(store, topic.name, hour, part, hour_range)
    with _rare_collections():
        for records in topic.read(part, max(start, min(first, end)), end):
            writer.take(records)
        written = writer.finish()
    owned = (hour_range.start.at, hour_range.end.at)
    landed = PartLanding(
        topic=topic.name,
        hour=hour,
        part=part,
        read=(start, end),
        owned=owned,
        records=written.records,
        expired=max(0, min(first, owned[1]) - owned[0]),
        lines=written.lines,
        bytes=written.bytes,
        first=None if written.first_s is None else datetime.fromtimestamp(written.first_s, UTC),
        last=None if written.last_s is None else datetime.fromtimestamp(written.last_s, UTC),
        objects=tuple(written.objects),
        strays=dict(sorted(written.strays.items())),
        stray_objects=tuple(written.stray_objects),
        quarantined=dict(sorted(written.quarantined.items())),
        quarantine_objects=tuple(written.quarantine_objects),
    )
    store.put_new(_manifest_key(topic.name, hour, part), part_to_json(landed))
    return landed


def _landed(store: ObjectStore, topic: str, hour: str, part: int) -> PartLanding | None:
    """What is landed of a partition; None when it is not, or when an object of it is gone and has to come again."""
    key = _manifest_key(topic, hour, part)
    try:
        landed = part_from_json(store.get(key))
    except KeyError:
        return None
    except (ValueError, TypeError) as error:
        raise InputError(
            Problem(store.uri(key), "is no manifest of a landing from Kafka", "remove it and land the hour again")
        ) from error
    there = set(store.keys(part_folder(topic, hour, part)))
    needed = {*landed.objects, *landed.quarantine_objects}
    if needed - there or not all(map(store.exists, landed.stray_objects)):
        return None
    return landed


def part_to_json(part: PartLanding) -> bytes:
    """A manifest as it is stored."""
    return json.dumps(asdict(part), indent=2, default=datetime.isoformat).encode() + b"\n"


def part_from_json(data: bytes) -> PartLanding:
    """A manifest from its stored form. Raises ValueError or TypeError when it is none."""
    record = json.loads(data)
    if not isinstance(record, dict):
        raise TypeError("not an object")
    for side in ("first", "last"):
        record[side] = record.get(side) and datetime.fromisoformat(record[side])
    tuples = ("read", "owned", "objects", "stray_objects", "quarantine_objects")
    return PartLanding(**record | {name: tuple(record.get(name, ())) for name in tuples})


def _manifest_key(topic: str, hour: str, part: int) -> str:
    return f"{part_folder(topic, hour, part)}/{MANIFEST_NAME}"


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for reference cycles rarely: Python would walk thousands of new records again and again and find none."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)

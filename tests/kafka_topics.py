"""A topic in memory for the tests of landing: records with gaps, in batches of any size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perf_pipeline.capture.kafka_topic import Record


@dataclass(frozen=True)
class FakeRecord:
    """One record."""

    offset: int
    timestamp: int
    value: bytes | None


@dataclass
class FakeTopic:
    """A topic whose partitions are lists of records, sorted by offset."""

    parts: list[list[FakeRecord]]
    name: str = "access"
    batch: int = 7
    starts: dict[int, int] = field(default_factory=dict)
    """First offsets that are still there, where that is not 0."""
    committed: dict[int, int] = field(default_factory=dict)
    was_read: list[tuple[int, int, int]] = field(default_factory=list)

    def partitions(self) -> list[int]:
        return list(range(len(self.parts)))

    def first_offsets(self) -> dict[int, int]:
        return {part: self.starts.get(part, 0) for part in self.partitions()}

    def end_offsets(self) -> dict[int, int]:
        return {part: records[-1].offset + 1 if records else 0 for part, records in enumerate(self.parts)}

    def offsets_at(self, time_s: float) -> dict[int, int | None]:
        return {
            part: next((each.offset for each in self._there(part) if each.timestamp >= time_s * 1000), None)
            for part in self.partitions()
        }

    def first_time_s(self) -> float | None:
        firsts = [self._there(part)[0].timestamp / 1000 for part in self.partitions() if self._there(part)]
        return min(firsts, default=None)

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[Record]]:
        self.was_read.append((partition, start, end))
        records = [each for each in self._there(partition) if start <= each.offset < end]
        for first in range(0, len(records), self.batch):
            yield records[first : first + self.batch]

    def commit(self, partition: int, offset: int) -> None:
        self.committed[partition] = max(offset, self.committed.get(partition, 0))

    def _there(self, part: int) -> list[FakeRecord]:
        return [each for each in self.parts[part] if each.offset >= self.starts.get(part, 0)]


def records(*lines: tuple[float, bytes | None], first: int = 0) -> list[FakeRecord]:
    """Records of (time in unix seconds, value), with consecutive offsets."""
    return [FakeRecord(first + number, int(time_s * 1000), value) for number, (time_s, value) in enumerate(lines)]

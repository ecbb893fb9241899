"""A Kafka topic as landing reads it: raw records of fixed ranges of offsets.

What belongs here: everything that talks to a broker. Partitions are assigned, never subscribed to, so no rebalance
takes them away; no deserialiser runs, so no record can stop the reading; the group is committed to for people who watch
its lag, and never read. What is in the records is for `record_lines`.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import yaml
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, OffsetOutOfRangeError, UnsupportedCodecError
from kafka.structs import OffsetAndMetadata

from perf_pipeline.capture.quick_records import read_quickly
from perf_pipeline.errors import InputError, Problem

POLL_RECORDS = 5_000
STALL_S = 120.0
"""Seconds without a record from a broker that has some, until reading gives up; a broker's restart takes fewer."""

_WHERE = "PERF_PIPELINE_KAFKA"
_POLL_MS = 500
_OURS = {
    "auto_offset_reset": "none",  # an offset that has expired is an answer, not a reason to read elsewhere
    "enable_auto_commit": False,  # it would commit what was returned, not what was stored
    "isolation_level": "read_committed",
    "key_deserializer": None,
    "value_deserializer": None,
    "max_poll_records": POLL_RECORDS,
    "max_partition_fetch_bytes": 8 * 2**20,
    "check_crcs": True,
}
_UNLESS_SET = {
    "reconnect_backoff_max_ms": 2_000,  # a broker that restarts is asked again soon, and not half a minute later
}
_log = logging.getLogger(__name__)


class Record(Protocol):
    """What landing reads of a record."""

    @property
    def offset(self) -> int:
        """Its number in the partition."""

    @property
    def timestamp(self) -> int:
        """Unix time in ms that the producer or the broker gave it; -1 for none."""

    @property
    def value(self) -> bytes | None:
        """The line of the log, as it came; None for a tombstone."""


class Damaged:
    """A place in a partition where the broker's own bytes are damaged: a record that no consumer can read."""

    timestamp = -1
    value = None

    def __init__(self, offset: int, why: str) -> None:
        """Where it is, and what the client said."""
        self.offset, self.why = offset, why


class Topic(Protocol):
    """A topic. Offsets are numbers of records in a partition; times are unix seconds."""

    @property
    def name(self) -> str:
        """Its name."""

    def partitions(self) -> list[int]:
        """The numbers of its partitions, sorted."""

    def first_offsets(self) -> dict[int, int]:
        """Per partition the first offset that is still there."""

    def end_offsets(self) -> dict[int, int]:
        """Per partition the offset that the next record will get."""

    def offsets_at(self, time_s: float) -> dict[int, int | None]:
        """Per partition the offset of its first record with this time or a later one; None where there is none."""

    def first_time_s(self) -> float | None:
        """The time of the topic's first records; None when it is empty."""

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[Record]]:
        """The records from `start` to before `end` that are there, in order, in batches."""

    def commit(self, partition: int, offset: int) -> None:
        """Tell the group that everything before an offset is landed; never backwards."""


class KafkaTopic:
    """A topic of a Kafka cluster. Made by `open_topic`."""

    def __init__(self, consumer: KafkaConsumer, name: str, stall_s: float = STALL_S) -> None:
        """Read a topic with a consumer that belongs to this object alone."""
        self._consumer = consumer
        self._name = name
        self._stall_s = stall_s

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(self._name, partition) for partition in self.partitions()]

    def partitions(self) -> list[int]:
        """The numbers of its partitions, sorted. Raises InputError when there is no such topic."""
        found = self._consumer.partitions_for_topic(self._name)
        if not found:
            raise InputError(
                Problem(_WHERE, f"the cluster has no topic {self._name!r}", "mend capture.topic, or make the topic")
            )
        return sorted(found)

    def first_offsets(self) -> dict[int, int]:
        """Per partition the first offset that is still there."""
        return {each.partition: offset for each, offset in self._consumer.beginning_offsets(self._all()).items()}

    def end_offsets(self) -> dict[int, int]:
        """Per partition the offset that the next record will get."""
        return {each.partition: offset for each, offset in self._consumer.end_offsets(self._all()).items()}

    def offsets_at(self, time_s: float) -> dict[int, int | None]:
        """Per partition the offset of its first record with this time or a later one; None where there is none."""
        found = self._consumer.offsets_for_times({each: int(time_s * 1000) for each in self._all()})
        return {each.partition: at.offset if at is not None else None for each, at in found.items()}

    def first_time_s(self) -> float | None:
        """The time of the topic's first records; None when it is empty."""
        found = self._consumer.offsets_for_times(dict.fromkeys(self._all(), 0))
        return min((at.timestamp / 1000 for at in found.values() if at is not None), default=None)

    def read(self, partition: int, start: int, end: int) -> Iterator[Sequence[Record]]:
        """The records from `start` to before `end` that are there, in order, in batches.

        Offsets without a record, left by compaction, transactions or retention, are passed over. Raises InputError when
        the broker sends nothing for a long time.
        """
        at = TopicPartition(self._name, partition)
        self._consumer.assign([at])
        position = start
        self._consumer.seek(at, position)
        heard_s = time.monotonic()
        while position < end:
            try:
                records = self._consumer.poll(_POLL_MS).get(at, [])
            except OffsetOutOfRangeError:
                first = self._consumer.beginning_offsets([at])[at]
                if first <= position:
                    raise
                position = first
                self._consumer.seek(at, position)
                continue
            except CorruptRecordError as error:
                yield [Damaged(position, str(error))]
                position += 1
                self._consumer.seek(at, position)
                continue
            except UnsupportedCodecError as error:
                raise InputError(Problem(f"{self._name}-{partition}", str(error), "install its library")) from error
            reached = self._consumer.position(at)
            if reached == position:
                if time.monotonic() - heard_s > self._stall_s:
                    what = f"no record at offset {position} of {end} for {self._stall_s:.0f} s"
                    raise InputError(Problem(f"{self._name}-{partition}", what, "see that its brokers run"))
                continue
            position, heard_s = reached, time.monotonic()
            if records and records[-1].offset >= end:
                records = [record for record in records if record.offset < end]
            if records:
                yield records

    def commit(self, partition: int, offset: int) -> None:
        """Tell the group that everything before an offset is landed; never backwards.

        The bucket is the truth: a group that cannot be told changes nothing but what its watchers see.
        """
        at = TopicPartition(self._name, partition)
        try:
            self._consumer.assign([at])
            if (self._consumer.committed(at) or 0) < offset:
                self._consumer.commit({at: OffsetAndMetadata(offset, "", -1)})
        except KafkaError as error:
            _log.warning("%s-%d is landed up to offset %d, but its group was not told: %s",
                         self._name, partition, offset, error)  # fmt: skip

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()


@contextmanager
def open_topic(
    bootstrap: str, name: str, settings: Path | None = None, stall_s: float = STALL_S
) -> Iterator[KafkaTopic]:
    """A topic of the cluster behind `bootstrap`, `host:port[,host:port...]`.

    `settings` is a YAML file of further settings of kafka-python's consumer, such as `security_protocol`. Raises
    InputError when the cluster cannot be reached or a setting is not known.
    """
    given = read_settings_file(settings) if settings else {}
    group = given.pop("group_id", f"perf-pipeline.{name}")
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), group_id=group, **(_UNLESS_SET | given | _OURS)
        )
    except (KafkaError, ValueError, TypeError, AssertionError) as error:
        remedy = "name a broker as host:port, and its security settings in PERF_PIPELINE_KAFKA_SETTINGS"
        raise InputError(Problem(_WHERE, f"{bootstrap} cannot be used: {error}", remedy)) from error
    read_quickly(consumer)
    topic = KafkaTopic(consumer, name, stall_s)
    try:
        yield topic
    except KafkaError as error:
        remedy = "see that the brokers run and that this user may read the topic; then run it again"
        raise InputError(Problem(f"topic {name} of {bootstrap}", f"{type(error).__name__}: {error}", remedy)) from error
    finally:
        with suppress(KafkaError):
            topic.close()


def read_settings_file(path: Path) -> dict[str, Any]:
    """Settings of the consumer from a YAML file. Raises InputError when it is none, or sets what landing relies on."""
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(Problem(str(path), f"cannot be read: {type(error).__name__}", "write a YAML file")) from None
    if not isinstance(settings, Mapping):
        raise InputError(Problem(str(path), "is no list of settings", "write `name: value` on each line"))
    if fixed := sorted(set(settings) & {*_OURS, "bootstrap_servers"}):
        remedy = "leave them out: landing relies on its own"
        raise InputError([Problem(str(path), f"sets {name}", remedy) for name in fixed])
    return dict(settings)

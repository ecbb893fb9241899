"""The objects of one hour of one partition, from its records.

What belongs here: which object a line goes to, where objects are cut, and putting them where nobody else can write
others. Objects are cut at offsets that are multiples of `OBJECT_OFFSETS`: that needs no memory of what came before, and
neither batches nor gaps move it. A key has the first offset of the slice that the object was cut from.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import zstandard

from perf_pipeline.capture.access_log import read_record
from perf_pipeline.capture.hour_bounds import HourRange
from perf_pipeline.capture.hours import hour_of, hour_start_s
from perf_pipeline.capture.kafka_topic import Record
from perf_pipeline.capture.raw_objects import object_name, part_folder, read_object
from perf_pipeline.capture.record_lines import (
    RECORD_BYTES_MAX,
    TIME_BYTES,
    JsonCheck,
    Unreadable,
    quarantine_line,
    read_line,
    read_value,
    second_of,
)
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.storage import ObjectStore

OBJECT_OFFSETS = 50_000
"""Offsets of the slice of a partition that one object is cut from."""

OBJECT_BYTES = 128 * 2**20
"""An object of very long lines ends before it holds more than this; the rest of the slice goes into another."""

QUARANTINE_SUFFIX = ".jsonl.zst"
_HOUR_S = 3600
_ZSTD_LEVEL = 1  # on these lines level 3 takes twice the time and saves nothing


@dataclass
class Written:
    """The account of what was written."""

    records: int = 0
    lines: int = 0
    bytes: int = 0
    first_s: int | None = None
    last_s: int | None = None
    objects: list[str] = field(default_factory=list)
    strays: Counter[str] = field(default_factory=Counter)
    stray_objects: list[str] = field(default_factory=list)
    quarantined: Counter[str] = field(default_factory=Counter)
    quarantine_objects: list[str] = field(default_factory=list)


@dataclass
class _Slice:
    """Lines of one hour that will become an object."""

    first_offset: int
    lines: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    size: int = 0


class HourWriter:
    """Takes the records of an hour's range in order, in batches of any size."""

    def __init__(self, store: ObjectStore, topic: str, hour: str, part: int, hour_range: HourRange) -> None:
        """Write what the run of `hour` owns of one partition."""
        self._store, self._topic, self._part, self._range = store, topic, part, hour_range
        self._folder, self._hour_s = part_folder(topic, hour, part), hour_start_s(hour)
        self._beginnings: set[bytes] = set()  # of lines of this hour
        self._number = -1  # of the slice of the partition that is being read
        self._slices: dict[int, _Slice] = {}
        self._quarantine: list[bytes] = []
        self._json = JsonCheck()
        self._written = Written()

    def take(self, records: Sequence[Record]) -> None:
        """Take the next records; objects of the slices that they complete are put."""
        self._written.records += len(records)
        start = 0
        while start < len(records):
            number = records[start].offset // OBJECT_OFFSETS
            if number != self._number:
                self._put_all()
                self._number = number
            end = bisect_left(records, (number + 1) * OBJECT_OFFSETS, start, key=lambda record: record.offset)
            piece = records[start:end]
            if not self._take_plain(piece):
                for record in piece:
                    self._take_one(record)
            start = end

    def finish(self) -> Written:
        """Put what is left; the account of everything."""
        self._put_all()
        return self._written

    def _take_plain(self, records: Sequence[Record]) -> bool:
        """Take records whose lines begin as nginx's do, all in this hour; take none of them if one does not."""
        values = [record.value for record in records]
        try:
            beginnings = {value[:TIME_BYTES] for value in values}  # type: ignore[index]
        except TypeError:
            return False
        if not beginnings <= self._beginnings:
            for beginning in beginnings - self._beginnings:
                second = second_of(beginning)
                if second is not None and second - second % _HOUR_S == self._hour_s:
                    self._beginnings.add(beginning)
                    self._note(second)
            if not beginnings <= self._beginnings:
                return False
        sizes = list(map(len, values))  # type: ignore[arg-type]
        size = sum(sizes) + len(sizes)
        piece = self._slice(self._hour_s)
        if piece.size + size > OBJECT_BYTES or max(sizes) > RECORD_BYTES_MAX:
            return False
        piece.lines += values  # type: ignore[arg-type]
        piece.offsets += [record.offset for record in records]
        piece.size += size
        return True

    def _take_one(self, record: Record) -> None:
        """Take any record."""
        read = read_line(record)
        if not isinstance(read, Unreadable) and read.time_s is None:
            if (why := _no_object(read.line)) is not None:
                read = why
            elif record.timestamp < 0:
                read = Unreadable.NO_TIME
            else:
                read = read._replace(time_s=record.timestamp // 1000)
        if isinstance(read, Unreadable):
            if self._range.came_in(record.offset):
                self._set_aside(record.offset, read, record.value, getattr(record, "why", None))
            return
        time_s = read.time_s or 0
        hour_s = time_s - time_s % _HOUR_S
        if not self._range.owns(record.offset, (hour_s - self._hour_s) // _HOUR_S):
            return
        piece = self._slice(hour_s)
        if piece.lines and piece.size + len(read.line) >= OBJECT_BYTES:
            self._put(hour_s, piece)
            piece = self._slices[hour_s] = _Slice(record.offset)
        piece.lines.append(read.line)
        piece.offsets.append(record.offset)
        piece.size += len(read.line) + 1
        if hour_s == self._hour_s:
            self._note(time_s)

    def _slice(self, hour_s: int) -> _Slice:
        if hour_s not in self._slices:
            # Strays of two runs may come from one slice of the partition: each names its part of it.
            start = self._range.start.before if hour_s == self._hour_s else self._range.start.at
            self._slices[hour_s] = _Slice(max(start, self._number * OBJECT_OFFSETS))
        return self._slices[hour_s]

    def _note(self, time_s: int) -> None:
        written = self._written
        written.first_s = time_s if written.first_s is None else min(written.first_s, time_s)
        written.last_s = time_s if written.last_s is None else max(written.last_s, time_s)

    def _set_aside(self, offset: int, why: Unreadable, value: bytes | None, detail: str | None = None) -> None:
        self._quarantine.append(quarantine_line(self._topic, self._part, offset, why, value, detail))
        self._written.quarantined[str(why)] += 1

    def _put_all(self) -> None:
        """Put the objects of the slice of the partition that was read to its end."""
        for hour_s, piece in sorted(self._slices.items()):
            self._put(hour_s, piece)
        self._slices.clear()
        if self._quarantine:
            first = max(self._range.start.before, self._number * OBJECT_OFFSETS)
            key = f"{self._folder}/quarantine/{first:020d}{QUARANTINE_SUFFIX}"
            put_once(self._store, key, b"".join(self._quarantine))
            self._written.quarantine_objects.append(key)
            self._quarantine.clear()

    def _put(self, hour_s: int, piece: _Slice) -> None:
        """Put the object of a slice; lines that turn out to be none go into quarantine."""
        written = self._written
        data = self._sound(piece)
        if not data:
            return
        is_own = hour_s == self._hour_s
        folder = self._folder if is_own else f"{part_folder(self._topic, hour_of(hour_s), self._part)}/strays"
        key = f"{folder}/{object_name(piece.first_offset)}"
        stored = put_once(self._store, key, data)
        lines = stored.count(b"\n")
        if is_own:
            written.lines += lines
            written.bytes += len(stored)
            written.objects.append(key)
        else:
            written.strays[hour_of(hour_s)] += lines
            written.stray_objects.append(key)

    def _sound(self, piece: _Slice) -> bytes:
        """The lines that are JSON objects, each with its newline."""
        lines = piece.lines
        data = b"\n".join([*lines, b""])
        unreadable: dict[int, Unreadable] = {}
        if is_changed := data.count(b"\n") != len(lines):
            for number, line in enumerate(lines):
                read = read_value(line)
                if isinstance(read, Unreadable):
                    unreadable[number] = read
                else:
                    lines[number] = read.line
        unreadable = self._json.unreadable(lines) | unreadable
        for number, why in unreadable.items():
            self._set_aside(piece.offsets[number], why, lines[number])
        if is_changed or unreadable:
            data = b"".join(line + b"\n" for number, line in enumerate(lines) if number not in unreadable)
        return data


def put_once(store: ObjectStore, key: str, data: bytes) -> bytes:
    """Put an object of lines under a key that nobody has written yet; what is there now, uncompressed.

    An earlier attempt may have put it, with the same lines, or with more of them if records have left the topic since
    then. Raises InputError when it holds other lines.
    """
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
    if store.put_new(key, compressor.compress(data)):
        return data
    before = read_object(store, key).to_pybytes()
    if before != data:
        there = iter(before.split(b"\n"))
        if not all(line in there for line in data.split(b"\n")):
            what = "holds other lines than the topic has there now"
            remedy = "the topic was made anew under its old name: give it a new one, or remove what the old one left"
            raise InputError(Problem(store.uri(key), what, remedy))
    return before


def _no_object(line: bytes) -> Unreadable | None:
    """Why a line is no JSON object; None when it is one."""
    if read_record(line) is not None:
        return None
    try:
        line.decode()
    except UnicodeDecodeError:
        return Unreadable.NOT_UTF8
    return Unreadable.NOT_JSON

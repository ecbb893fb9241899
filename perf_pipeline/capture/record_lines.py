"""What a record of the topic holds: a line of an hour, or something that belongs in quarantine.

What belongs here: the rules on single records, and which lines are JSON, many at a time. A record is judged by nothing
but itself, so that it is judged the same in whatever batch it comes. What a line says is judged later, in `sieve`.

A line that is not UTF-8 is landed all the same when it is a JSON object otherwise: nginx writes bytes of a request as
they came, and they stand in the fields that hold them.
"""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import NamedTuple

import duckdb
import pyarrow as pa

from perf_pipeline.capture.access_log import read_record, time_of_line_s
from perf_pipeline.capture.kafka_topic import Damaged, Record

RECORD_BYTES_MAX = 2**18
"""A longer record is no line of nginx, whose lines stay below 64 KiB with its default header buffers."""

TIME_BYTES = 27
"""Length of the beginning of a line, `{"v":"1","msec":"1796011260`, that tells the second in which it was written."""
_TIME = re.compile(rb'\{"v":"1","msec":"([0-9]{10})')


class Unreadable(StrEnum):
    """Why a record is in quarantine."""

    EMPTY = "no line in it"
    TOO_LONG = f"longer than {RECORD_BYTES_MAX // 1024} KiB"
    SEVERAL_LINES = "several lines in it"
    NOT_UTF8 = "neither UTF-8 nor JSON"
    NOT_JSON = "no JSON object"
    NO_TIME = "no time in it nor in the record"
    DAMAGED = "damaged in the broker"


class ReadLine(NamedTuple):
    """What could be read of a record."""

    line: bytes
    time_s: int | None
    """When nginx wrote it, in unix seconds; None when the line does not tell."""


def second_of(beginning: bytes) -> int | None:
    """The unix second that the first `TIME_BYTES` of a line tell; None when they do not look like nginx's."""
    match = _TIME.fullmatch(beginning)
    return int(match[1]) if match else None


def read_line(record: Record) -> ReadLine | Unreadable:
    """The line of a record without its newline, and its time, or why there is none; whether it is JSON is left open."""
    if record.value is None:
        return Unreadable.DAMAGED if isinstance(record, Damaged) else Unreadable.EMPTY
    return read_value(record.value)


def read_value(value: bytes) -> ReadLine | Unreadable:
    """The same of the bytes of a record."""
    if len(value) > RECORD_BYTES_MAX:
        return Unreadable.TOO_LONG
    line = value[:-2] if value.endswith(b"\r\n") else value.removesuffix(b"\n")
    if not line.strip():
        return Unreadable.EMPTY
    if b"\n" in line:
        return Unreadable.SEVERAL_LINES
    time_s = second_of(line[:TIME_BYTES])
    return ReadLine(line, time_of_line_s(line) if time_s is None else time_s)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


class JsonCheck:
    """Tells lines that are JSON objects, many at a time."""

    def __init__(self) -> None:
        """Use DuckDB's parser: the fastest at hand that builds nothing."""
        self._duckdb = _database().cursor()

    def unreadable(self, lines: Sequence[bytes]) -> dict[int, Unreadable]:
        """The numbers of the lines that are no JSON objects, and why."""
        try:
            return self._of_texts(lines)
        except pa.ArrowInvalid:
            pass
        texts: list[int] = []
        found = {}
        for number, line in enumerate(lines):
            try:
                line.decode()
                texts.append(number)
            except UnicodeDecodeError:
                if read_record(line) is None:
                    found[number] = Unreadable.NOT_UTF8
        of_texts = self._of_texts([lines[number] for number in texts])
        return dict(sorted((found | {texts[number]: why for number, why in of_texts.items()}).items()))

    def _of_texts(self, lines: Sequence[bytes]) -> dict[int, Unreadable]:
        """The same of lines that are UTF-8. Raises ArrowInvalid when one is not."""
        table = pa.table({"line": pa.array(lines, pa.string())})
        # The pattern comes first: most lines end the question there, and a text or a number is JSON too, but no line.
        wanted = "starts_with(ltrim(line), '{') AND json_valid(line)"
        relation = self._duckdb.from_arrow(table)
        if relation.aggregate(f"count(*) FILTER (NOT ({wanted}))").fetchall() == [(0,)]:
            return {}
        flags = relation.project(wanted).fetchall()
        return {number: Unreadable.NOT_JSON for number, (is_object,) in enumerate(flags) if not is_object}


def quarantine_line(
    topic: str, partition: int, offset: int, why: Unreadable, value: bytes | None, detail: str | None = None
) -> bytes:
    """A record as it stands in quarantine: where it is in the topic, why, and its bytes in base64, as one JSON line."""
    entry = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "reason": str(why),
        "detail": detail,
        "value": None if value is None else b64encode(value).decode(),
    }
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"

"""An access log in a file: its lines, and the hour that each belongs to.

What belongs here: reading plain, gzip and zstd files in bounded memory, and telling a JSON access log from any other
file. What lands the lines in the object store is in `landing`.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard

from perf_pipeline.capture.access_log import LOG_FORMAT_REMEDY, read_record, time_of_line_s
from perf_pipeline.capture.hours import hour_of
from perf_pipeline.errors import InputError, Problem

LINE_BYTES_MAX = 2**20
"""Longer lines are cut here and so end in quarantine: holes that a truncated file left, not requests."""

_LINES_TO_TELL = 1000
_CHUNK_BYTES = 2**20
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class LogLine(NamedTuple):
    """One line of a log."""

    offset: int
    """Number of the line in the log, from 0."""
    hour: str
    """Hour in UTC in which it was written; for a line that does not tell, that of the nearest line before that does."""
    time_s: int | None
    """When it was written, in unix seconds."""
    line: bytes
    """The line as it came, without its newline."""


def read_log(log: Path) -> Iterator[LogLine]:
    """The lines of a JSON access log, in order.

    Raises InputError when the file cannot be read, is damaged, or is no JSON access log: when none of its first 1,000
    lines is JSON, or none tells its time.
    """
    waiting: list[LogLine] = []
    hour, hour_start_s, is_json = "", 0, False
    offset = -1
    for offset, line in enumerate(_lines(log)):
        time_s = time_of_line_s(line)
        if time_s is not None and not (hour and hour_start_s <= time_s < hour_start_s + 3600):
            hour, hour_start_s = hour_of(time_s), time_s - time_s % 3600
        read = LogLine(offset, hour, time_s, line)
        is_json = is_json or read_record(line) is not None
        if hour and is_json:
            for early in waiting:
                yield early if early.hour else early._replace(hour=hour)
            waiting.clear()
            yield read
        else:
            waiting.append(read)
            if len(waiting) == _LINES_TO_TELL:
                break
    if waiting:
        raise _no_access_log(log, waiting[0].line, is_json)
    if offset < 0:
        raise InputError(Problem(str(log), "is empty", f"name a JSON access log; {LOG_FORMAT_REMEDY}"))


def hours_of_log(log: Path) -> list[str]:
    """The hours in UTC that a JSON access log covers, sorted. Raises InputError as `read_log` does."""
    return sorted({line.hour for line in read_log(log)})


def _no_access_log(log: Path, first: bytes, is_json: bool) -> InputError:
    if is_json:
        return InputError(Problem(str(log), "is JSON, but its first lines have no readable msec", LOG_FORMAT_REMEDY))
    shown = ascii(first[:80].decode("utf-8", "backslashreplace")) + ("..." if len(first) > 80 else "")
    return InputError(Problem(f"{log}:1", f"is not a JSON access log; it starts with {shown}", LOG_FORMAT_REMEDY))


def _lines(log: Path) -> Iterator[bytes]:
    """The lines without their newlines, each cut after `LINE_BYTES_MAX`; also the last one if it has no newline."""
    rest = b""
    for chunk in _chunks(log):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line[:LINE_BYTES_MAX]
        rest = rest[:LINE_BYTES_MAX]
    if rest:
        yield rest


def _chunks(log: Path) -> Iterator[bytes]:
    """The uncompressed bytes, whatever the file is called."""
    try:
        with log.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            if magic.startswith(_GZIP_MAGIC):
                with gzip.GzipFile(fileobj=file) as unzipped:
                    yield from iter(lambda: unzipped.read(_CHUNK_BYTES), b"")
            elif magic == _ZSTD_MAGIC:
                yield from _zstd_chunks(file)
            else:
                yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise InputError(Problem(str(log), f"is damaged or cut off: {error}", "copy the log again")) from error
    except OSError as error:
        raise InputError(
            Problem(str(log), f"cannot be read: {error.strerror or error}", "name a JSON access log")
        ) from error


def _zstd_chunks(file: BinaryIO) -> Iterator[bytes]:
    frame = zstandard.ZstdDecompressor().decompressobj()
    rest = b""
    while data := rest or file.read(_CHUNK_BYTES // 8):
        if frame.eof:
            frame = zstandard.ZstdDecompressor().decompressobj()
        yield frame.decompress(data)
        rest = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise zstandard.ZstdError("the last frame has no end")

"""What a form of result is, and what is read from a file of it.

What belongs here: the values that the modules of the forms share. Each of those turns a file into `Load`s; `measured`
turns a `Load` into a measured run.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.metrics.foreign.told import Told
from perf_pipeline.metrics.histogram import WindowedHistogram

MAKE_AGAIN = "make the file again, or take it away"

_HEAD_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Load:
    """What a file says of the load of one run, over its hold."""

    latency: WindowedHistogram | None
    """Latency in ms of the requests that succeeded, or of all where the form does not tell them apart; None when there
    is none."""
    requests: int
    """Requests of the hold, as far as the form counts them."""
    errors: int | None
    """Requests of these that failed; None when the form does not say."""
    hold_s: float | None
    """Length of the hold; None when the form does not say."""
    hold_start_s: float | None = None
    """Start of the hold in unix seconds; None when the form does not say."""
    sub_window_s: float | None = None
    """Length of the sub-windows of `latency`; None when the form has no time axis."""
    density: float | None = None
    """Share of the seconds of the hold that hold requests, 0 to 1; None when the form has no time axis."""
    dropped_iterations: int | None = None
    answers_looked_at: int = 0
    """Answers whose body was looked at for GraphQL errors."""
    answers_with_errors: int = 0
    tag: str = ""
    """Which of several distributions in one file this is; empty for the only one."""
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """By check of Gate 1 that this file cannot answer: why."""
    remarks: Sequence[str] = ()
    """What a reader has to know of how the file was read, one sentence each."""


@dataclass(frozen=True)
class Form:
    """A form of result that can be read."""

    name: str
    """Such as "k6 JSON"."""
    recognises: Callable[[bytes], bool]
    """Whether the first part of a file, plain, is of this form."""
    read: Callable[[Path, Told], Sequence[Load]]
    """Raises InputError with what is wrong with the file."""
    missing: Mapping[str, str]
    """By metric that no file of this form holds: why."""
    not_measured: Mapping[str, str]
    """By check of Gate 1 that no file of this form can answer: why."""


@dataclass(frozen=True)
class UnreadableForm:
    """A form that is known and of no use, and what to do instead."""

    name: str
    recognises: Callable[[bytes], bool]
    remedy: str


def head_of(path: Path) -> bytes:
    """The first part of a file, unpacked and without a byte order mark; as much of it as can be read."""
    head = b""
    try:
        with open_plain(path) as file:
            # One block at a time: the rest of a block that is cut off would be lost with its error.
            while len(head) < _HEAD_BYTES and (block := file.read1(1024)):
                head += block
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass  # Whoever reads the file says so.
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error.strerror}", "make the file readable")) from error
    return head.removeprefix(_BYTE_ORDER_MARK)


def is_gzip(path: Path) -> bool:
    """Whether a file is gzip, whatever its name says."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


def open_plain(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """A file, unpacked when it is gzip."""
    return gzip.open(path) if is_gzip(path) else path.open("rb")


def check_whole(path: Path) -> None:
    """Raise InputError when a file of lines is empty, damaged, or ends in the middle of one: its last value may lie.

    A gzip file is unpacked for that, which takes a tenth of the time of reading it: DuckDB looks at no checksum.
    """
    if not is_gzip(path) and _ends_with_line(path):
        return
    lines, block = 0, b""
    try:
        with open_plain(path) as file:
            while read := file.read(_BLOCK_BYTES):
                block = read
                lines += block.count(b"\n")
    except EOFError as error:
        raise InputError(cut_off(path, lines)) from error
    except (zlib.error, gzip.BadGzipFile) as error:
        raise InputError(Problem(str(path), f"is a damaged gzip file: {error}", MAKE_AGAIN)) from error
    if not block:
        raise InputError(Problem(str(path), "is empty", MAKE_AGAIN))
    if not block.endswith(b"\n"):
        raise InputError(cut_off(path, lines))


def _ends_with_line(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, io.SEEK_END):
            return False
        file.seek(-1, io.SEEK_END)
        return file.read(1) == b"\n"


def cut_off(path: Path, lines: int) -> Problem:
    """The problem of a file that ends in the middle, after this many whole lines."""
    what = f"is cut off: {lines} lines can be read, then it ends in the middle"
    return Problem(str(path), what, f"what wrote it was killed, or the disk was full: {MAKE_AGAIN}")


def plain_text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a whole file with their numbers from 1, one at a time; what is not UTF-8 in them is marked."""
    with open_plain(path) as file:
        for number, line in enumerate(file, start=1):
            yield number, line.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace").rstrip("\r\n")


def shown(text: str, most: int = 60) -> str:
    """The beginning of what stands in a file, fit to be printed: a damaged file may hold anything."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[:most])


def read_text(path: Path, most_bytes: int) -> str:
    """The text of a small file. Raises InputError when it is cut off, not text, or larger than that."""
    try:
        with open_plain(path) as file:
            data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            what = f"is larger than {most_bytes / 1e6:g} MB, which no file of its form is"
            raise InputError(Problem(str(path), what, MAKE_AGAIN))
        return data.decode("utf-8-sig")
    except EOFError as error:
        raise InputError(Problem(str(path), "is cut off: the gzip file ends in the middle", MAKE_AGAIN)) from error
    except (zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}", MAKE_AGAIN)) from error

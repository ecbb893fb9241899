"""CSV files that a run recorded, plain or gzip: is the header right, is the file whole?

What belongs here: what `k6_samples` and `series` ask of a file before they read its rows, and the problems that they
report in the same words. What the columns mean is theirs.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from perf_pipeline.errors import InputError, Problem

MEASURE_AGAIN = "measure the run again, or take its directory away"
_LONGEST_HEADER = 100_000


def find_recorded(run: Path, names: Sequence[str]) -> Path | None:
    """The one file of these names in a run directory, or None. Raises InputError when there are more."""
    there = [run / name for name in names if (run / name).is_file()]
    if len(there) > 1:
        found = " and ".join(path.name for path in there)
        raise InputError(Problem(str(run), f"holds {found}", "keep the one that belongs to run.json"))
    return there[0] if there else None


def read_header(path: Path, needed: Sequence[str]) -> list[str]:
    """The column names of a file that is whole as far as can be told without reading it.

    Raises InputError when the file cannot be read, is empty, lacks a needed column, has one twice, or ends in the
    middle of a row. A gzip file that ends in the middle is found by whoever reads its rows: see `cut_off`.
    """
    try:
        with _open(path) as file:
            line = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
        header = next(csv.reader([line]), [])
    except EOFError as error:
        raise InputError(cut_off(path)) from error
    except (gzip.BadGzipFile, zlib.error, UnicodeDecodeError, csv.Error) as error:
        what = "is not a gzip file" if _is_gzip(path) else "is not a CSV file"
        raise InputError(Problem(str(path), f"{what}: {error}", MEASURE_AGAIN)) from error
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error.strerror}", "make the file readable")) from error
    if not header:
        raise InputError(Problem(str(path), "is empty", MEASURE_AGAIN))
    problems = []
    if missing := [name for name in needed if name not in header]:
        what = f"lacks the columns {', '.join(missing)}; it has {', '.join(header)[:300]}"
        problems.append(Problem(str(path), what, "docs/run-directory.md names the columns"))
    if doubled := sorted({name for name in header if header.count(name) > 1}):
        problems.append(Problem(str(path), f"has the columns {', '.join(doubled)} twice", "keep one of them"))
    if not problems and not _ends_with_line(path):
        problems.append(cut_off(path))
    if problems:
        raise InputError(problems)
    return header


def cut_off(path: Path) -> Problem:
    """The problem of a file that ends in the middle, with the number of rows that can be read."""
    rows = max(0, sum(block.count(b"\n") for block in _readable_blocks(path)) - 1)
    return Problem(
        str(path),
        f"is cut off: {rows} rows can be read, then it ends in the middle",
        f"what wrote it was killed, or the disk was full: {MEASURE_AGAIN}",
    )


def _is_gzip(path: Path) -> bool:
    return path.suffix == ".gz"


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path) if _is_gzip(path) else path.open("rb")


def _ends_with_line(path: Path) -> bool:
    """Whether a plain file ends with a line end. One that does not was stopped in a row, and its last value may lie."""
    if _is_gzip(path):
        return True
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"


def _readable_blocks(path: Path) -> Iterator[bytes]:
    """What can be read of a file, as far as it goes."""
    with _open(path) as file:
        try:
            # read1 gives what is there; read would lose the whole last block to the error.
            while block := file.read1(1 << 16):
                yield block
        except (EOFError, OSError, zlib.error):
            return

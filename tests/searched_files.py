"""Everything that files hold, for tests that look for what must not be there: unpacked, and columns as texts."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import zstandard


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Each file of a folder with its bytes, and again with what is packed into them."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = path.read_bytes()
        yield path, data
        if path.suffix == ".gz":
            yield path, gzip.decompress(data)
        elif path.suffix == ".zst":
            yield path, zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
        elif path.suffix == ".parquet":
            yield path, b"\n".join(parquet_texts(path).values())
        elif path.suffix == ".duckdb":
            yield path, b"\n".join(duckdb_texts(path))


def parquet_texts(path: Path) -> dict[str, bytes]:
    """All values of each column of a Parquet file, and its metadata, as text."""
    table = pq.read_table(path)
    texts = {name: repr(table[name].to_pylist()).encode() for name in table.schema.names}
    return texts | {"metadata of the file": repr(table.schema.metadata).encode()}


def duckdb_texts(path: Path) -> Iterator[bytes]:
    """All rows of each table of a DuckDB file, as text."""
    with duckdb.connect(str(path), read_only=True) as database:
        for (name,) in database.sql("SELECT table_name FROM duckdb_tables()").fetchall():
            yield repr(database.sql(f'SELECT * FROM "{name}"').fetchall()).encode()

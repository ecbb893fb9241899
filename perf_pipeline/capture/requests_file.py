"""The file `requests.parquet`: its columns, how it is written, and the one column of it that holds tokens.

What belongs here: the form of the file. Which requests stand in it is decided in `requests`.

The column `token` is the only place where a token is at rest. It is empty where the plan has tokens made at the replay.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perf_pipeline.capture.tokens import Token

REQUESTS_NAME = "requests.parquet"
MANIFEST_NAME = "manifest.json"
ROW_GROUP_ROWS = 250_000

TEXTS = pa.dictionary(pa.int32(), pa.string())

REQUESTS = pa.schema(
    [
        pa.field("arrival", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("user", TEXTS, nullable=False),
        pa.field("uri", TEXTS, nullable=False),
        pa.field("route", TEXTS, nullable=False),
        pa.field("status", pa.int16(), nullable=False),
        pa.field("sampling_rate", pa.float64(), nullable=False),
        pa.field("accept_encoding", TEXTS, nullable=False),
        pa.field("token", TEXTS, nullable=False),
    ]
)
"""Rows of `requests.parquet`, sorted by arrival (line written minus request time) and request id. `uri` is ASCII with
one leading `/` and no fragment; `route` its template; `sampling_rate` the share of requests that were logged, 0 to 1.
Readers see plain texts: the dictionaries are how the file is written."""

_DICTIONARY_BYTES = 64 * 2**20  # tokens: one per user, 500 bytes each, must stay a dictionary


def private_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer of a Parquet file for its owner's eyes only."""
    path.touch(mode=0o600)
    return pq.ParquetWriter(
        path,
        schema,
        # Request ids are random: compressing them halves them, at a third of the cost of writing the whole file.
        compression={field.name: "none" if field.name == "request_id" else "zstd" for field in schema},
        use_dictionary=[field.name for field in schema if pa.types.is_dictionary(field.type)],
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        write_statistics=["arrival"],
        write_page_checksum=True,
        store_schema=False,
    )


def token_column(users: pa.DictionaryArray, tokens: dict[str, Token]) -> pa.DictionaryArray:
    """The column `token` beside a column of users: each user's token, or empty texts where there are no tokens."""
    if not tokens:
        return pa.DictionaryArray.from_arrays(np.zeros(len(users), np.int32), pa.array([""]))
    texts = pa.array([tokens[user].text for user in users.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(users.indices, texts)

"""From the raw access log of an hour to the requests that may be replayed, and the quarantine of all other lines.

What belongs here: reading the raw objects, writing `requests.parquet` and `quarantine.parquet`, and the account of
both: accepted + rejected = read. Which lines are accepted is decided in `sieve`, their order in `arrival_order`.

The column `token` of `requests.parquet` is the only place where a token is at rest.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perf_pipeline.capture.arrival_order import ArrivalOrder, Merged, places_to_lines
from perf_pipeline.capture.hours import hour_folder
from perf_pipeline.capture.lines import Lines, Positions
from perf_pipeline.capture.origin import origin
from perf_pipeline.capture.raw_objects import landed_objects, read_object
from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.sieve import REJECTED, Sieve, only_used
from perf_pipeline.capture.tokens import TokenIssuer
from perf_pipeline.plan import Plan
from perf_pipeline.progress import track
from perf_pipeline.storage import ObjectStore, remove_abandoned, working_folder

REQUESTS_NAME = "requests.parquet"
QUARANTINE_NAME = "quarantine.parquet"
MANIFEST_NAME = "manifest.json"

_TEXTS = pa.dictionary(pa.int32(), pa.string())

REQUESTS = pa.schema(
    [
        pa.field("arrival", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("user", _TEXTS, nullable=False),
        pa.field("uri", _TEXTS, nullable=False),
        pa.field("route", _TEXTS, nullable=False),
        pa.field("status", pa.int16(), nullable=False),
        pa.field("sampling_rate", pa.float64(), nullable=False),
        pa.field("accept_encoding", _TEXTS, nullable=False),
        pa.field("token", _TEXTS, nullable=False),
    ]
)
"""Rows of `requests.parquet`, sorted by arrival (line written minus request time) and request id. `uri` is ASCII with
one leading `/` and no fragment; `route` its template; `sampling_rate` the share of requests that were logged, 0 to 1.
Readers see plain texts: the dictionaries are how the file is written."""

QUARANTINE = pa.schema([pa.field("object", _TEXTS, nullable=False), *REJECTED])
"""Rows of `quarantine.parquet`: key of the raw object, number of the line in it (from 0), reason, the line itself."""

_ROW_GROUP_ROWS = 250_000
_DICTIONARY_BYTES = 64 * 2**20  # tokens: one per user, 350 bytes each, must stay a dictionary


@dataclass(frozen=True)
class RequestsReport:
    """The account of one hour: accepted + rejected = read."""

    hour: str
    read: int
    accepted: int
    rejected: dict[str, int]
    """Lines in quarantine by reason (`reasons.Reason`), most frequent first."""
    users: int
    routes: dict[str, int]
    """Accepted requests by route template, most frequent first."""
    first: datetime | None
    """Arrival in UTC of the first accepted request; None when there is none."""
    last: datetime | None
    sampling_rates: tuple[float, ...]
    """The different sampling rates of the accepted requests, sorted."""


def build_requests(
    store: ObjectStore, plan: Plan, hour: str, issuer: TokenIssuer, now_s: float | None = None
) -> RequestsReport:
    """Write the requests of an hour that may be replayed, and the quarantine of all other lines.

    Reads `raw/<topic>/dt=/hour=/part=*/`, writes `requests/dt=/hour=/requests.parquet` (schema `REQUESTS`) with a
    `manifest.json`, and `quarantine/dt=/hour=/quarantine.parquet` (schema `QUARANTINE`), each whole or not at all. Of
    several lines with one request id the first is kept, in order of objects and lines. Each user gets one token, issued
    at `now_s` (unix seconds; now by default). Raises InputError when the hour has not been landed or is damaged.
    """
    now_s = time.time() if now_s is None else now_s
    keys = landed_objects(store, plan.capture.topic, hour)
    remove_abandoned(store)
    made_of = origin(store, plan.capture, hour)
    sieve = Sieve(plan.capture)
    rejected: Counter[str] = Counter()
    read = 0
    with working_folder(store, "requests") as folder:
        runs, requests, quarantine = (folder / name for name in ("runs", "requests", "quarantine"))
        for part in (runs, requests, quarantine):
            part.mkdir()
        order = ArrivalOrder(runs)
        with _writer(quarantine / QUARANTINE_NAME, QUARANTINE) as writer:
            for number, key in enumerate(track(keys, len(keys), "Sifting log lines", label=_name)):
                sifted = sieve.sift(read_object(store, key))
                read += sifted.read
                order.add(number, sifted.accepted)
                rejected += _write_rejected(writer, key, sifted.rejected)
            merged = order.merge(_ROW_GROUP_ROWS)
            for key, lines in _duplicates(merged, keys):
                rejected += _write_rejected(writer, key, _duplicate_rows(read_object(store, key), lines))
        written = _write_requests(requests / REQUESTS_NAME, merged, issuer, now_s)
        report = RequestsReport(hour=hour, read=read, rejected=_by_count(rejected), **written)
        if report.accepted + sum(report.rejected.values()) != report.read:
            raise AssertionError(f"accepted + rejected is not read: {report}")
        (requests / MANIFEST_NAME).write_text(
            json.dumps(asdict(report) | made_of, indent=2, default=datetime.isoformat) + "\n"
        )
        # The requests come last: whoever finds them finds the quarantine of the same build.
        store.put_folder(f"quarantine/{hour_folder(hour)}", quarantine)
        store.put_folder(f"requests/{hour_folder(hour)}", requests)
    return report


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet file for its owner's eyes only."""
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


def _write_rejected(writer: pq.ParquetWriter, key: str, rejected: pa.Table) -> Counter[str]:
    """Put rejected lines of an object (schema `sieve.REJECTED`) into quarantine; how many there are of each reason."""
    if not len(rejected):
        return Counter()
    nowhere_else = pa.DictionaryArray.from_arrays(np.zeros(len(rejected), np.int32), pa.array([key]))
    writer.write_table(rejected.add_column(0, QUARANTINE.field("object"), nowhere_else))
    counts = rejected["reason"].value_counts()
    return Counter({count["values"]: count["counts"] for count in counts.to_pylist()})


def _duplicates(merged: Merged, keys: list[str]) -> Iterator[tuple[str, Positions]]:
    """The objects with lines whose request id came before, and the numbers of these lines."""
    objects, lines = places_to_lines(merged.duplicates)
    for number in np.unique(objects).tolist():
        yield keys[number], lines[objects == number]


def _duplicate_rows(data: pa.Buffer, numbers: Positions) -> pa.Table:
    """Lines of an object as rejected for being duplicates."""
    reason = pa.DictionaryArray.from_arrays(np.zeros(len(numbers), np.int32), pa.array([str(Reason.DUPLICATE)]))
    return pa.table([pa.array(numbers, pa.int32()), reason, Lines(data).take(numbers)], schema=REJECTED)


def _write_requests(path: Path, merged: Merged, issuer: TokenIssuer, now_s: float) -> dict[str, Any]:
    """Write the accepted requests, a row group per window; what the report says about them."""
    tokens: dict[str, str] = {}
    routes: Counter[str] = Counter()
    rates: set[float] = set()
    accepted = 0
    bounds: list[datetime] = []
    with _writer(path, REQUESTS) as writer:
        for window in merged.windows():
            user, route = (only_used(window[name].combine_chunks()) for name in ("user", "route"))
            for name in user.dictionary.to_pylist():
                if name not in tokens:
                    tokens[name] = issuer.issue(name, now_s)
            table = pa.table(
                [
                    pc.multiply(window["arrival_ms"], 1000).cast(pa.timestamp("us", "UTC")),
                    _hex(window["request_id"].combine_chunks()),
                    user,
                    only_used(window["uri"].combine_chunks()),
                    route,
                    window["status"],
                    window["sampling_rate"],
                    only_used(window["accept_encoding"].combine_chunks()),
                    pa.DictionaryArray.from_arrays(
                        user.indices, pa.array([tokens[name] for name in user.dictionary.to_pylist()], pa.string())
                    ),
                ],
                schema=REQUESTS,
            )
            writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)
            accepted += len(table)
            bounds = [*bounds[:1], *(table["arrival"][row].as_py() for row in (0, -1))]
            rates.update(pc.unique(window["sampling_rate"]).to_pylist())
            routes.update({count["values"]: count["counts"] for count in route.value_counts().to_pylist()})
    return {
        "accepted": accepted,
        "users": len(tokens),
        "routes": _by_count(routes),
        "first": bounds[0] if bounds else None,
        "last": bounds[-1] if bounds else None,
        "sampling_rates": tuple(sorted(rates)),
    }


def _hex(ids: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Request ids of 16 bytes as 32 hex digits."""
    rows = len(ids)
    start = 16 * ids.offset
    texts = bytes(ids.buffers()[1])[start : start + 16 * rows].hex().encode("ascii")
    offsets = np.arange(0, 32 * rows + 1, 32, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(texts))


def _by_count(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

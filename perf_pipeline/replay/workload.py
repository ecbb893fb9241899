"""The workload: captured requests, frozen once and named by a hash of their content.

What belongs here: reading the requests of the captured hours, taking their tokens out, and storing what is left under
`workloads/<hash>/` (`requests.parquet`, `manifest.json`). Every run of a comparison replays the same workload, whatever
is captured meanwhile. Which of its requests a run sends, and in which order, is in `order`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perf_pipeline.capture.hours import hour_folder
from perf_pipeline.capture.origin import requests_manifest, why_stale
from perf_pipeline.errors import InputError, Problem, StoreAwayError
from perf_pipeline.plan import Plan
from perf_pipeline.storage import ObjectStore, working_folder

SCHEMA = pa.schema(
    [
        pa.field("arrival", pa.timestamp("us", tz="UTC")),
        pa.field("request_id", pa.string()),
        pa.field("user", pa.string()),
        pa.field("uri", pa.string()),
        pa.field("route", pa.string()),
        pa.field("status", pa.int64()),
        pa.field("sampling_rate", pa.float64()),
        pa.field("accept_encoding", pa.string()),
    ]
)
"""What is kept of a captured request. The token is not: it is issued anew for each run."""

MAX_URI_BYTES = 99_999
_SENDABLE_URI = r"^/([\x21-\x2e\x30-\x7e][\x21-\x7e]*)?$"
_HASHED_ROWS = 20_000
_REQUESTS, _MANIFEST = "requests.parquet", "manifest.json"


@dataclass(frozen=True)
class Workload:
    """A frozen workload."""

    hash: str
    """Content hash of its requests (16 hex digits)."""
    folder: Path
    """Local folder with `requests.parquet` (SCHEMA, by arrival) and `manifest.json`; to read only."""
    requests: int
    users: int
    routes: dict[str, int]
    """Requests by route template, the most frequent first."""
    first_arrival: datetime
    last_arrival: datetime

    def table(self, routes: list[str] | None = None) -> pa.Table:
        """Its requests (SCHEMA, by arrival), or only those of some route templates.

        Raises InputError when the file is damaged.
        """
        path = self.folder / _REQUESTS
        try:
            table = pq.read_table(path, schema=SCHEMA, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            what = f"is damaged: {str(error).splitlines()[0]}"
            raise InputError(Problem(str(path), what, "materialise the asset `workload` again")) from error
        return table if routes is None else table.filter(pc.is_in(table["route"], value_set=pa.array(routes)))


def freeze_workload(store: ObjectStore, plan: Plan) -> Workload:
    """Freeze the requests of the plan's hours: the first `max_requests` in order of arrival, without their tokens.

    The same requests give the same hash, and what is there is not written again, unless it was damaged. Raises
    InputError for each hour that was not captured, or not by the rules of this plan, for hours without a single
    request, and for requests that cannot be sent as they stand.
    """
    table = _captured(store, plan)
    _check_uris(table)
    content_hash = _content_hash(table)
    prefix = f"workloads/{content_hash}"
    if not _is_whole(store, content_hash, table):
        with working_folder(store, "workload") as folder:
            pq.write_table(table, folder / _REQUESTS, compression="zstd", write_page_checksum=True)
            manifest = _manifest(table, content_hash, list(plan.workload.hours))
            (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
            store.put_folder(prefix, folder)
    return read_workload(store, content_hash)


def read_workload(store: ObjectStore, content_hash: str) -> Workload:
    """A workload that was frozen before. Raises InputError when there is none of that hash."""
    prefix = f"workloads/{content_hash}"
    try:
        folder = store.local_folder(prefix)
        manifest = json.loads((folder / _MANIFEST).read_bytes())
    except (KeyError, ValueError, FileNotFoundError) as error:
        where = store.uri(prefix)
        raise InputError(Problem(where, "holds no workload", "materialise the asset `workload` again")) from error
    return Workload(
        hash=content_hash,
        folder=folder,
        requests=manifest["requests"],
        users=manifest["users"],
        routes=manifest["routes"],
        first_arrival=datetime.fromisoformat(manifest["first_arrival"]),
        last_arrival=datetime.fromisoformat(manifest["last_arrival"]),
    )


def _is_whole(store: ObjectStore, content_hash: str, table: pa.Table) -> bool:
    """Whether the workload is there and holds these requests."""
    try:
        return read_workload(store, content_hash).table().equals(table)
    except StoreAwayError:
        raise
    except InputError:
        return False


def _captured(store: ObjectStore, plan: Plan) -> pa.Table:
    """The requests of the plan's hours in SCHEMA, by arrival."""
    problems = []
    tables = []
    for hour in dict.fromkeys(plan.workload.hours):
        key = f"requests/{hour_folder(hour)}/{_REQUESTS}"
        try:
            data = store.get(key)
        except KeyError:
            remedy = f"materialise the asset `replay_requests` for partition {hour} (job `capture_traffic`)"
            problems.append(Problem(f"{plan.name}: workload.hours", f"hour {hour} was not captured", remedy))
            continue
        if stale := why_stale(store, plan.capture, hour):
            remedy = f"materialise the asset `replay_requests` for partition {hour} again, by this plan"
            problems.append(Problem(f"{plan.name}: workload.hours", f"hour {hour} {stale}", remedy))
            continue
        try:
            captured = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
            tables.append(captured.select(SCHEMA.names).cast(SCHEMA))
        except (pa.ArrowException, OSError, KeyError) as error:
            remedy = "materialise the asset `replay_requests` again"
            problems.append(Problem(store.uri(key), f"is no table of captured requests: {error}", remedy))
    if problems:
        raise InputError(problems)
    table = pa.concat_tables(tables)
    # Ties of arrival are broken by content, so that the order does not depend on the order of the hours.
    table = table.sort_by([("arrival", "ascending"), ("request_id", "ascending")]).slice(0, plan.workload.max_requests)
    if not table.num_rows:
        what = f"hold no request that may be replayed; {_rejected(store, plan)}"
        remedy = "mend the log format or the routes by these reasons, or name another hour; each line is in quarantine"
        raise InputError(Problem(f"{plan.name}: workload.hours", what, remedy))
    return table.combine_chunks()


def _rejected(store: ObjectStore, plan: Plan) -> str:
    """How many lines of the hours were rejected, by reason, in words."""
    read, reasons = 0, Counter[str]()
    for hour in dict.fromkeys(plan.workload.hours):
        manifest = json.loads(store.get(requests_manifest(hour)))
        read += manifest.get("read", 0)
        reasons.update(manifest.get("rejected", {}))
    counts = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common())
    return f"of {read} lines all were rejected ({counts})" if counts else f"{read} lines were read"


def _check_uris(table: pa.Table) -> None:
    """Raise InputError unless each URI is a path that can only go to the target: the second wall behind capture."""
    uri = table["uri"]
    sendable = pc.and_(
        pc.match_substring_regex(uri, _SENDABLE_URI), pc.less_equal(pc.binary_length(uri), MAX_URI_BYTES)
    )
    bad = table.filter(pc.invert(pc.fill_null(sendable, False)))
    if bad.num_rows:
        first = bad.slice(0, 3).to_pylist()
        raise InputError(
            Problem(
                f"request {row['request_id']}",
                f"its URI {str(row['uri'])[:80]!r} is not an ASCII path with one leading slash",
                "materialise the asset `replay_requests` again: it cleans URIs",
            )
            for row in first
        )


def _content_hash(table: pa.Table) -> str:
    """SHA-256 over the rows as JSON lines, so that it depends on no file format (16 hex digits)."""
    digest = hashlib.sha256(orjson.dumps(SCHEMA.names))
    for line in _lines(table):
        digest.update(line)
    return digest.hexdigest()[:16]


def _lines(table: pa.Table) -> Iterator[bytes]:
    plain = table.set_column(0, "arrival", table["arrival"].cast(pa.int64()))
    for start in range(0, plain.num_rows, _HASHED_ROWS):
        columns = [column.to_pylist() for column in plain.slice(start, _HASHED_ROWS).itercolumns()]
        for row in zip(*columns, strict=True):
            yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _manifest(table: pa.Table, content_hash: str, hours: list[str]) -> dict[str, object]:
    counts = table.group_by("route").aggregate([("route", "count")]).sort_by(
        [("route_count", "descending"), ("route", "ascending")]
    )  # fmt: skip
    arrivals = pc.min_max(table["arrival"]).as_py()
    return {
        "hash": content_hash,
        "hours": hours,
        "requests": table.num_rows,
        "users": pc.count_distinct(table["user"], mode="only_valid").as_py(),
        "routes": dict(zip(counts["route"].to_pylist(), counts["route_count"].to_pylist(), strict=True)),
        "first_arrival": arrivals["min"].isoformat(),
        "last_arrival": arrivals["max"].isoformat(),
    }

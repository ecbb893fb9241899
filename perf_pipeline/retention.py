"""Retention: how long each kind of thing is kept, and removing what is older.

What belongs here: finding what has outlived the plan's retention section, and removing it. What holds people's requests
(raw log, requests, quarantine, workloads) ages from the captured hour, what was measured from its last hold.
An expired token is blanked where it stands; the requests beside it stay until their own time has come. The captured
hours that the plan's workload names are kept whatever their age: comparisons go on being replayed from them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc

from perf_pipeline.capture.hours import hour_folder, hour_of
from perf_pipeline.capture.token_renewal import blank_tokens, may_hold_tokens
from perf_pipeline.lab.run_directory import RECORD_NAME
from perf_pipeline.plan import Plan
from perf_pipeline.progress import track
from perf_pipeline.storage import ObjectStore
from perf_pipeline.warehouse import Warehouse, read_table

_HOUR = re.compile(r"dt=(\d{4}-\d{2}-\d{2})/hour=(\d{2})(?:/|$)")


@dataclass(frozen=True)
class Expired:
    """Something that has outlived its kind's retention."""

    kind: str
    """raw, requests, tokens, quarantine, workloads, runs, reports or metrics."""
    prefix: str
    """Folder of the store; for tokens that of the hour whose column is blanked."""
    since: datetime
    """End of the hour that was captured, or the last hold that was measured."""
    objects: int


@dataclass(frozen=True)
class Outlived:
    """What is older than the plan keeps its kind, the oldest of each kind first."""

    expired: tuple[Expired, ...]
    """What goes."""
    kept: tuple[Expired, ...] = ()
    """Raw logs and requests that stay, since the plan's `workload.hours` names their hour."""


def find_expired(store: ObjectStore, plan: Plan, now: datetime) -> Outlived:
    """Everything in the store that is older than the plan's retention, apart from what the plan names.

    What has no time that can be read is never expired: it is kept until a person looks at it. Tokens are blanked in the
    hours that the plan names as in all others.
    """
    retention = plan.retention
    found: list[Expired] = []
    for kind, days, folders in (
        ("raw", retention.raw_days, _captured_folders(store, "raw")),
        ("requests", retention.requests_days, _captured_folders(store, "requests")),
        ("quarantine", retention.quarantine_days, _captured_folders(store, "quarantine")),
        ("workloads", retention.workloads_days, _workloads(store)),
        ("runs", retention.runs_days, _run_folders(store)),
        ("reports", retention.reports_days, _of_comparisons(store, "reports")),
        ("metrics", retention.metrics_days, _of_comparisons(store, "metrics")),
    ):
        if days is not None:
            found += _older(kind, folders, now - timedelta(days=days))
    named = _named_by(plan)
    kept = tuple(item for item in found if item.prefix in named)
    found = [item for item in found if item.prefix not in named]
    gone = {item.prefix for item in found}
    blank = [
        item
        for item in _older("tokens", _hours_with_tokens(store), now - timedelta(hours=retention.tokens_hours))
        if item.prefix not in gone
    ]
    return Outlived((*found, *blank), kept)


def _named_by(plan: Plan) -> set[str]:
    """The folders of the captured hours that the plan replays, and of the raw log that they were made of."""
    hours = [hour_folder(hour) for hour in plan.workload.hours]
    return {f"{kind}/{hour}" for kind in ("requests", f"raw/{plan.capture.topic}") for hour in hours}


def prune(store: ObjectStore, warehouse: Warehouse, expired: Iterable[Expired]) -> int:
    """Remove what has expired and return how many items that were; each goes whole, so a stopped one goes on later."""
    items = list(expired)
    for item in track(items, total=len(items), what="Pruning", label=lambda item: item.prefix):
        if item.kind == "tokens":
            blank_tokens(store, _hour_before(item.since))
            continue
        if item.kind == "metrics":
            warehouse.replace_comparison(item.prefix.partition("/")[2], {}, drop_others=True)
        store.delete(item.prefix)
    return len(items)


Folders = Iterator[tuple[str, datetime, int]]
"""Prefix, the time that its age counts from, number of objects."""


def _older(kind: str, folders: Folders, limit: datetime) -> list[Expired]:
    return sorted(
        (Expired(kind, prefix, since, objects) for prefix, since, objects in folders if since < limit),
        key=lambda item: (item.since, item.prefix),
    )


def _captured_folders(store: ObjectStore, kind: str) -> Folders:
    """The folders of captured hours: everything up to `dt=…/hour=…`."""
    folders: dict[str, list[datetime]] = defaultdict(list)
    for key in store.keys(kind):
        if (hour := _HOUR.search(key)) and (start := _iso(f"{hour[1]}T{hour[2]}:00+00:00")):
            folders[key[: hour.end()].rstrip("/")].append(start + timedelta(hours=1))
    for prefix, times in folders.items():
        yield prefix, max(times), len(times)


def _hours_with_tokens(store: ObjectStore) -> Folders:
    """The captured hours that still hold tokens."""
    for prefix, end, objects in _captured_folders(store, "requests"):
        if may_hold_tokens(store, _hour_before(end)):
            yield prefix, end, objects


def _hour_before(end: datetime) -> str:
    """The hour that ends then."""
    return hour_of(int(end.timestamp()) - 3600)


def _workloads(store: ObjectStore) -> Folders:
    """Frozen workloads, by the arrival of their last request."""
    for prefix, keys in _subfolders(store, "workloads", 1).items():
        manifest = _json(store, f"{prefix}/manifest.json")
        if since := _iso(manifest.get("last_arrival")):
            yield prefix, since, len(keys)


def _run_folders(store: ObjectStore) -> Folders:
    """Run directories, by the end of their hold."""
    for prefix, keys in _subfolders(store, "runs", 2).items():
        hold = _json(store, f"{prefix}/{RECORD_NAME}").get("hold")
        if isinstance(hold, dict) and isinstance(end := hold.get("end"), int | float):
            yield prefix, datetime.fromtimestamp(end, UTC), len(keys)


def _of_comparisons(store: ObjectStore, kind: str) -> Folders:
    """What is kept of each comparison, by the start of its last hold as its table of runs tells."""
    for prefix, keys in _subfolders(store, kind, 1).items():
        key = f"metrics/{prefix.partition('/')[2]}/run.parquet"
        if not store.exists(key):
            continue
        starts = read_table(store, key, columns=["hold_start"])["hold_start"]
        if (last := pc.max(starts).as_py()) is not None:
            yield prefix, last.replace(tzinfo=UTC), len(keys)


def _subfolders(store: ObjectStore, kind: str, depth: int) -> dict[str, list[str]]:
    """The keys below each folder that is `depth` levels under the kind's."""
    folders: dict[str, list[str]] = defaultdict(list)
    for key in store.keys(kind):
        parts = key.split("/")
        if len(parts) > depth + 1:
            folders["/".join(parts[: depth + 1])].append(key)
    return folders


def _json(store: ObjectStore, key: str) -> dict:
    try:
        value = json.loads(store.get(key))
    except (KeyError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _iso(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None

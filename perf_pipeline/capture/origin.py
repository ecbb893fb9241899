"""What the stored requests of an hour were made of: the rules that sieved them and the raw objects that were read.

What belongs here: both as hashes, written beside the requests, and telling from them whether the requests may still be
used. Plans share captured hours, and a route that is denied today must not be replayed because it was allowed once.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from perf_pipeline.capture.hours import hour_folder
from perf_pipeline.capture.raw_objects import MANIFEST_NAME, OBJECT_SUFFIX, manifest_from_json
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.plan import CaptureSection, Plan
from perf_pipeline.storage import ObjectStore

SIEVE_VERSION = 1
"""Rises when the sieve judges a line otherwise under the same rules: what was captured before is captured again."""

_NOT_A_RULE = {"log"}
"""Fields of the capture section that say where lines come from. Which lines came is in the hash of the raw objects."""


def requests_manifest(hour: str) -> str:
    """The key of the manifest beside the requests of an hour."""
    return f"requests/{hour_folder(hour)}/{MANIFEST_NAME}"


def origin(store: ObjectStore, capture: CaptureSection, hour: str) -> dict[str, str]:
    """What requests of the hour would be made of now: `rules_hash`, and `raw_hash`, empty where no raw object is."""
    return {"rules_hash": _rules_hash(capture), "raw_hash": _raw_hash(store, capture.topic, hour)}


def why_stale(store: ObjectStore, capture: CaptureSection, hour: str) -> str:
    """Why the stored requests of an hour are not what these rules make of it; empty when they are.

    Raw objects that are gone, kept for a shorter time than the requests, are no reason.
    """
    try:
        manifest = json.loads(store.get(requests_manifest(hour)))
        rules_hash, raw_hash = manifest["rules_hash"], manifest["raw_hash"]
    except (KeyError, TypeError, ValueError):
        return "does not say by which rules it was captured"
    now = origin(store, capture, hour)
    if rules_hash != now["rules_hash"]:
        return "was captured under other rules (topic, routes, deny, redact_query or drop_query)"
    if now["raw_hash"] and raw_hash != now["raw_hash"]:
        return "was captured from other raw objects than are there now"
    return ""


def hours_to_capture(store: ObjectStore, plan: Plan) -> list[str]:
    """The hours of the plan that have to be captured (again) from its log: not there, or made of something else.

    None when the plan names no log: who lands the hours then also captures them.
    """
    if plan.capture.log is None:
        return []
    hours = list(dict.fromkeys(plan.workload.hours))
    captured = [hour for hour in hours if not why_stale(store, plan.capture, hour)]
    current = set(_landed_from(store, plan.capture.topic, captured, plan.folder / plan.capture.log))
    return [hour for hour in hours if hour not in current]


def _landed_from(store: ObjectStore, topic: str, hours: Iterable[str], log: Path) -> Iterator[str]:
    """Those of the hours whose raw objects came from the log as it is now, or, if it is gone, one of its name."""
    try:
        with log.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        sha256 = ""
    except OSError as error:
        raise InputError(
            Problem(str(log), f"cannot be read: {error.strerror or error}", "name a JSON access log")
        ) from error
    for hour in hours:
        try:
            manifests = [
                manifest_from_json(store.get(key))
                for key in store.keys(_raw_folder(topic, hour))
                if key.endswith(f"/{MANIFEST_NAME}")
            ]
        except (ValueError, KeyError, TypeError):
            continue
        if all((landed.source_sha256 == sha256 if sha256 else landed.source == log.name) for landed in manifests):
            yield hour


def _raw_folder(topic: str, hour: str) -> str:
    return f"raw/{topic}/{hour_folder(hour)}"


def _rules_hash(capture: CaptureSection) -> str:
    rules = capture.model_dump(mode="json", exclude=_NOT_A_RULE)
    return hashlib.sha256(json.dumps([SIEVE_VERSION, rules], sort_keys=True).encode()).hexdigest()[:16]


def _raw_hash(store: ObjectStore, topic: str, hour: str) -> str:
    """Hash of the names of the raw objects of an hour, and of what is in them.

    A manifest says that; objects without one are read.
    """
    keys = store.keys(_raw_folder(topic, hour))
    described = {key.rpartition("/")[0] for key in keys if key.endswith(f"/{MANIFEST_NAME}")}
    digest = hashlib.sha256()
    for key in keys:
        digest.update(f"\0{key}\0".encode())
        if not key.endswith(OBJECT_SUFFIX) or key.rpartition("/")[0] not in described:
            digest.update(hashlib.sha256(store.get(key)).digest())
    return digest.hexdigest()[:16] if keys else ""

"""Stored requests say what they were made of, and are captured again when that is not what the plan asks for."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture.landing import land_file
from perf_pipeline.capture.origin import hours_to_capture, requests_manifest, why_stale
from perf_pipeline.capture.requests import build_requests
from perf_pipeline.capture.tokens import SignedTokens
from perf_pipeline.errors import InputError
from perf_pipeline.plan import Plan
from perf_pipeline.storage import LocalObjectStore
from tests.access_log_lines import HOUR, numbered, plan


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.json"
    path.write_bytes(b"".join(numbered(number) + b"\n" for number in range(5)))
    return path


@pytest.fixture
def store(tmp_path: Path, log: Path) -> LocalObjectStore:
    """A store with the captured hour of the log."""
    store = LocalObjectStore(tmp_path / "store")
    capture(store, plan(log=str(log)))
    return store


def capture(store: LocalObjectStore, by: Plan) -> None:
    assert by.capture.log
    land_file(store, Path(by.capture.log), by.capture.topic, HOUR)
    build_requests(store, by, HOUR, SignedTokens(Ed25519PrivateKey.generate(), by.tokens))


def test_what_was_captured_by_the_plan_from_its_log_is_not_captured_again(store: LocalObjectStore, log: Path) -> None:
    assert hours_to_capture(store, plan(log=str(log))) == []
    assert why_stale(store, plan().capture, HOUR) == ""
    log.rename(log.with_name("gone.json"))
    assert hours_to_capture(store, plan(log=str(log))) == []


@pytest.mark.parametrize(
    "rules",
    [{"deny": ["/products/3"]}, {"routes": ["/cart"]}, {"topic": "other"}, {"drop_query": ["q"]}, {"redact_query": []}],
    ids=lambda rules: next(iter(rules)),
)
def test_other_rules_capture_the_hour_again(store: LocalObjectStore, log: Path, rules: dict) -> None:
    changed = plan(log=str(log), **rules)
    assert "under other rules" in why_stale(store, changed.capture, HOUR)
    assert hours_to_capture(store, changed) == [HOUR]
    capture(store, changed)
    assert hours_to_capture(store, changed) == []


def test_another_log_captures_the_hour_again(store: LocalObjectStore, log: Path) -> None:
    log.write_bytes(numbered(7) + b"\n")
    assert hours_to_capture(store, plan(log=str(log))) == [HOUR]
    log.unlink()
    assert hours_to_capture(store, plan(log=str(log.with_name("typo.json")))) == [HOUR]
    with pytest.raises(InputError, match="cannot be read"):
        hours_to_capture(store, plan(log=str(log.parent)))


def test_an_hour_that_was_landed_again_is_stale_and_one_whose_raw_objects_are_gone_is_not(
    store: LocalObjectStore, log: Path
) -> None:
    log.write_bytes(numbered(7) + b"\n")
    land_file(store, log, "access", HOUR)
    assert "other raw objects" in why_stale(store, plan().capture, HOUR)
    store.delete("raw/access")
    assert why_stale(store, plan().capture, HOUR) == ""


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: None,
        lambda _: b"{",
        lambda _: b"[]",
        lambda text: json.dumps({"read": json.loads(text)["read"]}).encode(),
    ],
    ids=["no manifest", "not JSON", "no object", "without its rules"],
)
def test_requests_of_unknown_rules_are_stale(
    store: LocalObjectStore, log: Path, spoil: Callable[[bytes], bytes | None]
) -> None:
    key = requests_manifest(HOUR)
    spoilt = spoil(store.get(key))
    store.delete(key)
    if spoilt is not None:
        store.put(key, spoilt)
    assert "by which rules" in why_stale(store, plan().capture, HOUR)
    assert hours_to_capture(store, plan(log=str(log))) == [HOUR]


def test_objects_without_a_manifest_count_by_their_content(tmp_path: Path) -> None:
    store, by = LocalObjectStore(tmp_path / "store"), plan()
    key = "raw/access/dt=2026-11-30/hour=04/part=0/00000000000000000000.ndjson.zst"
    store.put(key, zstandard.compress(numbered(1) + b"\n"))
    build_requests(store, by, HOUR, SignedTokens(Ed25519PrivateKey.generate(), by.tokens))
    assert why_stale(store, by.capture, HOUR) == ""
    store.put(key, zstandard.compress(numbered(2) + b"\n"))
    assert "other raw objects" in why_stale(store, by.capture, HOUR)
    assert hours_to_capture(store, by) == [], "no log to capture from"

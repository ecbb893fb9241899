"""What may pass by itself is told from what somebody has to mend, by what a bucket's client is answered."""

import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import exceptions
from botocore.config import Config
from botocore.stub import Stubber

from perf_pipeline import bucket
from perf_pipeline.bucket import BucketLocation, BucketObjectStore, open_bucket
from perf_pipeline.errors import InputError, Problem, StoreAwayError
from perf_pipeline.replay.workload import freeze_workload
from perf_pipeline.storage import LocalObjectStore
from perf_pipeline.warehouse import Warehouse, read_tables
from tests.captured_requests import captured, small_plan, store_hour
from tests.integration.servers import HOST, free_ports
from tests.test_lab_campaign import Lab

URL = "http://server.test"


def client(endpoint: str = URL) -> Any:
    config = Config(retries={"mode": "standard", "max_attempts": 1})
    return boto3.client(
        "s3", region_name="eu-test-1", endpoint_url=endpoint, config=config, aws_access_key_id="a",
        aws_secret_access_key="b",
    )  # fmt: skip


def answered(method: str, code: str, status: int) -> BucketObjectStore:
    """A store whose next call is answered with an error."""
    made = client()
    stubber = Stubber(made)
    stubber.add_client_error(method, code, "said by the server", http_status_code=status)
    stubber.activate()
    return BucketObjectStore(made, BucketLocation("b"))


CALLS: list[tuple[str, Callable[[BucketObjectStore], Any]]] = [
    ("put_object", lambda store: store.put("k", b"x")),
    ("put_object", lambda store: store.put_new("k", b"x")),
    ("get_object", lambda store: store.get("k")),
    ("head_object", lambda store: store.exists("k")),
    ("list_objects_v2", lambda store: store.keys("k")),
]


@pytest.mark.parametrize(("method", "call"), CALLS)
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("InternalError", 500), ("502", 502), ("SlowDown", 503), ("504", 504), ("TooManyRequests", 429),
        ("RequestTimeout", 400),
    ],
)  # fmt: skip
def test_a_server_in_trouble_is_away(
    method: str, call: Callable[[BucketObjectStore], Any], code: str, status: int
) -> None:
    with pytest.raises(StoreAwayError, match=f"{code} said by the server") as caught:
        call(answered(method, code, status))
    assert "see that the server runs" in str(caught.value)


@pytest.mark.parametrize(
    ("code", "status"),
    [("AccessDenied", 403), ("NoSuchBucket", 404), ("InvalidAccessKeyId", 403), ("NotImplemented", 501)],
)
def test_a_refusal_is_an_error_at_once(code: str, status: int) -> None:
    with pytest.raises(InputError) as caught:
        answered("put_object", code, status).put("k", b"x")
    assert not isinstance(caught.value, StoreAwayError)


class Raising:
    """A client that raises the same error whatever it is asked."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, _name: str) -> Callable[..., Any]:
        def call(**_: Any) -> None:
            raise self._error

        return call


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (exceptions.EndpointConnectionError(endpoint_url=URL), True),
        (exceptions.ConnectTimeoutError(endpoint_url=URL), True),
        (exceptions.ReadTimeoutError(endpoint_url=URL), True),
        (exceptions.ConnectionClosedError(endpoint_url=URL), True),
        (exceptions.ProxyConnectionError(proxy_url=URL), True),
        (exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), True),
        (exceptions.SSLError(endpoint_url=URL, error="certificate verify failed"), False),
        (exceptions.SSLError(endpoint_url=URL, error="[SSL: CERTIFICATE_VERIFY_FAILED]"), False),
        (exceptions.SSLError(endpoint_url=f"{URL}/certificate", error="EOF occurred in violation of protocol"), True),
        (exceptions.NoCredentialsError(), False),
        (exceptions.ProfileNotFound(profile="none"), False),
    ],
)
def test_a_server_that_cannot_be_reached_is_away_and_wrong_settings_are_not(error: Exception, away: bool) -> None:
    with pytest.raises(InputError, match=r"docs/capture\.md") as caught:
        BucketObjectStore(Raising(error), BucketLocation("b")).put("k", b"x")
    assert isinstance(caught.value, StoreAwayError) == away
    assert ("credentials" in caught.value.problems[0].remedy) != away


def test_nobody_who_listens_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_ATTEMPTS", 1)
    for name, value in (("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")):
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreAwayError, match="see that the server runs"):
        open_bucket(f"s3://b?region=eu-test-1&endpoint=http://{HOST}:{free_ports(1)[0]}&path_style=true")


def test_a_server_that_swallows_what_it_is_sent_is_away_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_ATTEMPTS", 1)
    monkeypatch.setitem(bucket._TIMEOUTS_S, "read_timeout", 1)
    for name, value in (("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")):
        monkeypatch.setenv(name, value)
    with socket.create_server((HOST, 0)) as mute, pytest.raises(StoreAwayError, match="Read timeout"):
        began_s = time.monotonic()
        open_bucket(f"s3://b?region=eu-test-1&endpoint=http://{HOST}:{mute.getsockname()[1]}&path_style=true")
    assert time.monotonic() - began_s < 30, "boto3's own would be a minute"


@pytest.mark.parametrize(("code", "away"), [("InternalError", True), ("SlowDown", True), ("AccessDenied", False)])
def test_what_could_not_be_removed_is_told_alike(code: str, away: bool) -> None:
    made = client()
    store = BucketObjectStore(made, BucketLocation("b"))
    with Stubber(made) as stubber:
        stubber.add_response("list_objects_v2", {})
        stubber.add_response("delete_objects", {"Errors": [{"Key": "k", "Code": code}]})
        with pytest.raises(InputError, match="cannot be removed") as caught:
            store.delete("k")
    assert isinstance(caught.value, StoreAwayError) == away


def test_a_working_folder_that_stays_is_no_reason_to_store_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.json").write_bytes(b"{}")
    real = shutil.rmtree

    def stays(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(16, "Device or resource busy")

    made = client()
    with Stubber(made) as stubber:
        stubber.add_response("list_objects_v2", {})
        stubber.add_response("put_object", {})
        monkeypatch.setattr(bucket.shutil, "rmtree", stays)
        BucketObjectStore(made, BucketLocation("b")).put_folder("runs/c/r", tmp_path)
        monkeypatch.setattr(bucket.shutil, "rmtree", real)
        stubber.assert_no_pending_responses()


class Away(LocalObjectStore):
    """A store whose objects can be listed and not read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def get(self, key: str) -> bytes:
        return self._refuse(key)

    def local_folder(self, prefix: str) -> Path:
        return self._refuse(prefix)

    def _refuse(self, key: str) -> Any:
        self.asked.append(key)
        raise StoreAwayError(Problem("s3://b", "no connection"))


def test_a_store_that_is_away_is_not_asked_table_by_table_and_not_taken_for_damaged(tmp_path: Path) -> None:
    away = Away(tmp_path / "store")
    for comparison in ("1.0__1.1", "1.1__1.2"):
        for table in ("run", "gate_pooled"):
            away.put(f"metrics/{comparison}/{table}.parquet", b"")
    with pytest.raises(StoreAwayError):
        read_tables(away, "1.0__1.1")
    with pytest.raises(StoreAwayError):
        Warehouse(tmp_path / "warehouse.duckdb").rebuild(away)
    assert len(away.asked) == 2, "once each"


def test_a_workload_of_a_store_that_is_away_is_not_frozen_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = LocalObjectStore(tmp_path / "store"), small_plan(tmp_path / "plan")
    store_hour(store, captured(10))
    freeze_workload(store, plan)
    away = Away(tmp_path / "store")
    monkeypatch.setattr(away, "get", store.get)
    monkeypatch.setattr(away, "put_folder", lambda *_: pytest.fail("it is there"))
    with pytest.raises(StoreAwayError):
        freeze_workload(away, plan)


def test_the_runs_of_a_store_that_is_away_are_not_asked_for_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, monkeypatch)
    workload = freeze_workload(lab.store, lab.plan)
    lab.measure(workload=workload)
    lab.store = away = Away(lab.store.root)
    with pytest.raises(StoreAwayError):
        lab.measure(workload=workload)
    assert len(away.asked) == 1

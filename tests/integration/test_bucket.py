"""The object store in a real bucket, and the location that says which."""

import threading
from pathlib import Path

import boto3
import pytest
from botocore.stub import ANY, Stubber

from perf_pipeline.bucket import BucketLocation, BucketObjectStore, open_bucket
from perf_pipeline.errors import InputError
from perf_pipeline.storage import ObjectStore, open_store, working_folder
from tests.integration.servers import S3Server

pytestmark = pytest.mark.integration


@pytest.fixture
def store(bucket: str) -> ObjectStore:
    return open_store(f"s3://{bucket}/below/here")


def test_an_object_is_read_back_and_listed(store: ObjectStore, bucket: str, s3: S3Server) -> None:
    store.put("raw/t/b", b"two")
    store.put("raw/t/a", b"one")
    store.put("raw/t/a", b"one again")
    assert store.get("raw/t/a") == b"one again"
    assert store.keys("raw") == store.keys("") == ["raw/t/a", "raw/t/b"]
    assert store.exists("raw/t/a") and not store.exists("raw/t") and not store.exists("raw/c")
    assert store.uri("raw/t/a") == f"s3://{bucket}/below/here/raw/t/a"
    assert s3.client().get_object(Bucket=bucket, Key="below/here/raw/t/b")["Body"].read() == b"two"


def test_what_is_not_there_is_a_key_error(store: ObjectStore) -> None:
    for ask in (store.get, store.local_folder):
        with pytest.raises(KeyError):
            ask("raw/none")
    assert store.keys("raw") == []
    store.delete("raw/none")


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", "/etc/passwd", "", "a//b", "a/"])
def test_a_key_never_leaves_the_store(store: ObjectStore, key: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        store.put(key, b"x")


def test_of_many_writers_of_a_new_object_one_succeeds(store: ObjectStore) -> None:
    assert store.put_new("once", b"first")
    assert not store.put_new("once", b"second")
    assert store.get("once") == b"first"
    won: list[int] = []

    def write(number: int) -> None:
        if store.put_new("race", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.get("race") == b"%d" % won[0]


def test_a_folder_moves_into_place_and_replaces_what_was_there(store: ObjectStore, tmp_path: Path) -> None:
    for content in ("first", "second"):
        folder = tmp_path / content
        (folder / "logs").mkdir(parents=True)
        (folder / f"{content}.txt").write_text(content)
        (folder / "logs" / "log").write_text(content)
        (folder / "run.json").write_text(content)
        store.put_folder("runs/c/r", folder)
        assert not folder.exists()
    assert store.keys("runs") == ["runs/c/r/logs/log", "runs/c/r/run.json", "runs/c/r/second.txt"]
    copy = store.local_folder("runs/c/r")
    assert (copy / "logs/log").read_text() == "second"
    assert copy.stat().st_mode & 0o077 == 0


def test_a_folder_without_its_manifest_is_not_whole(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").mkdir()
    for name in ("manifest.json", "z.parquet"):
        store.put(f"w/{name}", b"old")
        (tmp_path / "new" / name).write_bytes(b"new")

    def refuse(key: str, data: bytes) -> None:
        raise InputError([])

    with monkeypatch.context() as broken:
        broken.setattr(store, "put", refuse)
        with pytest.raises(InputError):
            store.put_folder("w", tmp_path / "new")
    assert store.keys("w") == ["w/z.parquet"]
    assert (tmp_path / "new" / "manifest.json").exists()
    store.put_folder("w", tmp_path / "new")
    assert store.get("w/manifest.json") == store.get("w/z.parquet") == b"new"


def test_more_objects_than_one_answer_holds(store: ObjectStore) -> None:
    threads = [
        threading.Thread(target=lambda first=first: [store.put(f"many/{first + n}", b"x") for n in range(130)])
        for first in range(0, 1040, 130)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.keys("many")) == 1040
    store.put("many-more", b"x")
    store.delete("many")
    assert store.keys("") == ["many-more"]


def test_a_working_folder_is_on_this_machine(store: ObjectStore) -> None:
    with working_folder(store, "run") as folder:
        assert folder.is_dir()
    assert store.keys("") == []


def test_the_location_alone_reaches_a_server(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    store = open_store(f"s3://{bucket}?endpoint={s3.endpoint}&region=eu-test-1&path_style=true")
    store.put("a", b"x")
    assert s3.client().get_object(Bucket=bucket, Key="a")["Body"].read() == b"x"


def test_a_bucket_that_cannot_be_used_is_told(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="make the bucket first"):
        open_store("s3://not-there")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(InputError, match="allow s3:ListBucket"):
        open_store(f"s3://{bucket}")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setattr("perf_pipeline.bucket._ATTEMPTS", 1)
    with pytest.raises(InputError, match="see that the server runs"):
        open_store(f"s3://{bucket}")


def test_with_a_kms_key_every_write_asks_for_it() -> None:
    client = boto3.client("s3", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    store = BucketObjectStore(client, BucketLocation("b", kms_key="arn:aws:kms:eu-west-1:1:key/k"))
    wanted = {"Bucket": "b", "Key": "k", "Body": ANY}
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:aws:kms:eu-west-1:1:key/k"}
    with Stubber(client) as stubber:
        stubber.add_response("put_object", {}, wanted | kms)
        stubber.add_response("put_object", {}, wanted | kms | {"IfNoneMatch": "*"})
        store.put("k", b"x")
        assert store.put_new("k", b"x")
        stubber.assert_no_pending_responses()


def test_another_writer_at_the_same_moment_is_waited_for() -> None:
    client = boto3.client("s3", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    store = BucketObjectStore(client, BucketLocation("b"))
    with Stubber(client) as stubber:
        stubber.add_client_error("put_object", "ConditionalRequestConflict", http_status_code=409)
        stubber.add_client_error("put_object", "PreconditionFailed", http_status_code=412)
        assert not store.put_new("k", b"x")
        stubber.add_client_error("put_object", "NotImplemented", http_status_code=501)
        with pytest.raises(InputError, match="use a server with conditional writes"):
            store.put_new("k", b"x")


def test_every_fault_of_a_location_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        open_bucket("s3://user:word@/x?path_style=yes&token=1")
    assert len(caught.value.problems) == 4
    assert "word" not in str(caught.value)

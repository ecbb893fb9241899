"""Objects in an S3 bucket: AWS S3, or any server that speaks its protocol and knows conditional writes.

What belongs here: the object store over boto3, and the location that says which bucket. Credentials, profile and
proxies come from the usual AWS places (environment, `~/.aws`, web identity of a pod, instance role), never from the
location:

    s3://<bucket>/<prefix>?region=eu-west-1&endpoint=https://s3.example.test&path_style=true&kms_key=<id or ARN>

`region` and `endpoint` may as well come from AWS_REGION and AWS_ENDPOINT_URL_S3. With `kms_key` each object is written
with SSE-KMS under that key; without it the bucket's own default holds.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError, SSLError
from botocore.exceptions import ConnectionError as NoConnectionError

from perf_pipeline.errors import InputError, Problem, StoreAwayError

_WHERE = "PERF_PIPELINE_STORE"
_PARAMETERS = ("region", "endpoint", "path_style", "kms_key")
_NOT_THERE = ("404", "NoSuchKey", "NotFound")
_KEYS_OF_A_DELETE = 1000
_ATTEMPTS = 8
_TIMEOUTS_S = {"connect_timeout": 10, "read_timeout": 30}
"""Shorter than boto3's minute each: a server that swallows packets is said, and waited for, within minutes."""
_AWAY = frozenset({408, 429, 500, 502, 503, 504})
"""Answers of a server that is there but cannot do it now; 501 stays what it is: it never can."""
_AWAY_CODES = frozenset({"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"})
"""The same, where the status says less than the code: within the answer to a removal of many, or with 400."""


@dataclass(frozen=True)
class BucketLocation:
    """A bucket, and how to reach it. None leaves it to the AWS configuration."""

    bucket: str
    prefix: str = ""
    """Folder of all keys, without slashes around it."""
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False
    """Whether the bucket stands in the path and not in the host name."""
    kms_key: str | None = None
    """Key of SSE-KMS for what is written."""


def parse_location(location: str) -> BucketLocation:
    """A location such as `s3://bucket/prefix?region=eu-west-1`. Raises InputError with all that is wrong with it."""
    parts = urlsplit(location)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    problems = [
        Problem(_WHERE, f"{name!r} is no parameter of a bucket", f"use {', '.join(_PARAMETERS)}")
        for name in sorted(set(given) - set(_PARAMETERS))
    ]
    if parts.username or parts.password:
        problems.append(Problem(_WHERE, "holds credentials", "leave them to the AWS credentials chain"))
    if not parts.hostname:
        problems.append(Problem(_WHERE, "names no bucket", "write s3://<bucket>/<prefix>"))
    path_style = given.get("path_style", "false")
    if path_style not in ("true", "false"):
        problems.append(Problem(_WHERE, f"path_style is {path_style!r}", "write true or false"))
    if problems:
        raise InputError(problems)
    return BucketLocation(
        bucket=parts.netloc,
        prefix=parts.path.strip("/"),
        region=given.get("region"),
        endpoint=given.get("endpoint"),
        path_style=path_style == "true",
        kms_key=given.get("kms_key"),
    )


def open_bucket(location: str) -> "BucketObjectStore":
    """The object store at a location. Raises InputError when it is none, or when the bucket cannot be used."""
    where = parse_location(location)
    config = Config(
        retries={"mode": "standard", "max_attempts": _ATTEMPTS},
        **_TIMEOUTS_S,
        s3={"addressing_style": "path"} if where.path_style else {},
    )
    with _told(location):
        # A session of its own: boto3's default one remembers the credentials of whoever came first.
        client = boto3.Session().client("s3", region_name=where.region, endpoint_url=where.endpoint, config=config)
        client.head_bucket(Bucket=where.bucket)
    return BucketObjectStore(client, where)


class BucketObjectStore:
    """Objects below a prefix of a bucket.

    Each object is whole or not there. A folder of objects is not written at once: see `put_folder`.
    """

    def __init__(self, client: Any, location: BucketLocation) -> None:
        """Keep objects in the bucket that a boto3 client reaches."""
        self._client = client
        self._location = location
        self._root = f"{location.prefix}/" if location.prefix else ""
        key = location.kms_key
        self._encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key} if key else {}
        self._copies: Path | None = None

    def _object(self, key: str) -> dict[str, str]:
        parts = PurePosixPath(key).parts
        if not parts or key != "/".join(parts) or ".." in parts:
            raise ValueError(f"{key!r} is not a key of an object")
        return {"Bucket": self._location.bucket, "Key": self._root + key}

    def put(self, key: str, data: bytes) -> None:
        """Write one object, replacing what was there."""
        with _told(self.uri(key)):
            self._client.put_object(**self._object(key), Body=data, **self._encryption)

    def put_new(self, key: str, data: bytes) -> bool:
        """Write one object unless there is one: of several writers exactly one succeeds. Whether this one did.

        When the answer to a write that succeeded is lost, the write is tried again and this one is told that the object
        was there: who needs to know reads it.
        """
        with _told(self.uri(key)):
            for _ in range(_ATTEMPTS):
                try:
                    self._client.put_object(**self._object(key), Body=data, IfNoneMatch="*", **self._encryption)
                except ClientError as error:
                    status = error.response["ResponseMetadata"].get("HTTPStatusCode")
                    if status == 412:
                        return False
                    if status != 409:  # another writer is at it: who was first is known when it is done
                        raise
                else:
                    return True
            raise InputError(Problem(self.uri(key), "is being written by others all the time", "find out by whom"))

    def get(self, key: str) -> bytes:
        """Read one object. Raises KeyError when it is not there."""
        with _told(self.uri(key)):
            try:
                body: bytes = self._client.get_object(**self._object(key))["Body"].read()
            except ClientError as error:
                if error.response["Error"]["Code"] in _NOT_THERE:
                    raise KeyError(key) from None
                raise
        return body

    def exists(self, key: str) -> bool:
        """Whether the object is there."""
        with _told(self.uri(key)):
            try:
                self._client.head_object(**self._object(key))
            except ClientError as error:
                if error.response["Error"]["Code"] in _NOT_THERE:
                    return False
                raise
        return True

    def keys(self, prefix: str) -> list[str]:
        """The keys of all objects below a folder prefix, sorted."""
        folder = f"{self._root}{prefix}/" if prefix else self._root
        with _told(self.uri(prefix)):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._location.bucket, Prefix=folder)
            found = [item["Key"] for page in pages for item in page.get("Contents", ())]
        # Some servers and consoles make objects of folders; these end with a slash.
        return sorted(key.removeprefix(self._root) for key in found if not key.endswith("/"))

    def delete(self, prefix: str) -> None:
        """Remove an object, or all objects below a folder prefix; no error when there are none."""
        self._delete([prefix, *self.keys(prefix)])

    def _delete(self, keys: list[str]) -> None:
        for start in range(0, len(keys), _KEYS_OF_A_DELETE):
            objects = [{"Key": self._object(key)["Key"]} for key in keys[start : start + _KEYS_OF_A_DELETE]]
            request = {"Objects": objects, "Quiet": True}
            with _told(self.uri(keys[start])):
                answer = self._client.delete_objects(Bucket=self._location.bucket, Delete=request)
            if errors := answer.get("Errors"):
                what = f"cannot be removed: {errors[0].get('Message') or errors[0].get('Code')}"
                if errors[0].get("Code") in _AWAY_CODES:
                    raise StoreAwayError(Problem(self.uri(keys[start]), what, _REMEDY_AWAY))
                raise InputError(Problem(self.uri(keys[start]), what, "allow s3:DeleteObject on the bucket"))

    def put_folder(self, prefix: str, folder: Path) -> None:
        """Move the files of a local folder below the prefix, replacing what was there; the folder is gone then.

        A bucket cannot do this at once. The JSON files at the top, which are what readers look for (`manifest.json`,
        `run.json`), go first and come last: while they are there, all the rest is there and belongs to them.
        """
        files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        heads = sorted(name for name in files if "/" not in name and name.endswith(".json"))
        before = [key.removeprefix(f"{prefix}/") for key in self.keys(prefix)]
        old_heads = [name for name in before if "/" not in name and name.endswith(".json")]
        self._delete([f"{prefix}/{name}" for name in old_heads])
        for name in sorted(set(files) - set(heads)):
            self.put(f"{prefix}/{name}", files[name].read_bytes())
        self._delete([f"{prefix}/{name}" for name in before if name not in files and name not in old_heads])
        for name in heads:
            self.put(f"{prefix}/{name}", files[name].read_bytes())
        # What stays of it is no reason to try all of this again, with the files that are left.
        shutil.rmtree(folder, ignore_errors=True)

    def local_folder(self, prefix: str) -> Path:
        """A local copy of the objects below the prefix, to read only. Raises KeyError when there are none.

        Only this user can read it, and it goes when the store or the process does.
        """
        keys = self.keys(prefix)
        if not keys:
            raise KeyError(prefix)
        if self._copies is None:
            self._copies = Path(tempfile.mkdtemp(prefix="perf-pipeline-"))
            weakref.finalize(self, shutil.rmtree, self._copies, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=self._copies))
        for key in keys:
            path = folder / key.removeprefix(f"{prefix}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.get(key))
        return folder

    def uri(self, key: str) -> str:
        """Where a person finds the object."""
        return f"s3://{self._location.bucket}/{self._root}{key}"


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Turn what the server or the client refuses into an InputError that says what to look at.

    What may pass by itself is a StoreAwayError: no connection, no answer in time, an answer of a server in trouble.
    """
    try:
        yield
    except ClientError as error:
        said = error.response["Error"]
        what = f"{error.operation_name} was refused: {said.get('Code')} {said.get('Message', '')}".rstrip()
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status in _AWAY or said.get("Code") in _AWAY_CODES:
            raise StoreAwayError(Problem(where, what, _REMEDY_AWAY)) from None
        raise InputError(Problem(where, what, _remedy(said.get("Code", "")))) from None
    except SSLError as error:  # a certificate does not mend itself; a server that restarts ends the handshake
        if "certificate" in str(error.kwargs.get("error")).lower():  # not in all of it: that has the object's address
            raise InputError(Problem(where, str(error), _REMEDY_SETTINGS)) from None
        raise StoreAwayError(Problem(where, str(error), _REMEDY_AWAY)) from None
    except (NoConnectionError, HTTPClientError, IncompleteReadError) as error:
        raise StoreAwayError(Problem(where, str(error), _REMEDY_AWAY)) from None
    except BotoCoreError as error:
        raise InputError(Problem(where, str(error), _REMEDY_SETTINGS)) from None


_REMEDY_SETTINGS = "set region, endpoint and credentials as docs/capture.md says"
_REMEDY_AWAY = (
    "see that the server runs and can be reached, and try again; "
    "if it never could be, set region and endpoint as docs/capture.md says"
)


def _remedy(code: str) -> str:
    remedies = {
        "404": "make the bucket first, or mend its name",
        "NoSuchBucket": "make the bucket first, or mend its name",
        "301": "set region to the bucket's",
        "403": "allow s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject, and the KMS key's use",
        "AccessDenied": "allow s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject, and the KMS key's use",
        "NotImplemented": "use a server with conditional writes (If-None-Match)",
    }
    return remedies.get(code, "see what the server's log says")

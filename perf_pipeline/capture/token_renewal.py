"""The column `token` of an hour that was captured earlier, written again: with new tokens, or without any.

What belongs here: changing the one place where tokens are at rest. New ones are for those who read them from the file;
a comparison needs none of it unless the plan refuses expired tokens, because it makes new ones in memory
(`token_source`). How long stored ones stay is in `retention`.
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from perf_pipeline.capture.requests_file import (
    MANIFEST_NAME,
    REQUESTS,
    REQUESTS_NAME,
    private_writer,
    token_column,
)
from perf_pipeline.capture.token_source import captured_requests, requests_folder
from perf_pipeline.capture.tokens import Token, TokenIssuer
from perf_pipeline.storage import ObjectStore, working_folder

_EXPIRE = "tokens_expire"


def renew_tokens(store: ObjectStore, hour: str, issuer: TokenIssuer, now_s: float | None = None) -> float | None:
    """Give each user of a captured hour a new token; when the first of them expires, in unix seconds.

    Everything but the column `token` and the manifest's `tokens_expire` stays as it is; the old tokens are gone. None
    when the hour holds no request. Raises InputError when the hour was not captured.
    """
    now_s = time.time() if now_s is None else now_s
    return _write_tokens(store, hour, lambda users: issuer.issue(users, now_s))


def blank_tokens(store: ObjectStore, hour: str) -> None:
    """Take the tokens of a captured hour out of it; everything else stays. Raises InputError as `renew_tokens` does."""
    _write_tokens(store, hour, lambda _users: {})


def may_hold_tokens(store: ObjectStore, hour: str) -> bool:
    """Whether tokens stand in the requests of an hour, as its manifest tells; what it does not tell may be so."""
    try:
        manifest = json.loads(store.get(f"{requests_folder(hour)}/{MANIFEST_NAME}"))
    except (KeyError, ValueError):
        return store.exists(f"{requests_folder(hour)}/{REQUESTS_NAME}")
    return not isinstance(manifest, dict) or manifest.get(_EXPIRE, "unknown") is not None


def _write_tokens(store: ObjectStore, hour: str, issue: Callable[[list[str]], dict[str, Token]]) -> float | None:
    """Write the column anew, a row group at a time and whole in the end; when the first token expires, if any does.

    `issue` gives each of some users a token, or none of them any.
    """
    prefix = requests_folder(hour)
    captured = captured_requests(store, hour)
    with working_folder(store, "tokens") as working:
        folder = working / "requests"
        folder.mkdir()
        for key in store.keys(prefix):
            if not key.endswith(f"/{REQUESTS_NAME}"):
                (folder / key.removeprefix(f"{prefix}/")).write_bytes(store.get(key))
        dictionaries = [field.name for field in REQUESTS if field.type == REQUESTS.field("user").type]
        columns = [name for name in REQUESTS.names if name != "token"]
        tokens: dict[str, Token] = {}
        with (
            pq.ParquetFile(pa.BufferReader(captured), read_dictionary=dictionaries) as source,
            private_writer(folder / REQUESTS_NAME, REQUESTS) as writer,
        ):
            for group in range(source.num_row_groups):
                table = source.read_row_group(group, columns=columns)
                users = table["user"].unify_dictionaries().combine_chunks()
                tokens |= issue([user for user in users.dictionary.to_pylist() if user not in tokens])
                table = table.append_column(REQUESTS.field("token"), token_column(users, tokens))
                writer.write_table(table.cast(REQUESTS), row_group_size=max(len(table), 1))
        expiry_s = min((token.expires_s for token in tokens.values()), default=None)
        manifest = folder / MANIFEST_NAME
        if manifest.is_file():
            expire = None if expiry_s is None else datetime.fromtimestamp(expiry_s, UTC).isoformat()
            told = json.loads(manifest.read_bytes()) | {_EXPIRE: expire}
            manifest.write_text(json.dumps(told, indent=2) + "\n")
        store.put_folder(prefix, folder)
    return expiry_s

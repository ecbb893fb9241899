"""New tokens for requests that were captured earlier: the column `token` of an hour is written again.

What belongs here: storing new tokens, for those who read them from the file. A comparison needs none of it unless the
plan refuses expired tokens: it makes new ones in memory (`token_source`).
"""

import json
import time
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


def renew_tokens(store: ObjectStore, hour: str, issuer: TokenIssuer, now_s: float | None = None) -> float | None:
    """Give each user of a captured hour a new token; when the first of them expires, in unix seconds.

    Everything but the column `token` and the manifest's `tokens_expire` stays as it is; the old tokens are gone. None
    when the hour holds no request. Raises InputError when the hour was not captured.
    """
    now_s = time.time() if now_s is None else now_s
    prefix = requests_folder(hour)
    captured = captured_requests(store, hour)
    with working_folder(store, "tokens") as working:
        folder = working / "requests"
        folder.mkdir()
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
                tokens |= issuer.issue([user for user in users.dictionary.to_pylist() if user not in tokens], now_s)
                table = table.append_column(REQUESTS.field("token"), token_column(users, tokens))
                writer.write_table(table.cast(REQUESTS), row_group_size=max(len(table), 1))
        expiry_s = min((token.expires_s for token in tokens.values()), default=None)
        manifest = json.loads(store.get(f"{prefix}/{MANIFEST_NAME}"))
        manifest["tokens_expire"] = None if expiry_s is None else datetime.fromtimestamp(expiry_s, UTC).isoformat()
        (folder / MANIFEST_NAME).write_text(json.dumps(manifest, indent=2) + "\n")
        store.put_folder(prefix, folder)
    return expiry_s

"""The tokens that a campaign sends: those that the capture stored, for as long as they live, and new ones after that.

What belongs here: reading the one column where tokens are at rest. Making tokens is in `tokens`.
"""

from collections.abc import Callable, Mapping, Sequence

import pyarrow.parquet as pq

from perf_pipeline.capture.hours import hour_folder
from perf_pipeline.capture.requests import REQUESTS_NAME
from perf_pipeline.capture.tokens import TokenIssuer, tokens_for
from perf_pipeline.storage import ObjectStore


def requests_folder(hour: str) -> str:
    """The folder of the store that holds the requests of an hour."""
    return f"requests/{hour_folder(hour)}"


def token_source(
    store: ObjectStore, hours: Sequence[str], issuer: TokenIssuer
) -> Callable[[Sequence[str], float], Mapping[str, str]]:
    """What gives users a token that outlives a time (unix seconds), as a campaign asks for it before each run.

    The stored tokens of the hours are read once. Raises InputError, when called, if even a new token expires too early.
    """
    recorded: dict[str, str] = {}
    for hour in hours:
        table = pq.read_table(store.local_folder(requests_folder(hour)) / REQUESTS_NAME, columns=["user", "token"])
        recorded.update(zip(table["user"].to_pylist(), table["token"].to_pylist(), strict=True))

    def tokens(users: Sequence[str], until_s: float) -> Mapping[str, str]:
        return tokens_for(users, recorded, until_s, issuer)

    return tokens

"""The tokens that a comparison sends: those that the capture stored, for as long as they live, and new ones after that.

What belongs here: reading the one column where tokens are at rest, and what the plan's `tokens.expired` decides when
they do not live long enough. Making tokens is in `tokens` and `token_exchange`, storing new ones in `token_renewal`.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perf_pipeline.capture.hours import hour_folder
from perf_pipeline.capture.requests_file import REQUESTS_NAME
from perf_pipeline.capture.token_exchange import ExchangedTokens
from perf_pipeline.capture.token_keys import SigningKey
from perf_pipeline.capture.tokens import NEVER, SignedTokens, Token, TokenIssuer
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.plan import Plan
from perf_pipeline.plan_tokens import TokenSection
from perf_pipeline.storage import ObjectStore

_log = logging.getLogger(__name__)


def requests_folder(hour: str) -> str:
    """The folder of the store that holds the requests of an hour."""
    return f"requests/{hour_folder(hour)}"


def captured_requests(store: ObjectStore, hour: str) -> pa.Buffer:
    """The `requests.parquet` of an hour, in memory: a copy on a disk would be one more place with tokens.

    Raises InputError when the hour was not captured.
    """
    folder = requests_folder(hour)
    try:
        return pa.py_buffer(store.get(f"{folder}/{REQUESTS_NAME}"))
    except KeyError:
        remedy = f"materialise the asset `replay_requests` for partition {hour} (job `capture_traffic`)"
        raise InputError(Problem(store.uri(folder), f"holds no requests of {hour}", remedy)) from None


def stored_tokens(parquet: pa.Buffer) -> dict[str, str]:
    """The token of each user in a `requests.parquet`, read a row group at a time."""
    tokens: dict[str, str] = {}
    with pq.ParquetFile(pa.BufferReader(parquet), read_dictionary=["user", "token"]) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["user", "token"]).unify_dictionaries()
            user, token = (table[name].combine_chunks() for name in ("user", "token"))
            pairs = np.unique(np.stack([user.indices.to_numpy(), token.indices.to_numpy()]), axis=1)
            tokens.update(
                zip(
                    user.dictionary.take(pa.array(pairs[0])).to_pylist(),
                    token.dictionary.take(pa.array(pairs[1])).to_pylist(),
                    strict=True,
                )
            )
    return tokens


def token_issuer(key: SigningKey, section: TokenSection) -> TokenIssuer:
    """What issues tokens by a plan's section: the endpoint that it names, else the key itself."""
    return ExchangedTokens(key, section) if section.exchange else SignedTokens(key, section)


@dataclass(frozen=True)
class TokenReview:
    """Whether the stored tokens of some hours last until a time."""

    users: int
    lasting: int
    """Users with a stored token that lasts."""
    first_expiry_s: float | None
    """When the first of the tokens that this issuer vouches for expires, in unix seconds; None without any."""
    until_s: float

    @property
    def last(self) -> bool:
        """Whether every user has a stored token that lasts."""
        return self.lasting == self.users

    def __str__(self) -> str:
        until = _clock(self.until_s)
        if self.last:
            return f"the stored tokens of all {self.users:,} users last until the planned end, {until}"
        short = self.users - self.lasting
        if self.first_expiry_s is None:
            return f"{short:,} of {self.users:,} users have no stored token that is valid"
        return (
            f"{short:,} of {self.users:,} users have no stored token that lasts until the planned end, {until}; "
            f"the first expires at {_clock(self.first_expiry_s)}"
        )


class TokenSource:
    """Gives the users of a comparison their tokens, before each run.

    A user has one token until it would expire in a run: the stored one, and then new ones, in memory only.
    """

    def __init__(self, store: ObjectStore, plan: Plan, issuer: TokenIssuer) -> None:
        """Read the stored tokens of the plan's hours."""
        self._plan = plan
        self._issuer = issuer
        self._held: dict[str, Token] = {}
        for hour in plan.workload.hours:
            for user, token in stored_tokens(captured_requests(store, hour)).items():
                expiry_s = issuer.expiry_s(token, user)
                if user not in self._held or self._held[user].expires_s < expiry_s:
                    self._held[user] = Token(token, expiry_s)
        self.renewed = 0
        """Tokens that were made since, because stored ones would have expired."""

    def __repr__(self) -> str:
        return f"TokenSource(users={len(self._held)}, renewed={self.renewed})"

    def review(self, until_s: float) -> TokenReview:
        """Whether the tokens last until the planned end (unix seconds), with the plan's `skew_s` to spare."""
        expiries = [token.expires_s for token in self._held.values()]
        needed_s = until_s + self._plan.tokens.skew_s
        return TokenReview(
            users=len(expiries),
            lasting=sum(expiry_s > needed_s for expiry_s in expiries),
            first_expiry_s=min((expiry_s for expiry_s in expiries if expiry_s != NEVER), default=None),
            until_s=until_s,
        )

    def begin(self, until_s: float) -> None:
        """Say what becomes of the stored tokens in a comparison that is planned to end at `until_s` (unix seconds).

        Raises InputError when they do not last and the plan says that nothing is measured then.
        """
        section = self._plan.tokens
        if section.minted == "replay":
            _log.info("tokens: made before each run and held in memory only (tokens.minted: replay)")
            return
        review = self.review(until_s)
        if review.last:
            _log.info("tokens: %s", review)
        elif section.expired == "renew":
            _log.info("tokens: %s. Such users get a new one before a run (tokens.expired: renew)", review)
        else:
            raise refusal(self._plan, review)

    def __call__(self, users: Sequence[str], until_s: float) -> Mapping[str, str]:
        """A token for each of the users that outlives `until_s` (unix seconds) by the plan's `skew_s`.

        Raises InputError when even a new token expires too early: such a run measures how fast the service says 401.
        """
        now_s = time.time()
        needed_s = until_s + self._plan.tokens.skew_s
        short = [user for user in users if user not in self._held or self._held[user].expires_s <= needed_s]
        for user, token in self._issuer.issue(short, now_s).items():
            if token.expires_s <= needed_s:
                raise InputError(
                    Problem(
                        f"{self._plan.path}: tokens.ttl_s",
                        f"tokens made now live for {max(token.expires_s - now_s, 0):.0f} s, but are needed for "
                        f"{needed_s - now_s:.0f} s, of which {self._plan.tokens.skew_s} s are tokens.skew_s",
                        "raise tokens.ttl_s (or the lifetime at the token endpoint), or shorten the run",
                    )
                )
            self._held[user] = token
        self.renewed += len(short)
        return {user: self._held[user].text for user in users}


def refusal(plan: Plan, review: TokenReview) -> InputError:
    """Why nothing is measured with stored tokens that do not last, and what to do."""
    return InputError(
        Problem(
            f"{plan.path}: tokens.expired",
            f"refused: {review}",
            "store new ones with `perf-pipeline tokens renew PLAN` (or materialise `replay_requests` again), raise "
            "tokens.ttl_s for longer comparisons, or set tokens.expired to renew",
        )
    )


def _clock(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

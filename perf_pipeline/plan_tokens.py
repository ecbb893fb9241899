"""The section of a plan about tokens: who issues them, for how long, and what becomes of those that expire.

What belongs here: fields. Issuing tokens is in `capture.tokens` and `capture.token_exchange`.
"""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from perf_pipeline.plan_base import Section


class ExchangeSection(Section):
    """Where tokens come from when a service of the company issues them: OAuth 2.0 Token Exchange (RFC 8693)."""

    endpoint: str = Field(description="token endpoint: an https address, or http on this machine")
    timeout_s: float = Field(10, gt=0, le=120, description="seconds until one answer of the endpoint counts as lost")
    attempts: int = Field(
        4, ge=1, le=10, description="how often one exchange is tried when the endpoint fails or is busy"
    )
    concurrency: int = Field(4, ge=1, le=64, description="exchanges under way at the same time")

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_private(cls, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
        if not parts.hostname or not (parts.scheme == "https" or local):
            raise ValueError("is not an https address, and tokens would travel in the clear")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("holds a user, a query or a fragment; the client's secret is never part of the plan")
        return endpoint


class TokenSection(Section):
    """The read-only scoped token that each replayed request carries."""

    issuer: str = Field(description="claim iss")
    audience: str = Field(description="claim aud: the service that accepts the token")
    actor: str = Field(
        "perf_pipeline",
        pattern=r"^[\x21-\x39\x3b-\x7e]+$",
        description="claim act.sub and client_id: who acts for the user, so that audit logs can tell",
    )
    ttl_s: int = Field(
        3600, ge=60, le=86_400, description="lifetime of a token in seconds; with `exchange` the longest that is taken"
    )
    skew_s: int = Field(
        30, ge=0, le=600, description="seconds that a token outlives its last use by, since clocks differ"
    )
    minted: Literal["capture", "replay"] = Field(
        "capture",
        description="capture: with the requests of an hour, one per user, stored beside them; "
        "replay: just before they are used, and held in memory only",
    )
    expired: Literal["renew", "refuse"] = Field(
        "renew",
        description="what becomes of a comparison whose stored tokens expire before its planned end: "
        "renew: users get new tokens before a run; refuse: nothing is measured",
    )
    exchange: ExchangeSection | None = Field(
        None, description="the service that issues tokens; null: they are signed here, with the key of this deployment"
    )

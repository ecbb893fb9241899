"""Read-only scoped tokens: what they say, who issues them, and those that are signed here.

What belongs here: the claims of a token and the protocol of issuers. The key is in `token_keys`, the issuer that asks
another service in `token_exchange`, which token a run sends in `token_source`. Neither a key nor a token stands in a
`repr`, in a log line or in the message of an exception. At rest, a token stands in one column of one file
(`requests.parquet`); the key stands where its owner put it.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import jwt
import orjson

from perf_pipeline.capture.token_keys import SigningKey, algorithm_of, public_jwk
from perf_pipeline.plan_tokens import TokenSection

SCOPE = "read"

NEVER = float("-inf")
"""The expiry of what is no token of ours."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, which no `repr` shows, and how long it is good for."""

    text: str = field(repr=False)
    expires_s: float
    """Unix seconds."""


class TokenIssuer(Protocol):
    """What gives users their tokens: a key of ours, or a service that exchanges tokens (RFC 8693)."""

    def issue(self, users: Iterable[str], now_s: float) -> dict[str, Token]:
        """One read-only token for each of the users (UUIDs), valid from `now_s` (unix seconds) on.

        Raises InputError when there cannot be one.
        """

    def expiry_s(self, token: str, user: str) -> float:
        """When a stored token expires, in unix seconds; `NEVER` when this issuer does not vouch for it."""


class SignedTokens:
    """Tokens signed here: JWTs as RFC 9068 describes them, with EdDSA or RS256.

    Claims: iss, aud, sub (the user), scope, act (RFC 8693: who acts for the user), client_id, load_test, iat, exp, jti.
    The same user and second give the same token, so that a repeated capture does not multiply tokens.
    """

    def __init__(self, key: SigningKey, section: TokenSection) -> None:
        """Sign with `key`; all but the user comes from the plan's section."""
        self._key = key
        self._section = section
        algorithm = algorithm_of(key)
        self._signature = jwt.get_algorithm_by_name(algorithm)
        # The header is the same for all tokens, so it is written once: a third of the time of `jwt.encode`.
        header = {"alg": algorithm, "kid": public_jwk(key)["kid"], "typ": "at+jwt"}
        self._header = _base64url(orjson.dumps(header))

    def __repr__(self) -> str:
        return f"SignedTokens(issuer={self._section.issuer!r}, audience={self._section.audience!r})"

    def __reduce__(self) -> str:
        raise TypeError("SignedTokens holds a private key and is never written anywhere")

    def issue(self, users: Iterable[str], now_s: float) -> dict[str, Token]:
        """One read-only token for each user, valid for the plan's `ttl_s` from `now_s` (unix seconds) on."""
        return {user: self._sign(user, int(now_s)) for user in users}

    def _sign(self, user: str, issued_s: int) -> Token:
        section = self._section
        expires_s = issued_s + section.ttl_s
        name = f"{section.issuer}\n{section.audience}\n{section.actor}\n{user}\n{issued_s}"
        claims = {
            "iss": section.issuer,
            "aud": section.audience,
            "sub": user,
            "scope": SCOPE,
            "act": {"sub": section.actor},
            "client_id": section.actor,
            "load_test": True,
            "iat": issued_s,
            "exp": expires_s,
            "jti": hashlib.blake2b(name.encode(), digest_size=16).hexdigest(),
        }
        signed = self._header + b"." + _base64url(orjson.dumps(claims))
        return Token((signed + b"." + _base64url(self._signature.sign(signed, self._key))).decode("ascii"), expires_s)

    def expiry_s(self, token: str, user: str) -> float:
        """When a token of this key for this user expires, in unix seconds; `NEVER` for any other text."""
        try:
            claims = jwt.decode(
                token,
                self._key.public_key(),
                algorithms=[algorithm_of(self._key)],
                options={"verify_exp": False, "verify_iat": False, "verify_aud": False},
            )
        except jwt.InvalidTokenError:
            return NEVER
        if unfit(claims, self._section, user) or claims["act"]["sub"] != self._section.actor:
            return NEVER
        return float(claims["exp"])


def _base64url(data: bytes) -> bytes:
    """Base64url without padding (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def unfit(claims: Mapping[str, Any], section: TokenSection, user: str) -> str | None:
    """What a token's claims lack to be the read-only token of a user, in words that show none of them; else None.

    `act` and `load_test` are what a service tells a load test by, to refuse what changes something.
    """
    audience, actor, expiry = claims.get("aud"), claims.get("act"), claims.get("exp")
    if claims.get("iss") != section.issuer:
        return "its issuer (iss) is not the plan's tokens.issuer"
    if section.audience not in (audience if isinstance(audience, list) else [audience]):
        return "it is not for the plan's tokens.audience (aud)"
    if claims.get("sub") != user:
        return "it is not for the user that it was asked for (sub)"
    if claims.get("scope") != SCOPE:
        return f"its scope is not {SCOPE!r} alone"
    if not isinstance(actor, dict) or not isinstance(actor.get("sub"), str):
        return "it does not say who acts for the user (act)"
    if claims.get("load_test") is not True:
        return "it does not say that it is for load tests (load_test: true)"
    if isinstance(expiry, bool) or not isinstance(expiry, int | float) or not math.isfinite(expiry):
        return "it never expires (exp)"
    return None

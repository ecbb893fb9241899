"""Who may ask the shop for what: the check of the token that each request carries.

What belongs here: verifying a token (EdDSA, issuer, audience, expiry) and holding it against the request. The service
is the second wall behind the pipeline's own filter: a token that says `load_test` may only read, and never reaches a
route that changes or exports something, even by GET.

A verified token is remembered until it expires, because a signature check costs more than most answers.
"""

import time
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = frozenset({"/health", "/metrics"})
SIDE_EFFECTS = ("/logout", "/export")
READING = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class Bearer:
    """What a verified token says."""

    user: str
    scopes: frozenset[str]
    load_test: bool
    expires_s: float


class TokenCheck:
    """Pure ASGI middleware: answers 401 or 403 itself, or hands the request on with `scope["bearer"]` set."""

    def __init__(self, app: ASGIApp, public_key_pem: str, issuer: str, audience: str) -> None:
        self._app = app
        self._key: Any = load_pem_public_key(public_key_pem.encode())
        self._issuer = issuer
        self._audience = audience
        self._remembered: dict[bytes, Bearer] = {}
        self._revoked: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        try:
            bearer = self._verified(header)
        except jwt.InvalidTokenError as error:
            refusal = JSONResponse({"error": str(error)}, 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        if reason := _refused(bearer, scope["method"], scope["path"]):
            await JSONResponse({"error": reason}, 403)(scope, receive, send)
            return
        scope["bearer"] = bearer
        scope["revoke"] = lambda: self._revoked.add(header)
        await self._app(scope, receive, send)

    def _verified(self, header: bytes) -> Bearer:
        """What the token in an Authorization header says. Raises jwt.InvalidTokenError when it is none of ours."""
        if header in self._revoked:
            raise jwt.InvalidTokenError("the session has ended")
        remembered = self._remembered.get(header)
        if remembered is not None and remembered.expires_s > time.time():
            return remembered
        kind, _, token = header.partition(b" ")
        if kind.lower() != b"bearer" or not token:
            raise jwt.InvalidTokenError("a bearer token is needed")
        claims = jwt.decode(
            token, self._key, algorithms=["EdDSA"], audience=self._audience, issuer=self._issuer,
            options={"require": ["exp", "sub", "aud", "iss"]},
        )  # fmt: skip
        bearer = Bearer(
            user=claims["sub"],
            scopes=frozenset(str(claims.get("scope", "")).split()),
            load_test=bool(claims.get("load_test")),
            expires_s=float(claims["exp"]),
        )
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[header] = bearer
        return bearer


def _refused(bearer: Bearer, method: str, path: str) -> str | None:
    """Why the token does not cover the request; None when it does."""
    needed = "read" if method in READING else "write"
    if needed not in bearer.scopes:
        return f"the token lacks the scope {needed}"
    if bearer.load_test and (method not in READING or path.startswith(SIDE_EFFECTS)):
        return "a load test may only read"
    return None

"""Tokens that a service of the company issues: OAuth 2.0 Token Exchange (RFC 8693) over HTTP.

What belongs here: asking for tokens and judging the answers. Who asks proves it with the key of this deployment: the
subject token says for which user, the actor token who acts for them, both signed JWTs that live for minutes and that
only the endpoint accepts. What comes back must be a JWT (RFC 9068) of read scope that names the actor and expires by
the plan's rules; anything else is refused. Nothing that the endpoint answers is shown, but for error codes.
"""

import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import jwt
import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as LostInTime
from urllib3.util import Retry

from perf_pipeline.capture.token_keys import SigningKey, algorithm_of, public_jwk
from perf_pipeline.capture.tokens import NEVER, SCOPE, Token, unfit
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.plan_tokens import ExchangeSection, TokenSection
from perf_pipeline.progress import track

CLIENT_SECRET_VARIABLE = "PERF_PIPELINE_TOKEN_CLIENT_SECRET"  # noqa: S105  a name
"""Names the secret that the endpoint knows the client `tokens.actor` by, where it asks for one (HTTP Basic)."""

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  a type
JWT = "urn:ietf:params:oauth:token-type:jwt"

_ASSERTION_S = 300
_BATCH = 100
_ANSWER_BYTES_MAX = 65_536
_BUSY = (429, 500, 502, 503, 504)
_LONGEST_PAUSE_S = 30
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")


class ExchangedTokens:
    """Tokens from an endpoint that exchanges ours for its own."""

    def __init__(self, key: SigningKey, section: TokenSection, environ: Mapping[str, str] = os.environ) -> None:
        """Ask the endpoint of the plan's section in the name of `key`."""
        if section.exchange is None:
            raise ValueError("the plan has no section tokens.exchange")
        self._key = key
        self._section = section
        self._exchange: ExchangeSection = section.exchange
        self._secret = environ.get(CLIENT_SECRET_VARIABLE)
        self._header = {"kid": public_jwk(key)["kid"]}

    def __repr__(self) -> str:
        return f"ExchangedTokens(endpoint={self._exchange.endpoint!r}, audience={self._section.audience!r})"

    def __reduce__(self) -> str:
        raise TypeError("ExchangedTokens holds a private key and is never written anywhere")

    def issue(self, users: Iterable[str], now_s: float) -> dict[str, Token]:
        """One read-only token for each user, `exchange.concurrency` exchanges at a time.

        The endpoint decides how long tokens live; `now_s` is when they are counted from. Raises InputError when the
        endpoint cannot be reached, refuses, or gives out something that may not be sent.
        """
        asked = list(users)
        if not asked:
            return {}
        tokens: dict[str, Token] = {}
        batches = [asked[start : start + _BATCH] for start in range(0, len(asked), _BATCH)]
        with self._session() as session, ThreadPoolExecutor(self._exchange.concurrency) as pool:
            for batch in track(batches, len(batches), f"Exchanging tokens, {_BATCH} a step"):
                made = pool.map(lambda user: self._token(session, user, now_s), batch)
                tokens.update(zip(batch, made, strict=True))
        return tokens

    def expiry_s(self, token: str, user: str) -> float:
        """When a stored token expires, in unix seconds; `NEVER` unless it is a read-only JWT for this user.

        The signature is the endpoint's, and the service's to verify.
        """
        try:
            claims = _claims(token)
        except jwt.InvalidTokenError:
            return NEVER
        return NEVER if unfit(claims, self._section, user) else float(claims["exp"])

    def _session(self) -> requests.Session:
        """Connections to the endpoint that wait and try again when it fails or is busy."""
        attempts = self._exchange.attempts - 1
        retry = Retry(
            total=attempts,
            allowed_methods={"POST"},
            status_forcelist=_BUSY,
            backoff_factor=0.25,
            backoff_jitter=0.25,
            backoff_max=_LONGEST_PAUSE_S,
            retry_after_max=_LONGEST_PAUSE_S,
            raise_on_status=False,
        )
        session = requests.Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry, pool_maxsize=self._exchange.concurrency))
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        # Without it `requests` would look for a password in ~/.netrc.
        session.auth = (self._section.actor, self._secret) if self._secret else lambda request: request
        return session

    def _token(self, session: requests.Session, user: str, now_s: float) -> Token:
        form = {
            "grant_type": GRANT,
            "audience": self._section.audience,
            "scope": SCOPE,
            "requested_token_type": ACCESS_TOKEN,
            "subject_token": self._assertion(user),
            "subject_token_type": JWT,
            "actor_token": self._assertion(self._section.actor),
            "actor_token_type": JWT,
        }
        try:
            # A redirect would carry what is in the form to another place.
            with session.post(
                self._exchange.endpoint,
                data=form,
                headers={"Accept": "application/json"},
                timeout=self._exchange.timeout_s,
                allow_redirects=False,
                stream=True,
            ) as answer:
                status, body = answer.status_code, b"".join(self._pieces(answer))
        except (requests.RequestException, HTTPError) as error:
            # Without the cause: it holds the request, and so the tokens in it.
            what = f"gave no answer, in up to {self._exchange.attempts} attempts: {_kind(error)}"
            raise self._problem(what, "check the address and that the endpoint is up, then run it again") from None
        return self._judged(status, body, user, now_s)

    def _pieces(self, answer: requests.Response) -> Iterator[bytes]:
        """The answer's body. Raises requests.Timeout when it does not end in time, or by its length."""
        deadline = time.monotonic() + self._exchange.timeout_s
        size = 0
        while piece := answer.raw.read1(_ANSWER_BYTES_MAX):
            yield piece
            size += len(piece)
            if size > _ANSWER_BYTES_MAX or time.monotonic() > deadline:
                raise requests.Timeout

    def _assertion(self, subject: str) -> str:
        """A JWT by which this deployment says to the endpoint, and to nobody else, who somebody is (RFC 7523)."""
        issued_s = int(time.time())
        claims = {
            "iss": self._section.actor,
            "sub": subject,
            "aud": self._exchange.endpoint,
            "iat": issued_s,
            "exp": issued_s + _ASSERTION_S,
            "jti": uuid.uuid4().hex,
        }
        return jwt.encode(claims, self._key, algorithm=algorithm_of(self._key), headers=self._header)

    def _judged(self, status: int, body: bytes, user: str, now_s: float) -> Token:
        """The token in an answer. Raises InputError when there is none, or one that may not be sent."""
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            answer = {}
        if status != 200:
            raise self._refused(status, answer.get("error"))
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise self._problem(
                "answered 200 without an access_token", "it has to answer as RFC 8693, section 2.2, says"
            )
        if str(answer.get("token_type", "")).lower() != "bearer":
            raise self._problem("gave out no bearer token (token_type)", "have it issue access tokens for this client")
        try:
            claims = _claims(token)
        except jwt.InvalidTokenError:
            raise self._problem(
                "gave out a token that is no JWT",
                "have it issue JWT access tokens (RFC 9068): scope and expiry of another cannot be checked",
            ) from None
        if reason := unfit(claims, self._section, user):
            raise self._problem(
                f"gave out a token that may not be sent: {reason}", "mend the rules of this client at the endpoint"
            )
        if claims["exp"] <= now_s:
            raise self._problem(
                "gave out a token that has expired", "set the clocks of the endpoint and of this machine"
            )
        if claims["exp"] - now_s > self._section.ttl_s + self._section.skew_s:
            raise self._problem(
                f"gave out a token that lives for {claims['exp'] - now_s:.0f} s, and the plan allows "
                f"{self._section.ttl_s} s",
                "shorten the tokens of this client at the endpoint, or raise tokens.ttl_s",
            )
        return Token(token, claims["exp"])

    def _refused(self, status: int, error: object) -> InputError:
        code = f" {error}" if isinstance(error, str) and _ERROR_CODE.fullmatch(error) else ""
        if 300 <= status < 400:
            return self._problem(
                f"answered {status}, a redirect", "name the endpoint itself: tokens follow no redirect"
            )
        remedy = {
            400: "check tokens.audience, and that the endpoint lets tokens.actor act for users",
            401: f"register the public key (`perf-pipeline tokens public-key`), or set {CLIENT_SECRET_VARIABLE}",
            403: "have the endpoint let tokens.actor act for users",
            404: "check the address in tokens.exchange.endpoint",
        }
        busy = (
            f"it was so {self._exchange.attempts} times: ask for fewer at a time (tokens.exchange.concurrency), or wait"
        )
        return self._problem(
            f"answered {status}{code}", busy if status in _BUSY else remedy.get(status, "see the log of the endpoint")
        )

    def _problem(self, what: str, remedy: str) -> InputError:
        return InputError(Problem(f"token endpoint {self._exchange.endpoint}", what, remedy))


def _claims(token: str) -> dict[str, Any]:
    """What a JWT says, whoever signed it. Raises jwt.InvalidTokenError when it is none."""
    return jwt.decode(token, options={"verify_signature": False})


def _kind(error: Exception) -> str:
    """What kind of failure it was, without what was sent."""
    if isinstance(error, requests.Timeout | LostInTime):
        return "it takes longer than tokens.exchange.timeout_s"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not accepted"
    return "no connection, or one that broke off"

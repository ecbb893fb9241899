"""Read-only scoped tokens: who issues them, the key that signs them, how long they live.

What belongs here: making tokens and keeping them apart from anything that is shown. Neither a key nor a token stands in
a `repr`, in a log line or in the message of an exception. At rest, a token stands in one column of one file
(`requests.parquet`); the key stands where its owner put it.
"""

import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.plan import TokenSection

KEY_VARIABLE = "PERF_PIPELINE_TOKEN_KEY"
KEY_FILE_VARIABLE = "PERF_PIPELINE_TOKEN_KEY_FILE"
ALGORITHM = "EdDSA"
SCOPE = "read"

_log = logging.getLogger(__name__)


class TokenIssuer(Protocol):
    """What gives a user's requests a token: a key of ours, or a service that exchanges tokens (RFC 8693)."""

    def issue(self, user: str, now_s: float) -> str:
        """A read-only token for a user (a UUID), valid from `now_s` (unix seconds) on."""

    def expiry_s(self, token: str, user: str) -> float:
        """When a stored token expires, in unix seconds; minus infinity when this issuer does not vouch for it."""


class SignedTokens:
    """Tokens signed here: JWTs with EdDSA (RFC 8037) and the claims iss aud sub scope load_test iat exp jti (RFC 9068).

    The same user and second give the same token, so that a repeated capture does not multiply tokens.
    """

    def __init__(self, key: Ed25519PrivateKey, section: TokenSection) -> None:
        """Sign with `key`; issuer, audience and lifetime come from the plan's section."""
        self._key = key
        self._section = section

    def __repr__(self) -> str:
        return f"SignedTokens(issuer={self._section.issuer!r}, audience={self._section.audience!r})"

    def __reduce__(self) -> str:
        raise TypeError("SignedTokens holds a private key and is never written anywhere")

    def issue(self, user: str, now_s: float) -> str:
        """A read-only token for a user, valid for the plan's `ttl_s` from `now_s` (unix seconds) on."""
        issued_s = int(now_s)
        name = f"{self._section.issuer}\n{self._section.audience}\n{user}\n{issued_s}"
        claims = {
            "iss": self._section.issuer,
            "aud": self._section.audience,
            "sub": user,
            "scope": SCOPE,
            "load_test": True,
            "iat": issued_s,
            "exp": issued_s + self._section.ttl_s,
            "jti": hashlib.blake2b(name.encode(), digest_size=16).hexdigest(),
        }
        return jwt.encode(claims, self._key, algorithm=ALGORITHM)

    def expiry_s(self, token: str, user: str) -> float:
        """When a token of this key for this user expires, in unix seconds; minus infinity for any other text."""
        try:
            claims = jwt.decode(
                token,
                self._key.public_key(),
                algorithms=[ALGORITHM],
                audience=self._section.audience,
                issuer=self._section.issuer,
                options={"require": ["exp", "sub"], "verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            return float("-inf")
        return float(claims["exp"]) if (claims["sub"], claims.get("scope")) == (user, SCOPE) else float("-inf")


def tokens_for(
    users: Iterable[str],
    recorded: Mapping[str, str],
    until_s: float,
    issuer: TokenIssuer,
    now_s: float | None = None,
) -> dict[str, str]:
    """A token for each user that outlives `until_s` (unix seconds): the recorded one if it does, else a new one.

    `recorded` maps users to the tokens that the capture stored; those of another key or for another user are not used.
    Raises InputError when even a new token expires before: such a run measures how fast the service says 401.
    """
    now_s = time.time() if now_s is None else now_s
    tokens: dict[str, str] = {}
    for user in users:
        token = recorded.get(user)
        if token is None or issuer.expiry_s(token, user) <= until_s:
            token = issuer.issue(user, now_s)
            if (expiry_s := issuer.expiry_s(token, user)) <= until_s:
                raise InputError(
                    Problem(
                        "plan: tokens.ttl_s",
                        f"tokens made now live for {max(expiry_s - now_s, 0):.0f} s, "
                        f"but are needed for {until_s - now_s:.0f} s",
                        "raise tokens.ttl_s, or ask for tokens until an earlier time",
                    )
                )
        tokens[user] = token
    return tokens


def load_signing_key(environ: Mapping[str, str] = os.environ) -> Ed25519PrivateKey:
    """The key that signs tokens: PERF_PIPELINE_TOKEN_KEY (PEM text), else the file PERF_PIPELINE_TOKEN_KEY_FILE names.

    Raises InputError when there is none, or when it is not an Ed25519 private key; the message never shows it.
    """
    if pem := environ.get(KEY_VARIABLE):
        return _parse_key(pem.encode(), KEY_VARIABLE)
    name = environ.get(KEY_FILE_VARIABLE)
    if not name:
        raise InputError(
            Problem(
                KEY_VARIABLE,
                "is not set, and tokens cannot be signed without a key",
                f"set it to an Ed25519 private key (PEM), or {KEY_FILE_VARIABLE} to a file that holds one; "
                "`openssl genpkey -algorithm ed25519` makes one",
            )
        )
    path = Path(name)
    try:
        pem_bytes = path.read_bytes()
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise InputError(
            Problem(
                f"{KEY_FILE_VARIABLE}={path}",
                f"cannot be read: {error.strerror}",
                f"`openssl genpkey -algorithm ed25519 -out {path}` makes a key",
            )
        ) from error
    if mode & 0o077:
        _log.warning("%s can be read by others (mode %o); `chmod 600` keeps it to its owner", path, mode)
    return _parse_key(pem_bytes, str(path))


def _parse_key(pem: bytes, where: str) -> Ed25519PrivateKey:
    problem = Problem(
        where,
        "is not an Ed25519 private key in PEM",
        "`openssl genpkey -algorithm ed25519` makes one, without a passphrase",
    )
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Without the cause: its text is not ours, and it could quote the key.
        raise InputError(problem) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(problem)
    return key


def generate_signing_key(path: Path) -> None:
    """Write a new Ed25519 private key as PEM, readable by its owner only. Raises FileExistsError when it is there."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp makes the file with mode 0600; the link makes it appear whole, and never replaces a key.
    descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
        os.link(partial, path)
    finally:
        Path(partial).unlink()


def ensure_signing_key(path: Path) -> bool:
    """Make the key file if it is not there; whether it was made."""
    try:
        generate_signing_key(path)
    except FileExistsError:
        if not path.is_file():  # its folder is a file, or it is a folder
            raise
        return False
    return True


def public_key_pem(key: Ed25519PrivateKey) -> str:
    """The public half as PEM text, for the service that verifies."""
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem.decode("ascii")

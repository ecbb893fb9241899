"""The key that signs: where it comes from, which algorithm it means, what others know it by.

What belongs here: reading, making and replacing the private key of this deployment, and its public half. An Ed25519 key
signs with EdDSA (RFC 8037), an RSA key with RS256 (RFC 7518). No message or `repr` shows a key.
"""

import base64
import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import jwt.algorithms
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.half_written import partial_prefix

KEY_VARIABLE = "PERF_PIPELINE_TOKEN_KEY"
KEY_FILE_VARIABLE = "PERF_PIPELINE_TOKEN_KEY_FILE"

SigningKey: TypeAlias = Ed25519PrivateKey | RSAPrivateKey

_RSA_BITS_MIN = 2048

_log = logging.getLogger(__name__)


def algorithm_of(key: SigningKey) -> str:
    """The JWS algorithm that a key signs with: EdDSA or RS256."""
    return "EdDSA" if isinstance(key, Ed25519PrivateKey) else "RS256"


def public_jwk(key: SigningKey) -> dict[str, Any]:
    """The public half as a JSON Web Key (RFC 7517), with the algorithm and the key id that tokens name it by."""
    algorithm = algorithm_of(key)
    make = jwt.algorithms.get_default_algorithms()[algorithm]
    members = make.to_jwk(key.public_key(), as_dict=True)
    # The thumbprint of RFC 7638: the required members in the order of their names.
    needed = {name: members[name] for name in ("crv", "e", "kty", "n", "x") if name in members}
    text = json.dumps(needed, sort_keys=True, separators=(",", ":"))
    thumbprint = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return dict(needed) | {"use": "sig", "alg": algorithm, "kid": thumbprint}


def load_signing_key(environ: Mapping[str, str] = os.environ) -> SigningKey:
    """The key that signs tokens: PERF_PIPELINE_TOKEN_KEY (PEM text), else the file PERF_PIPELINE_TOKEN_KEY_FILE names.

    Raises InputError when there is none, or when it is no Ed25519 or RSA private key; the message never shows it.
    """
    if pem := environ.get(KEY_VARIABLE):
        return _parse_key(pem.encode(), KEY_VARIABLE)
    name = environ.get(KEY_FILE_VARIABLE)
    if not name:
        raise InputError(
            Problem(
                KEY_VARIABLE,
                "is not set, and tokens cannot be signed without a key",
                f"set it to an Ed25519 or RSA private key (PEM), or {KEY_FILE_VARIABLE} to a file that holds one; "
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


def _parse_key(pem: bytes, where: str) -> SigningKey:
    problem = Problem(
        where,
        f"is no Ed25519 private key in PEM, and no RSA one of at least {_RSA_BITS_MIN} bits",
        "`openssl genpkey -algorithm ed25519` makes one, without a passphrase",
    )
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Without the cause: its text is not ours, and it could quote the key.
        raise InputError(problem) from None
    if isinstance(key, Ed25519PrivateKey) or (isinstance(key, RSAPrivateKey) and key.key_size >= _RSA_BITS_MIN):
        return key
    raise InputError(problem)


def generate_signing_key(path: Path) -> None:
    """Write a new Ed25519 private key as PEM, readable by its owner only. Raises FileExistsError when it is there."""
    # The link makes it appear whole, and never replaces a key.
    with _new_key_beside(path) as partial:
        os.link(partial, path)


def ensure_signing_key(path: Path) -> bool:
    """Make the key file if it is not there; whether it was made."""
    try:
        generate_signing_key(path)
    except FileExistsError:
        if not path.is_file():  # its folder is a file, or it is a folder
            raise
        return False
    return True


def replace_signing_key(path: Path) -> None:
    """Put a new Ed25519 private key in the place of the one that is there, which is gone then.

    Every token that the old key signed is worthless as soon as the services know the new public key.
    """
    with _new_key_beside(path) as partial:
        os.replace(partial, path)


@contextmanager
def _new_key_beside(path: Path) -> Iterator[Path]:
    """A file with a new key in the folder of `path`, removed at the end unless it was moved."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=partial_prefix(), dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
        yield Path(partial)
    finally:
        Path(partial).unlink(missing_ok=True)


def public_key_pem(key: SigningKey) -> str:
    """The public half as PEM text, for the service that verifies."""
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem.decode("ascii")

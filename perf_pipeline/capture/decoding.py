"""Percent escapes: how deep a text is encoded, and how a URI is written in ASCII.

What belongs here: encoding and decoding, without rules about what is allowed; those are in `uri` and `query`.
"""

import re
import unicodedata
from urllib.parse import unquote_to_bytes

MAX_DEPTH = 5
"""Decodings that are followed. A text that is still encoded after them hides something."""

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
NOT_IN_PATH = r"[^A-Za-z0-9\-._~!$&'()*+,;=:@/%]"
"""What RFC 3986 does not allow in a path, as a pattern."""

_NOT_IN_PATH = re.compile(NOT_IN_PATH.encode("ascii"))
_NOT_IN_QUERY = re.compile(NOT_IN_PATH.replace("/", "/?").encode("ascii"))


def has_bad_escape(data: bytes) -> bool:
    """Whether a `%` is not followed by two hex digits."""
    return _BAD_ESCAPE.search(data) is not None


def encode_path(path: bytes) -> bytes:
    """Escape, byte by byte, what RFC 3986 does not allow in a path. Escapes that are there stay as they are."""
    return _NOT_IN_PATH.sub(_escape, path)


def encode_query(query: bytes) -> bytes:
    """Escape, byte by byte, what RFC 3986 does not allow in a query. Escapes that are there stay as they are."""
    return _NOT_IN_QUERY.sub(_escape, query)


def _escape(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


def decodings(data: bytes) -> list[bytes] | None:
    """What the data reads as after one decoding, after two and so on, until nothing changes any more.

    Some servers decode twice. None when the data is encoded more than `MAX_DEPTH` times.
    """
    levels: list[bytes] = []
    for _ in range(MAX_DEPTH):
        decoded = unquote_to_bytes(data)
        if levels and decoded == data:
            return levels
        levels.append(decoded)
        data = decoded
    return levels if unquote_to_bytes(data) == data else None


def as_text(data: bytes) -> str:
    """Decoded bytes as text, in the compatibility form (NFKC) in which full-width letters are the plain ones.

    Bytes that are not UTF-8 stand in it as surrogate escapes.
    """
    text = data.decode("utf-8", "surrogateescape")
    return text if text.isascii() else unicodedata.normalize("NFKC", text)

"""The request target: from any bytes to a URI that can be sent to a fixed host, or to the reason why not.

What belongs here: which paths may be replayed (the plan's allow-list, the deny-list for GETs with side effects), which
can be read in two ways, and how a URI is written in plain ASCII. The query is judged in `query`. The host of a replayed
request never comes from here: a clean URI starts with exactly one `/`, so that it can only be a path.
"""

import re
from typing import NamedTuple

from perf_pipeline.capture.decoding import as_text, decodings, encode_path, has_bad_escape
from perf_pipeline.capture.query import QueryRules
from perf_pipeline.capture.reasons import REASONS, Reason, reason_code
from perf_pipeline.capture.remembered import Remembered
from perf_pipeline.capture.suspicious import holds_credential, holds_e_mail, may_hold_credential, names_side_effect
from perf_pipeline.plan import CaptureSection

MAX_BYTES = 16_384
"""Longest path, and longest query. nginx refuses a longer line with its default header buffers (8 KiB)."""

_PLAIN_SEGMENT = "[A-Za-z0-9_~-][A-Za-z0-9_~.-]*"  # nothing to decode, and no segment of dots
_ID_SEGMENT = "[0-9A-Fa-f-]+"  # numbers and UUIDs: no word of a side effect can be spelled with these letters
_NO_ROUTE = "/.."

A_NUMBER = "\x01"
"""What stands for a segment of digits in the shape of a path. No readable path holds it."""

SHAPED_BYTES_MAX = 200
"""Longest path whose shape says all about it."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# `..;x` is `..` to servers that cut matrix parameters; some servers cut spaces and dots at the end of a name.
_DOT_SEGMENT = re.compile(r"(?:^|/)[.\s]+(?:;[^/]*)?(?:/|$)")
_OVERLONG = re.compile(rb"[\xc0\xc1]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")


_SIDE_EFFECT = reason_code(Reason.SIDE_EFFECT)


class CleanUri(NamedTuple):
    """A URI that may be replayed: ASCII, one leading `/`, no fragment; and the route template that it belongs to."""

    uri: str
    route: str


class UriRules:
    """The rules of a plan on request targets."""

    def __init__(self, capture: CaptureSection) -> None:
        """Take the allow-list, the further deny patterns and the rules on queries from the plan."""
        # As routers do, a literal segment beats a placeholder; the order in the plan does not matter.
        self.routes = sorted(capture.routes, key=lambda route: [part.startswith("{") for part in route.split("/")])
        self._any_route = _route_pattern(self.routes, "[^/]+")
        self._plain_route = _route_pattern(self.routes, _PLAIN_SEGMENT)
        self._deny = [re.compile(pattern, re.IGNORECASE) for pattern in capture.deny]
        harmless = [route if not self._is_denied(route) else _NO_ROUTE for route in self.routes]
        # A plan's own patterns may speak about numbers, so they are always asked.
        self._id_route = _route_pattern([_NO_ROUTE] if self._deny else harmless, _ID_SEGMENT)
        self.id_shapes = self._id_shapes([] if self._deny else harmless)
        """The position in `routes` of each shape of a path that has numbers only where its route has placeholders."""
        self._query = QueryRules(capture)
        self.stands_alone = self._query.stands_alone
        # The answers are numbers and texts, not objects: there are many, and the garbage collector visits objects.
        self.paths = Remembered(self._judge_path)
        """Per path as it came, without its query: the position of its route in `routes`, or minus the reason's code."""
        self.queries = Remembered(self._judge_query)
        """Per query as it stood behind the `?`: the clean text if it is another one, else 0, or the reason's code."""

    def _id_shapes(self, harmless: list[str]) -> dict[str, int]:
        parts = [route.split("/") for route in harmless]
        if any(part.isdecimal() for route in parts for part in route):
            return {}  # a number could be a literal segment
        shapes = ["/".join(A_NUMBER if part.startswith("{") else part for part in route) for route in parts]
        return {shape: shapes.index(shape) for shape in shapes if A_NUMBER in shape}

    def clean(self, uri: bytes) -> CleanUri | Reason:
        """The URI as it is replayed, or the reason why it is not. `uri` is nginx's `$request_uri`, any bytes.

        Never raises. The fragment is cut: browsers never send it, and Go drops it.
        """
        path, mark, query = uri.partition(b"#")[0].partition(b"?")
        path = path or (mark and b"/")
        route = self.paths[path]
        if route < 0:
            return REASONS[-route - 1]
        clean = encode_path(path).decode("ascii")
        if mark:
            judged = self.queries[query]
            if isinstance(judged, int) and judged:
                return REASONS[judged - 1]
            clean = f"{clean}?{judged or query.decode('ascii')}"
        return CleanUri(clean, self.routes[route])

    def _judge_query(self, query: bytes) -> int | str:
        clean = Reason.TOO_LONG if len(query) > MAX_BYTES else self._query.clean(query)
        if isinstance(clean, Reason):
            return reason_code(clean)
        return 0 if clean == query else clean.decode("ascii")

    def _judge_path(self, path: bytes) -> int:
        if len(path) > MAX_BYTES:
            return -reason_code(Reason.TOO_LONG)
        text = path.decode("latin-1")
        by_id = self._id_route.fullmatch(text)
        if by_id and by_id.lastindex:
            return by_id.lastindex - 1
        plain = self._plain_route.fullmatch(text)
        if plain and plain.lastindex and not may_hold_credential(path):
            # The path says what it says, so there is nothing else to ask.
            return -_SIDE_EFFECT if self._is_denied(text) else plain.lastindex - 1
        judged = self._judge_path_exactly(path)
        return -reason_code(judged) if isinstance(judged, Reason) else judged

    def _judge_path_exactly(self, path: bytes) -> int | Reason:
        if not path:
            return Reason.MALFORMED
        if not path.startswith(b"/"):
            return Reason.NOT_A_PATH
        if has_bad_escape(path):
            return Reason.BAD_ESCAPE
        levels = decodings(path)
        if levels is None or any(_is_ambiguous(path, level) for level in levels):
            return Reason.AMBIGUOUS_PATH
        texts = [as_text(level) for level in levels]
        if any(map(self._is_denied, texts)):
            return Reason.SIDE_EFFECT
        match = self._any_route.fullmatch(texts[0])
        if not match or not match.lastindex:
            return Reason.ROUTE
        inner = self._query.rules_inside(texts)
        if "secret" in inner or any(map(holds_credential, texts)):
            return Reason.CREDENTIAL
        if "redact" in inner or any(map(holds_e_mail, texts)):
            return Reason.PERSONAL_PATH
        return match.lastindex - 1

    def _is_denied(self, text: str) -> bool:
        if names_side_effect(text):
            return True
        return any(pattern.search(text) for pattern in self._deny) if self._deny else False


def _route_pattern(routes: list[str], placeholder: str) -> re.Pattern[str]:
    """A pattern with one group per route template. A template with a segment of dots matches nothing."""
    parts = [route.split("/") for route in routes]
    patterns = (
        "/".join(
            placeholder if part.startswith("{") else re.escape(part) if part.strip(".") or not part else "(?!)"
            for part in route
        )
        for route in parts
    )
    return re.compile("|".join(f"({pattern})" for pattern in patterns))


def _is_ambiguous(path: bytes, decoded: bytes) -> bool:
    """Whether servers and proxies may read a path in different ways (RFC 3986 section 3.3, RFC 9110 section 4.2.3).

    `path` is as it came, `decoded` one of its decodings.
    """
    text = as_text(decoded)
    return (
        "//" in text
        or "\\" in text
        or not decoded.count(b"/") == text.count("/") == path.count(b"/")
        or _CONTROL.search(text) is not None
        or _DOT_SEGMENT.search(text) is not None
        or _OVERLONG.search(decoded) is not None
    )

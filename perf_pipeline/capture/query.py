"""The query string of a captured request: what is taken out of it, and what forbids its replay.

What belongs here: the rules on parameters, and on what stands in their values. A parameter's name is compared in lower
case and without punctuation, after percent-decoding, so that `access_token`, `Access-Token` and `%61ccessToken` are one
name. Rules reach into brackets (`user[email]`), and into values that hold parameters: a return address, JSON.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from perf_pipeline.capture.decoding import as_text, decodings, encode_query
from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.remembered import Remembered
from perf_pipeline.capture.suspicious import holds_credential, holds_e_mail, may_hold_credential, names_side_effect
from perf_pipeline.plan import CaptureSection

REDACTED = b"REDACTED"

ALWAYS_SECRET = (
    "access_token", "refresh_token", "id_token", "client_secret", "password", "passwd", "pwd", "api_key", "jwt",
    "authorization", "session_id", "jsessionid", "phpsessid", "signature", "csrf_token", "x_csrf_token",
)  # fmt: skip
"""Parameters that reject a request whatever the plan says; the plan's `drop_query` adds to them."""

_SECRET_ENDINGS = ("token", "secret", "password", "passwd", "pwd", "apikey", "signature", "credential", "credentials")
_CURSORS = ("page", "next", "cursor", "continuation", "sync", "delta", "skip", "start")
"""What stands before `token` in the names of pagination: `page_token`, `nextPageToken` and such hold no secret."""

_SIGNED_URL_PREFIXES = ("xamz", "xgoog")
_METHOD_OVERRIDES = ("_method", "x-http-method-override")
_ACTIONS = (
    "action", "act", "do", "op", "operation", "operationname", "cmd", "command", "task", "mode", "method", "event",
    "route", "r", "page", "view",
)  # fmt: skip
"""Parameters by which applications choose what to do: a word of a side effect in their value is one."""

_JSONP = "callback"  # as a parameter it names a function of the page, and changes nothing

_NAME_PARTS = re.compile(r"[\[\].]+")
_PUNCTUATION = re.compile(r"[\W_]+")
# Possessive, and only from the start of a name: a long value must not cost its length squared.
_INNER_NAME = re.compile(r"(?<![\w.\-$])([\w.\-$]++)[\"'\s\]]*+[=:]")
_GRAPHQL_WRITE = re.compile(r"\b(?:mutation|subscription)\b", re.ASCII)

# Values of these bytes and escapes (space + , /) hold no address, no further escape and no inner parameter.
_PLAIN_VALUE = re.compile(rb"(?:[A-Za-z0-9_.~+,/-]|%2[0BbCcFf])*")

Rule: TypeAlias = Literal["secret", "side effect", "action", "graphql", "redact"]


class JudgedName(NamedTuple):
    """A parameter's name: as it is replayed, and the rules on its value."""

    name: bytes
    rules: frozenset[Rule]


def plain_name(name: str) -> str:
    """A parameter's name as names are compared: lower case, letters and digits only."""
    return _PUNCTUATION.sub("", name.lower())


class QueryRules:
    """The rules of a plan on query strings, and on parameters that stand elsewhere."""

    def __init__(self, capture: CaptureSection) -> None:
        """Take the names from the plan's `redact_query` and `drop_query`."""
        self._rules: dict[str, Rule] = {"query": "graphql", **dict.fromkeys(_ACTIONS, "action")}
        self._rules |= dict.fromkeys(map(plain_name, capture.redact_query), "redact")
        self._rules |= dict.fromkeys(map(plain_name, (*ALWAYS_SECRET, *capture.drop_query)), "secret")
        self._names = Remembered(self._judge_name)
        self._pairs = Remembered(self._clean_pair)

    def clean(self, query: bytes) -> bytes | Reason:
        """The query as it is replayed, in ASCII; or the reason why the request is not.

        `query` is what stands behind the `?`, any bytes. Never raises.
        """
        parts = query.split(b"&")
        for index, part in enumerate(parts):
            clean = self._pairs[part]
            if b";" in part and not isinstance(clean, Reason) and not clean.endswith(b"=" + REDACTED):
                # Some servers end a pair at a semicolon too, so the part must pass in both readings.
                clean = self._clean_all(part.split(b";"))
            if isinstance(clean, Reason):
                return clean
            parts[index] = clean
        return b"&".join(parts)

    def stands_alone(self, part: bytes) -> bool:
        """Whether a part between `&` is replayed as it stands, whatever stands beside it."""
        return b";" not in part and self._pairs[part] == part

    def _clean_all(self, pairs: list[bytes]) -> bytes | Reason:
        """Pairs between semicolons."""
        cleaned: list[bytes] = []
        for pair in pairs:
            clean = self._pairs[pair]
            if isinstance(clean, Reason):
                return clean
            cleaned.append(clean)
        return b";".join(cleaned)

    def _clean_pair(self, pair: bytes) -> bytes | Reason:
        """One `name=value`, or a name alone."""
        name, equals, value = pair.partition(b"=")
        judged = self._names[name]
        if isinstance(judged, Reason):
            return judged
        if not judged.rules and _is_plain(value):
            return judged.name + equals + value
        values = _texts(value)
        if values is None:
            return Reason.CREDENTIAL  # encoded so often that it hides something
        inner = self.rules_inside(values)
        if "secret" in inner or any(map(holds_credential, values)):
            return Reason.CREDENTIAL
        if ("action" in judged.rules and any(map(names_side_effect, values))) or (
            "graphql" in judged.rules and any(map(_GRAPHQL_WRITE.search, values))
        ):
            return Reason.SIDE_EFFECT
        if value and ("redact" in judged.rules or "redact" in inner or any(map(holds_e_mail, values))):
            value = REDACTED
        return judged.name + equals + encode_query(value)

    def _judge_name(self, name: bytes) -> JudgedName | Reason:
        names = _texts(name)
        if names is None:
            return Reason.CREDENTIAL
        rules = frozenset(rule for text in names for rule in self._rules_on(text)) | self.rules_inside(names)
        if "secret" in rules or any(map(holds_credential, names)):
            return Reason.CREDENTIAL
        if "side effect" in rules:
            return Reason.SIDE_EFFECT
        return JudgedName(REDACTED if any(map(holds_e_mail, names)) else encode_query(name), rules)

    def rules_inside(self, texts: Iterable[str]) -> set[Rule]:
        """The rules on the names in decoded texts that hold `name=value` or `"name": value` themselves."""
        return {rule for text in texts for match in _INNER_NAME.finditer(text) for rule in self._rules_on(match[1])}

    def _rules_on(self, name: str) -> set[Rule]:
        """The rules on a decoded name; the parts of `user[email]` and of `user.email` are names too."""
        parts = {plain_name(part) for part in (name, *_NAME_PARTS.split(name))}
        rules = {self._rules[part] for part in parts if part in self._rules}
        if any(part.startswith(_SIGNED_URL_PREFIXES) or _ends_as_a_secret(part) for part in parts):
            rules.add("secret")
        if name.strip().lower() in _METHOD_OVERRIDES or (plain_name(name) != _JSONP and names_side_effect(name)):
            rules.add("side effect")
        return rules


def _ends_as_a_secret(name: str) -> bool:
    """Whether a plain name ends as those of secrets do (`confirmation_token`), and is none of pagination."""
    return name.endswith(_SECRET_ENDINGS) and not name.removesuffix("token").endswith(_CURSORS)


def _is_plain(value: bytes) -> bool:
    """Whether a value has nothing in it that the rules on values look for, told cheaply; False when in doubt."""
    return _PLAIN_VALUE.fullmatch(value) is not None and not may_hold_credential(value)


def _texts(data: bytes) -> list[str] | None:
    """The data decoded once, twice and so on, each as text; None when it is encoded too often.

    Servers read a `+` as a space or as itself, so both readings are in it.
    """
    readings = [data.replace(b"+", b" "), data] if b"+" in data else [data]
    texts: list[str] = []
    for reading in readings:
        levels = decodings(reading)
        if levels is None:
            return None
        texts += map(as_text, levels)
    return texts

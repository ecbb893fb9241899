"""Why a line of the access log is not replayed: a small fixed set of words, for reports and for quarantine.

What belongs here: the words. Which rule gives which reason is in `access_log` (what the line says), `uri` and `query`
(what it asks for) and `requests` (duplicates).
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a line is in quarantine. A line has one reason: that of the first rule it breaks, roughly in this order."""

    NOT_JSON = "not a JSON object"
    FIELD_MISSING = "field missing or not text"
    UNKNOWN_FORMAT = "unknown version of the log format"
    TIME = "time is not readable"
    MALFORMED = "malformed request"
    """nginx could not read the request: the method is empty."""
    NOT_GET = "not a GET"
    PROTOCOL = "protocol not allowed"
    NOT_COMPLETED = "request not completed"
    STATUS = "status is not 200 or 304"
    REQUEST_ID = "no request id"
    NO_USER = "no user"
    USER_NOT_UUID = "user is not a UUID"
    SAMPLING_RATE = "sampling rate is not readable"
    NOT_A_PATH = "URI is not a path"
    TOO_LONG = "URI is too long"
    BAD_ESCAPE = "bad percent escape in the path"
    AMBIGUOUS_PATH = "path can be read in two ways"
    """Dot segments, double or encoded slashes, backslashes, control characters: servers disagree about them."""
    SIDE_EFFECT = "GET with side effects"
    ROUTE = "route is not listed"
    PERSONAL_PATH = "personal data in the path"
    CREDENTIAL = "secret in the URI"
    DUPLICATE = "duplicate request id"


REASONS = tuple(Reason)
_CODES = {reason: code for code, reason in enumerate(REASONS, start=1)}


def reason_code(judged: object) -> int:
    """The number of a reason in a column of codes, from 1: its place in `REASONS`; 0 for anything that is no reason."""
    return _CODES[judged] if isinstance(judged, Reason) else 0

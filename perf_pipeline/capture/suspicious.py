"""What must not be replayed, recognised in decoded text: side effects, credentials, e-mail addresses.

What belongs here: recognising. Which parts of a request are looked at is in `uri` and `query`. Every pattern takes time
linear in the text, whatever the text is, because the text is what a stranger sent.
"""

import re

_SIDE_EFFECT = re.compile(
    r"(?<![a-z])(?=[acdeloprsuvw])(?:log[-_ ]?(?:out|off)|sign[-_ ]?(?:out|off)|opt[-_ ]?out|unsubscribe|"
    r"confirm(?:ation)?|verif(?:y|ication)|activat(?:e|ion)|unlock|approve|add[-_ ]?to[-_ ]?(?:cart|basket|wishlist)|"
    r"reset|delete|remove|destroy|deactivate|cancel|revoke|purge|export|download|callback|oauth2?|webhook|poll|stream|"
    r"websocket)(?:s|ing)?(?![a-z])"
)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_NOT_IN_ADDRESS = r"\s@:/?#&;=,<>\"'()\[\]{}"
# Possessive, and only from where an address can begin: backtracking would cost the square of the length.
_E_MAIL = re.compile(
    rf"(?<![^{_NOT_IN_ADDRESS}])[^{_NOT_IN_ADDRESS}]++@[^{_NOT_IN_ADDRESS}.]++(?:\.[^{_NOT_IN_ADDRESS}.]++)+"
)
_CREDENTIAL = re.compile(
    # A JWT mostly starts with the Base64 of `{"`; any three long parts with points between them are one too (RFC 7515).
    r"eyJ[A-Za-z0-9_-]{4,1000}+\.[A-Za-z0-9_-]{4}"
    r"|(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{20,}+\.[A-Za-z0-9_-]{20}"
    r"|\b(?i:bearer)\s+\S"
    # Keys that say by their first letters whose they are: AWS, Google, GitHub, GitLab, Slack, Stripe.
    r"|(?<![A-Za-z0-9])(?:A(?:KI|SI)A[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|gh[opsur]_[A-Za-z0-9]{36}|glpat-[A-Za-z0-9_-]{20}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10}|[rs]k_(?:live|test)_[A-Za-z0-9]{16})",
    re.ASCII,
)


_KEY_START = re.compile(rb"A(?:KI|SI)A|AIza|gh[opsur]_|glpat-|xox[abeprs]-|[rs]k_(?:live|test)_")


def names_side_effect(text: str) -> bool:
    """Whether a whole word says that a GET changes something, costs much or never ends.

    `deleteAccount` and `delete_account` hold the word delete, `deletedness` does not. The words are those of the
    reference (capture, section 7) and their near relations.
    """
    lower = text.lower()
    if _SIDE_EFFECT.search(lower):
        return True
    return lower != text and _SIDE_EFFECT.search(_CAMEL_CASE.sub("-", text).lower()) is not None


def holds_e_mail(text: str) -> bool:
    """Whether an e-mail address stands anywhere in the text; wide on purpose."""
    return "@" in text and _E_MAIL.search(text) is not None


def may_hold_credential(data: bytes) -> bool:
    """Whether bytes that nothing in is escaped may hold a credential, told cheaply; True when in doubt."""
    return b"eyJ" in data or data.count(b".") >= 2 or b"bearer" in data.lower() or _KEY_START.search(data) is not None


def holds_credential(text: str) -> bool:
    """Whether a JWT, the value of an Authorization header or a well-known kind of key stands anywhere in the text."""
    return _CREDENTIAL.search(text) is not None

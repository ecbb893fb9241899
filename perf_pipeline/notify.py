"""Telling people: delivering a message to a webhook that takes what Slack's does.

What belongs here: addresses, links and delivery. What a message about a verdict says is in `report.message`. Delivering
is tried several times and never raises: a chat that is down must not fail a comparison. The webhook's address is a
secret and is never shown.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

WEBHOOK_VARIABLE = "PERF_PIPELINE_WEBHOOK"

_TIMEOUT_S = (5, 15)
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Pauses between tries. Our own loop, since urllib3 logs the address, a secret, with each retry."""
_LONGEST_PAUSE_S = 30.0
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})

Links = tuple[tuple[str, str], ...]
"""A label and an address each."""


def links_of(comparison: str, run_id: str | None, environ: Mapping[str, str] = os.environ) -> Links:
    """Where a reader goes on, as far as the environment knows the places: report, Dagster run, stop page."""
    reports, dagster = environ.get("PERF_PIPELINE_REPORTS_URL", ""), environ.get("PERF_PIPELINE_DAGSTER_URL", "")
    known = (
        ("Report", f"{reports.rstrip('/')}/{comparison}/report.html" if reports else ""),
        ("Dagster run", f"{dagster.rstrip('/')}/runs/{run_id}" if dagster and run_id else ""),
        ("Stop page", environ.get("PERF_PIPELINE_STOP_URL", "")),
    )
    return tuple((label, address) for label, address in known if address)


@dataclass(frozen=True)
class Delivery:
    """Whether a message arrived, and what became of it in words that show no secret."""

    arrived: bool
    words: str


def deliver(webhook: str, message: Mapping[str, Any], pause: Callable[[float], None] = time.sleep) -> Delivery:
    """Post a message to a webhook, up to five times; never raises.

    A webhook that asks for patience (Retry-After) gets it, up to half a minute.
    """
    for pause_s in _PAUSES_S:
        delivery, wait_s = _try_once(webhook, message)
        if wait_s is None:
            return delivery
        pause(min(max(wait_s, pause_s), _LONGEST_PAUSE_S))
    return _try_once(webhook, message)[0]


def _try_once(webhook: str, message: Mapping[str, Any]) -> tuple[Delivery, float | None]:
    """What became of one try, and the seconds to wait at least before another one; None when there is no use in it."""
    try:
        host = urlsplit(webhook).hostname or "the webhook"
        answer = requests.post(webhook, json=message, timeout=_TIMEOUT_S, allow_redirects=False)
    except (requests.ConnectionError, requests.Timeout) as error:
        # Not the error's own words: they hold the address.
        return Delivery(False, f"{host} could not be reached ({type(error).__name__})"), 0.0
    except (requests.RequestException, ValueError):
        return Delivery(False, f"{WEBHOOK_VARIABLE} is not an address that can be posted to"), None
    if answer.status_code // 100 == 2:
        return Delivery(True, f"{host} took the message"), None
    words = f"{host} answered {answer.status_code} {answer.reason or ''}".rstrip()
    wait = answer.headers.get("Retry-After", "")
    again = (float(wait) if wait.isdigit() else 0.0) if answer.status_code in _TRY_AGAIN else None
    return Delivery(False, words), again

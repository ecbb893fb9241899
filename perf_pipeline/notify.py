"""Telling people: delivering a message to a webhook that takes what Slack's does.

What belongs here: addresses, links and delivery. What a message about a verdict says is in `report.message`. Delivering
is tried several times and never raises: a chat that is down must not fail a comparison. What may have arrived is not
sent again: a chat that is slow must not say the same five times. The webhook's address is a secret and is never shown.
"""

import io
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

WEBHOOK_VARIABLE = "PERF_PIPELINE_WEBHOOK"

BUDGET_S = 45.0
"""For all of a delivery, tries and pauses: it is part of a tick of a sensor, which has a minute."""
_TIMEOUTS_S = (5.0, 15.0)
"""To connect, and to answer."""
_LEAST_TRY_S = 1.0
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Pauses between tries. Our own loop, since urllib3 logs the address, a secret, with each retry."""
_LONGEST_PAUSE_S = 30.0
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})

Links = tuple[tuple[str, str], ...]
"""A label and an address each."""


def links_of(comparison: str, run_id: str | None, environ: Mapping[str, str] = os.environ) -> Links:
    """Where a reader goes on, as far as the environment knows the places: report, Dagster run, stop page.

    Without a comparison there is no report to link to.
    """
    reports, dagster = environ.get("PERF_PIPELINE_REPORTS_URL", ""), environ.get("PERF_PIPELINE_DAGSTER_URL", "")
    known = (
        ("Report", f"{reports.rstrip('/')}/{comparison}/report.html" if reports and comparison else ""),
        ("Dagster run", f"{dagster.rstrip('/')}/runs/{run_id}" if dagster and run_id else ""),
        ("Stop page", environ.get("PERF_PIPELINE_STOP_URL", "")),
    )
    return tuple((label, address) for label, address in known if address)


@dataclass(frozen=True)
class Delivery:
    """Whether a message arrived, and what became of it in words that show no secret."""

    arrived: bool
    words: str


def deliver(
    webhook: str,
    message: Mapping[str, Any],
    pause: Callable[[float], None] = time.sleep,
    budget_s: float = BUDGET_S,
    timeouts_s: tuple[float, float] = _TIMEOUTS_S,
) -> Delivery:
    """Post a message to a webhook, up to five times within `budget_s`; never raises.

    A webhook that asks for patience (Retry-After) gets it, up to half a minute. One that takes the message and does not
    answer is not asked again. `timeouts_s` are those of a try, to connect and to answer.
    """
    deadline_s = time.monotonic() + budget_s
    for pause_s in (*_PAUSES_S, None):
        left_s = max(deadline_s - time.monotonic(), _LEAST_TRY_S)
        delivery, wait_s = _try_once(webhook, message, (min(timeouts_s[0], left_s), min(timeouts_s[1], left_s)))
        if wait_s is None or pause_s is None:
            break
        wanted_s = min(max(wait_s, pause_s), _LONGEST_PAUSE_S)
        if time.monotonic() + wanted_s + _LEAST_TRY_S > deadline_s:
            break
        pause(wanted_s)
    return delivery


class _Body(io.BytesIO):
    """A body that knows whether all of it was sent: its end is asked for once the last part has left."""

    sent = False

    def read(self, size: int | None = -1, /) -> bytes:
        """The next part."""
        part = super().read(size)
        self.sent = self.sent or not part
        return part


def _try_once(
    webhook: str, message: Mapping[str, Any], timeouts_s: tuple[float, float]
) -> tuple[Delivery, float | None]:
    """What became of one try, and the seconds to wait at least before another one; None when there is no use in it."""
    body = _Body(json.dumps(message).encode())
    try:
        host = urlsplit(webhook).hostname or "the webhook"
        # Streamed, so that a page that comes drop by drop is not waited for: the status says it all.
        with requests.post(
            webhook, data=body, headers={"Content-Type": "application/json"}, timeout=timeouts_s,
            allow_redirects=False, stream=True,
        ) as answer:  # fmt: skip
            return _answered(host, answer)
    except (requests.Timeout, requests.ConnectionError) as error:
        if not body.sent:
            return _not_reached(host, error), 0.0
        within = f" within {timeouts_s[1]:.0f} s" if isinstance(error, requests.Timeout) else ""
        words = f"{host} gave no answer{within}: the message may have arrived"
        return Delivery(False, f"{words}, and is not sent again"), None
    except (requests.RequestException, ValueError):
        return Delivery(False, f"{WEBHOOK_VARIABLE} is not an address that can be posted to"), None


def _answered(host: str, answer: requests.Response) -> tuple[Delivery, float | None]:
    if answer.status_code // 100 == 2:
        return Delivery(True, f"{host} took the message"), None
    words = f"{host} answered {answer.status_code} {answer.reason or ''}".rstrip()
    wait = answer.headers.get("Retry-After", "")
    again = (float(wait) if wait.isdigit() else 0.0) if answer.status_code in _TRY_AGAIN else None
    return Delivery(False, words), again


def _not_reached(host: str, error: requests.RequestException) -> Delivery:
    # Not the error's own words: they hold the address.
    return Delivery(False, f"{host} could not be reached ({type(error).__name__})")

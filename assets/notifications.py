"""Notifications: a message for each comparison that Dagster ran, with its verdict or why there is none.

So is a night that could not ask for one. What belongs here: which runs are told of, and to whom. What a message says is
in `perf_pipeline.report.message`, its delivery in `perf_pipeline.notify`. These are sensors and no steps of the job, so
that no chat can fail a comparison.
"""

import json
import os
from collections import deque
from datetime import datetime
from threading import Lock

import dagster as dg
from dagster import DagsterRunStatus

from assets.jobs import compare_versions
from assets.partitions import PARTITION_TAG
from assets.resources import StoreResource
from perf_pipeline.errors import InputError
from perf_pipeline.notify import BUDGET_S, WEBHOOK_VARIABLE, deliver, links_of
from perf_pipeline.report.message import failure_message, night_message, unread_message, with_links

_TICK_BUDGET_S = 8.0
"""For a message about a store that did not answer: waiting for the store took most of the tick's minute."""
_told: deque[datetime | str] = deque(maxlen=100)
"""The nights and runs that such a message was sent of. Dagster repeats a tick that took too long and does not end the
try it gave up: each would tell the same."""
_told_lock = Lock()


@dg.run_status_sensor(run_status=DagsterRunStatus.SUCCESS, monitored_jobs=[compare_versions])
def tell_verdict(context: dg.RunStatusSensorContext, store: StoreResource) -> dg.SkipReason:
    """Tell the decision on a comparison, with its worst cells and links."""
    key = context.dagster_run.tags.get(PARTITION_TAG, "")
    try:
        message = json.loads(store.open().get(f"reports/{key}/message.json"))
    except KeyError:
        message = failure_message(key, "it has no report")
    except InputError as error:
        if not _first_time(context.dagster_run.run_id):
            return dg.SkipReason(f"{key}: it was told before that its report cannot be read.")
        return _tell(unread_message(key, str(error)), key, context, away=True)
    return _tell(message, key, context)


@dg.run_failure_sensor(monitored_jobs=[compare_versions])
def tell_failure(context: dg.RunFailureSensorContext) -> dg.SkipReason:
    """Tell that a comparison came to no verdict, and why."""
    key = context.dagster_run.tags.get(PARTITION_TAG, "")
    return _tell(failure_message(key, _why(context)), key, context)


def tell_no_night(why: str, night: datetime) -> str:
    """Tell, once a night, that the nightly could not find out what to compare; returns what became of the message."""
    webhook = os.environ.get(WEBHOOK_VARIABLE, "")
    if not webhook:
        return f"{WEBHOOK_VARIABLE} is not set, so nobody was told."
    if not _first_time(night):
        return "This night was told of before."
    message = with_links(night_message(why), links_of("", None))
    # Without pauses: the tick of a schedule has a minute, and is red whether the message arrives or not.
    return deliver(webhook, message, pause=lambda _: None, budget_s=_TICK_BUDGET_S).words


def _first_time(what: datetime | str) -> bool:
    with _told_lock:
        if what in _told:
            return False
        _told.append(what)
        return True


def _why(context: dg.RunFailureSensorContext) -> str:
    """What the first step that failed raised; what the run says where no step did."""
    for event in context.get_step_failure_events():
        error = event.step_failure_data.error
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            return f"{event.step_key}: {error.message.strip()}"
    return context.failure_event.message or "it says no reason"


def _tell(message: dict, key: str, context: dg.RunStatusSensorContext, away: bool = False) -> dg.SkipReason:
    """Tell of a run; with the store away in less time, and without a link to the report that is in it."""
    webhook = os.environ.get(WEBHOOK_VARIABLE, "")
    if not webhook:
        return dg.SkipReason(f"{WEBHOOK_VARIABLE} is not set, so nobody was told of {key}.")
    links = links_of("" if away else key, context.dagster_run.run_id)
    delivery = deliver(webhook, with_links(message, links), budget_s=_TICK_BUDGET_S if away else BUDGET_S)
    (context.log.info if delivery.arrived else context.log.error)(f"{key}: {delivery.words}")
    return dg.SkipReason(f"{key}: {delivery.words}")


NOTIFICATIONS = [tell_verdict, tell_failure]

"""The two partition definitions, captured hours and comparisons; of each an asset decorator, freshness, ranges of keys.

One job cannot mix them. `workload` reads the hours that the plan names from the object store, and declares the lineage.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial

import dagster as dg

from perf_pipeline.errors import InputError, Problem

HOURS = dg.HourlyPartitionsDefinition(start_date="2020-01-01-00:00", end_offset=1)
"""Captured hours in UTC, `2026-11-30-04:00`, up to the one that is running: what is logged of it may be landed."""

COMPARISON_PARTITIONS = "comparison"
COMPARISONS = dg.DynamicPartitionsDefinition(name=COMPARISON_PARTITIONS)
"""Comparisons, `<baseline>__<candidate>`. Keys are made by `perf_pipeline.plan.comparison_key`, which checks them;
a key is never deleted."""

PARTITION_TAG = "dagster/partition"
"""The tag of a run that holds its partition."""

_OWNERS = ["team:performance"]

CAPTURED_LATELY = dg.FreshnessPolicy.time_window(warn_window=timedelta(hours=3), fail_window=timedelta(hours=24))
"""The schedule captures each hour: two that fail in a row may be caught up with, a day without one is an outage."""

JUDGED_LATELY = dg.FreshnessPolicy.time_window(warn_window=timedelta(days=4), fail_window=timedelta(days=14))
"""A night without a new build judges nothing, so that a long weekend is no alarm; two weeks without a verdict are."""

hourly_asset = partial(
    dg.asset, partitions_def=HOURS, owners=_OWNERS, group_name="capture", freshness_policy=CAPTURED_LATELY
)
"""An asset with one partition for each captured hour; capture is expected to go on."""

comparison_asset = partial(dg.asset, partitions_def=COMPARISONS, owners=_OWNERS)
"""An asset with one partition for each comparison."""


def check_hours(hours: Iterable[str]) -> None:
    """Raise InputError for each hour that is no partition: before the first one, or still to come."""
    unknown = [hour for hour in hours if not HOURS.has_partition_key(hour)]
    if unknown:
        first, last = HOURS.get_first_partition_key(), HOURS.get_last_partition_key()
        raise InputError(
            Problem("workload.hours", f"{hour} is no hour that can be captured", f"name hours from {first} to {last}")
            for hour in unknown
        )


def comparisons_between(known: Sequence[str], first: str | None, last: str | None) -> list[str]:
    """The comparisons of a range, both ends included, in the order in which they were made.

    Raises InputError when an end is not among them.
    """
    problems = [
        Problem(option, f"there is no comparison {key}", f"known: {', '.join(known) or 'none'}")
        for option, key in (("--from", first), ("--to", last))
        if key is not None and key not in known
    ]
    if problems:
        raise InputError(problems)
    begin = known.index(first) if first is not None else 0
    end = known.index(last) + 1 if last is not None else len(known)
    return list(known[begin:end])


def in_order_of_making(stored: Sequence[str], made: Sequence[str]) -> list[str]:
    """The stored comparisons in the order in which Dagster learned of them; those it does not know come last."""
    return [*(key for key in made if key in stored), *(key for key in stored if key not in made)]

"""Captured hours and the folders that hold them.

What belongs here: the spellings of an hour in UTC, the partition key `2026-11-30-04:00`, the folder
`dt=2026-11-30/hour=04` and unix seconds, and the steps from one to the other.
"""

from datetime import UTC, datetime

from perf_pipeline.errors import InputError, Problem

_KEY = "%Y-%m-%d-%H:00"


def hour_start_s(hour: str) -> int:
    """When an hour such as `2026-11-30-04:00` begins, in unix seconds. Raises InputError when it is no hour."""
    try:
        return int(datetime.strptime(hour, _KEY).replace(tzinfo=UTC).timestamp())
    except ValueError as error:
        raise InputError(Problem("hour", f"{hour!r} is not an hour in UTC", "write it as 2026-11-30-04:00")) from error


def hour_folder(hour: str) -> str:
    """The folder `dt=YYYY-MM-DD/hour=HH` of an hour such as `2026-11-30-04:00`.

    Raises InputError when it is no hour.
    """
    return datetime.fromtimestamp(hour_start_s(hour), UTC).strftime("dt=%Y-%m-%d/hour=%H")


def hour_of(time_s: int) -> str:
    """The hour, such as `2026-11-30-04:00`, that holds a time in unix seconds."""
    return datetime.fromtimestamp(time_s, UTC).strftime(_KEY)

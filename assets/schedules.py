"""When things run by themselves.

What belongs here: schedules. They are stopped until somebody starts them, in the UI or with `dagster schedule start`.
"""

import dagster as dg

from assets.jobs import capture_traffic

MINUTE = 10
"""Minutes past the hour: its partition is there, and its late lines have come (`capture.hour_bounds.MARGIN_S`)."""

capture_hourly = dg.build_schedule_from_partitioned_job(
    capture_traffic,
    name="capture_hourly",
    minute_of_hour=MINUTE,
    description="Captures each hour once it is over and its late lines have come.",
)

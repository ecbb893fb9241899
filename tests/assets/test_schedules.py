"""The schedule of capture: an hour is captured when it is over and its late lines have come."""

from datetime import UTC, datetime

import dagster as dg

from assets.definitions import defs
from assets.schedules import CAPTURE_MINUTE as MINUTE
from perf_pipeline.capture.hour_bounds import MARGIN_S

SCHEDULE = defs.resolve_schedule_def("capture_hourly")


def test_it_captures_the_hour_that_is_over() -> None:
    with dg.instance_for_test() as instance:
        context = dg.build_schedule_context(
            instance=instance,
            scheduled_execution_time=datetime(2026, 11, 30, 5, MINUTE, tzinfo=UTC),
            repository_def=defs.get_repository_def(),
        )
        data = SCHEDULE.evaluate_tick(context)
    (request,) = data.run_requests or []
    assert request.partition_key == "2026-11-30-04:00"


def test_it_waits_for_late_lines_and_runs_only_when_somebody_starts_it() -> None:
    assert MINUTE * 60 > MARGIN_S
    assert SCHEDULE.cron_schedule == f"{MINUTE} * * * *"
    assert SCHEDULE.default_status is dg.DefaultScheduleStatus.STOPPED

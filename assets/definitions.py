"""The code location: everything that Dagster loads.

What belongs here: putting assets, checks, jobs and resources together, and nothing else.
"""

import dagster as dg

from assets.checks import CHECKS
from assets.jobs import CAPTURE, COMPARISON, capture_traffic, compare_versions, judge_measured
from assets.resources import KafkaResource, PlanResource, StoreResource, TokenResource, WarehouseResource
from assets.schedules import capture_hourly


def build_defs(**resources: dg.ConfigurableResource) -> dg.Definitions:
    """The definitions; `resources` take the place of those that read the environment."""
    return dg.Definitions(
        assets=[*CAPTURE, *COMPARISON],
        asset_checks=CHECKS,
        jobs=[capture_traffic, compare_versions, judge_measured],
        schedules=[capture_hourly],
        resources={
            "plan": PlanResource(),
            "store": StoreResource(),
            "kafka": KafkaResource(),
            "warehouse": WarehouseResource(),
            "tokens": TokenResource(),
        }
        | resources,
    )


defs = build_defs()

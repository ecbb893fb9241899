"""The two partition definitions, captured hours and comparisons, and an asset decorator for each.

One job cannot mix them. `workload` reads the hours that the plan names from the object store, and declares the lineage.
"""

from functools import partial

import dagster as dg

HOURS = dg.HourlyPartitionsDefinition(start_date="2026-01-01-00:00")
"""Captured hours in UTC, `2026-11-30-04:00`."""

COMPARISON_PARTITIONS = "comparison"
COMPARISONS = dg.DynamicPartitionsDefinition(name=COMPARISON_PARTITIONS)
"""Comparisons, `<baseline>__<candidate>`. Keys are made by `perf_pipeline.plan.comparison_key`, which checks them;
a key is never deleted."""

_OWNERS = ["team:performance"]

hourly_asset = partial(dg.asset, partitions_def=HOURS, owners=_OWNERS, group_name="capture")
"""An asset with one partition for each captured hour."""

comparison_asset = partial(dg.asset, partitions_def=COMPARISONS, owners=_OWNERS)
"""An asset with one partition for each comparison."""

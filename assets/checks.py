"""Checks beside the assets: what a person must know before trusting a number.

What belongs here: blocking checks for invalid data only, which stop what would build on it, and checks that show what
the gates found. A failed gate is a result and never stops the pipeline.
"""

import dagster as dg

from assets.gates import repeat_agreement, run_validity
from assets.metrics import run_metrics
from assets.release import release_history, release_verdict
from assets.resources import WarehouseResource


def _rows(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource, sql: str) -> list[dict]:
    """The rows of a query about the comparison that is being materialised ($comparison)."""
    return warehouse.open().query(sql, {"comparison": context.partition_key}).to_pylist()


def _result(rows: list[dict], passed: str, failed: str) -> dg.AssetCheckResult:
    """Passed when there are no rows; otherwise the rows are what is wrong."""
    return dg.AssetCheckResult(
        passed=not rows,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{len(rows)} {failed}" if rows else passed,
        metadata={"rows": dg.MetadataValue.json(rows)} if rows else {},
    )


@dg.asset_check(asset=run_metrics, blocking=True)
def every_side_was_measured(
    context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource
) -> dg.AssetCheckResult:
    """Each scenario has complete runs of both versions; without them there is nothing to judge."""
    rows = _rows(
        context,
        warehouse,
        "SELECT version, scenario, count(*) AS runs FROM run WHERE comparison = $comparison"
        " GROUP BY ALL HAVING count(*) FILTER (status = 'complete') = 0",
    )
    return _result(rows, "Both versions were measured in each scenario.", "sides without a complete run")


@dg.asset_check(asset=run_validity)
def runs_are_valid(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Gate 1 set no run aside."""
    rows = _rows(
        context,
        warehouse,
        "SELECT DISTINCT run_id, reason FROM gate_run_validity"
        " WHERE comparison = $comparison AND run_status = 'set aside' ORDER BY run_id",
    )
    return _result(rows, "No run was set aside.", "runs set aside")


@dg.asset_check(asset=repeat_agreement)
def repeats_agree(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Gate 2 found no metric whose repeats disagree."""
    rows = _rows(
        context,
        warehouse,
        "SELECT version, scenario, metric, message FROM gate_repeat_agreement"
        " WHERE comparison = $comparison AND status = 'disagree' ORDER BY ALL",
    )
    return _result(rows, "No repeats disagree.", "metrics whose repeats disagree")


@dg.asset_check(asset=release_verdict)
def no_regression(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Gate 3 found no regression."""
    rows = _rows(
        context,
        warehouse,
        "SELECT scenario, metric, reason FROM verdict"
        " WHERE comparison = $comparison AND verdict = 'regression' ORDER BY ALL",
    )
    return _result(rows, "No metric regressed.", "regressions")


@dg.asset_check(asset=release_verdict)
def negative_control_is_quiet(
    context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource
) -> dg.AssetCheckResult:
    """What no version can change did not change."""
    rows = _rows(
        context,
        warehouse,
        "SELECT control_status, control_message FROM decision"
        " WHERE comparison = $comparison AND control_status = 'moved'",
    )
    return _result(rows, "The negative control did not move.", "negative controls moved: the lab changed")


@dg.asset_check(asset=release_history)
def no_slow_regression(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """All releases together are no regression, even where each by itself was none."""
    rows = _rows(
        context,
        warehouse,
        "SELECT scenario, metric, path, from_version, to_version, steps, estimate FROM release_chain"
        " WHERE comparison = $comparison AND answer = 'regression' ORDER BY ALL",
    )
    return _result(rows, "No metric regressed over the chain of releases.", "metrics regressed over the chain")


CHECKS = [
    every_side_was_measured,
    runs_are_valid,
    repeats_agree,
    no_regression,
    negative_control_is_quiet,
    no_slow_regression,
]

"""Checks beside the assets: what a person must know before trusting a number.

What belongs here: blocking checks for invalid data only, which stop what would build on it, and checks that show what
the gates found. A failed gate is a result and never stops the pipeline. Where nothing is known, no check passes: it
warns, and says what is missing.
"""

import dagster as dg

from assets.gates import repeat_agreement, run_validity
from assets.metrics import run_metrics
from assets.release import release_history, release_verdict
from assets.resources import WarehouseResource


def _rows(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource, sql: str) -> list[dict]:
    """The rows of a query about the comparison that is being materialised ($comparison)."""
    return warehouse.open().query(sql, {"comparison": context.partition_key}).to_pylist()


def _result(rows: list[dict], passed: str, failed: str, unknown: str | None = None) -> dg.AssetCheckResult:
    """Passed when there are no rows, which are what is wrong, and nothing is `unknown`, which is a warning."""
    return dg.AssetCheckResult(
        passed=not rows and unknown is None,
        severity=dg.AssetCheckSeverity.ERROR if rows else dg.AssetCheckSeverity.WARN,
        description=f"{len(rows)} {failed}" if rows else unknown or passed,
        metadata={"rows": dg.MetadataValue.json(rows)} if rows else {},
    )


def _decision(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dict:
    """The decision about the comparison; one that says that nothing is known where there is none."""
    found = _rows(context, warehouse, "SELECT * FROM decision WHERE comparison = $comparison")
    nothing = {"answer": "", "headline": "Not known: nothing was judged.",
               "control_status": "", "control_metric": "nothing", "control_message": "was judged."}  # fmt: skip
    return found[0] if found else nothing


@dg.asset_check(asset=run_metrics, blocking=True)
def every_side_was_measured(
    context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource
) -> dg.AssetCheckResult:
    """Each scenario has complete runs of both versions; without them there is nothing to judge."""
    rows = _rows(
        context,
        warehouse,
        "WITH measured AS (SELECT * FROM run WHERE comparison = $comparison),"
        " versions AS (SELECT unnest(split($comparison, '__')) AS version UNION SELECT version FROM measured),"
        " scenarios AS (SELECT DISTINCT scenario FROM measured)"
        " SELECT version, coalesce(scenario, 'any scenario') AS scenario, count(run_id) AS runs"
        " FROM versions LEFT JOIN scenarios ON true LEFT JOIN measured USING (version, scenario)"
        " GROUP BY ALL HAVING count(*) FILTER (status = 'complete') = 0 ORDER BY ALL",
    )
    missing = ", ".join(f"{row['version']} in {row['scenario']}" for row in rows)
    return _result(rows, "Both versions were measured in each scenario.", f"sides without a complete run: {missing}")


@dg.asset_check(asset=run_validity)
def runs_are_valid(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Gate 1 set no run aside."""
    rows = _rows(
        context,
        warehouse,
        "SELECT DISTINCT run_id, reason FROM gate_run_validity"
        " WHERE comparison = $comparison AND run_status = 'set aside' ORDER BY run_id",
    )
    seen = _rows(context, warehouse, "SELECT 1 FROM gate_run_validity WHERE comparison = $comparison LIMIT 1")
    return _result(rows, "No run was set aside.", "runs set aside", None if seen else "Not known: no run was judged.")


@dg.asset_check(asset=repeat_agreement)
def repeats_agree(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Gate 2 found no metric whose repeats disagree, and some whose repeats agree."""
    rows = _rows(
        context,
        warehouse,
        "SELECT version, scenario, metric, message FROM gate_repeat_agreement"
        " WHERE comparison = $comparison AND status = 'disagree' ORDER BY ALL",
    )
    agree = _rows(
        context,
        warehouse,
        "SELECT 1 FROM gate_repeat_agreement WHERE comparison = $comparison AND status = 'agree' LIMIT 1",
    )
    unknown = None if agree else "Not known: there are too few repeats to say of any metric."
    return _result(rows, "No repeats disagree.", "metrics whose repeats disagree", unknown)


@dg.asset_check(asset=release_verdict)
def no_regression(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Gate 3 found no regression, on enough evidence to say so."""
    rows = _rows(
        context,
        warehouse,
        "SELECT scenario, metric, reason FROM verdict"
        " WHERE comparison = $comparison AND verdict = 'regression' ORDER BY ALL",
    )
    decision = _decision(context, warehouse)
    unknown = None if decision["answer"] == "no regression" else decision["headline"]
    return _result(rows, "No metric regressed.", "regressions", unknown)


@dg.asset_check(asset=release_verdict)
def negative_control_is_quiet(
    context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource
) -> dg.AssetCheckResult:
    """What no version can change did not change."""
    decision = _decision(context, warehouse)
    status, message = decision["control_status"], f"{decision['control_metric']} {decision['control_message']}"
    rows = [{"control_status": status, "control_message": message}] if status == "moved" else []
    passed = {"quiet": "The negative control did not move.", "absent": "There is no negative control."}
    unknown = None if status in passed else f"Not known: {message}"
    return _result(rows, passed.get(status, ""), "negative controls moved: the lab changed", unknown)


@dg.asset_check(asset=release_history)
def no_slow_regression(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """All releases together are no regression, even where each by itself was none, and something is known of them."""
    rows = _rows(
        context,
        warehouse,
        "SELECT scenario, metric, path, from_version, to_version, steps, estimate FROM release_chain"
        " WHERE comparison = $comparison AND answer = 'regression' ORDER BY ALL",
    )
    known = _rows(
        context,
        warehouse,
        "SELECT 1 FROM release_chain"
        " WHERE comparison = $comparison AND answer IN ('equivalent', 'improvement') LIMIT 1",
    )
    unknown = None if known else "Not known: the chain of releases to this one decides no metric yet."
    passed = "No metric regressed over the chain of releases."
    return _result(rows, passed, "metrics regressed over the chain", unknown)


CHECKS = [
    every_side_was_measured,
    runs_are_valid,
    repeats_agree,
    no_regression,
    negative_control_is_quiet,
    no_slow_regression,
]

"""[gates] Three questions: is the run valid, do the repeats agree, did the version change?

What belongs here: one asset a gate. The gates are pure and take seconds, so each asset judges from the stored metrics
and keeps its own gate's findings; judging again under another policy never measures again. The work is in
`perf_pipeline.judge` and `perf_pipeline.gates`.
"""

from collections import Counter

import dagster as dg

from assets.metrics import run_metrics
from assets.partitions import comparison_asset
from assets.pictures import as_metadata
from assets.resources import PlanResource, StoreResource, WarehouseResource
from perf_pipeline.gates.evidence import ERROR_RATES
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.judge import judge_stored
from perf_pipeline.report.forest import pooled_forest
from perf_pipeline.report.tables import judgement_tables
from perf_pipeline.storage import ObjectStore
from perf_pipeline.warehouse import Warehouse, write_tables


def keep_findings(
    judgement: Judgement, comparison: str, store: ObjectStore, warehouse: Warehouse, names: tuple[str, ...]
) -> None:
    """Write some of a judgement's tables to the object store and the warehouse."""
    tables = judgement_tables(judgement, comparison)
    write_tables(store, comparison, {name: tables[name] for name in names})
    warehouse.replace_comparison(comparison, {name: tables[name] for name in names})


@comparison_asset(
    group_name="gates", kinds={"python", "duckdb"}, code_version="1", deps=[run_metrics], pool="warehouse"
)
def run_validity(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """Gate 1: did each run measure the service, or a property of the lab?

    A run counts if its load arrived, it had settled, nothing throttled it and its data are there. A run that fails is
    set aside, or loses the metrics that the policy names.
    """
    objects = store.open()
    judgement = judge_stored(objects, context.partition_key, plan.load()).judgement
    keep_findings(judgement, context.partition_key, objects, warehouse.open(), ("gate_run_validity",))
    return dg.MaterializeResult(
        metadata={
            **Counter(f"runs {run.status}" for run in judgement.runs),
            "why": dg.MetadataValue.md(
                "\n".join(f"- `{run.run_id}` {run.status}: {run.reason}" for run in judgement.runs if run.reason)
                or "Every run passed."
            ),
        }
    )


@comparison_asset(
    group_name="gates", kinds={"python", "duckdb"}, code_version="1", deps=[run_validity], pool="warehouse"
)
def repeat_agreement(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """Gate 2: do the runs of one version in one scenario agree with each other?

    A metric whose repeats disagree is never compared: the disagreement is about the lab, not about the version.
    """
    objects = store.open()
    judgement = judge_stored(objects, context.partition_key, plan.load()).judgement
    keep_findings(judgement, context.partition_key, objects, warehouse.open(), ("gate_repeat_agreement",))
    doubtful = [found for found in judgement.agreement if found.status != "agree"]
    return dg.MaterializeResult(
        metadata={
            **Counter(f"groups of repeats: {found.status}" for found in judgement.agreement),
            "why": dg.MetadataValue.md(
                "\n".join(f"- {found.version}, {found.scenario}, {found.metric}: {found.message}" for found in doubtful)
                or "All repeats agree."
            ),
        }
    )


@comparison_asset(
    group_name="gates", kinds={"python", "duckdb"}, code_version="1", deps=[repeat_agreement], pool="warehouse"
)
def version_change(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """Gate 3: did the new version change, by more than the smallest change that counts?

    The interval of the change of each metric in each scenario against its zone, from the differences between runs.
    """
    objects = store.open()
    judgement = judge_stored(objects, context.partition_key, plan.load()).judgement
    keep_findings(judgement, context.partition_key, objects, warehouse.open(), ("gate_change", "gate_pooled"))
    asked = [verdict for verdict in judgement.verdicts if not verdict.absent]
    ratios = [item for item in judgement.pooled if item.metric not in ERROR_RATES]
    return dg.MaterializeResult(
        metadata={
            **Counter(f"verdicts: {verdict.verdict}" for verdict in asked),
            "negative control": judgement.negative_control.message,
            **({"pooled over scenarios": as_metadata(pooled_forest(ratios, judgement.verdicts))} if ratios else {}),
        }
    )

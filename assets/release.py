"""[release] The answer, and what all comparisons together say.

What belongs here: the assets that people read. The work is in `perf_pipeline.report`.
"""

import json

import dagster as dg

from assets.gates import keep_findings, version_change
from assets.partitions import comparison_asset
from assets.pictures import as_metadata
from assets.resources import PlanResource, StoreResource, WarehouseResource
from perf_pipeline.gates.evidence import DISTRIBUTIONS
from perf_pipeline.judge import judge_stored
from perf_pipeline.plan import compare_command
from perf_pipeline.report import html, json_output, markdown
from perf_pipeline.report.context import context_of
from perf_pipeline.report.overview import worst_first
from perf_pipeline.report.plots import percentile_shift

PICTURES_SHOWN = 4
"""Pictures beside the verdict in the UI, the worst first; the report has them all."""


@comparison_asset(
    group_name="release", kinds={"html", "markdown"}, code_version="1", deps=[version_change], pool="warehouse"
)
def release_verdict(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """Is the new version slower? The decision, what is known, what is not, and the report."""
    key, objects = context.partition_key, store.open()
    loaded = plan.load()
    judged = judge_stored(objects, key, loaded)
    judgement, report_context = (
        judged.judgement,
        context_of(judged, loaded.service, compare_command(loaded, key)),
    )
    keep_findings(judgement, key, objects, warehouse.open(), ("verdict", "decision"))
    report = {
        "report.html": html.render(judgement, report_context),
        "report.md": markdown.render(judgement, report_context),
        "judgement.json": json.dumps(json_output.to_json(judgement), indent=2, allow_nan=False),
    }
    for name, text in report.items():
        objects.put(f"reports/{key}/{name}", text.encode())
    shown = [
        verdict
        for verdict in worst_first(judgement.verdicts)
        if verdict.metric in DISTRIBUTIONS and verdict.percentiles
    ]
    return dg.MaterializeResult(
        metadata={
            "decision": judgement.decision.answer,
            "in a sentence": judgement.decision.headline,
            "report": dg.MetadataValue.path(objects.uri(f"reports/{key}/report.html")),
            "verdicts": dg.MetadataValue.md(report["report.md"]),
            **{
                f"{verdict.scenario}, {verdict.metric}": as_metadata(percentile_shift(verdict))
                for verdict in shown[:PICTURES_SHOWN]
            },
        }
    )


@comparison_asset(group_name="release", kinds={"duckdb"}, code_version="1", deps=[release_verdict], pool="warehouse")
def release_history(warehouse: WarehouseResource) -> dg.MaterializeResult:
    """Every comparison so far, in the order in which they were measured: what each release changed."""
    comparisons = warehouse.open().query(
        "SELECT comparison, answer, control_status, count(*) AS verdicts,"
        " count(*) FILTER (verdict = 'regression') AS regressions FROM release_history"
        " GROUP BY ALL ORDER BY min(measured_from)"
    )
    columns = ("comparison", "answer", "control_status", "verdicts", "regressions")
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": comparisons.num_rows,
            "comparisons": dg.MetadataValue.table(
                [dg.TableRecord(row) for row in comparisons.to_pylist()],
                schema=dg.TableSchema([dg.TableColumn(name) for name in columns]),
            ),
        }
    )

"""[release] The answer, and what all comparisons together say.

What belongs here: the assets that people read. The work is in `perf_pipeline.report`.
"""

import json
from dataclasses import asdict, replace

import dagster as dg

from assets.gates import keep_findings, version_change
from assets.partitions import JUDGED_LATELY, comparison_asset
from assets.pictures import as_metadata, as_table
from assets.resources import PlanResource, StoreResource, WarehouseResource
from perf_pipeline.gates.evidence import DISTRIBUTIONS
from perf_pipeline.history.comparisons import judged_comparisons, kept_chains
from perf_pipeline.history.noise import lab_noise
from perf_pipeline.history.releases import chain_table, chains_to, shifts
from perf_pipeline.judge import judge_stored, load_policy
from perf_pipeline.plan import compare_command, split_comparison_key
from perf_pipeline.report import html, index_page, json_output, markdown
from perf_pipeline.report.context import context_of
from perf_pipeline.report.drift import drifts, lately
from perf_pipeline.report.message import verdict_message, with_drifts
from perf_pipeline.report.overview import worst_first
from perf_pipeline.report.plots import percentile_shift
from perf_pipeline.storage import working_folder
from perf_pipeline.warehouse import write_tables

PICTURES_SHOWN = 4
"""Pictures beside the verdict in the UI, the worst first; the report has them all."""


@comparison_asset(
    group_name="release",
    kinds={"html", "markdown"},
    code_version="1",
    deps=[version_change],
    pool="warehouse",
    freshness_policy=JUDGED_LATELY,
)
def release_verdict(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """Is the new version slower? The decision, what is known, what is not, and the report."""
    key, objects = context.partition_key, store.open()
    loaded = plan.load()
    judged = judge_stored(objects, key, loaded)
    judgement = judged.judgement
    again = compare_command(loaded, key)
    report_context = replace(context_of(judged, loaded.service, again), index="../index.html")
    keep_findings(judgement, key, objects, warehouse.open(), ("verdict", "decision"))
    report = {
        "report.html": html.render(judgement, report_context),
        "report.md": markdown.render(judgement, report_context),
        "judgement.json": json.dumps(json_output.to_json(judgement), indent=2, allow_nan=False),
        "message.json": json.dumps(verdict_message(judgement)),
    }
    with working_folder(objects, "report") as folder:
        for name, text in report.items():
            (folder / name).write_text(text, encoding="utf-8")
        objects.put_folder(f"reports/{key}", folder)  # all of it or nothing: its files are about one judgement
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


@comparison_asset(group_name="release", kinds={"duckdb"}, code_version="3", deps=[release_verdict], pool="warehouse")
def release_history(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """What all releases changed together: slow drift that no single comparison could see, and level shifts.

    The effects of the comparisons that lead to the candidate are added up, and held against a direct comparison with
    the first release where there is one. The lab itself is watched too: its noise, and the level of equal baselines.
    """
    key, loaded, database = context.partition_key, plan.load(), warehouse.open()
    policy = load_policy(loaded.policy, loaded.folder)
    _, candidate = split_comparison_key(key)
    rows = chains_to(database, candidate, policy, loaded.anchor)
    table = chain_table(rows, key)
    write_tables(store.open(), key, {"release_chain": table})
    database.replace_comparison(key, {"release_chain": table})
    moved = shifts(database, policy)
    objects = store.open()
    reports = {name.split("/")[1] for name in objects.keys("reports/") if name.endswith("/report.html")}
    judged, chained, lab = judged_comparisons(database), kept_chains(database), lab_noise(database)
    index = index_page.render(loaded.service, judged, chained, moved, reports, lab)
    objects.put("reports/index.html", index.encode())
    message = f"reports/{key}/message.json"
    if objects.exists(message):
        told = drifts(rows, moved, lately([one.comparison for one in judged], key))
        objects.put(message, json.dumps(with_drifts(json.loads(objects.get(message)), told)).encode())
    noise = database.query("SELECT * EXCLUDE (unit) FROM noise_floor WHERE comparison = $key", {"key": key})
    comparisons = database.query(
        "SELECT comparison, answer, control_status, count(*) AS verdicts,"
        " count(*) FILTER (verdict = 'regression') AS regressions FROM release_history"
        " GROUP BY ALL ORDER BY min(measured_from)"
    )
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": comparisons.num_rows,
            "index": dg.MetadataValue.path(objects.uri("reports/index.html")),
            "comparisons": as_table(comparisons.to_pylist()),
            "all releases together": as_table([asdict(row) for row in rows]),
            "level shifts": as_table([asdict(shift) for shift in moved]),
            "noise of the lab": as_table(noise.to_pylist()),
        }
    )

"""[lab] From captured requests to measured runs of both versions.

What belongs here: the assets that freeze the workload and run the campaign. The work is in `perf_pipeline.replay` and
`perf_pipeline.lab`.
"""

import dagster as dg
from pydantic import Field

from assets.capture import replay_requests
from assets.partitions import comparison_asset
from assets.resources import PlanResource, StoreResource, TokenResource, WarehouseResource
from perf_pipeline.capture.token_source import TokenSource
from perf_pipeline.judge import settled_at
from perf_pipeline.lab.campaign import run_campaign
from perf_pipeline.plan import check_versions, split_comparison_key
from perf_pipeline.replay.workload import freeze_workload


@comparison_asset(
    group_name="lab",
    kinds={"parquet"},
    code_version="1",
    deps=[dg.AssetDep(replay_requests, partition_mapping=dg.AllPartitionMapping())],
)
def workload(plan: PlanResource, store: StoreResource, warehouse: WarehouseResource) -> dg.MaterializeResult:
    """The captured requests of the hours that the plan names, frozen and named by a hash of their content.

    Every run of the comparison replays this one workload. It holds users and addresses, and no tokens.
    """
    loaded, objects = plan.load_to_measure(), store.open()
    warehouse.open().prepare(objects)  # what is measured ends there
    frozen = freeze_workload(objects, loaded)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": frozen.requests,
            "content hash": frozen.hash,
            "users": frozen.users,
            "requests by route": dg.MetadataValue.table(
                [dg.TableRecord({"route": route, "requests": count}) for route, count in frozen.routes.items()],
                schema=dg.TableSchema([dg.TableColumn("route", "string"), dg.TableColumn("requests", "int")]),
            ),
        }
    )


class CampaignConfig(dg.Config):
    """How the runs of a comparison are measured."""

    fresh: bool = Field(False, description="measure everything again: removes the runs that are there")


@comparison_asset(group_name="lab", kinds={"k6", "prometheus"}, code_version="1", deps=[workload], pool="lab")
def test_runs(
    context: dg.AssetExecutionContext,
    config: CampaignConfig,
    plan: PlanResource,
    store: StoreResource,
    tokens: TokenResource,
) -> dg.MaterializeResult:
    """One run directory for each version, scenario and repeat, in a randomised order that is stored.

    Each run starts everything fresh, warms up, holds a steady load and takes everything down. Runs that are already
    there are never repeated, so a campaign that was stopped goes on with what is missing.
    """
    loaded, objects = plan.load_to_measure(), store.open()
    baseline, candidate = split_comparison_key(context.partition_key)
    check_versions(loaded, baseline, candidate)
    source = TokenSource(objects, loaded, tokens.issuer(loaded))
    report = run_campaign(
        objects,
        loaded,
        baseline,
        candidate,
        freeze_workload(objects, loaded),
        source,
        tokens.public_key(),
        config.fresh,
        settled=lambda look: settled_at(objects, context.partition_key, loaded, look),
        before_measuring=source.begin,
    )
    return dg.MaterializeResult(
        metadata={
            "runs measured now": len(report.measured),
            "tokens made for them": source.renewed,
            "runs that were there": len(report.found),
            "runs that did not finish": dg.MetadataValue.md(
                "\n".join(f"- `{run_id}`: {reason}" for run_id, reason in report.failed.items()) or "none"
            ),
            "runs that a look made needless": len(report.spared),
            "seconds": report.seconds,
            "k6": report.k6,
            "order": dg.MetadataValue.path(objects.uri(f"runs/{context.partition_key}/schedule.json")),
        }
    )

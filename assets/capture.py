"""[capture] From the landed access log to requests that may be replayed, an hour at a time.

What belongs here: the asset `replay_requests`. The work is in `perf_pipeline.capture`.
"""

import dagster as dg

from assets.landing import raw_access_log
from assets.partitions import hourly_asset
from assets.resources import PlanResource, StoreResource, TokenResource
from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.requests import build_requests

DUPLICATE_SHARE_MAX = 0.01

FEW_DUPLICATES = dg.AssetCheckSpec(
    "few_duplicates",
    asset="replay_requests",
    description=f"At most {DUPLICATE_SHARE_MAX:.0%} of the lines repeat a request id: the shipper sends little twice.",
)


@hourly_asset(kinds={"parquet"}, code_version="1", deps=[raw_access_log], check_specs=[FEW_DUPLICATES])
def replay_requests(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, tokens: TokenResource
) -> dg.MaterializeResult:
    """The GET requests of the hour that may be replayed, each with a read-only token of its user.

    Only exact GETs that were answered with 200 or 304 on an allow-listed route; secrets in the query are taken out,
    duplicates dropped. Every line that is not here is in quarantine, with the reason.
    """
    loaded = plan.load()
    report = build_requests(store.open(), loaded, context.partition_key, tokens.issuer(loaded))
    duplicates = report.rejected.get(str(Reason.DUPLICATE), 0)
    reasons = sorted(report.rejected.items(), key=lambda item: -item[1])
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": report.accepted,
            "lines read": report.read,
            "lines rejected": sum(report.rejected.values()),
            "duplicates": duplicates,
            "rejected by reason": dg.MetadataValue.table(
                [dg.TableRecord({"reason": str(reason), "lines": count}) for reason, count in reasons],
                schema=dg.TableSchema([dg.TableColumn("reason", "string"), dg.TableColumn("lines", "int")]),
            ),
        },
        check_results=[
            dg.AssetCheckResult(
                check_name=FEW_DUPLICATES.name,
                passed=duplicates <= DUPLICATE_SHARE_MAX * report.read,
                severity=dg.AssetCheckSeverity.WARN,
                description=f"{duplicates} of {report.read} lines repeat a request id. A jump means that the log is"
                " rotated by copying, or that the shipper lost its place in it.",
            )
        ],
    )

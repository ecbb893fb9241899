"""[capture] From an access log to requests that may be replayed, an hour at a time.

What belongs here: the assets on hourly partitions. The work is in `perf_pipeline.capture`.
"""

import dagster as dg

from assets.partitions import hourly_asset
from assets.resources import PlanResource, StoreResource, TokenResource
from perf_pipeline.capture.landing import land_file
from perf_pipeline.capture.requests import build_requests
from perf_pipeline.errors import InputError, Problem


@hourly_asset(kinds={"nginx", "file"}, code_version="1")
def raw_access_log(context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource) -> dg.MaterializeResult:
    """One hour of the access log, byte for byte as nginx wrote it, in the object store with a manifest.

    Landing the same hour again writes the same objects.
    """
    loaded = plan.load()
    if loaded.capture.log is None:
        raise InputError(Problem("plan: capture.log", "is not set", "name the access log to land"))
    objects = store.open()
    manifest = land_file(objects, loaded.folder / loaded.capture.log, loaded.capture.topic, context.partition_key)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": manifest.lines,
            "bytes": manifest.bytes,
            "first": manifest.first.isoformat() if manifest.first else "no line with a time",
            "last": manifest.last.isoformat() if manifest.last else "no line with a time",
            "source": manifest.source,
            "objects": dg.MetadataValue.md("\n".join(f"- `{objects.uri(key)}`" for key in manifest.objects)),
        }
    )


@hourly_asset(kinds={"parquet"}, code_version="1", deps=[raw_access_log])
def replay_requests(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, tokens: TokenResource
) -> dg.MaterializeResult:
    """The GET requests of the hour that may be replayed, each with a read-only token of its user.

    Only exact GETs that were answered with 200 or 304 on an allow-listed route; secrets in the query are taken out,
    duplicates dropped. Every line that is not here is in quarantine, with the reason.
    """
    loaded = plan.load()
    report = build_requests(store.open(), loaded, context.partition_key, tokens.issuer(loaded))
    reasons = sorted(report.rejected.items(), key=lambda item: -item[1])
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": report.accepted,
            "lines read": report.read,
            "lines rejected": sum(report.rejected.values()),
            "rejected by reason": dg.MetadataValue.table(
                [dg.TableRecord({"reason": str(reason), "lines": count}) for reason, count in reasons],
                schema=dg.TableSchema([dg.TableColumn("reason", "string"), dg.TableColumn("lines", "int")]),
            ),
        }
    )

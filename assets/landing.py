"""[capture] The access log of an hour, landed in the object store, and what a person must know about it.

What belongs here: the asset `raw_access_log` with its checks. It lands from the plan's log file, or from Kafka where
the plan names none; the work is in `perf_pipeline.capture`.
"""

import dagster as dg

from assets.partitions import hourly_asset
from assets.resources import KafkaResource, PlanResource, StoreResource
from perf_pipeline.capture.kafka_landing import HourLanding, land_hour
from perf_pipeline.capture.landing import LandingManifest, land_file
from perf_pipeline.errors import InputError, Problem
from perf_pipeline.storage import ObjectStore

QUARANTINE_SHARE_MAX = 0.001
LAG_HOURS_MAX = 3
_OBJECTS_SHOWN = 20

NOTHING_EXPIRED = dg.AssetCheckSpec(
    "nothing_expired", asset="raw_access_log", description="No record left the topic before it was landed."
)
LITTLE_IN_QUARANTINE = dg.AssetCheckSpec(
    "little_in_quarantine",
    asset="raw_access_log",
    description=f"At most {QUARANTINE_SHARE_MAX:.1%} of the records hold no line of the log.",
)
NO_STRAYS = dg.AssetCheckSpec(
    "no_strays", asset="raw_access_log", description="No line came too late for the run of its own hour."
)
KEEPS_UP = dg.AssetCheckSpec(
    "keeps_up",
    asset="raw_access_log",
    description=f"The topic holds at most {LAG_HOURS_MAX} times as many records behind the hour as in it.",
)
CHECKS = [NOTHING_EXPIRED, LITTLE_IN_QUARANTINE, NO_STRAYS, KEEPS_UP]


@hourly_asset(kinds={"nginx", "kafka", "s3"}, code_version="2", check_specs=CHECKS)
def raw_access_log(
    context: dg.AssetExecutionContext, plan: PlanResource, store: StoreResource, kafka: KafkaResource
) -> dg.MaterializeResult:
    """One hour of the access log, byte for byte as nginx wrote it, in the object store with a manifest.

    Landing the same hour again writes the same objects.
    """
    loaded, objects, hour = plan.load(), store.open(), context.partition_key
    if loaded.capture.log is not None:
        manifest = land_file(objects, loaded.folder / loaded.capture.log, loaded.capture.topic, hour)
        return dg.MaterializeResult(
            metadata=_metadata(objects, manifest, list(manifest.objects)) | {"source": manifest.source},
            check_results=[_passed(spec, "Landed from a file.") for spec in CHECKS],
        )
    if not kafka.brokers():
        remedy = "name the access log to land, or the brokers to land it from in PERF_PIPELINE_KAFKA"
        raise InputError(Problem("plan: capture.log", "is not set", remedy))
    with kafka.topic(loaded.capture.topic) as topic:
        landing = land_hour(objects, topic, hour)
    return dg.MaterializeResult(
        metadata=_metadata(objects, landing, [key for part in landing.parts for key in part.objects])
        | {
            "source": f"topic {landing.topic} of {kafka.brokers()}",
            "partitions": len(landing.parts),
            "lag in records": landing.lag,
            "records expired": landing.expired,
            "records in quarantine": sum(landing.quarantined.values()),
            "quarantine by reason": _table("reason", landing.quarantined),
            "lines of other hours": _table("hour", landing.strays),
        },
        check_results=_check_results(landing),
    )


def _check_results(landing: HourLanding) -> list[dg.AssetCheckResult]:
    aside = sum(landing.quarantined.values())
    late = ", ".join(landing.strays)
    return [
        _result(
            NOTHING_EXPIRED,
            not landing.expired,
            f"{landing.expired} offsets had left the topic: their lines are lost. Land more often, or retain longer.",
            dg.AssetCheckSeverity.ERROR,
        ),
        _result(
            LITTLE_IN_QUARANTINE,
            aside <= QUARANTINE_SHARE_MAX * landing.records,
            f"{aside} of {landing.records} records are in quarantine. See what else writes to the topic.",
        ),
        _result(NO_STRAYS, not late, f"Lines were added to {late}. Materialise replay_requests of these hours again."),
        _result(
            KEEPS_UP,
            landing.lag <= LAG_HOURS_MAX * max(landing.records, 1),
            f"{landing.lag} records came after the {landing.records} of this hour. Land the hours that are over.",
        ),
    ]


def _result(
    spec: dg.AssetCheckSpec, passed: bool, failed: str, severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN
) -> dg.AssetCheckResult:
    if passed:
        return _passed(spec, spec.description or "")
    return dg.AssetCheckResult(passed=False, check_name=spec.name, severity=severity, description=failed)


def _passed(spec: dg.AssetCheckSpec, description: str) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True, check_name=spec.name, description=description)


def _metadata(objects: ObjectStore, landed: HourLanding | LandingManifest, keys: list[str]) -> dict:
    shown = [f"- `{objects.uri(key)}`" for key in keys[:_OBJECTS_SHOWN]]
    more = [f"- and {len(keys) - _OBJECTS_SHOWN} more"] if len(keys) > _OBJECTS_SHOWN else []
    return {
        "dagster/row_count": landed.lines,
        "bytes": landed.bytes,
        "first": landed.first.isoformat() if landed.first else "no line with a time",
        "last": landed.last.isoformat() if landed.last else "no line with a time",
        "objects": dg.MetadataValue.md("\n".join(shown + more)),
    }


def _table(name: str, counts: dict[str, int]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [dg.TableRecord({name: key, "count": count}) for key, count in counts.items()],
        schema=dg.TableSchema([dg.TableColumn(name, "string"), dg.TableColumn("count", "int")]),
    )

"""[metrics] From run directories to numbers.

What belongs here: the asset that reads runs into tables. The work is in `perf_pipeline.metrics`.
"""

import dagster as dg

from assets.partitions import comparison_asset
from assets.resources import StoreResource, WarehouseResource
from assets.runs import test_runs
from perf_pipeline.lab.run_directory import find_runs
from perf_pipeline.metrics.extract import extract_runs, write_metrics


@comparison_asset(
    group_name="metrics", kinds={"parquet", "duckdb"}, code_version="1", deps=[test_runs], pool="warehouse"
)
def run_metrics(
    context: dg.AssetExecutionContext, store: StoreResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """The tables `run`, `latency_histogram` and `run_metric`: what each run says about each metric.

    Latencies are kept as histograms by sub-window of the hold, so that any percentile, drift and halves of a run come
    from the same rows.
    """
    objects = store.open()
    tables = extract_runs(find_runs(objects.local_folder(f"runs/{context.partition_key}")))
    write_metrics(objects, context.partition_key, tables)
    warehouse.open().replace_comparison(context.partition_key, tables.by_name(), drop_others=True)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": tables.run.num_rows,
            "histogram rows": tables.latency_histogram.num_rows,
            "metrics measured": sum(status == "measured" for status in tables.run_metric["status"].to_pylist()),
            "metrics missing": sum(status == "missing" for status in tables.run_metric["status"].to_pylist()),
        }
    )

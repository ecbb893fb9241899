"""The tables of measured runs: `run`, `latency_histogram`, `run_metric`.

What belongs here: holding them together, and keeping them in the object store as Parquet. Which columns they have, and
what each means in which unit, is written in `sql/tables/`. `extract` fills them, and `evidence` makes of them what the
gates judge.
"""

from dataclasses import dataclass

import pyarrow as pa

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.storage import ObjectStore
from perf_pipeline.warehouse import MEASURED_TABLES, read_tables, table_schema, write_tables


@dataclass(frozen=True)
class MetricTables:
    """What was measured in the runs of one comparison."""

    run: pa.Table
    latency_histogram: pa.Table
    run_metric: pa.Table

    def by_name(self) -> dict[str, pa.Table]:
        """The tables by the names that they have in the object store and the warehouse."""
        return {"run": self.run, "latency_histogram": self.latency_histogram, "run_metric": self.run_metric}


def write_metrics(store: ObjectStore, comparison: str, tables: MetricTables) -> None:
    """Keep the tables under `metrics/<comparison>/`, whole or not at all.

    What the gates said of earlier measurements goes: it is not about these.
    """
    write_tables(store, comparison, tables.by_name(), drop_others=True)


def read_metrics(store: ObjectStore, comparison: str) -> MetricTables:
    """The tables of a comparison. Raises InputError when they are not there, or damaged.

    Columns that came after the tables were written are null in them: what they hold was not measured.
    """
    tables = read_tables(store, comparison, MEASURED_TABLES)
    if missing := set(MEASURED_TABLES) - tables.keys():
        raise InputError(
            Problem(
                store.uri(f"metrics/{comparison}"),
                f"has no {', '.join(sorted(missing))}.parquet",
                "materialise run_metrics of this comparison, or run `perf-pipeline compare`",
            )
        )
    return MetricTables(**{name: _with_every_column(name, tables[name]) for name in MEASURED_TABLES})


def _with_every_column(name: str, table: pa.Table) -> pa.Table:
    for field in table_schema(name):
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table

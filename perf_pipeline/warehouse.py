"""The warehouse: a DuckDB file for people to query, made from Parquet tables in the object store.

What belongs here: tables by comparison, as Parquet objects and as rows of DuckDB. Parquet is the truth; the DuckDB file
can be rebuilt from it at any time. What the tables hold is written in `sql/`, one table or view a file, each column
with its unit. Who fills them: `metrics.extract` the measured ones, `report.tables` those of the gates.

DuckDB locks its file for one writing process or several reading ones. So the file is open only while a call is under
way, a lock is waited for a few seconds, and then the message says who holds it.
"""

import functools
import io
import os
import re
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from perf_pipeline.errors import InputError, Problem, StoreAwayError
from perf_pipeline.files import project_file
from perf_pipeline.storage import ObjectStore, working_folder

TABLES = (
    "run",
    "latency_histogram",
    "run_metric",
    "gate_run_validity",
    "gate_repeat_agreement",
    "gate_change",
    "gate_pooled",
    "verdict",
    "decision",
    "release_chain",
)
MEASURED_TABLES = TABLES[:3]
"""Those that are made of run directories; all others are made of them."""
VIEWS = ("verdict_matrix", "release_history", "inconclusive_and_what_it_would_take", "noise_floor")
_REBUILD = "`perf-pipeline warehouse rebuild` makes it anew from the object store"
_FOLDER = "metrics"
_SETTINGS: dict = {"autoinstall_known_extensions": False, "TimeZone": "UTC"}
_WRITING = threading.Lock()
"""Threads of one process share a database and are not kept out by its lock; two transactions at once would conflict."""


@functools.cache
def table_schema(name: str) -> pa.Schema:
    """The columns of a table as its SQL file declares them, without `comparison`, which every table has.

    SQL is the one place that says which columns there are; whoever fills a table takes its types from here.
    """
    with duckdb.connect(config=_SETTINGS) as database:
        database.execute(_statement("tables", name))
        schema = database.table(name).to_arrow_table().schema
    return schema.remove(schema.get_field_index("comparison"))


def write_tables(
    store: ObjectStore, comparison: str, tables: Mapping[str, pa.Table], drop_others: bool = False
) -> None:
    """Write tables of a comparison as `metrics/<comparison>/<table>.parquet`, all of them or none.

    With `drop_others` the other tables of the comparison go: what was made of earlier ones is not about these.
    """
    prefix = f"{_FOLDER}/{comparison}"
    with working_folder(store, "tables") as folder:
        target = folder / "tables"
        target.mkdir()
        for key in [] if drop_others else store.keys(prefix):
            if Path(key).stem not in tables:
                (target / Path(key).name).write_bytes(store.get(key))
        for name, table in tables.items():
            pq.write_table(table, target / f"{name}.parquet", compression="zstd", write_page_checksum=True)
        store.put_folder(prefix, target)


def read_tables(store: ObjectStore, comparison: str, names: Collection[str] | None = None) -> dict[str, pa.Table]:
    """The tables of a comparison that are there, by name: all, or those of some names.

    Raises InputError for each that is damaged. One that is not asked for is not looked at.
    """
    tables: dict[str, pa.Table] = {}
    problems: list[Problem] = []
    for key in store.keys(f"{_FOLDER}/{comparison}"):
        if key.endswith(".parquet") and (names is None or Path(key).stem in names):
            try:
                tables[Path(key).stem] = read_table(store, key)
            except StoreAwayError:  # no table is damaged, and asking for the next one takes as long again
                raise
            except InputError as error:
                problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return tables


def read_table(store: ObjectStore, key: str, columns: Sequence[str] | None = None) -> pa.Table:
    """One table of a comparison, or some of its columns.

    Raises KeyError when it is not there, and InputError when it is damaged.
    """
    data = io.BytesIO(store.get(key))
    try:
        return pq.read_table(data, columns=columns, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        _, comparison, name = key.split("/")
        asset = "run_metrics" if Path(name).stem in MEASURED_TABLES else "run_validity and what follows"
        remedy = f"materialise {asset} of {comparison} again (no run is measured again by it)"
        what = f"is damaged: {str(error).splitlines()[0]}"
        raise InputError(Problem(store.uri(key), what, remedy)) from error


def stored_comparisons(store: ObjectStore) -> list[str]:
    """The comparisons that have tables in the store, sorted."""
    return sorted({key.split("/")[1] for key in store.keys(_FOLDER) if key.endswith(".parquet")})


class Warehouse:
    """A DuckDB file, opened for each call and closed at its end."""

    def __init__(self, path: Path, patience_s: float = 10.0) -> None:
        """Use the file at `path`, made when it is first written; wait `patience_s` for a lock of another process."""
        self.path = path
        self.patience_s = patience_s

    def replace_comparison(self, comparison: str, tables: Mapping[str, pa.Table], drop_others: bool = False) -> None:
        """Put the rows of these tables in place of the comparison's rows in them, in one transaction.

        Columns go by name; a column that a table does not bring is null. With `drop_others` the comparison's rows in
        all other tables go. Raises KeyError for an unknown table, and InputError when the file is locked or was made
        with other columns.
        """
        if unknown := tables.keys() - set(TABLES):
            raise KeyError(f"no such table: {', '.join(sorted(unknown))}")
        with _WRITING, self._open(read_only=False) as database:
            try:
                database.begin()
                _create(database)
                for name in TABLES if drop_others else tables:
                    _replace_rows(database, comparison, name, tables.get(name))
                database.commit()
            except (duckdb.BinderException, duckdb.CatalogException) as error:
                raise InputError(
                    Problem(
                        str(self.path),
                        f"was made by another version of perf_pipeline: {str(error).splitlines()[0]}",
                        _REBUILD,
                    )
                ) from error

    def prepare(self, store: ObjectStore) -> None:
        """Make the file and its tables where they are not there, before anything long begins that ends here.

        Raises InputError as `replace_comparison` does, when the file cannot be made, and when it holds comparisons of
        which the store holds none: a folder whose disk is not mounted looks like a new store, and all would begin anew.
        """
        self.replace_comparison("", {})
        known = self.query("SELECT DISTINCT comparison FROM run ORDER BY ALL")["comparison"].to_pylist()
        if known and not any(store.exists(f"{_FOLDER}/{comparison}/run.parquet") for comparison in known):
            what = (
                f"holds {len(known)} comparisons, such as {known[0]}, and the object store {store.uri('')} none of them"
            )
            remedy = (
                "bring the store back (is it mounted? is PERF_PIPELINE_STORE the right one?); to begin anew in this "
                "store, `perf-pipeline warehouse rebuild` first makes the warehouse hold what the store does"
            )
            raise InputError(Problem(str(self.path), what, remedy))

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """The answer to a query. The file cannot be changed by it, and other readers are let in.

        Raises InputError when there is no file yet or a writer keeps it locked, duckdb.Error when the query is wrong.
        """
        if not self.path.is_file():
            raise InputError(Problem(str(self.path), "is not there yet", f"run a comparison, or {_REBUILD}"))
        with self._open(read_only=True) as database:
            return database.sql(sql, params=dict(parameters or {})).to_arrow_table()

    def rebuild(self, store: ObjectStore) -> list[str]:
        """Make the file anew from the Parquet tables of the store, and return the comparisons that it then holds.

        The new file is made beside the old one and takes its place at the end. Raises InputError when another process
        holds the old one, and when a table is damaged.
        """
        comparisons = stored_comparisons(store)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=self.path.parent) as folder:
            fresh = Warehouse(Path(folder) / self.path.name)
            fresh.replace_comparison("", {})
            for comparison, tables in _all_tables(store, comparisons):
                fresh.replace_comparison(comparison, tables)
            with self._held():
                # What an interrupted writer left for the old file must not be replayed into the new one.
                self.path.with_name(f"{self.path.name}.wal").unlink(missing_ok=True)
                fresh.path.replace(self.path)
        return comparisons

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other processes out of the old file, if it can be opened at all: one that cannot is no loss."""
        if not self.path.exists():
            yield
            return
        try:
            database = self._connect(read_only=False)
        except duckdb.Error:
            yield
            return
        with database:
            yield

    @contextmanager
    def _open(self, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that is closed whatever happens; an open transaction is rolled back then."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            database = self._connect(read_only)
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            if self.path.is_file() and os.access(self.path, os.R_OK):
                problem = Problem(str(self.path), f"is not a DuckDB file: {reason}", _REBUILD)
            else:
                remedy = "name a file that can be written by PERF_PIPELINE_WAREHOUSE"
                problem = Problem(str(self.path), f"cannot be opened or made: {reason}", remedy)
            raise InputError(problem) from error
        try:
            yield database
        finally:
            database.close()

    def _connect(self, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Connect, waiting for a lock. Raises InputError when it is still held at the end of the patience."""
        deadline = time.monotonic() + self.patience_s
        pause_s = 0.02
        while True:
            try:
                return duckdb.connect(self.path, read_only=read_only, config=_SETTINGS)
            except (duckdb.IOException, duckdb.ConnectionException) as error:
                text = str(error)
                # The second one is a thread of this process that has the file open in the other mode.
                if "lock" not in text and "different configuration" not in text:
                    raise
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise InputError(self._locked(text)) from error
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, 0.5)

    def _locked(self, text: str) -> Problem:
        holder = re.search(r"held in (.+?) \(PID (\d+)\)", text)
        who = f"process {holder[2]} ({holder[1]})" if holder else "another connection"
        return Problem(
            str(self.path),
            f"is locked by {who}, and was for {self.patience_s:g} s",
            "close the DuckDB client or notebook that has it open; readers may open a copy of the file",
        )


def _all_tables(store: ObjectStore, comparisons: Sequence[str]) -> Iterator[tuple[str, dict[str, pa.Table]]]:
    """The tables of each comparison. Raises InputError, at the end, for all that are damaged at once."""
    problems: list[Problem] = []
    for comparison in comparisons:
        try:
            tables = read_tables(store, comparison, TABLES)
        except StoreAwayError:
            raise
        except InputError as error:
            problems.extend(error.problems)
        else:
            yield comparison, tables
    if problems:
        raise InputError(problems)


def _create(database: duckdb.DuckDBPyConnection) -> None:
    """Make tables that are not there, and views as they are written now."""
    for kind, names in (("tables", TABLES), ("views", VIEWS)):
        for name in names:
            database.execute(_statement(kind, name))


def _statement(kind: str, name: str) -> str:
    return project_file(f"sql/{kind}/{name}.sql").read_text(encoding="utf-8")


def _replace_rows(database: duckdb.DuckDBPyConnection, comparison: str, name: str, table: pa.Table | None) -> None:
    """Delete the comparison's rows of one table and insert these.

    Raises ValueError when the rows say that they are another comparison's.
    """
    database.execute(f"DELETE FROM {name} WHERE comparison = ?", [comparison])  # noqa: S608  a name of TABLES
    if table is None:
        return
    if "comparison" in table.column_names:
        if others := set(table["comparison"].unique().to_pylist()) - {comparison}:
            raise ValueError(f"{name} holds rows of {', '.join(map(str, others))}, not of {comparison} alone")
        table = table.drop_columns(["comparison"])
    database.register("incoming", table)
    database.execute(
        f"INSERT INTO {name} BY NAME SELECT ? AS comparison, * FROM incoming",  # noqa: S608  a name of TABLES
        [comparison],
    )
    database.unregister("incoming")

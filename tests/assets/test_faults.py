"""What assets do when the warehouse is locked, a stored table is damaged or the store is away: say it, lose nothing."""

import datetime as dt
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from assets import resources as resources_module
from assets.definitions import build_defs
from assets.partitions import COMPARISON_PARTITIONS
from assets.resources import PlanResource, StoreResource, TokenResource, WarehouseResource
from assets.schedules import nightly
from assets.sensors import deploys
from perf_pipeline.errors import InputError
from perf_pipeline.warehouse import Warehouse
from tests.recorded_runs import write_run
from tests.test_plan import MINIMAL

KEY = "1.0.0__1.1.0"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
HOLDER = """
import duckdb, sys
with duckdb.connect(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.readline()
"""


class Measured:
    """A comparison whose runs were measured."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.objects, self.warehouse = folder / "objects", folder / "warehouse.duckdb"
        self._instance = instance
        (folder / "plan.yaml").write_text(MINIMAL)
        self._resources: dict[str, dg.ConfigurableResource] = {
            "plan": PlanResource(path=str(folder / "plan.yaml")),
            "store": StoreResource(location=str(self.objects)),
            "warehouse": WarehouseResource(path=str(self.warehouse)),
            "tokens": TokenResource(key_file=str(folder / "key.pem")),
        }
        for number, version in enumerate(("1.0.0", "1.1.0")):
            for repeat in range(1, 4):
                run_id, seed = f"{version}-browse-r{repeat:02d}", 10 * number + repeat
                write_run(self.objects / "runs" / KEY, run_id, seed=seed, slower=1 + number / 2)

    def execute(self, job: str) -> None:
        """Execute a job for the comparison; raises what a step raised."""
        build_defs(**self._resources).resolve_job_def(job).execute_in_process(
            instance=self._instance, partition_key=KEY, run_config=QUIET
        )

    def answers(self) -> list[tuple]:
        """What people read in the warehouse."""
        with duckdb.connect(str(self.warehouse), read_only=True) as database:
            return database.sql("SELECT scenario, client_latency FROM verdict_matrix").fetchall()


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Measured]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [KEY])
        yield Measured(tmp_path, instance)


def test_a_locked_warehouse_is_named_with_its_holder_and_loses_nothing(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources_module, "Warehouse", functools.partial(Warehouse, patience_s=0.3))
    command = [sys.executable, "-c", HOLDER, str(measured.warehouse)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "open\n"
        with pytest.raises(InputError, match=rf"is locked by process {holder.pid} .*\n    -> close the DuckDB client"):
            measured.execute("judge_measured")
        holder.communicate("\n", timeout=60)
    assert not list(measured.objects.rglob(".partial-*"))
    measured.execute("judge_measured")
    assert measured.answers() == [("browse", "regression")]


def test_damaged_tables_are_named_and_made_anew(measured: Measured) -> None:
    measured.execute("judge_measured")
    tables = measured.objects / "metrics" / KEY
    for name in ("verdict", "gate_run_validity"):
        (tables / f"{name}.parquet").write_bytes(b"PAR1")
    measured.execute("judge_again")
    assert measured.answers() == [("browse", "regression")]
    (tables / "run_metric.parquet").write_bytes((tables / "run_metric.parquet").read_bytes()[:-100])
    said = rf"run_metric.parquet: is damaged: .*\n    -> materialise run_metrics of {KEY}"
    with pytest.raises(InputError, match=said):
        measured.execute("judge_again")
    measured.execute("judge_measured")
    assert measured.answers() == [("browse", "regression")]


def test_a_store_that_is_away_is_said_and_is_there_again_afterwards(measured: Measured) -> None:
    away = measured.objects.rename(measured.objects.with_name("elsewhere"))
    measured.objects.touch()  # nothing can be made where it was
    with pytest.raises(InputError, match=r"objects cannot be used: .*\n    -> bring it back"):
        measured.execute("judge_measured")
    measured.objects.unlink()
    away.rename(measured.objects)
    measured.execute("judge_measured")
    assert measured.answers() == [("browse", "regression")]


def test_a_folder_whose_disk_is_not_mounted_is_no_new_store(measured: Measured) -> None:
    measured.execute("judge_measured")
    away = measured.objects.rename(measured.objects.with_name("elsewhere"))
    measured.objects.mkdir()  # as a mount point is when nothing is mounted
    with pytest.raises(InputError, match=r"the object store .*objects none of them\n    -> bring the store back"):
        measured.execute("compare_versions")
    assert not list(measured.objects.iterdir()), "nothing was begun there"
    measured.objects.rmdir()
    away.rename(measured.objects)
    assert measured.answers() == [("browse", "regression")]


def test_schedule_and_sensor_wait_for_a_store_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(MINIMAL)
    (tmp_path / "objects").touch()
    resources = {
        "plan": PlanResource(path=str(tmp_path / "plan.yaml")),
        "store": StoreResource(location=str(tmp_path / "objects")),
    }
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        now = dt.datetime.now(dt.UTC)
        with (
            dg.build_schedule_context(instance=instance, scheduled_execution_time=now, resources=resources) as night,
            pytest.raises(InputError, match="cannot be used"),  # a failed tick: the next one begins where it began
        ):
            nightly(night)
        with (
            dg.build_sensor_context(instance=instance, cursor=None, resources=resources) as tick,
            pytest.raises(InputError, match="cannot be used"),
        ):
            deploys(tick)

"""Assets against a real store and warehouse in a temporary folder, from run directories with a known truth."""

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from assets.definitions import build_defs
from assets.jobs import COMPARISON
from assets.partitions import COMPARISON_PARTITIONS
from assets.resources import PlanResource, StoreResource, TokenResource, WarehouseResource
from perf_pipeline.errors import InputError
from tests.recorded_runs import write_run
from tests.test_plan import MINIMAL

KEY = "1.0.0__1.1.0"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [KEY])
        yield instance


@pytest.fixture
def resources(tmp_path: Path) -> dict[str, dg.ConfigurableResource]:
    (tmp_path / "plan.yaml").write_text(MINIMAL)
    return {
        "plan": PlanResource(path=str(tmp_path / "plan.yaml")),
        "store": StoreResource(location=str(tmp_path / "objects")),
        "warehouse": WarehouseResource(path=str(tmp_path / "warehouse.duckdb")),
        "tokens": TokenResource(key_file=str(tmp_path / "key.pem")),
    }


def measured(tmp_path: Path, slower: float, sides: tuple[str, ...] = ("1.0.0", "1.1.0")) -> None:
    for number, version in enumerate(sides):
        for repeat in range(1, 4):
            factor = slower if version == "1.1.0" else 1.0
            run_id = f"{version}-browse-r{repeat:02d}"
            write_run(tmp_path / "objects" / "runs" / KEY, run_id, seed=10 * number + repeat, slower=factor)


def judge(instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]) -> dg.ExecuteInProcessResult:
    return (
        build_defs(**resources)
        .resolve_job_def("judge_measured")
        .execute_in_process(instance=instance, partition_key=KEY, run_config=QUIET, raise_on_error=False)
    )


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, object]:
    (event,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in event.metadata.items()}


def checks(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {evaluation.check_name: evaluation.passed for evaluation in result.get_asset_check_evaluations()}


def test_from_runs_to_a_verdict(
    tmp_path: Path, instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    measured(tmp_path, slower=1.5)
    result = judge(instance, resources)
    assert result.success
    assert metadata(result, "release_verdict")["decision"] == "regression"
    assert "data:image/png;base64," in str(metadata(result, "release_verdict"))
    report = tmp_path / "objects" / "reports" / KEY
    assert sorted(path.name for path in report.iterdir()) == [
        "judgement.json",
        "message.json",
        "report.html",
        "report.md",
    ]
    assert json.loads((report / "judgement.json").read_text())["decision"]["answer"] == "regression"
    with duckdb.connect(str(tmp_path / "warehouse.duckdb"), read_only=True) as database:
        matrix = database.sql("SELECT scenario, client_latency FROM verdict_matrix").fetchall()
        history = database.sql("SELECT DISTINCT comparison, answer FROM release_history").fetchall()
    index = (tmp_path / "objects" / "reports" / "index.html").read_text()
    assert f'href="{KEY}/report.html"' in index
    assert 'href="../index.html"' in (report / "report.html").read_text()
    assert "level over the hold" in (report / "report.html").read_text()
    assert matrix == [("browse", "regression")]
    assert history == [(KEY, "regression")]


def test_drift_reaches_the_message_and_the_decision_of_the_index(
    tmp_path: Path, instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    """Two releases that are each slower: the newest message says what both are together, and says it once."""
    measured(tmp_path, slower=1.5)
    assert judge(instance, resources).success
    earlier, later = KEY, "1.1.0__1.2.0"
    runs = tmp_path / "objects" / "runs"
    for number, version in enumerate(("1.1.0", "1.2.0")):
        for repeat in range(1, 4):
            slower = {"1.1.0": 1.0, "1.2.0": 1.01}[version]
            write_run(runs / later, f"{version}-browse-r{repeat:02d}", seed=70 + 10 * number + repeat, slower=slower)
    instance.add_dynamic_partitions(COMPARISON_PARTITIONS, [later])
    job = build_defs(**resources).resolve_job_def("judge_measured")
    for _ in range(2):
        assert job.execute_in_process(instance=instance, partition_key=later, run_config=QUIET).success
    reports = tmp_path / "objects" / "reports"
    message = json.loads((reports / later / "message.json").read_text())
    (told,) = [block["text"]["text"] for block in message["blocks"] if "Over many" in block["text"]["text"]]
    assert "▲ over 2 releases since 1.0.0: regression in browse, client latency" in told
    assert message["text"].endswith("; over releases: regression")
    assert "Over many" not in (reports / earlier / "message.json").read_text()
    index = (reports / "index.html").read_text()
    assert "over 2 releases since 1.0.0: regression in browse" in index[: index.index("<nav")]
    assert "would call a regression" in index, "the lab's noise"


def test_a_failed_gate_is_a_result_and_not_a_failed_pipeline(
    tmp_path: Path, instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    measured(tmp_path, slower=1.5)
    result = judge(instance, resources)
    assert result.success
    assert checks(result)["no_regression"] is False
    assert checks(result)["every_side_was_measured"] is True


def test_a_side_that_was_never_measured_stops_the_run_before_the_gates(
    tmp_path: Path, instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    measured(tmp_path, slower=1.0)
    for record in (tmp_path / "objects" / "runs" / KEY).glob("1.1.0-*/run.json"):
        record.write_text(json.dumps(json.loads(record.read_text()) | {"status": "failed", "failure": "k6 crashed"}))
    result = judge(instance, resources)
    assert not result.success
    assert checks(result) == {"every_side_was_measured": False}


def test_materialising_again_gives_the_same_rows_and_no_more(
    tmp_path: Path, instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    measured(tmp_path, slower=1.0)
    counts = []
    for _ in range(2):
        assert judge(instance, resources).success
        with duckdb.connect(str(tmp_path / "warehouse.duckdb"), read_only=True) as database:
            tables = ("run", "run_metric", "latency_histogram", "gate_run_validity", "verdict", "gate_change")
            counts.append([database.sql(f"SELECT count(*) FROM {table}").fetchall() for table in tables])
    assert counts[0] == counts[1]
    assert counts[0][0] == [(6,)]


def test_bad_input_reaches_the_user_as_it_is(
    tmp_path: Path, instance: dg.DagsterInstance, resources: dict[str, dg.ConfigurableResource]
) -> None:
    measured(tmp_path, slower=1.0)
    (tmp_path / "objects" / "runs" / KEY / "1.0.0-browse-r01" / "k6.csv.gz").unlink()
    with pytest.raises(InputError, match=r"k6\.csv"):
        build_defs(**resources).resolve_job_def("judge_measured").execute_in_process(
            instance=instance, partition_key=KEY, run_config=QUIET
        )


def test_the_comparison_job_holds_every_comparison_asset() -> None:
    job = build_defs().resolve_job_def("compare_versions")
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == {
        asset.key.to_user_string() for asset in COMPARISON
    }

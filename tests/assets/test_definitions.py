"""The code location loads, quickly, and holds what it should."""

import subprocess
import sys

import dagster as dg

from assets.definitions import build_defs, defs
from assets.resources import PlanResource

ASSETS = {
    "capture": {"raw_access_log", "replay_requests"},
    "lab": {"workload", "test_runs"},
    "metrics": {"run_metrics"},
    "gates": {"run_validity", "repeat_agreement", "version_change"},
    "release": {"release_verdict", "release_history"},
}


def test_the_definitions_can_be_loaded() -> None:
    dg.Definitions.validate_loadable(defs)


def test_assets_jobs_and_checks_are_those_that_the_docs_name() -> None:
    graph = defs.resolve_asset_graph()
    groups: dict[str, set[str]] = {}
    for node in graph.asset_nodes:
        groups.setdefault(node.group_name, set()).add(node.key.to_user_string())
    assert groups == ASSETS
    assert {job.name for job in defs.resolve_all_job_defs()} - {"__ASSET_JOB"} == {
        "capture_traffic",
        "compare_versions",
        "judge_measured",
        "judge_again",
    }
    assert {schedule.name for schedule in defs.schedules or ()} == {"nightly", "capture_hourly"}
    assert {sensor.name for sensor in defs.sensors or ()} == {"deploys", "tell_verdict", "tell_failure"}
    assert {key.name for key in graph.asset_check_keys} == {
        "nothing_expired",
        "little_in_quarantine",
        "no_strays",
        "keeps_up",
        "few_duplicates",
        "every_side_was_measured",
        "runs_are_valid",
        "repeats_agree",
        "no_regression",
        "negative_control_is_quiet",
        "no_slow_regression",
    }


def test_every_asset_says_what_it_is_and_whose() -> None:
    for node in defs.resolve_asset_graph().asset_nodes:
        assert len(node.description or "") > 40, node.key
        assert node.owners and node.kinds and node.code_version, node.key


def test_the_lab_measures_one_run_at_a_time_and_the_warehouse_has_one_writer() -> None:
    pools = {node.key.to_user_string(): node.pools for node in defs.resolve_asset_graph().asset_nodes}
    assert pools["test_runs"] == {"lab"}
    writers = ("run_metrics", "run_validity", "repeat_agreement", "version_change", "release_verdict")
    assert all(pools[name] == {"warehouse"} for name in writers)


def test_one_job_has_one_kind_of_partition() -> None:
    assert isinstance(defs.resolve_job_def("capture_traffic").partitions_def, dg.HourlyPartitionsDefinition)
    assert isinstance(defs.resolve_job_def("compare_versions").partitions_def, dg.DynamicPartitionsDefinition)


def test_resources_can_be_replaced() -> None:
    assert build_defs(plan=PlanResource(path="other.yaml")).resources["plan"].path == "other.yaml"


def test_loading_takes_less_than_ten_seconds() -> None:
    """Of the CPU: how long that is on the clock says more about what else the machine does."""
    took = "import resource, assets.definitions; u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime)"
    result = subprocess.run([sys.executable, "-c", took], check=True, capture_output=True, text=True)
    assert float(result.stdout) < 10

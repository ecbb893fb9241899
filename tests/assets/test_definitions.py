"""The code location loads, quickly, and holds what it should."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.definitions.freshness import FreshnessState, TimeWindowFreshnessPolicy
from dagster._core.definitions.freshness_evaluator import TimeWindowFreshnessPolicyEvaluator
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import freeze_time

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


def test_what_the_schedules_make_says_when_it_is_too_old() -> None:
    policies = {
        node.key.to_user_string(): node.freshness_policy
        for node in defs.resolve_asset_graph().asset_nodes
        if node.freshness_policy is not None
    }
    assert policies.keys() == {"raw_access_log", "replay_requests", "release_verdict"}
    # A schedule that works never warns: an hour and its margin between captures, a weekend without a build.
    for name, shortest in (("raw_access_log", 2 * 3600), ("replay_requests", 2 * 3600), ("release_verdict", 3 * 86400)):
        policy = policies[name]
        assert isinstance(policy, TimeWindowFreshnessPolicy) and policy.warn_window is not None
        assert shortest < policy.warn_window.to_timedelta().total_seconds()
        assert policy.warn_window.to_timedelta() < policy.fail_window.to_timedelta() <= timedelta(days=14)


def test_an_asset_without_a_new_partition_turns_stale(tmp_path: Path) -> None:
    """As the daemon of `perf-pipeline ui` tells it."""
    node = defs.resolve_asset_graph().get(dg.AssetKey("release_verdict"))
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:

        def state(days: float) -> FreshnessState:
            context = LoadingContextForTest(instance)
            with freeze_time(datetime.now(UTC) + timedelta(days=days)):
                return asyncio.run(TimeWindowFreshnessPolicyEvaluator().evaluate_freshness(context, node))

        assert state(0) is FreshnessState.UNKNOWN
        instance.report_runless_asset_event(dg.AssetMaterialization(node.key, partition="1.0.0__1.1.0"))
        assert [state(days) for days in (3, 5, 15)] == [FreshnessState.PASS, FreshnessState.WARN, FreshnessState.FAIL]


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

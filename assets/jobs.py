"""The jobs: capture an hour of traffic, compare two versions, judge again what was measured.

Each runs in one process: the steps are light, and a process for each would import everything again.
"""

import dagster as dg

from assets.capture import replay_requests
from assets.gates import repeat_agreement, run_validity, version_change
from assets.landing import raw_access_log
from assets.metrics import run_metrics
from assets.release import release_history, release_verdict
from assets.runs import test_runs, workload

CAPTURE = [raw_access_log, replay_requests]
COMPARISON = [
    workload,
    test_runs,
    run_metrics,
    run_validity,
    repeat_agreement,
    version_change,
    release_verdict,
    release_history,
]

capture_traffic = dg.define_asset_job(
    "capture_traffic",
    selection=CAPTURE,
    executor_def=dg.in_process_executor,
    description="Land an hour of the access log and make of it requests that may be replayed.",
)
compare_versions = dg.define_asset_job(
    "compare_versions",
    selection=COMPARISON,
    executor_def=dg.in_process_executor,
    description="Measure and judge a comparison: from the frozen workload to the verdict.",
)
judge_measured = dg.define_asset_job(
    "judge_measured",
    selection=COMPARISON[COMPARISON.index(run_metrics) :],
    executor_def=dg.in_process_executor,
    description="Read the run directories that are there and judge them. Nothing is measured.",
)
judge_again = dg.define_asset_job(
    "judge_again",
    selection=COMPARISON[COMPARISON.index(run_validity) :],
    executor_def=dg.in_process_executor,
    description="Judge the stored metrics, for example under a new policy. Nothing is measured, no run is read again.",
)

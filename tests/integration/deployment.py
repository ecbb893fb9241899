"""A deployment in a folder of its own: what `perf-pipeline ui` serves, asked as the UI asks."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import requests

from perf_pipeline.capture.token_keys import generate_signing_key
from perf_pipeline.files import project_file
from tests.integration.demo_lab import demo_store, gone, short_demo_plan

PATIENCE_S = 240.0
"""Seconds until something that has to happen counts as never happening: the machine may be busy."""
_REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "assets.definitions"}


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until a condition holds, and return what it answered."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.2)
    return answer


class Deployment:
    """The demo with a captured hour, a short plan, and a daemon that looks more often than once a minute."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.store = demo_store(self.home / "objects")
        self.plan = short_demo_plan(folder)
        self.log = folder / "ui.log"
        generate_signing_key(self.home / "token_signing_key.pem")
        settings = project_file("dagster.yaml").read_text()
        (self.home / "dagster").mkdir()
        (self.home / "dagster/dagster.yaml").write_text(
            settings.replace("poll_interval_seconds: 60", "poll_interval_seconds: 5")
        )
        self._url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve it, and wait until it answers."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}/graphql"
        variables = {"PERF_PIPELINE_HOME": str(self.home), "PERF_PIPELINE_PLAN": str(self.plan.path)}
        with self.log.open("ab") as log:
            command = [Path(sys.executable).with_name("perf-pipeline"), "ui", "--port", str(port)]
            self._process = subprocess.Popen(
                command, env=os.environ | variables,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until(self._answers, "the UI")

    def stop(self) -> None:
        """End it as a service manager does, and wait until nothing of it runs."""
        if self._process is None:
            return
        tree = [self._process.pid, *(child.pid for child in psutil.Process(self._process.pid).children(recursive=True))]
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        for pid in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        self._process.wait()
        self._process = None
        assert gone(set(tree))

    def ask(self, query: str, **variables: Any) -> Any:
        """The answer to a GraphQL query."""
        answer = requests.post(self._url, json={"query": query, "variables": variables}, timeout=60).json()
        assert "errors" not in answer, answer
        return answer["data"]

    def runs(self) -> list[dict[str, Any]]:
        """The runs of Dagster, the newest first: id, status, and tags by name."""
        found = self.ask("{runsOrError {... on Runs {results {runId status tags {key value}}}}}")["runsOrError"][
            "results"
        ]
        return [run | {"tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in found]

    def run_of(self, comparison: str) -> dict[str, Any]:
        """The newest run of a comparison."""
        return next(run for run in self.runs() if run["tags"]["dagster/partition"] == comparison)

    def start_sensor(self) -> None:
        """Turn the deploy sensor on."""
        query = "mutation($it: SensorSelector!) {startSensor(sensorSelector: $it) {__typename}}"
        assert self.ask(query, it=_REPOSITORY | {"sensorName": "deploys"})["startSensor"]["__typename"] == "Sensor"

    def ticks(self) -> list[dict[str, Any]]:
        """The ticks of the deploy sensor, the newest first."""
        query = (
            "query($it: SensorSelector!) {sensorOrError(sensorSelector: $it) {... on Sensor"
            " {sensorState {ticks {timestamp status runIds}}}}}"
        )
        found = self.ask(query, it=_REPOSITORY | {"sensorName": "deploys"})
        return found["sensorOrError"]["sensorState"]["ticks"]

    def cancel(self, run_id: str) -> None:
        """Cancel a run, as the button of the UI does."""
        query = "mutation($it: String!) {terminateRun(runId: $it) {__typename}}"
        assert self.ask(query, it=run_id)["terminateRun"]["__typename"] == "TerminateRunSuccess"

    def backfill(self, job: str, comparisons: list[str]) -> str:
        """Materialise a job for several comparisons, new or not, and return the id of the backfill."""
        add = (
            "mutation($it: RepositorySelector!, $key: String!) {addDynamicPartition(repositorySelector: $it,"
            ' partitionsDefName: "comparison", partitionKey: $key) {__typename}}'
        )
        for key in comparisons:
            assert self.ask(add, it=_REPOSITORY, key=key)["addDynamicPartition"]["__typename"] in (
                "AddDynamicPartitionSuccess", "DuplicateDynamicPartitionError")  # fmt: skip
        query = (
            "mutation($it: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $it)"
            " {__typename ... on LaunchBackfillSuccess {backfillId} ... on PythonError {message}}}"
        )
        partition_set = {"repositorySelector": _REPOSITORY, "partitionSetName": f"{job}_partition_set"}
        launched = self.ask(query, it={"selector": partition_set, "partitionNames": comparisons})
        assert launched["launchPartitionBackfill"]["__typename"] == "LaunchBackfillSuccess", launched
        return launched["launchPartitionBackfill"]["backfillId"]

    def backfill_status(self, backfill: str) -> str:
        """What became of a backfill, in Dagster's words."""
        query = "query($it: String!) {partitionBackfillOrError(backfillId: $it) {... on PartitionBackfill {status}}}"
        return self.ask(query, it=backfill)["partitionBackfillOrError"]["status"]

    def nightly(self, when_s: float) -> dict[str, Any]:
        """What the nightly schedule answers at a unix time; nothing is started."""
        query = (
            "mutation($it: ScheduleSelector!, $at: Float!) {scheduleDryRun(selectorData: $it, timestamp: $at)"
            " {... on DryRunInstigationTick {evaluationResult {skipReason runRequests {runKey} error {message}}}}}"
        )
        found = self.ask(query, it=_REPOSITORY | {"scheduleName": "nightly"}, at=when_s)
        return found["scheduleDryRun"]["evaluationResult"]

    def records(self, comparison: str) -> dict[Path, int]:
        """The records of measured runs, with the time of their writing."""
        return {path: path.stat().st_mtime_ns for path in self.store.root.glob(f"runs/{comparison}/*/run.json")}

    def holding(self) -> bool:
        """Whether a run is in its hold: all of its programs are up."""
        logs = self.store.root.glob(".partial-*/logs/k6.log")
        with contextlib.suppress(FileNotFoundError):  # a run that has ended is moved away
            return any("hold_start" in log.read_text() for log in logs)
        return False

    def worker(self) -> psutil.Process:
        """The process that measures: the one that holds a dead man's switch."""
        assert self._process is not None
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any(word.endswith("dead_mans_switch.py") for word in process.cmdline()):
                    return psutil.Process(process.ppid())
        raise AssertionError("nothing is measured")

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log.read_text()
        query = "{workspaceOrError {... on Workspace {locationEntries {loadStatus}}}}"
        with contextlib.suppress(requests.RequestException, json.JSONDecodeError):
            entries = self.ask(query)["workspaceOrError"]["locationEntries"]
            return [entry["loadStatus"] for entry in entries] == ["LOADED"]
        return False

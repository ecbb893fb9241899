"""A real S3 server that is away for a while in the middle of a campaign costs no run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perf_pipeline import bucket as bucket_module
from perf_pipeline.lab import campaign as campaign_module
from perf_pipeline.lab import patience
from perf_pipeline.lab.programs import Programs
from perf_pipeline.lab.run import Campaign
from perf_pipeline.lab.run_directory import RunRecord
from perf_pipeline.replay.schedule import PlannedRun
from perf_pipeline.replay.workload import freeze_workload
from perf_pipeline.storage import open_store
from tests.integration.conftest import skip_without
from tests.integration.servers import S3Server, ended, missing_for_s3
from tests.test_lab_campaign import PREFIX, Lab

pytestmark = pytest.mark.integration


@pytest.fixture
def own_s3(
    server_programs: Programs, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[S3Server]:
    """A server for one test, which stops it; the environment says how to reach it."""
    skip_without(missing_for_s3(), "a real S3 server")
    server = S3Server(server_programs, tmp_path_factory.mktemp("own-s3"))
    for variable, value in server.environ.items():
        monkeypatch.setenv(variable, value)
    with ended(server):
        yield server


def test_a_bucket_that_is_away_for_a_while_costs_no_run(
    own_s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # boto3's own tries last 20 s: with fewer of them a short time away shows what a long one does.
    monkeypatch.setattr(bucket_module, "_ATTEMPTS", 2)
    lab = Lab(tmp_path, monkeypatch)
    workload = freeze_workload(lab.store, lab.plan)
    lab.store = open_store(f"s3://{own_s3.create_bucket()}/below")  # type: ignore[assignment]
    waits: list[int] = []

    def measure_and_stop_the_server(campaign: Campaign, planned: PlannedRun, folder: Path) -> RunRecord:
        record = lab.run_once(campaign, planned, folder)
        if planned.run_id == lab.order[1]:
            own_s3.stop()
        return record

    def come_back_at_the_second_wait() -> None:
        waits.append(len(waits))
        if len(waits) == 2:
            own_s3.start()

    monkeypatch.setattr(campaign_module, "run_once", measure_and_stop_the_server)
    monkeypatch.setattr(patience, "raise_if_abandoned", come_back_at_the_second_wait)
    report = lab.measure(workload=workload)
    assert lab.measured == lab.order == list(report.measured), "each was measured once"
    stored = [key.removeprefix(f"{PREFIX}/") for key in lab.store.keys(PREFIX)]
    assert stored == sorted([*(f"{run_id}/run.json" for run_id in lab.order), "schedule.json"])
    assert len(waits) >= 2
    assert "Waiting, up to 120 s, for s3://" in caplog.text

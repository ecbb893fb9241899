"""Run directories from a known truth, and what `judge` reads in them beside the fast path."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perf_pipeline.gates.evidence import ErrorSample, LatencySample, Missing, NumberSample, RunEvidence
from perf_pipeline.gates.verdict import judge
from perf_pipeline.judge import judge_folder, load_policy
from perf_pipeline.lab.run_directory import find_runs, read_record
from perf_pipeline.metrics.extract import evidence, extract_runs
from perf_pipeline.simulation.campaign import Campaign, Incident, RunKey, Step
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.run_directories import write_runs
from perf_pipeline.simulation.run_effects import RunEffects, Seconds, Shift
from perf_pipeline.simulation.scenario import Errors, Latency, Memory, Scenario
from perf_pipeline.simulation.shapes import Bimodal, HeavyTail, LogNormal

SEED = 11
EFFECTS = RunEffects(level=0.02, spread=0.02, tail=0.02)
SCENARIO = Scenario(
    "everything",
    rate_per_s=100.0,
    latencies={
        "client_latency": Latency(12.0, Bimodal(0.3, 0.8, 0.25), EFFECTS, Seconds(0.02)),
        "service_latency": Latency(9.0, HeavyTail(0.25, 0.05), EFFECTS, Seconds(0.02), bucket_ratio=1.02),
        "upstream_latency": Latency(5.0, LogNormal(0.2), RunEffects(level=0.01), bucket_ratio=1.02),
    },
    memory=Memory(effects=RunEffects(level=0.01)),
    errors={"http_error_rate": Errors(0.002, 0.05), "graphql_error_rate": Errors()},
    changes={"client_latency": Shift(level=0.2)},
)
INCIDENTS = {
    RunKey("1.0", "everything", 1): Incident(load_share=0.8),
    RunKey("1.0", "everything", 2): Incident(failure="the service died"),
    RunKey("1.0", "everything", 3): Incident(restart_at_share=0.6),
    RunKey("1.0", "everything", 4): Incident(clock_offset_s=10.0),
    RunKey("1.1", "everything", 1): Incident(throttled_share=0.25),
    RunKey("1.1", "everything", 2): Incident(drifts={"service_memory": 0.2}),
    RunKey("1.1", "everything", 3): Incident(environment={"kernel": "6.2"}),
    RunKey("1.1", "everything", 4): Incident(shifts={"client_latency": Shift(level=0.3)}),
    RunKey("1.1", "everything", 5): Incident(steps={"service_latency": Step(0.3)}, scrape_share=0.75),
}
# Of these the rest of a step is never scraped, and the series of the other hold eight in ten of the hold's seconds.
SERIES_DIFFER = ("1.1-everything-r05", "1.0-everything-r04")
CAMPAIGN = Campaign((SCENARIO,), repeats=7, hold_s=120, incidents=INCIDENTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("campaign")
    write_runs(CAMPAIGN, SEED, path)
    return path


@pytest.fixture(scope="module")
def pairs(folder: Path) -> list[tuple[RunEvidence, RunEvidence]]:
    """Each run as it is read from its directory, and as the fast path gives it."""
    read = {run.run_id: run for run in evidence(extract_runs(find_runs(folder)))}
    return [(read[run.run_id], run) for run in simulate(CAMPAIGN, SEED)]


def test_what_a_run_says_of_itself_is_the_same(pairs: list[tuple[RunEvidence, RunEvidence]]) -> None:
    for read, fast in pairs:
        for name in (
            "version",
            "scenario",
            "repeat",
            "block",
            "failure",
            "hold_s",
            "target_rate_per_s",
            "design",
            "arm",
        ):
            assert getattr(read, name) == getattr(fast, name), (fast.run_id, name)
        assert {key: read.environment[key] for key in fast.environment} == fast.environment
        assert read.dropped_iterations == fast.dropped_iterations
        assert read.achieved_rate_per_s == fast.achieved_rate_per_s
        assert fast.failure or read.failed_share == pytest.approx(fast.failed_share, abs=0.003)
        if fast.throttled_share is not None:
            assert read.throttled_share == pytest.approx(fast.throttled_share, abs=0.01)
        assert read.service_digest == fast.service_digest
        assert read.counter_resets == fast.counter_resets
        if fast.clock_offset and fast.series_density["service_memory"] == 1:
            assert read.clock_offset is not None
            assert read.clock_offset.estimate_s == pytest.approx(fast.clock_offset.estimate_s, abs=1.5)


def test_latencies_are_the_same_but_for_the_noise_of_measuring(pairs: list[tuple[RunEvidence, RunEvidence]]) -> None:
    """12,000 requests know a median to 0.5 % and a p99 to 3 %; the two paths draw them independently."""
    for read, fast in pairs:
        for metric in SCENARIO.latencies if not fast.failure else ():
            if metric != "client_latency" and read.run_id in SERIES_DIFFER:
                continue
            one, other = read.metrics[metric], fast.metrics[metric]
            if isinstance(other, Missing):
                assert isinstance(one, Missing)
                continue
            assert isinstance(one, LatencySample) and isinstance(other, LatencySample)
            assert one.requests == pytest.approx(other.requests, rel=0.02)
            np.testing.assert_allclose(one.log_quantiles[:18], other.log_quantiles[:18], atol=0.05)
            np.testing.assert_allclose(one.log_quantiles[18:], other.log_quantiles[18:], atol=0.15)
            np.testing.assert_allclose(one.log_bucket_width, other.log_bucket_width, rtol=1e-6)
            assert one.half_shapes.shape == other.half_shapes.shape


def test_numbers_and_errors_are_the_same_but_for_the_noise_of_measuring(
    pairs: list[tuple[RunEvidence, RunEvidence]],
) -> None:
    for read, fast in pairs:
        if fast.failure or fast.run_id in SERIES_DIFFER:
            continue
        memory, expected = read.metrics["service_memory"], fast.metrics["service_memory"]
        assert isinstance(memory, NumberSample) and isinstance(expected, NumberSample)
        assert memory.value == pytest.approx(expected.value, rel=0.002)
        for metric in SCENARIO.errors:
            errors, other = read.metrics[metric], fast.metrics[metric]
            assert isinstance(errors, ErrorSample) and isinstance(other, ErrorSample)
            assert errors.requests == pytest.approx(other.requests, rel=0.01)
            assert abs(errors.errors - other.errors) <= 5 * np.sqrt(max(other.errors, 1))


def test_the_gates_say_the_same_of_both(folder: Path) -> None:
    policy = load_policy("default")
    read = judge_folder(folder, "1.0", "1.1", policy).judgement
    fast = judge(simulate(CAMPAIGN, SEED), "1.0", "1.1", policy)
    # A p99 of 10 s scatters by 5 % here, and each path has noise of its own: now and then one of them seems to drift.
    lost = [
        {run.run_id: (run.status == "set aside", set(run.dropped_metrics) - {"service_p99"}) for run in found.runs}
        for found in (read, fast)
    ]
    assert lost[0] == lost[1]
    assert sum(set_aside for set_aside, _ in lost[0].values()) == 5
    assert sum(bool(metrics) for set_aside, metrics in lost[0].values() if not set_aside) == 3
    verdicts = [{(one.scenario, one.metric): one.verdict for one in found.verdicts} for found in (read, fast)]
    assert verdicts[0] == verdicts[1]


def test_the_same_seed_writes_the_same_files_and_an_old_run_is_never_overwritten(tmp_path: Path) -> None:
    campaign = Campaign((replace(SCENARIO, rate_per_s=20.0),), repeats=1, hold_s=10, aa_arm=True)
    for name in ("a", "b"):
        write_runs(campaign, 1, tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) == 9
    for file in files:
        if file.suffix != ".gz":  # the gzip header holds the time
            assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert {read_record(run).arm for run in find_runs(tmp_path / "a")} == {"main", "aa"}
    with pytest.raises(FileExistsError):
        write_runs(campaign, 1, tmp_path / "a")

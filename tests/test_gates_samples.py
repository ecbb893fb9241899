from dataclasses import replace

import numpy as np
import pytest

from perf_pipeline.gates.evidence import ErrorSample, Missing, NumberSample, Sample
from perf_pipeline.gates.findings import RunValidity
from perf_pipeline.gates.samples import copied_runs, fault_of, metric_of, usable_samples
from tests.simulated_runs import campaign, latency, with_metric


def validity(run_id: str, status: str = "passed", dropped: tuple[str, ...] = ()) -> RunValidity:
    return RunValidity(run_id, "1.0", "browse", 1, status, "", dropped, ())  # type: ignore[arg-type]


def broken_latency(**changes: object) -> Sample:
    return replace(latency(np.random.default_rng(1)), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "sample", "fault"),
    [
        ("client_latency", Missing("k6.csv holds no request"), "k6.csv holds no request"),
        ("client_latency", ErrorSample(0, 1), "a ErrorSample is not what this metric is made of"),
        ("client_latency", broken_latency(requests=0.0), "no request was measured"),
        ("client_latency", broken_latency(log_quantiles=np.full(21, np.nan)), "some percentiles have no value"),
        ("client_latency", broken_latency(log_quantiles=np.full(21, -np.inf)), "some percentiles have no value"),
        ("client_latency", broken_latency(log_bucket_width=np.full(21, np.nan)), "some percentiles have no value"),
        ("service_p99", NumberSample(0.0, np.ones(3), 1.0), "0.0 has no logarithm"),
        ("service_p99", NumberSample(np.nan, np.ones(3), 1.0), "nan has no logarithm"),
        ("service_memory", NumberSample(np.inf, np.ones(3), 1.0), "inf has no logarithm"),
        ("http_error_rate", ErrorSample(0, 0), "0 errors in 0 requests is no rate"),
        ("http_error_rate", ErrorSample(3, 2), "3 errors in 2 requests is no rate"),
        ("http_error_rate", ErrorSample(-1, 2), "-1 errors in 2 requests is no rate"),
    ],
)
def test_what_cannot_be_used_says_why(metric: str, sample: Sample, fault: str) -> None:
    assert fault_of(metric, sample) == fault


def test_sound_samples_have_no_fault() -> None:
    run = campaign()[0]
    for metric, sample in run.metrics.items():
        assert (fault_of(metric, sample) is None) == (metric != "graphql_error_rate")


def test_a_metric_that_the_evidence_does_not_name_is_missing_and_not_absent() -> None:
    run = replace(campaign()[0], metrics={})
    assert metric_of(run, "client_latency") == Missing("the run's evidence does not name it")


def test_only_what_gate_1_let_through_is_usable() -> None:
    first, second, third = campaign(scenarios=["browse"], repeats=3)[:3]
    third = with_metric(third, "service_p99", Missing("gone"))
    found = usable_samples(
        [third, second, first],
        [
            validity(first.run_id, "set aside"),
            validity(second.run_id, "metric dropped", ("client_latency",)),
            validity(third.run_id),
        ],
    )
    ids = {metric: [run_id for run_id, _ in pairs] for (_, _, metric), pairs in found.items()}
    assert ids["client_latency"] == [third.run_id]
    assert ids["service_p99"] == [second.run_id]
    assert ids["service_memory"] == [second.run_id, third.run_id]
    assert "graphql_error_rate" not in ids


def test_a_copied_run_is_recognised_whatever_it_is_called() -> None:
    runs = campaign(scenarios=["browse"])
    copy = replace(runs[0], run_id="1.1-browse-r99", version="1.1", repeat=99)
    assert copied_runs([copy, *runs]) == {"1.1-browse-r99": "1.0-browse-r01"}


def test_runs_that_share_only_their_counts_are_not_copies() -> None:
    """Two runs without errors and with equal memory are what one hopes for."""
    runs = campaign(scenarios=["browse"], repeats=2)
    same = NumberSample(1e8, np.full(24, 1e8), 10.0)
    assert copied_runs([with_metric(run, "service_memory", same) for run in runs]) == {}
    only_counts = [replace(run, metrics={"http_error_rate": ErrorSample(0, 1000)}) for run in runs]
    assert copied_runs(only_counts) == {}

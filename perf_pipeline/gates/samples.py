"""The samples of runs: which can be used, and which are the same measurements twice.

What belongs here: questions about a sample or about the samples of all runs that need no limit of the policy. What
follows from the answers is in `run_validity`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from perf_pipeline.gates.evidence import (
    DISTRIBUTIONS,
    ERROR_RATES,
    METRICS,
    ErrorSample,
    LatencySample,
    Missing,
    NumberSample,
    RunEvidence,
    Sample,
)
from perf_pipeline.gates.findings import RunValidity

SampleKey: TypeAlias = tuple[str, str, str]
"""version, scenario, metric"""

UsableSamples: TypeAlias = Mapping[SampleKey, Sequence[tuple[str, Sample]]]
"""The (run_id, sample) pairs of each version, scenario and metric that Gate 1 lets through, sorted by run_id."""


def metric_of(run: RunEvidence, metric: str) -> Sample:
    """The run's sample of a metric. One that the evidence does not even name is missing, not absent."""
    return run.metrics.get(metric, Missing("the run's evidence does not name it"))


def fault_of(metric: str, sample: Sample) -> str | None:
    """Why a sample cannot be used; None when it can."""
    if isinstance(sample, Missing):
        return sample.reason
    expected = LatencySample if metric in DISTRIBUTIONS else ErrorSample if metric in ERROR_RATES else NumberSample
    if not isinstance(sample, expected):
        return f"a {type(sample).__name__} is not what this metric is made of"
    if isinstance(sample, ErrorSample):
        countable = sample.requests > 0 and 0 <= sample.errors <= sample.requests
        return None if countable else f"{sample.errors} errors in {sample.requests} requests is no rate"
    if isinstance(sample, NumberSample):
        usable = math.isfinite(sample.value) and sample.value > 0 and not math.isnan(sample.log_bucket_width)
        return None if usable else f"{sample.value} has no logarithm"
    if not sample.requests > 0:
        return "no request was measured"
    finite = np.isfinite(sample.log_quantiles).all() and np.isfinite(sample.shape).all()
    return None if finite and not np.isnan(sample.log_bucket_width).any() else "some percentiles have no value"


def usable_samples(runs: Iterable[RunEvidence], validity: Iterable[RunValidity]) -> UsableSamples:
    """What Gate 1 lets through."""
    usable: dict[SampleKey, list[tuple[str, Sample]]] = {}
    found = {finding.run_id: finding for finding in validity}
    for run in sorted(runs, key=lambda one: one.run_id):
        if found[run.run_id].status == "set aside":
            continue
        for metric in METRICS:
            sample = metric_of(run, metric)
            # A metric that is not there is out whatever the policy says of the run that lacks it.
            if metric not in found[run.run_id].dropped_metrics and fault_of(metric, sample) is None:
                usable.setdefault((run.version, run.scenario, metric), []).append((run.run_id, sample))
    return usable


def copied_runs(runs: Iterable[RunEvidence]) -> dict[str, str]:
    """By run_id of a copy, the run that holds the same measurements: every metric equal to the last bit."""
    first: dict[tuple, str] = {}
    copies: dict[str, str] = {}
    for run in sorted(runs, key=lambda one: one.run_id):
        print_of_run = tuple(_fingerprint(metric_of(run, metric)) for metric in METRICS)
        # Without a latency there is too little to tell two honest runs apart: counts and pages of memory repeat.
        if all(part is None or part[0] != "latency" for part in print_of_run):
            continue
        original = first.setdefault(print_of_run, run.run_id)
        if original != run.run_id:
            copies[run.run_id] = original
    return copies


def _fingerprint(sample: Sample) -> tuple | None:
    match sample:
        case LatencySample():
            arrays = (sample.log_quantiles, sample.shape, sample.half_shapes, sample.levels)
            return ("latency", sample.requests, *(array.tobytes() for array in arrays))
        case NumberSample():
            return ("number", sample.value, sample.levels.tobytes())
        case ErrorSample():
            return ("errors", sample.errors, sample.requests)
        case _:
            return None

"""From what a file says of its load to a measured run, as a run directory is measured.

What belongs here: which metric comes from which part of a load, and what is said where there is none. A metric that a
form cannot hold is absent: nobody asked for it, and the reason says which form it is. What should be there and is not
is missing.
"""

import math

import numpy as np

from perf_pipeline.gates.checks import (
    ACHIEVED_RATE,
    ANSWERED,
    BUILD,
    CLOCK,
    DRIFT,
    DROPPED_ITERATIONS,
    RESTARTS,
    SERIES_DENSITY,
    STEPS,
)
from perf_pipeline.gates.evidence import METRICS, Missing
from perf_pipeline.lab.run_directory import Hold, RunRecord
from perf_pipeline.metrics.foreign.form import Form, Load
from perf_pipeline.metrics.measured_run import MeasuredRun, Measurement

_NO_RATE = "no target rate was given (--rate)"
_NOBODY_SAYS = {
    BUILD: "no run.json says what was tested",
    RESTARTS: "no series were scraped",
    CLOCK: "no series were scraped",
}


class _KnownLength(Hold):
    """A hold whose length may be known where its start is not."""

    length_s: float

    @property
    def seconds(self) -> float:
        """Length of the window in seconds; nan when it is not known."""
        return self.length_s


def measured_run(
    form: Form, load: Load, run_id: str, version: str, scenario: str, repeat: int, rate_per_s: float | None
) -> MeasuredRun:
    """The run that a file of this form is, every metric with its value or with why there is none.

    `rate_per_s` is the target rate, None when nobody told it.
    """
    hold_s = math.nan if load.hold_s is None else load.hold_s
    start_s = math.nan if load.hold_start_s is None else load.hold_start_s
    not_measured = {**_NOBODY_SAYS, **form.not_measured, **load.not_measured}
    if load.errors is None:
        not_measured[ANSWERED] = form.missing["http_error_rate"]
    if DRIFT in not_measured:
        # What cannot show a slope cannot show a step either, nor seconds without requests.
        not_measured |= dict.fromkeys((STEPS, SERIES_DENSITY), not_measured[DRIFT])
    if load.dropped_iterations is not None:
        not_measured.pop(DROPPED_ITERATIONS, None)
        if rate_per_s is None:
            not_measured[DROPPED_ITERATIONS] = _NO_RATE
    if rate_per_s is None:
        not_measured.setdefault(ACHIEVED_RATE, _NO_RATE)
    return MeasuredRun(
        # Nobody wrote a run.json, and what it would have to hold is not all known: unknown numbers are nan.
        record=RunRecord.model_construct(
            run_id=run_id,
            version=version,
            scenario=scenario,
            repeat=repeat,
            target_rate_per_s=math.nan if rate_per_s is None else rate_per_s,
            hold=_KnownLength.model_construct(start=start_s, end=start_s + hold_s, length_s=hold_s),
        ),
        sub_window_s=math.nan if load.sub_window_s is None else load.sub_window_s,
        windows=1 if load.latency is None else load.latency.counts.shape[0],
        metrics={metric: _metric(metric, form, load) for metric in METRICS},
        histograms={} if load.latency is None else {"client_latency": load.latency},
        achieved_rate_per_s=None if load.hold_s is None else load.requests / load.hold_s,
        dropped_iterations=load.dropped_iterations,
        not_measured=not_measured,
        source=form.name,
        remarks=tuple(load.remarks),
    )


def _metric(metric: str, form: Form, load: Load) -> Measurement | Missing:
    if metric == "client_latency":
        return _client_latency(load)
    if metric == "http_error_rate" and load.errors is not None:
        return _share(load.errors, load.requests)
    if metric == "graphql_error_rate" and load.answers_looked_at:
        return _share(load.answers_with_errors, load.answers_looked_at)
    return Missing(form.missing[metric], absent=True)


def _client_latency(load: Load) -> Measurement | Missing:
    if load.latency is None:
        return Missing(f"each of the {load.requests} requests of the hold failed" if load.requests else "no request")
    whole = load.latency.over()
    return Measurement(
        value=float(np.exp(whole.log_quantiles(0.5))),
        requests=round(whole.requests),
        log_bucket_width=float(whole.log_widths(0.5)),
        series_density=load.density,
    )


def _share(errors: int, requests: int) -> Measurement | Missing:
    if not requests:
        return Missing("no request")
    return Measurement(value=errors / requests, errors=errors, requests=requests)

"""The single runs behind a verdict: the percentiles of each, or its number, and its level over the hold.

What belongs here: plain values of runs, thinned for pictures, and which of them a verdict rests on. What the gates
found of them is in the judgement; how they are drawn is in `run_lines`.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perf_pipeline.gates.evidence import (
    ErrorSample,
    FloatArray,
    LatencySample,
    Missing,
    NumberSample,
    RunEvidence,
    Sample,
)
from perf_pipeline.gates.findings import Judgement

MOST_LEVELS = 12
"""Parts of the hold that a picture shows, enough to see a drift or a step."""
MANY_CURVES = 1_500
"""More curves than this are drawn by half their points each, more than twice as many by a third, and so on: a page of
50 scenarios stays below 2 MB."""


@dataclass(frozen=True)
class RunCurve:
    """One metric of one run. Latencies are in ms, memory in bytes, error rates are shares."""

    run_id: str
    scenario: str
    metric: str
    version: str
    repeat: int
    percentiles: tuple[float, ...]
    """At `PERCENTILES`, nan where it is not known; empty for a number."""
    value: float
    """The number; nan for a distribution."""
    levels: tuple[float, ...]
    """The level in equal parts of the hold, nan where it is not known; empty where there is no time axis."""
    hold_s: float


@dataclass(frozen=True)
class CellRuns:
    """The runs of one scenario and metric."""

    baseline: tuple[RunCurve, ...] = ()
    candidate: tuple[RunCurve, ...] = ()
    left_out: tuple[RunCurve, ...] = ()
    """Runs of both that Gate 1 set aside, or took this metric from."""


def curves_of(runs: Sequence[RunEvidence]) -> tuple[RunCurve, ...]:
    """The curves of every metric that was measured, runs of an A/A arm left out, in the order of the runs."""
    shown = [run for run in runs if run.arm == "main"]
    curves = sum(not isinstance(sample, Missing) for run in shown for sample in run.metrics.values())
    every = max(1, math.ceil(curves / MANY_CURVES))
    found = (_curve(run, metric, sample, every) for run in shown for metric, sample in run.metrics.items())
    return tuple(curve for curve in found if curve is not None)


def by_cell(curves: Sequence[RunCurve], judgement: Judgement) -> Mapping[tuple[str, str], CellRuns]:
    """The runs of each (scenario, metric); those of other versions are no part of it."""
    lost = {
        (run.run_id, metric)
        for run in judgement.runs
        for metric in ({verdict.metric for verdict in judgement.verdicts} if run.status == "set aside" else ())
    } | {(run.run_id, metric) for run in judgement.runs for metric in run.dropped_metrics}
    found: dict[tuple[str, str], dict[str, list[RunCurve]]] = defaultdict(lambda: defaultdict(list))
    for curve in curves:
        if curve.version in (judgement.baseline, judgement.candidate):
            side = "baseline" if curve.version == judgement.baseline else "candidate"
            side = "left_out" if (curve.run_id, curve.metric) in lost else side
            found[curve.scenario, curve.metric][side].append(curve)
    return {cell: CellRuns(**{side: tuple(runs) for side, runs in sides.items()}) for cell, sides in found.items()}


def _curve(run: RunEvidence, metric: str, sample: Sample, every: int) -> RunCurve | None:
    percentiles: tuple[float, ...] = ()
    value, levels = math.nan, np.zeros(0)
    if isinstance(sample, LatencySample):
        shown = np.arange(len(sample.log_quantiles))[::-1] % every == 0
        percentiles = tuple(np.where(shown, np.exp(sample.log_quantiles), math.nan).tolist())
        levels = np.exp(_thinned(sample.levels, MOST_LEVELS // every))
    elif isinstance(sample, NumberSample):
        value = sample.value
        with np.errstate(divide="ignore", invalid="ignore"):
            levels = np.exp(_thinned(np.log(sample.levels), MOST_LEVELS // every))
    elif isinstance(sample, ErrorSample):
        value = sample.errors / sample.requests if sample.requests else math.nan
    else:
        return None
    known = tuple(levels.tolist()) if np.isfinite(levels).sum() > 1 else ()
    return RunCurve(run.run_id, run.scenario, metric, run.version, run.repeat, percentiles, value, known, run.hold_s)


def _thinned(levels: FloatArray, most: int) -> FloatArray:
    """(at most `most`,) means of neighbouring ln levels, each over as many of them as any other, give or take one."""
    if len(levels) <= most:
        return levels
    parts = (part[np.isfinite(part)] for part in np.array_split(levels, most))
    return np.array([float(part.mean()) if len(part) else math.nan for part in parts])

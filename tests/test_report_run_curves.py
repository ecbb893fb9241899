"""The single runs behind a verdict, as plain values."""

import math
from dataclasses import replace

import numpy as np

from perf_pipeline.gates.evidence import PERCENTILES, ErrorSample, LatencySample, Missing, NumberSample, RunEvidence
from perf_pipeline.report.run_curves import MANY_CURVES, MOST_LEVELS, by_cell, curves_of
from tests.report_judgements import curves_for, regression


def run(number: int = 1, **metrics: object) -> RunEvidence:
    return RunEvidence(
        run_id=f"r{number}", version="1.0.0", scenario="browse", repeat=number, block=1, failure=None, hold_s=60.0,
        target_rate_per_s=100.0, achieved_rate_per_s=100.0, dropped_iterations=0, throttled_share=0.0, environment={},
        metrics=metrics,  # type: ignore[arg-type]
    )  # fmt: skip


def latency(levels: np.ndarray) -> LatencySample:
    count = len(PERCENTILES)
    shape = np.zeros(200)
    return LatencySample(
        1000.0, np.log(np.arange(count) + 1.0), np.zeros(count), shape, np.array([shape] * 2), np.array([shape] * 2),
        levels, 1.0,
    )  # fmt: skip


def test_percentiles_are_in_ms_and_a_long_hold_is_thinned_to_equal_parts() -> None:
    climbing = np.log(np.linspace(10.0, 20.0, 240))
    climbing[:20] = math.nan
    (curve,) = curves_of([run(client_latency=latency(climbing))])
    assert np.allclose(curve.percentiles, np.arange(21) + 1)
    assert len(curve.levels) == MOST_LEVELS
    assert math.isnan(curve.levels[0])
    assert all(later > earlier for earlier, later in zip(curve.levels[1:-1], curve.levels[2:], strict=True))


def test_numbers_and_error_rates_are_values_and_what_is_missing_has_no_curve() -> None:
    memory = NumberSample(2.0e6, np.array([1.9e6, 2.1e6]), 10.0)
    curves = curves_of(
        [run(service_memory=memory, http_error_rate=ErrorSample(3, 1000), service_latency=Missing("no series"))]
    )
    assert [(curve.metric, curve.value) for curve in curves] == [("service_memory", 2.0e6), ("http_error_rate", 0.003)]
    assert [len(curve.levels) for curve in curves] == [2, 0]
    (nothing,) = curves_of([run(http_error_rate=ErrorSample(0, 0))])
    assert math.isnan(nothing.value)


def test_a_run_of_the_second_arm_is_no_run_of_the_comparison() -> None:
    assert curves_of([replace(run(http_error_rate=ErrorSample(0, 10)), arm="aa")]) == ()


def test_many_curves_are_drawn_by_half_their_points() -> None:
    sample = latency(np.zeros(24))
    curves = curves_of([run(number, client_latency=sample) for number in range(MANY_CURVES + 1)])
    assert sum(math.isfinite(value) for value in curves[0].percentiles) == 11
    assert math.isfinite(curves[0].percentiles[-1]), "p99 stays"
    assert len(curves[0].levels) == MOST_LEVELS // 2


def test_runs_that_gate_1_set_aside_or_took_the_metric_from_are_left_out_of_their_side() -> None:
    found = regression()
    cells = by_cell(curves_for(found), found)
    memory = cells["products", "service_memory"]
    assert [run.run_id for run in memory.left_out] == ["1.1.0-products-r04"]
    assert (len(memory.baseline), len(memory.candidate)) == (5, 4)
    assert [run.run_id for run in cells["browse", "service_latency"].left_out] == ["1.0.0-browse-r02"]
    assert not cells["browse", "client_latency"].left_out
    assert by_cell([replace(curves_for(found)[0], version="0.9.0")], found) == {}

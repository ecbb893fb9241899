import math

import numpy as np
import pytest
from scipy import stats

from perf_pipeline.gates.comparison import Comparison, not_comparable
from perf_pipeline.gates.evidence import NEGATIVE_CONTROL, LatencySample
from perf_pipeline.gates.findings import NegativeControl
from perf_pipeline.gates.log_change import compare_logs, measure
from perf_pipeline.gates.pooled import judge_negative_control, pool
from tests.simulated_runs import latency, number, policy

LIMITS = policy()


def compared(
    rng: np.random.Generator, scenario: str, metric: str = "client_latency", runs: int = 5, **how: float
) -> Comparison:
    shift = how.pop("shift", 0.0)
    sides: list[list[LatencySample]] = [
        [latency(rng, shift=change, **how) for _ in range(runs)]  # type: ignore[arg-type]
        for change in (0.0, shift)
    ]
    return compare_logs(scenario, metric, measure(metric, sides[0], sides[1], LIMITS), LIMITS)


def memory(rng: np.random.Generator, scenario: str, cv: float, shift: float = 0.0, runs: int = 5) -> Comparison:
    sides = [[number(rng, 1e8, run_cv=cv, shift=change) for _ in range(runs)] for change in (0.0, shift)]
    return compare_logs(scenario, "service_memory", measure("service_memory", sides[0], sides[1], LIMITS), LIMITS)


def test_scenarios_weigh_the_same_and_their_errors_add() -> None:
    rng = np.random.default_rng(1)
    rows = [memory(rng, f"s{number}", cv) for number, cv in enumerate((0.01, 0.05, 0.02))]
    (found,) = pool(rows, LIMITS)
    estimates = [row.difference.estimate[0] for row in rows if row.difference]
    errors = [row.difference.standard_error[0] for row in rows if row.difference]
    dfs = [row.difference.df[0] for row in rows if row.difference]
    error = math.sqrt(sum(one**2 for one in errors)) / 3
    df = sum(one**2 for one in errors) ** 2 / sum(one**4 / own for one, own in zip(errors, dfs, strict=True))
    assert math.log1p(found.estimate) == pytest.approx(np.mean(estimates))
    assert found.df == pytest.approx(df)
    assert math.log1p(found.high) - math.log1p(found.estimate) == pytest.approx(stats.t.ppf(0.975, df) * error)
    assert (found.metric, found.statistic, found.scenarios) == ("service_memory", "value", 3)
    assert found.worst_scenario == f"s{int(np.argmax(estimates))}"


def test_a_small_change_of_every_scenario_shows_only_when_they_are_pooled() -> None:
    rng = np.random.default_rng(2)
    rows = [compared(rng, f"s{number}", shift=0.02) for number in range(20)]
    median = next(one for one in pool(rows, LIMITS) if one.statistic == "p50")
    assert {row.verdict.verdict for row in rows} <= {"equivalent", "inconclusive"}
    assert 0.01 < median.low < 0.02 < median.high < 0.03
    assert [one.statistic for one in pool(rows, LIMITS)] == ["p50", "p95", "p99"]


def test_opposite_changes_cancel_in_the_mean_and_not_in_the_worst() -> None:
    rng = np.random.default_rng(3)
    rows = [memory(rng, "up", 0.005, 0.08), memory(rng, "down", 0.005, 1 / 1.08 - 1)]
    (found,) = pool(rows, LIMITS)
    assert abs(found.estimate) < 0.01
    assert found.worst_scenario == "up"
    assert found.worst_estimate == pytest.approx(0.08, abs=0.02)


def test_what_cannot_be_compared_is_not_pooled() -> None:
    rows = [not_comparable("a", "client_latency", "no runs", (0, 0))]
    assert pool(rows, LIMITS) == ()
    rng = np.random.default_rng(4)
    coarse = compared(rng, "b", bucket_width=0.5, shift=5.0)
    assert coarse.verdict.verdict == "regression"
    assert pool([coarse], LIMITS) == ()


def test_pooled_intervals_cover_the_truth() -> None:
    rng, tries = np.random.default_rng(5), 400
    covered = 0
    for _ in range(tries):
        cvs = 0.03 * np.exp(0.6 * rng.standard_normal(4))
        (found,) = pool([memory(rng, f"s{number}", cv) for number, cv in enumerate(cvs)], LIMITS)
        covered += found.low <= 0 <= found.high
    assert covered / tries == pytest.approx(0.95, abs=0.035)


def control(*rows: Comparison) -> NegativeControl:
    return judge_negative_control(rows, LIMITS)


def test_a_control_that_did_not_move_is_quiet() -> None:
    rng = np.random.default_rng(6)
    found = control(*[compared(rng, f"s{number}", NEGATIVE_CONTROL, run_cv=0.01) for number in range(4)])
    assert found.status == "quiet"
    assert found.low is not None
    assert found.low > -0.02


def test_a_control_that_regressed_in_one_scenario_moved() -> None:
    rng = np.random.default_rng(7)
    rows = [compared(rng, f"s{number}", NEGATIVE_CONTROL, shift=0.3 * (number == 2)) for number in range(4)]
    found = control(*rows)
    assert found.status == "moved"
    assert found.message.startswith("moved in 1 of 4 scenarios: upstream_latency at p")
    assert control(compared(rng, "s", NEGATIVE_CONTROL, shift=-0.3)).status == "moved"


def test_a_control_that_crept_everywhere_moved() -> None:
    rng = np.random.default_rng(8)
    rows = [compared(rng, f"s{number}", NEGATIVE_CONTROL, shift=0.05, run_cv=0.01) for number in range(8)]
    assert {row.verdict.verdict for row in rows} <= {"equivalent", "inconclusive"}
    found = control(*rows)
    assert found.status == "moved"
    assert "wholly beyond 2 %" in found.message


def test_a_noisy_control_cannot_tell() -> None:
    rng = np.random.default_rng(9)
    assert control(compared(rng, "s", NEGATIVE_CONTROL, run_cv=0.05)).status == "cannot tell"
    unknown = control(not_comparable("s", NEGATIVE_CONTROL, "no runs of 1.1", (5, 0)))
    assert (unknown.status, unknown.message) == ("cannot tell", "could not be compared: no runs of 1.1")


def test_a_control_that_was_not_asked_for_is_absent() -> None:
    assert control(not_comparable("s", NEGATIVE_CONTROL, "the plan names no source", (0, 0), absent=True)).status == (
        "absent"
    )

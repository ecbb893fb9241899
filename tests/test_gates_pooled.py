import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from perf_pipeline.gates.comparison import Comparison, not_comparable
from perf_pipeline.gates.evidence import NEGATIVE_CONTROL, LatencySample
from perf_pipeline.gates.findings import NegativeControl
from perf_pipeline.gates.log_change import compare_logs, measure
from perf_pipeline.gates.pooled import holm, judge_negative_control, pool
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


def test_scenarios_in_general_are_known_less_well_than_these() -> None:
    rng = np.random.default_rng(10)
    rows = [memory(rng, f"s{number}", 0.005, 0.04 * rng.standard_normal()) for number in range(8)]
    (found,) = pool(rows, LIMITS)
    estimates = np.log1p([(row.verdict.estimate or 0.0) for row in rows])
    interval = stats.ttest_1samp(estimates, 0.0).confidence_interval(0.95)
    assert (found.general_low, found.general_high) == (
        pytest.approx(math.expm1(interval.low)),
        pytest.approx(math.expm1(interval.high)),
    )
    assert found.general_low is not None
    assert found.general_high is not None
    assert found.general_low < found.low < found.high < found.general_high
    assert found.between_scenarios == pytest.approx(0.04, rel=0.5)


def test_the_interval_of_scenarios_in_general_covers_their_mean() -> None:
    rng, tries, covered = np.random.default_rng(11), 300, 0
    for _ in range(tries):
        rows = [memory(rng, f"s{number}", 0.02, 0.03 * rng.standard_normal()) for number in range(5)]
        (found,) = pool(rows, LIMITS)
        covered += bool((found.general_low or 0.0) <= 0 <= (found.general_high or 0.0))
    assert covered / tries == pytest.approx(0.95, abs=0.035)


def test_one_scenario_says_nothing_about_scenarios_in_general() -> None:
    (found,) = pool([memory(np.random.default_rng(12), "only", 0.02)], LIMITS)
    assert (found.general_low, found.general_high, found.between_scenarios) == (None, None, None)


def test_scenarios_that_do_not_differ_at_all_have_no_shorter_interval_in_general() -> None:
    rng = np.random.default_rng(13)
    one = memory(rng, "s0", 0.02)
    (found,) = pool([one, replace(one, verdict=replace(one.verdict, scenario="s1"))], LIMITS)
    assert (found.general_low, found.general_high) == (found.low, found.high)
    assert found.between_scenarios == 0


def test_which_scenario_changed_is_asked_of_all_at_once() -> None:
    rng = np.random.default_rng(14)
    rows = [memory(rng, f"s{number}", 0.01, 0.06 * (number == 3)) for number in range(10)]
    (found,) = pool(rows, LIMITS)
    assert [change.scenario for change in found.changed] == ["s3"]
    assert found.changed[0].p_value < 0.05
    assert found.changed[0].estimate == pytest.approx(0.06, abs=0.02)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    with patch("gc.collect"):  # which multipletests calls each time, and which takes longer the more tests ran before
        expected = multipletests(p_values, method="holm")[1]
    np.testing.assert_allclose(holm(np.array(p_values)), expected)


def test_holm_names_a_scenario_wrongly_in_at_most_five_campaigns_of_a_hundred() -> None:
    rng, tries = np.random.default_rng(15), 300
    wrong = 0
    for _ in range(tries):
        (found,) = pool([memory(rng, f"s{number}", 0.02) for number in range(6)], LIMITS)
        wrong += bool(found.changed)
    assert wrong / tries <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / tries)


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

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from perf_pipeline.gates import checks
from perf_pipeline.gates.environment import EnvironmentFindings
from perf_pipeline.gates.evidence import ClockOffset, LatencySample, Missing, RunEvidence
from perf_pipeline.gates.findings import RunCheck, RunValidity
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.run_validity import check_runs
from tests.simulated_runs import campaign, latency, number, policy, with_metric

SAME = EnvironmentFindings({}, {}, frozenset())
RNG = np.random.default_rng(20)


def sound_run() -> RunEvidence:
    return campaign(scenarios=["browse"], repeats=1)[0]


def judged(run: RunEvidence, limits: Policy | None = None, environments: EnvironmentFindings = SAME) -> RunValidity:
    return check_runs([run], environments, limits or policy())[0]


def check_of(found: RunValidity, name: str, metric: str | None = None) -> RunCheck:
    (check,) = [check for check in found.checks if check.check == name and check.metric == metric]
    return check


def test_a_sound_run_passes_every_check() -> None:
    found = judged(sound_run())
    assert (found.status, found.reason, found.dropped_metrics) == ("passed", "", ())
    assert {check.status for check in found.checks} == {"pass"}
    assert {check.consequence for check in found.checks} == {"none"}


SET_ASIDE: list[tuple[str, Callable[[RunEvidence], RunEvidence], str]] = [
    (checks.FINISHED, lambda run: replace(run, failure="k6 ended with 107"), "did not finish: k6 ended with 107"),
    (checks.ACHIEVED_RATE, lambda run: replace(run, achieved_rate_per_s=97.9), "reached 97.9 of 100 requests/s"),
    (checks.ACHIEVED_RATE, lambda run: replace(run, achieved_rate_per_s=102.1), "reached 102.1 of 100"),
    (checks.DROPPED_ITERATIONS, lambda run: replace(run, dropped_iterations=481), "481 of 24000 iterations"),
]


@pytest.mark.parametrize(("check", "spoil", "reason"), SET_ASIDE)
def test_a_run_that_did_not_meet_its_load_is_set_aside(
    check: str, spoil: Callable[[RunEvidence], RunEvidence], reason: str
) -> None:
    found = judged(spoil(sound_run()))
    assert found.status == "set aside"
    assert reason in found.reason
    assert check_of(found, check).status == "fail"
    assert check_of(found, check).consequence == "set aside"


@pytest.mark.parametrize(
    "change", [{"achieved_rate_per_s": 98.0}, {"achieved_rate_per_s": 102.0}, {"dropped_iterations": 480}]
)
def test_two_percent_is_still_within_two_percent(change: dict) -> None:
    assert judged(replace(sound_run(), **change)).status == "passed"


def test_what_was_not_measured_is_no_pass_and_does_what_the_policy_says() -> None:
    run = replace(
        sound_run(), achieved_rate_per_s=None, dropped_iterations=None, throttled_share=None, series_density={}
    )
    found = judged(run)
    unmeasured = {check.check for check in found.checks if check.status == "not measured"}
    assert unmeasured == {
        checks.ACHIEVED_RATE,
        checks.DROPPED_ITERATIONS,
        checks.THROTTLING,
        checks.SERIES_DENSITY,
    }
    assert check_of(found, checks.ACHIEVED_RATE).consequence == "set aside"
    assert check_of(found, checks.DROPPED_ITERATIONS).consequence == "none"
    assert found.reason == "the achieved rate was not measured"
    strict = judged(run, policy(run_validity__series_density__on_not_measured="drop metric"))
    assert "service_memory" in strict.dropped_metrics
    lenient = judged(run, policy(run_validity__achieved_rate__on_not_measured="keep"))
    assert lenient.status == "passed"


def test_throttling_costs_the_metrics_that_the_policy_names() -> None:
    run = replace(sound_run(), throttled_share=0.06)
    assert judged(run).dropped_metrics == ("service_latency", "service_p99")
    assert judged(run, policy("v2.18")).dropped_metrics == ("service_latency",)
    assert judged(run, policy("v2.18")).reason == "CPU throttled in 6 % of periods (limit 5 %)"
    assert judged(replace(run, throttled_share=0.05)).status == "passed"
    aside = policy(run_validity__throttling__on_fail="set aside", run_validity__throttling__drops=[])
    assert judged(run, aside).status == "set aside"


def test_memory_that_climbs_sets_the_run_aside() -> None:
    found = judged(with_metric(sound_run(), "service_memory", number(RNG, 2e8, drift_per_240_s=0.05)))
    assert found.status == "set aside"
    assert found.reason.startswith("service_memory is drifting: +")


def test_another_metric_that_drifts_is_left_out_alone() -> None:
    found = judged(with_metric(sound_run(), "client_latency", latency(RNG, drift_per_240_s=-0.06)))
    assert (found.status, found.dropped_metrics) == ("metric dropped", ("client_latency",))
    check = check_of(found, checks.DRIFT, "client_latency")
    assert check.value == pytest.approx(-0.06, abs=0.01)
    assert (check.limit, check.unit) == (0.02, "ratio per 240 s")


def test_a_drift_inside_the_zone_is_steady() -> None:
    found = judged(with_metric(sound_run(), "client_latency", latency(RNG, drift_per_240_s=0.01)))
    assert check_of(found, checks.DRIFT, "client_latency").status == "pass"


def test_a_short_hold_cannot_tell_and_is_not_invalid() -> None:
    short = latency(RNG, sub_windows=5, sub_window_s=1.0)
    found = judged(with_metric(sound_run(), "client_latency", short))
    check = check_of(found, checks.DRIFT, "client_latency")
    assert (check.status, check.consequence, found.status) == ("cannot tell", "none", "passed")
    assert "5 sub-windows of 1 s" in check.message


def test_a_wobble_of_a_short_hold_is_no_drift() -> None:
    """A 12 s hold that moves by 0.5 % extrapolates to 10 % per 4 min, and still has moved by 0.5 %."""
    steady = latency(RNG, sub_windows=12, sub_window_s=1.0)
    wobble = replace(steady, levels=2.0 + np.linspace(0, 0.005, 12))
    climb = replace(steady, levels=2.0 + np.linspace(0, 0.03, 12))
    assert check_of(judged(with_metric(sound_run(), "client_latency", wobble)), "drift", "client_latency").status == (
        "cannot tell"
    )
    assert judged(with_metric(sound_run(), "client_latency", climb)).dropped_metrics == ("client_latency",)


def test_levels_that_are_not_there_are_not_measured() -> None:
    empty = replace(latency(RNG), levels=np.full(24, np.nan))
    found = judged(with_metric(sound_run(), "client_latency", empty))
    assert check_of(found, checks.DRIFT, "client_latency").status == "not measured"
    zeros = replace(number(RNG, 2e8), levels=np.zeros(24))
    found = judged(with_metric(sound_run(), "service_memory", zeros))
    assert check_of(found, checks.DRIFT, "service_memory").status == "not measured"


def test_a_series_with_holes_costs_its_metric() -> None:
    found = judged(replace(sound_run(), series_density={"service_memory": 0.89, "service_latency": 0.9}))
    assert found.dropped_metrics == ("service_memory",)
    assert "89 % of the scrapes of service_memory" in found.reason


def test_a_missing_metric_is_dropped_and_an_absent_one_was_never_asked_for() -> None:
    run = with_metric(sound_run(), "service_memory", Missing("the gauge is not in series.csv.gz"))
    found = judged(run)
    assert found.dropped_metrics == ("service_memory",)
    assert found.reason == "service_memory is missing: the gauge is not in series.csv.gz"
    assert not [check for check in found.checks if check.metric == "graphql_error_rate"]


def test_coarse_buckets_are_on_record_and_leave_the_metric_in() -> None:
    run = sound_run()
    coarse = replace(run.metrics["service_latency"], log_bucket_width=np.full(21, 0.7))
    found = judged(with_metric(run, "service_latency", coarse))
    check = check_of(found, checks.RESOLUTION, "service_latency")
    assert (check.status, check.consequence, found.status) == ("fail", "none", "passed")
    assert check.value == pytest.approx(np.expm1(0.7))
    open_ended = replace(coarse, log_bucket_width=np.full(21, np.inf))
    check = check_of(judged(with_metric(run, "service_latency", open_ended)), "histogram resolution", "service_latency")
    assert check.value is None
    assert "without an upper edge" in check.message


def test_where_a_run_ran_is_checked_against_the_others() -> None:
    run = sound_run()
    deviating = EnvironmentFindings({run.run_id: "environment differs in kernel"}, {}, frozenset())
    assert judged(run, environments=deviating).status == "set aside"
    apart = EnvironmentFindings({}, {"browse": "the sides ran in different environments"}, frozenset())
    check = check_of(judged(run, environments=apart), checks.ENVIRONMENT)
    assert (check.status, check.consequence) == ("fail", "none")
    unknown = EnvironmentFindings({}, {}, frozenset({run.run_id}))
    assert check_of(judged(run, environments=unknown), checks.ENVIRONMENT).status == "not measured"
    strict = policy(run_validity__environment__on_not_measured="set aside")
    assert judged(run, strict, unknown).status == "set aside"


def test_an_environment_that_leaves_out_what_is_expected_is_not_known() -> None:
    run = replace(sound_run(), environment={"cpu_model": "model A"})
    check = check_of(judged(run), checks.ENVIRONMENT)
    assert (check.status, check.consequence) == ("not measured", "none")
    assert "does not say kernel, k6" in check.message


def test_a_process_that_started_again_sets_the_run_aside() -> None:
    found = judged(replace(sound_run(), counter_resets={"service": 1, "upstream": 0}))
    assert (found.status, found.reason) == ("set aside", "counters of service went back in the hold: started again")
    unmeasured = judged(replace(sound_run(), counter_resets={}))
    assert check_of(unmeasured, checks.RESTARTS).status == "not measured"
    assert unmeasured.status == "passed"


@pytest.mark.parametrize(
    ("offset", "status"),
    [
        (ClockOffset(1.0, 0.0, 2.0), "pass"),
        (ClockOffset(4.0, 3.0, 5.0), "cannot tell"),
        (ClockOffset(6.0, 5.0, 7.0), "fail"),
        (ClockOffset(-60.0, -61.0, -59.0), "fail"),
    ],
)
def test_clocks_that_do_not_agree_cost_what_is_read_from_series(offset: ClockOffset, status: str) -> None:
    """2 % of a hold of 240 s are 4.8 s."""
    found = judged(replace(sound_run(), clock_offset=offset))
    assert {check.status for check in found.checks if check.check == checks.CLOCK} == {status}
    from_series = ("service_latency", "service_p99", "service_memory", "upstream_latency")
    assert found.dropped_metrics == (from_series if status == "fail" else ())


def test_a_clock_that_nobody_compared_is_not_measured() -> None:
    run = replace(sound_run(), clock_offset=None, not_measured={"clock": "no series were scraped"})
    found = judged(run)
    check = check_of(found, checks.CLOCK)
    assert (check.status, found.status) == ("not measured", "passed")
    assert check.message == "whether the series and k6 agree on the time was not measured: no series were scraped"


def test_one_name_for_two_builds_sets_the_rarer_aside() -> None:
    runs = [replace(run, service_digest="b" if run.repeat == 2 else "a") for run in campaign(scenarios=["browse"])]
    aside = {run.run_id: run.reason for run in check_runs(runs, SAME, policy()) if run.status == "set aside"}
    reason = "tested another build (b) than the version's other runs (a)"
    assert aside == {"1.0-browse-r02": reason, "1.1-browse-r02": reason}
    unsaid = judged(replace(sound_run(), service_digest=None))
    assert (check_of(unsaid, checks.BUILD).status, unsaid.status) == ("not measured", "passed")


def test_seconds_without_a_request_cost_the_latency_of_clients() -> None:
    run = sound_run()
    found = judged(replace(run, series_density={**run.series_density, "client_latency": 0.8}))
    assert found.dropped_metrics == ("client_latency",)
    assert found.reason == "80 % of the seconds with requests of client_latency are there (limit 90 %)"


def stepping(size: float, noise: float = 0.002) -> np.ndarray:
    return 2.0 + noise * np.random.default_rng(6).standard_normal(240) + size * (np.arange(240) >= 100)


def test_a_step_has_three_answers() -> None:
    run = sound_run()

    def found(levels: np.ndarray) -> RunValidity:
        return judged(with_metric(run, "client_latency", replace(latency(RNG), levels=levels, sub_window_s=1.0)))

    failed = found(stepping(0.08))
    assert (failed.status, failed.dropped_metrics) == ("metric dropped", ("client_latency",))
    check = check_of(failed, checks.STEPS, "client_latency")
    assert check.value == pytest.approx(np.expm1(0.08), abs=0.01)
    assert "100 s into the hold" in check.message
    assert check_of(found(stepping(0.0)), checks.STEPS, "client_latency").status == "pass"
    unclear = check_of(found(stepping(0.0, noise=0.2)), checks.STEPS, "client_latency")
    assert (unclear.status, unclear.consequence) == ("cannot tell", "none")
    few = judged(with_metric(run, "client_latency", latency(RNG, sub_windows=5, sub_window_s=1.0)))
    assert "cannot be told from 5 sub-windows" in check_of(few, checks.STEPS, "client_latency").message


def test_memory_is_a_staircase_and_keeps_its_run() -> None:
    stairs = replace(number(RNG, 2e8), levels=np.exp(18.0 + stepping(0.08)), sub_window_s=1.0)
    found = judged(with_metric(sound_run(), "service_memory", stairs))
    check = check_of(found, checks.STEPS, "service_memory")
    assert (check.status, check.consequence) == ("fail", "none")
    in_the_article = judged(with_metric(sound_run(), "service_memory", stairs), policy("v2.18"))
    assert check_of(in_the_article, checks.STEPS, "service_memory").consequence == "none"


def test_the_percentiles_with_buckets_wider_than_the_zone_are_named() -> None:
    run = sound_run()
    widths = np.where(np.arange(21) >= 20, 0.3, 0.01)
    coarse = replace(run.metrics["service_latency"], log_bucket_width=widths)
    check = check_of(judged(with_metric(run, "service_latency", coarse)), checks.RESOLUTION, "service_latency")
    assert check.message.endswith("35 % wide, wider than the zone at p99 of 21 percentiles")


def test_a_copy_is_no_repeat() -> None:
    run = sound_run()
    copy = replace(run, run_id="1.0-browse-r02", repeat=2)
    original, copied = check_runs([run, copy], SAME, policy())
    assert original.status == "passed"
    assert (copied.status, copied.reason) == (
        "set aside",
        "holds the measurements of 1.0-browse-r01: a copy is no repeat",
    )


def test_a_run_that_is_set_aside_gives_the_reasons_that_did_it() -> None:
    run = replace(sound_run(), failure="the service died", achieved_rate_per_s=50.0, throttled_share=0.5)
    found = judged(run)
    assert found.reason == "did not finish: the service died; reached 50 of 100 requests/s (-50.0 %; limit 2 %)"
    assert found.dropped_metrics == ("service_latency", "service_p99")


def test_samples_of_distributions_are_what_the_helper_says() -> None:
    assert isinstance(sound_run().metrics["client_latency"], LatencySample)

from dataclasses import replace

from perf_pipeline.gates import checks
from perf_pipeline.gates.comparison import FINER_BUCKETS, FOR_PAIRS, not_comparable
from perf_pipeline.gates.decision import decide
from perf_pipeline.gates.findings import (
    Agreement,
    Decision,
    NegativeControl,
    RunCheck,
    RunValidity,
    Verdict,
    VerdictName,
)
from tests.simulated_runs import policy

QUIET = NegativeControl("upstream_latency", "quiet", 0.0, -0.01, 0.01, "quiet: its median changed by 0.0 %")


def verdict(
    name: VerdictName,
    metric: str = "client_latency",
    scenario: str = "browse",
    low: float = 0.0,
    high: float = 0.0,
    repeats: int | None = None,
    absent: bool = False,
) -> Verdict:
    if name == "not comparable":
        return not_comparable(scenario, metric, f"no runs in {scenario}", (0, 0), absent=absent).verdict
    return Verdict(
        scenario=scenario, metric=metric, verdict=name, reason=f"reason in {scenario}", estimate=(low + high) / 2,
        low=low, high=high, zone_low=-0.09, zone_high=0.10, smallest_detectable=0.15, repeats_to_settle=repeats,
        deciding_percentile=95.0, percentiles=(), baseline_value=10.0, candidate_value=10.0, unit="ms",
        baseline_repeats=5, candidate_repeats=5, df=8.0,
    )  # fmt: skip


def decided(*verdicts: Verdict, runs: tuple[RunValidity, ...] = (), control: NegativeControl = QUIET) -> Decision:
    return decide("1.0", "1.1", verdicts, runs, (), control, policy())


def test_the_headline_names_the_change_that_lies_most_zones_away() -> None:
    found = decided(
        verdict("regression", "client_latency", "a", 0.12, 0.2),
        verdict("regression", "service_latency", "b", 0.50, 0.7),
        verdict("equivalent", "service_p99", "a"),
    )
    assert found.headline == (
        "1.1 is worse than 1.0: service_latency at p95 in b +60.0 % (+50.0 % to +70.0 %); 2 of 3 comparisons regressed."
    )
    assert found.exit_code == 1


def test_half_of_the_comparisons_answered_is_enough_by_default() -> None:
    enough = decided(verdict("equivalent", scenario="a"), verdict("inconclusive", scenario="b", low=-0.1, high=0.3))
    assert (
        enough.headline
        == "No regression found in 1.1 against 1.0: of 2 comparisons 1 is equivalent, 1 is inconclusive."
    )
    short = decided(
        verdict("equivalent", scenario="a"),
        verdict("inconclusive", scenario="b"),
        verdict("not comparable", scenario="c"),
    )
    assert short.answer == "not enough evidence"


def test_absent_metrics_are_not_counted_and_are_not_known() -> None:
    found = decided(verdict("equivalent"), verdict("not comparable", "graphql_error_rate", absent=True))
    assert found.answer == "no regression"
    assert "graphql_error_rate: no runs in browse." in found.not_known


def test_what_would_settle_several_is_one_sentence() -> None:
    found = decided(
        verdict("inconclusive", scenario="a", repeats=7),
        verdict("inconclusive", scenario="b", repeats=12),
        verdict("inconclusive", scenario="c"),
    )
    assert found.not_known[0] == (
        "client_latency is inconclusive in 3 of 3 scenarios: about 12 repeats per version would settle 2 of them, "
        "and no practical number the other one if estimates and noise stay as they are."
    )
    alone = decided(verdict("inconclusive", scenario="a", repeats=7), verdict("equivalent", scenario="b"))
    assert alone.not_known[0] == (
        "client_latency is inconclusive in a (1 of 2 scenarios): about 7 repeats per version would settle it if "
        "estimate and noise stay as they are."
    )
    never = decided(verdict("inconclusive", scenario="a"), verdict("inconclusive", scenario="b"))
    assert "no practical number of repeats would settle them" in never.not_known[0]


def test_without_a_control_nobody_knows_whether_a_side_was_favoured() -> None:
    absent = NegativeControl("upstream_latency", "absent", None, None, None, "there is no negative control")
    assert decided(verdict("equivalent"), control=absent).not_known == (
        "Whether the environment favoured a side: there is no negative control.",
    )
    unsure = NegativeControl("upstream_latency", "cannot tell", None, None, None, "may have moved: so it may")
    assert decided(verdict("equivalent"), control=unsure).not_known == (
        "The negative control upstream_latency may have moved.",
    )


def test_runs_are_counted_by_what_gate_1_did_to_them() -> None:
    runs = tuple(
        RunValidity(f"r{number}", "1.0", "browse", number, status, "", (), ())  # type: ignore[arg-type]
        for number, status in enumerate(["passed", "passed", "metric dropped", "set aside"])
    )
    assert decided(verdict("equivalent"), runs=runs).known[-1] == (
        "Of 4 runs 2 passed Gate 1, 1 lost a metric and 1 were set aside."
    )


def disagreement(version: str, scenario: str = "b", metric: str = "client_latency") -> Agreement:
    return Agreement(
        version, scenario, metric, "disagree", "log Wasserstein distance", 0.5, 0.1, 5, 0.01, None, "apart"
    )


def answered(*verdicts: Verdict, agreement: tuple[Agreement, ...] = ()) -> Decision:
    """With nine comparisons beside them that are equivalent."""
    others = [verdict("equivalent", scenario=f"other-{number}") for number in range(9)]
    return decide("1.0", "1.1", [*others, *verdicts], (), (), QUIET, policy(), agreement=agreement)


def test_a_candidate_that_left_nothing_to_compare_is_outvoted_by_no_number_of_answers() -> None:
    lost = replace(verdict("not comparable", scenario="b"), baseline_repeats=5, candidate_repeats=0)
    found = answered(lost)
    assert found.answer == "not enough evidence"
    assert "1.1 has too few usable runs, and 1.0 enough, in b (client_latency)" in found.headline
    assert found.not_known[0] == (
        "What is missing may be what changed: 1.1 alone has too few usable runs in 1 comparison."
    )
    assert answered(replace(lost, baseline_repeats=0)).answer == "no regression", "both sides lost theirs: the lab"


def test_a_candidate_whose_repeats_alone_disagree_is_no_candidate_without_regression() -> None:
    apart = replace(verdict("not comparable", scenario="b"), baseline_repeats=5, candidate_repeats=5)
    found = answered(apart, agreement=(disagreement("1.1"),))
    assert found.answer == "not enough evidence"
    assert "repeats of 1.1 disagree, and those of 1.0 do not, in b (client_latency)" in found.headline
    both = (disagreement("1.1"), disagreement("1.0"))
    assert answered(apart, agreement=both).answer == "no regression", "both sides disagree: the lab"
    assert answered(apart, agreement=(disagreement("1.0"),)).answer == "no regression"


def test_an_interval_wholly_beyond_the_zone_is_never_green() -> None:
    found = answered(verdict("inconclusive", scenario="b", low=0.11, high=0.5))
    assert found.answer == "not enough evidence"
    assert "an interval lies wholly beyond the zone" in found.headline
    assert answered(verdict("inconclusive", scenario="b", low=0.09, high=0.5)).answer == "no regression"


def test_many_places_are_named_shortly() -> None:
    lost = [
        replace(verdict("not comparable", scenario=f"s{n}"), baseline_repeats=5, candidate_repeats=1) for n in range(5)
    ]
    assert "in s0 (client_latency), s1 (client_latency), s2 (client_latency) and 2 more" in answered(*lost).headline


def test_why_runs_were_set_aside_comes_before_what_follows_from_it() -> None:
    def lost(number: int, *names: str) -> RunValidity:
        checks = tuple(RunCheck(name, None, "fail", None, None, "", "m", "set aside") for name in names)
        return RunValidity(f"r{number}", "1.0", "browse", number, "set aside", "m", (), checks)

    busy = [lost(number, "achieved rate", "dropped iterations") for number in range(8)]
    passed = [RunValidity(f"p{number}", "1.1", "browse", number, "passed", "", (), ()) for number in range(11)]
    found = decided(verdict("inconclusive"), runs=(lost(9, "finished", "achieved rate"), *busy, *passed))
    assert found.not_known[0] == (
        "9 of 20 runs were set aside, 8 of them because the load generator could not start its requests in time, as "
        "the machine was busy or the service too slow: measure on a quiet machine or at a lower rate."
    )
    assert "did not come to its end" in decided(verdict("inconclusive"), runs=(lost(9, "finished"),)).not_known[0]
    assert "found fault with odd check" in decided(verdict("inconclusive"), runs=(lost(9, "odd check"),)).not_known[0]
    assert decided(verdict("equivalent"), runs=tuple(busy)).not_known == ()


def test_repeats_that_disagree_are_one_clause_without_numbers() -> None:
    def apart(metric: str, *versions: str) -> Verdict:
        reason = "; ".join(
            f"repeats of {version} disagree: repeats lie 122 % apart (limit 4.2 %); r05 stands apart"
            for version in versions
        )
        return not_comparable("browse", metric, reason, (5, 5)).verdict

    both = decided(apart("client_latency", "1.0", "1.1"), apart("service_latency", "1.1"), verdict("equivalent"))
    assert both.not_known == (
        "service_latency could not be compared in 1 of 1 scenario: repeats of 1.1 disagree, so the lab, or 1.1 itself, "
        "is not the same from run to run.",
        "client_latency could not be compared in browse (1 of 2 scenarios): repeats of 1.0 and 1.1 disagree, so the "
        "lab, or the service itself, is not the same from run to run.",
    ), "one side that is apart more often is not put down to the lab by the other's single one"
    (alone,) = decided(apart("client_latency", "1.1")).not_known
    assert alone.endswith("repeats of 1.1 disagree, so the lab, or 1.1 itself, is not the same from run to run.")


def test_why_runs_lost_metrics_is_said_where_these_are_missing() -> None:
    def without(number: int, metric: str, name: str) -> RunValidity:
        check = RunCheck(name, metric, "fail", None, None, "", "m", "drop metric")
        return RunValidity(f"r{number}", "1.0", "browse", number, "metric dropped", "m", (metric,), (check,))

    reason = "1.0 has 0 usable of 5 runs, 3 are needed"
    missing = [not_comparable("browse", metric, reason, (0, 0), open_to_repeats=True).verdict
               for metric in ("service_latency", "service_p99")]  # fmt: skip
    throttled = [without(number, "service_p99", checks.THROTTLING) for number in range(6)]
    found = decided(*missing, runs=(*throttled, without(7, "service_memory", checks.DRIFT)))
    assert found.not_known == (
        "6 of 7 runs lost metrics because the CPU of the service was throttled: give it more.",
        "service_latency, service_p99 could not be compared (2 of 2 comparisons): too few usable runs are left.",
    )
    crashed = RunCheck(checks.FINISHED, None, "fail", None, None, "", "m", "set aside")
    aside = RunValidity("r9", "1.0", "browse", 9, "set aside", "m", (), (crashed,))
    both = decided(*missing, runs=(*throttled, aside)).not_known
    assert [question.split(" because")[0] for question in both[:2]] == [
        "6 of 7 runs lost metrics",
        "1 of 7 runs was set aside",
    ], "what cost most comes first"


def test_blocks_that_are_too_few_are_no_runs_that_are_too_few() -> None:
    blocks = [f"{number} blocks with a usable run of each version, 3 {FOR_PAIRS}" for number in (1, 2)]
    missing = [not_comparable("browse", metric, reason, (5, 5), open_to_repeats=True).verdict
               for metric, reason in zip(("client_latency", "service_p99"), blocks, strict=True)]  # fmt: skip
    (said,) = decided(*missing).not_known
    assert said.endswith(f"in browse 1 blocks with a usable run of each version, 3 {FOR_PAIRS}.")


def test_buckets_that_are_too_wide_ask_for_no_more_repeats() -> None:
    coarse = replace(verdict("inconclusive"), reason=f"inside the zone but for what cannot be seen; {FINER_BUCKETS}")
    noisy = replace(verdict("inconclusive", scenario="b"), repeats_to_settle=9)
    assert decided(coarse, noisy).not_known == (
        "client_latency is inconclusive in browse (1 of 2 scenarios): finer histogram buckets would settle it, more "
        "repeats would not.",
        "client_latency is inconclusive in b (1 of 2 scenarios): about 9 repeats per version would settle it if "
        "estimate and noise stay as they are.",
    )

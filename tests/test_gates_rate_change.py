import pytest

from perf_pipeline.gates.comparison import Standing
from perf_pipeline.gates.evidence import ErrorSample
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.looks import Look
from perf_pipeline.gates.rate_change import compare_rates
from tests.simulated_runs import policy


def compare(baseline: list[int], candidate: list[int], requests: int = 20_000, zone: float = 0.001) -> Verdict:
    zones = policy().change.zone | {"http_error_rate": zone}
    sides = [[ErrorSample(count, requests) for count in counts] for counts in (baseline, candidate)]
    return compare_rates("browse", "http_error_rate", *sides, policy(change__zone=zones)).verdict


def test_no_errors_in_enough_requests_are_equivalent() -> None:
    verdict = compare([0] * 5, [0] * 5)
    assert verdict.verdict == "equivalent"
    assert "from 0 errors in 100000 requests against 0 in 100000" in verdict.reason
    assert "no error in 100000 requests means a rate below 0.003 % (3 / n)" in verdict.reason
    assert (verdict.estimate, verdict.unit, verdict.df) == (0, "share", None)


def test_no_errors_in_too_few_requests_prove_nothing() -> None:
    """3.7 / n must be below the zone: 3,700 requests a side for 0.1 points."""
    verdict = compare([0] * 5, [0] * 5, requests=700)
    assert verdict.verdict == "inconclusive"
    assert verdict.repeats_to_settle == 6
    assert compare([0] * 6, [0] * 6, requests=700).verdict == "equivalent"


def test_new_errors_are_a_regression_even_from_zero() -> None:
    """Peers with relative rules pass a rise from a baseline of zero."""
    verdict = compare([0] * 5, [100, 120, 90, 110, 95])
    assert verdict.verdict == "regression"
    assert verdict.baseline_value == 0
    assert (verdict.zone_low, verdict.zone_high) == (-0.001, 0.001)


def test_errors_that_are_gone_are_an_improvement() -> None:
    assert compare([100, 120, 90, 110, 95], [0] * 5).verdict == "improvement"


def test_one_outage_in_five_runs_is_no_certain_regression() -> None:
    verdict = compare([0] * 5, [0, 0, 0, 0, 2000])
    assert verdict.verdict == "inconclusive"
    assert (verdict.repeats_to_settle or 0) > 20


def test_the_detectable_increase_lies_beyond_the_zone_and_shrinks_with_requests() -> None:
    few, many = compare([0] * 5, [0] * 5, requests=2_000), compare([0] * 5, [0] * 5, requests=200_000)
    assert 0.001 < (many.smallest_detectable or 0) < (few.smallest_detectable or 0)
    assert many.smallest_detectable == pytest.approx(0.0011, abs=0.0001)


def test_a_look_spends_a_part_of_what_a_single_one_has() -> None:
    counts = [[ErrorSample(count, 20_000) for count in side] for side in ((20, 25, 14, 18, 22), (19, 23, 17, 25, 20))]
    once = compare_rates("browse", "http_error_rate", counts[0], counts[1], policy()).verdict
    first = compare_rates(
        "browse", "http_error_rate", counts[0], counts[1], policy(), Standing(look=Look(1, 0.01))
    ).verdict
    assert (first.look, first.tail, once.look) == (1, 0.01, None)
    assert (first.low or 0) < (once.low or 0) < (once.high or 0) < (first.high or 0)
    assert first.open_to_repeats == (first.verdict == "inconclusive")

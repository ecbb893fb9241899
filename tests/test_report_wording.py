"""The words and numbers that every form of the report shares."""

from dataclasses import replace

import pytest

from perf_pipeline.gates.evidence import METRICS
from perf_pipeline.report import wording
from tests.report_judgements import distribution, error_rate, not_comparable, number, regression, smooth_step


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.1834, 1, "+18.3"),
        (-0.09, 1, "−9.0"),
        (0.00001, 1, "0.0"),
        (-0.0004, 1, "0.0"),
        (None, 1, "–"),
        (1e9, 1, "+1.0e+11"),
    ],
)
def test_changes_carry_their_sign_and_zero_has_none(value: float | None, decimals: int, text: str) -> None:
    assert wording.signed(value, decimals) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1.7e308])
def test_what_is_not_finite_is_unknown(value: float) -> None:
    assert wording.signed(value, 1) == wording.UNKNOWN
    assert wording.change("client_latency", value) == wording.UNKNOWN


def test_error_rates_change_by_points_and_all_else_by_percent() -> None:
    assert wording.change("http_error_rate", 0.00012) == "+0.012 points"
    assert wording.change("service_memory", 0.012) == "+1.2 %"
    assert wording.zone("http_error_rate", -0.0005, 0.0005) == "±0.05 points"
    assert wording.zone("client_latency", 1 / 1.1 - 1, 0.1) == "−9.1 % to +10 %"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12.345, "ms", "12.3 ms"),
        (0.5, "ms", "0.500 ms"),
        (123_456.0, "ms", "123,456 ms"),
        (61.3 * 2**20, "bytes", "61.3 MiB"),
        (512, "bytes", "512 bytes"),
        (0.00123, "ratio", "0.123 %"),
        (None, "ms", "–"),
        (0.0, "ms", "0 ms"),
    ],
)
def test_values_are_written_to_three_digits_with_their_unit(value: float | None, unit: str, text: str) -> None:
    assert wording.quantity(value, unit) == text


def test_decimals_grow_until_the_side_of_the_edge_shows() -> None:
    verdict = replace(regression().verdicts[3], low=-0.01, high=0.04996, zone_high=0.05)
    assert wording.change_text(verdict).interval == "[−1.000, +4.996]"


def test_decimals_stay_where_the_side_shows_anyway() -> None:
    verdict = number("browse", "service_memory", 1.0, 0.004, 0.008, "bytes")
    assert wording.change_text(verdict).interval == "[−1.4, +2.3]"


def test_a_regression_says_by_how_much_and_where() -> None:
    verdict = distribution("browse", "client_latency", 4.0, lambda p: 0.21 * smooth_step(p, 35, 80), 0.011)
    text = wording.finding(verdict)
    assert text == "Slower: +21.1 % [+16.8, +25.6] at p80; beyond the zone at p65 to p99."


def test_percentiles_beyond_the_zone_are_told_as_ranges() -> None:
    verdict = distribution("s", "client_latency", 4.0, lambda p: 0.3 if p in (5.0, 50.0, 55.0, 60.0) else 0.0, 0.002)
    assert "beyond the zone at p5 and p50 to p60" in wording.finding(verdict)


def test_an_open_question_names_what_it_may_be_and_the_edge_it_crosses() -> None:
    high = number("s", "service_p99", 10.0, 0.03, 0.02, "ms")
    assert wording.finding(high) == "Somewhere between −1.6 % and +7.9 %; the zone ends at +5 %."
    wide = number("s", "service_p99", 10.0, 0.0, 0.09, "ms")
    assert wording.finding(wide).endswith("the zone ends at −4.8 % and +5 %.")


def test_memory_grows_and_errors_become_more() -> None:
    assert wording.finding(number("s", "service_memory", 1.0, 0.2, 0.004, "bytes")).startswith("More: +20.0 %")
    assert wording.finding(error_rate("s", "http_error_rate", 0.01, -0.005, 0.0001)).startswith("Fewer: −0.500 points")


def test_what_it_would_take_belongs_to_the_inconclusive_only() -> None:
    open_question = number("s", "service_p99", 10.0, 0.03, 0.02, "ms")
    assert wording.what_it_would_take(replace(open_question, repeats_to_settle=12)).startswith(
        "About 12 repeats per version"
    )
    assert (
        wording.what_it_would_take(replace(open_question, repeats_to_settle=None))
        == "More repeats alone would not settle it."
    )
    assert wording.what_it_would_take(replace(open_question, verdict="equivalent")) == ""


def test_not_comparable_is_told_by_its_reason() -> None:
    verdict = not_comparable(regression().verdicts[0], "repeats of client_latency differ by -3.0 %")
    assert wording.finding(verdict) == "Repeats of client latency differ by −3.0 %."


def test_prose_touches_neither_names_nor_commands() -> None:
    text = "run 1.1.0-browse-r02 of rc-1 fell by -4.1 %, see http_error_rate and --limit -5"
    assert wording.prose(text) == "run 1.1.0-browse-r02 of rc-1 fell by −4.1 %, see HTTP error rate and --limit -5"


def test_parts_of_sentences_become_sentences() -> None:
    assert wording.sentence("service_p99 varies by 4.1 %") == "Service p99 varies by 4.1 %."
    assert wording.sentence("Done.") == "Done."
    assert wording.sentence("") == ""
    control = replace(regression().negative_control, status="quiet", message="quiet: its median changed by -0.1 %")
    assert wording.control_sentence(control) == "Its median changed by −0.1 %."


def test_every_metric_and_verdict_has_its_words() -> None:
    assert all("_" not in wording.metric_label(metric) for metric in METRICS)
    assert set(wording.GLYPHS) == set(wording.MEANINGS)
    assert len(set(wording.GLYPHS.values())) == len(wording.GLYPHS)

import math

import pytest

from perf_pipeline.gates import wording


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("client_latency", 0.0314, "+3.1 %"),
        ("client_latency", -0.2, "-20.0 %"),
        ("client_latency", 0.0001, "0.0 %"),
        ("client_latency", math.inf, "+inf %"),
        ("client_latency", 1e40, "+1.0e+42 %"),
        ("http_error_rate", 0.0008, "+0.08 points"),
        ("http_error_rate", -3.7e-6, "-0.00037 points"),
        ("http_error_rate", 0.0, "0.0 points"),
    ],
)
def test_a_change_has_a_sign_and_never_more_digits_than_it_can_bear(metric: str, value: float, expected: str) -> None:
    assert wording.change(metric, value) == expected


def test_limits_have_no_sign_and_no_empty_decimal() -> None:
    assert wording.size("client_latency", -0.10) == "10 %"
    assert wording.size("http_error_rate", 0.001) == "0.1 points"
    assert wording.share(0.025) == "2.5 %"
    assert wording.share(0.000037) == "0.0037 %"


def test_lists_stay_short() -> None:
    assert wording.named("abc") == "a, b, c"
    assert wording.named("abcde", most=2) == "a, b and 3 more"
    assert wording.counted(1, "run") == "1 run"
    assert wording.counted(0, "run") == "0 runs"


def test_a_percentile_is_named_where_there_is_one() -> None:
    assert wording.at_percentile(97.5) == " at p97.5"
    assert wording.at_percentile(None) == ""

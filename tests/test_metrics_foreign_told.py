"""What a command line tells of results: every mistake at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.metrics.foreign.told import Told, parse_seconds, parse_told


def test_rates_are_told_for_all_or_by_scenario() -> None:
    told = parse_told(["500", "cart=50", "ycsb/READ=20"], warmup="30s", hold="2m30s", unit="us")
    assert told == Told({"": 500, "cart": 50, "ycsb/READ": 20}, 30, 150, "us")
    assert told.rate_per_s("browse") == 500
    assert told.rate_per_s("cart") == 50


def test_a_rate_of_the_whole_load_says_nothing_of_one_tag() -> None:
    told = parse_told(["500", "ycsb/READ=20"])
    assert told.rate_per_s("ycsb/READ") == 20
    assert told.rate_per_s("ycsb/UPDATE") is None


def test_nothing_told_is_not_zero() -> None:
    told = parse_told()
    assert told.warmup_s is None and told.hold_s is None and told.rate_per_s("browse") is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("1.5", 1.5), ("30s", 30), ("2m30s", 150), ("1h", 3600), ("500ms", 0.5), ("0", 0)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-3", "3 s", "1d", "30s!", "nan", "1e3"])
def test_what_is_no_length_of_time(text: str) -> None:
    assert parse_seconds(text) is None


@given(st.text(max_size=12))
def test_no_text_ends_in_an_error(text: str) -> None:
    seconds = parse_seconds(text)
    assert seconds is None or seconds >= 0


def test_every_mistake_comes_at_once() -> None:
    with pytest.raises(InputError) as raised:
        parse_told(["fast", "=3", "5", "6", "0"], warmup="soon", hold="0", unit="min")
    assert [problem.where for problem in raised.value.problems] == ["--rate"] * 4 + ["--warmup", "--hold", "--unit"]
    assert "is given twice" in str(raised.value)

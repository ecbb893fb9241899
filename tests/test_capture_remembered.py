import pytest

from perf_pipeline.capture import remembered
from perf_pipeline.capture.remembered import Remembered


def test_a_function_is_asked_once_for_a_short_key_and_always_for_a_long_one() -> None:
    asked: list[bytes] = []
    lengths = Remembered(lambda key: asked.append(key) or len(key))
    long = b"x" * (remembered.KEY_LENGTH_MAX + 1)
    assert [lengths[key] for key in (b"a", b"a", long, long)] == [1, 1, len(long), len(long)]
    assert asked == [b"a", long, long]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "ENTRIES_MAX", 3)
    lengths = Remembered(len)
    for number in range(10):
        assert lengths[b"x" * number] == number
        assert len(lengths) <= 3

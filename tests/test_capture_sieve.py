import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.sieve import ACCEPTED, REJECTED, AcceptedLine, Sieve
from tests.access_log_lines import LOG_LINE, USER, capture_section, line, numbered


def text_of(lines: list[bytes]) -> pa.Buffer:
    return pa.py_buffer(b"".join(each + b"\n" for each in lines))


def rows_of(accepted: pa.Table) -> dict[int, AcceptedLine]:
    return {row.pop("line"): AcceptedLine(**row) for row in accepted.to_pylist()}


@settings(max_examples=150, deadline=None)
@given(st.lists(LOG_LINE, max_size=30))
def test_sift_says_of_all_lines_what_sift_line_says_of_each(lines: list[bytes]) -> None:
    sifted = Sieve(capture_section()).sift(text_of(lines))
    one_by_one = {number: Sieve(capture_section()).sift_line(each) for number, each in enumerate(lines)}
    assert rows_of(sifted.accepted) == {
        number: row for number, row in one_by_one.items() if isinstance(row, AcceptedLine)
    }
    assert sifted.rejected.to_pylist() == [
        {"line": number, "reason": str(reason), "raw": lines[number]}
        for number, reason in one_by_one.items()
        if isinstance(reason, Reason)
    ]
    assert sifted.read == len(lines) == len(sifted.accepted) + len(sifted.rejected)
    assert sifted.accepted.schema.equals(ACCEPTED)
    assert sifted.rejected.schema.equals(REJECTED)


def test_most_lines_are_sifted_together_and_few_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one: list[bytes] = []
    sift_line = Sieve.sift_line
    monkeypatch.setattr(Sieve, "sift_line", lambda self, made: one_by_one.append(made) or sift_line(self, made))
    odd = [line(uri="/categories/caf\u00e9"), b"batman", line("rate")]
    sifted = Sieve(capture_section()).sift(text_of([*map(numbered, range(1000)), *odd]))
    assert one_by_one == odd
    assert len(sifted.accepted) == 1002


@pytest.mark.parametrize(
    "spoilt", [{"msec": "x" * 14}, {"rid": "X" * 32}, {"rid": "a" * 33}, {"st": "9" * 40}, {"rt": "-"}]
)
def test_one_unreadable_value_spoils_no_other_line(spoilt: dict[str, str]) -> None:
    lines = [numbered(1), line(**spoilt), numbered(2)]
    sifted = Sieve(capture_section()).sift(text_of(lines))
    assert sorted(rows_of(sifted.accepted)) == [0, 2]
    assert sifted.rejected["line"].to_pylist() == [1]


def test_a_user_is_one_user_in_either_case() -> None:
    sifted = Sieve(capture_section()).sift(text_of([numbered(1), numbered(2, user=USER.upper())]))
    assert sifted.accepted["user"].unify_dictionaries().chunk(0).dictionary.to_pylist() == [USER]

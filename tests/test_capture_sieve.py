import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.capture.plain_lines import split_plain_lines
from perf_pipeline.capture.lines import Lines
from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.sieve import ACCEPTED, REJECTED, AcceptedLine, Sieve
from tests.access_log_lines import LOG_LINE, USER, capture_section, line, numbered


def text_of(lines: list[bytes]) -> bytes:
    return b"".join(each + b"\n" for each in lines)


def rows_of(accepted: pa.Table) -> dict[int, AcceptedLine]:
    return {row.pop("line"): AcceptedLine(**row) for row in accepted.to_pylist()}


@settings(max_examples=300, deadline=None)
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

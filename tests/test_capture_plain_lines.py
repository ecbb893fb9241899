import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.capture.access_log import NEEDED_KEYS, READ_KEYS, read_fields
from perf_pipeline.capture.lines import LONG_LINE_BYTES, Lines
from perf_pipeline.capture.plain_lines import PlainLines, split_plain_lines
from tests.access_log_lines import LOG_LINE, line, numbered


def lines_of(made: list[bytes]) -> Lines:
    return Lines(pa.py_buffer(b"".join(each + b"\n" for each in made)))


def fields_of(batches: list[PlainLines]) -> dict[int, dict[str, str]]:
    """The fields of each plain line by its number."""
    fields: dict[int, dict[str, str]] = {number: {} for plain in batches for number in plain.numbers.tolist()}
    for plain in batches:
        for key, texts in plain.texts.items():
            for number, text in zip(plain.numbers.tolist(), texts.to_pylist(), strict=True):
                fields[number][key] = text
        for key, values in plain.fixed.items():
            for number, value in zip(plain.numbers.tolist(), values, strict=True):
                fields[number][key] = value.tobytes().decode("ascii")
    return fields


@settings(max_examples=150, deadline=None)
@given(st.lists(LOG_LINE, max_size=20))
def test_plain_lines_have_the_fields_that_the_json_parser_reads(made: list[bytes]) -> None:
    for number, fields in fields_of(split_plain_lines(lines_of(made))).items():
        assert fields == read_fields(made[number])


def test_all_lines_of_one_pattern_are_plain() -> None:
    made = [numbered(number) for number in range(500)]
    (plain,) = split_plain_lines(lines_of(made))
    assert plain.numbers.tolist() == list(range(500))
    assert set(plain.fixed) == {"msec", "rid"}


def test_a_colon_in_a_value_keeps_a_line_plain() -> None:
    made = [numbered(1), numbered(2, uri="/products?q=12:30"), numbered(3, host="[::1]:80"), numbered(4, ae=":")]
    assert sorted(fields_of(split_plain_lines(lines_of(made)))) == [0, 1, 2, 3]


def test_the_pattern_may_be_any_order_of_keys_with_others_among_them() -> None:
    record = {"more": "x", **{key: json.loads(line())[key] for key in reversed(READ_KEYS)}, "last": ""}
    made = [json.dumps(record, separators=(",", ":")).encode()] * 3
    fields = fields_of(split_plain_lines(lines_of(made)))
    assert fields == {number: read_fields(made[number]) for number in range(3)}


@pytest.mark.parametrize(
    "odd",
    [
        numbered(9, uri="/products?q=caf\u00e9"), numbered(9, uri='/products?q="x"'), numbered(9, uri="/\\x"),
        numbered(9, uri="/products?q=" + "a" * LONG_LINE_BYTES), numbered(9).replace(b"GET", b"GE\tT"),
        numbered(9).replace(b"GET", b"GE\rT"), numbered(9).replace(b'"st":"200"', b'"st":200'), numbered(9)[:-1],
        numbered(9) + b" ", b" " + numbered(9), b"", b"batman", numbered(9).replace(b'","rid', b'", "rid'),
        numbered(9).replace(b'"m":', b'"m"":'), numbered(9).replace(b'"GET"', b'"GET""'), line("rate"), line("ust"),
        numbered(9).replace(b'"user":', b'"us\\u0065r":'),
    ],
)  # fmt: skip
def test_a_line_that_is_not_plain_is_left_out_and_its_neighbours_are_not(odd: bytes) -> None:
    made = [numbered(1), odd, numbered(2), odd, numbered(3)]
    assert sorted(fields_of(split_plain_lines(lines_of(made)))) == [0, 2, 4]


def test_nothing_is_plain_without_a_line_to_learn_from() -> None:
    assert split_plain_lines(lines_of([])) == []
    assert split_plain_lines(lines_of([b"x"] * 5)) == []
    assert split_plain_lines(lines_of([line(NEEDED_KEYS[0])] * 5)) == []


def test_lines_are_found_by_number() -> None:
    made = [b"one", b"", b"thr\xffee", b"four\\", b"five", b"x" * LONG_LINE_BYTES]
    lines = lines_of(made)
    assert len(lines) == 6
    assert lines.odd.tolist() == [False, False, True, True, False, True]
    assert lines.take(np.array([4, 0, 2])).to_pylist() == [b"five", b"one", b"thr\xffee"]
    assert lines.join(np.array([0, 1, 4])).to_pybytes() == b"one\n\nfive\n"
    assert lines.join(np.array([], np.int64)).size == 0
    assert lines.join(np.arange(6)).to_pybytes() == b"".join(each + b"\n" for each in made)


def test_a_text_must_end_with_a_newline() -> None:
    with pytest.raises(ValueError, match="no newline"):
        Lines(pa.py_buffer(b"a\nb"))


@given(st.binary(max_size=200))
def test_lines_are_those_of_split(data: bytes) -> None:
    lines = Lines(pa.py_buffer(data + b"\n"))
    made = data.split(b"\n")
    assert lines.take(np.arange(len(lines))).to_pylist() == made
    assert lines.odd.tolist() == [any(byte < 32 or byte > 127 or byte == 92 for byte in each) for each in made]

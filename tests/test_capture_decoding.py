from urllib.parse import unquote_to_bytes

from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.capture.decoding import MAX_DEPTH, as_text, decodings, encode_path, encode_query, has_bad_escape


@given(st.binary(max_size=40))
def test_encoding_is_ascii_and_means_the_same_bytes(data: bytes) -> None:
    for encoded in (encode_path(data), encode_query(data)):
        assert encoded.isascii()
        assert unquote_to_bytes(encoded) == unquote_to_bytes(data)


def test_a_question_mark_is_escaped_in_a_path_only() -> None:
    assert encode_path(b"a?b") == b"a%3Fb"
    assert encode_query(b"a?b") == b"a?b"


def test_bad_escapes() -> None:
    assert all(map(has_bad_escape, (b"%", b"a%z", b"%4", b"%4g", b"%%41")))
    assert not any(map(has_bad_escape, (b"", b"%41", b"%aF%00", b"abc")))


def test_decodings_go_as_deep_as_a_text_is_encoded() -> None:
    assert decodings(b"a") == [b"a"]
    assert decodings(b"%41") == [b"A"]
    assert decodings(b"%2541") == [b"%41", b"A"]
    assert decodings(b"%" + b"25" * (MAX_DEPTH - 1) + b"41") is not None
    assert decodings(b"%" + b"25" * MAX_DEPTH + b"41") is None


@given(st.binary(max_size=30))
def test_the_last_decoding_has_nothing_left_to_decode(data: bytes) -> None:
    levels = decodings(data)
    if levels is not None:
        assert 1 <= len(levels) <= MAX_DEPTH
        assert unquote_to_bytes(levels[-1]) == levels[-1]


@given(st.binary(max_size=30))
def test_any_bytes_are_a_text(data: bytes) -> None:
    as_text(data)


def test_full_width_letters_are_plain_ones() -> None:
    assert as_text("ｌｏｇ／＠".encode()) == "log/@"

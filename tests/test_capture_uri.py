import re
import time
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.capture.reasons import Reason
from perf_pipeline.capture.uri import MAX_BYTES, CleanUri, UriRules
from tests.access_log_lines import capture_section

TARGET = "http://127.0.0.1:1"

PIECES = st.sampled_from(
    [b"/", b"//", b"products", b"17", b"..", b".", b"%2e", b"%2F", b"%5c", b"\\", b"?", b"#", b"@", b":",
    b"evil.test", b"%",
     b"%zz", b"%25", b";", b"=", b"&", b"\xff", b"\xc0\xaf", b"\xef\xbc\x8f", b" ", b"\t", b"\r\n", b"\0", b"%00",
     b"http://", b"categories", b"a@b.example", b"logout", b"q", b"token", b"eyJ", b'"', b"[", b"]", b"{", b"|"]
)  # fmt: skip
ANY_URI = st.one_of(
    st.binary(max_size=60),
    st.lists(st.one_of(PIECES, st.binary(max_size=3)), max_size=12).map(b"".join),
    st.lists(PIECES, max_size=8).map(lambda pieces: b"/products/" + b"".join(pieces)),
    st.lists(PIECES, max_size=8).map(lambda pieces: b"/products?" + b"".join(pieces)),
)


@pytest.fixture(scope="module")
def rules() -> UriRules:
    return UriRules(capture_section())


@settings(max_examples=1200, deadline=None)
@given(ANY_URI)
def test_a_clean_uri_can_only_be_a_path_on_the_fixed_host(rules: UriRules, uri: bytes) -> None:
    clean = rules.clean(uri)
    if isinstance(clean, Reason):
        return
    assert clean.uri.isascii()
    assert re.fullmatch(r"/(?!/)[!-\[\]-~]*", clean.uri), (
        "one leading slash; no space, no control character, no backslash"
    )
    assert "#" not in clean.uri
    parts = urlsplit(TARGET + clean.uri)
    assert (parts.scheme, parts.hostname, parts.port) == ("http", "127.0.0.1", 1)
    assert parts.username is None
    assert not re.search(r"%(?![0-9A-Fa-f]{2})", parts.path), "Go refuses bad escapes in the path"
    decoded = unquote_to_bytes(parts.path)
    assert b".." not in decoded.split(b"/")
    assert b"//" not in decoded
    assert decoded.count(b"/") == parts.path.count("/")
    assert clean.route in capture_section().routes


@settings(max_examples=500, deadline=None)
@given(ANY_URI)
def test_cleaning_a_clean_uri_changes_nothing(rules: UriRules, uri: bytes) -> None:
    clean = rules.clean(uri)
    if isinstance(clean, CleanUri):
        assert rules.clean(clean.uri.encode("ascii")) == clean


@settings(max_examples=500, deadline=None)
@given(ANY_URI)
def test_the_answer_does_not_depend_on_what_was_asked_before(rules: UriRules, uri: bytes) -> None:
    assert rules.clean(uri) == UriRules(capture_section()).clean(uri)


@pytest.mark.parametrize(
    ("uri", "clean", "route"),
    [
        (b"/products/17", "/products/17", "/products/{id}"),
        (b"/products/17/reviews?page=2", "/products/17/reviews?page=2", "/products/{id}/reviews"),
        (b"/products?", "/products?", "/products"),
        (b"/products/17#reviews?x=1", "/products/17", "/products/{id}"),
        (b"?x=1", "/?x=1", "/"),
        (b"/%70roducts/17", "/%70roducts/17", "/products/{id}"),
        (b"/categories/caf\xe9", "/categories/caf%E9", "/categories/{name}"),
        ("/categories/кафе".encode(), "/categories/%D0%BA%D0%B0%D1%84%D0%B5", "/categories/{name}"),
        (b"/categories/%d0%ba", "/categories/%d0%ba", "/categories/{name}"),
        (b'/categories/a"b<c>', "/categories/a%22b%3Cc%3E", "/categories/{name}"),
        (b"/categories/a b", "/categories/a%20b", "/categories/{name}"),
        (b"/categories/.well-known", "/categories/.well-known", "/categories/{name}"),
        (b"/products?q=%", "/products?q=%", "/products"),
        (b"/products?q=\xff", "/products?q=%FF", "/products"),
        (b'/products?q="a"\\b\'c', "/products?q=%22a%22%5Cb'c", "/products"),
        (b"/products?q=a/../b//c", "/products?q=a/../b//c", "/products"),
    ],
)
def test_what_is_replayed(rules: UriRules, uri: bytes, clean: str, route: str) -> None:
    assert rules.clean(uri) == CleanUri(clean, route)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        (b"", Reason.MALFORMED),
        (b"#x", Reason.MALFORMED),
        (b"*", Reason.NOT_A_PATH),
        (b"http://evil.test/products", Reason.NOT_A_PATH),
        (b"evil.test:443", Reason.NOT_A_PATH),
        (b"@evil.test/products", Reason.NOT_A_PATH),
        (b"//evil.test/products", Reason.AMBIGUOUS_PATH),
        (b"/\\evil.test", Reason.AMBIGUOUS_PATH),
        (b"/%5cevil.test", Reason.AMBIGUOUS_PATH),
        (b"/%2f%2fevil.test", Reason.AMBIGUOUS_PATH),
        (b"/%252f%252fevil.test", Reason.AMBIGUOUS_PATH),
        (b"/products//17", Reason.AMBIGUOUS_PATH),
        (b"/products/17%2Freviews", Reason.AMBIGUOUS_PATH),
        (b"/products/17%252Freviews", Reason.AMBIGUOUS_PATH),
        (b"/products/../cart", Reason.AMBIGUOUS_PATH),
        (b"/products/%2e%2e/cart", Reason.AMBIGUOUS_PATH),
        (b"/products/%252e%252e/cart", Reason.AMBIGUOUS_PATH),
        (b"/products/..;x=1/cart", Reason.AMBIGUOUS_PATH),
        (b"/products/.", Reason.AMBIGUOUS_PATH),
        (b"/products/..%20", Reason.AMBIGUOUS_PATH),
        ("/products/\u2026".encode(), Reason.AMBIGUOUS_PATH),
        ("/products/a\uff0fb".encode(), Reason.AMBIGUOUS_PATH),
        (b"/categories/\xc0\xaflamps", Reason.AMBIGUOUS_PATH),
        (b"/categories/\xe0\x80\xaflamps", Reason.AMBIGUOUS_PATH),
        (b"/categories/a%00b", Reason.AMBIGUOUS_PATH),
        (b"/categories/a%0d%0aSet-Cookie:x", Reason.AMBIGUOUS_PATH),
        (b"/categories/a\tb", Reason.AMBIGUOUS_PATH),
        (b"/categories/%" + b"25" * 9 + b"41", Reason.AMBIGUOUS_PATH),
        (b"/categories/p%zz", Reason.BAD_ESCAPE),
        (b"/categories/p%", Reason.BAD_ESCAPE),
        (b"/categories/p%4", Reason.BAD_ESCAPE),
        (b"/nowhere", Reason.ROUTE),
        (b"/products/", Reason.ROUTE),
        (b"/Products/17", Reason.ROUTE),
        (b"/products/17/reviews/3", Reason.ROUTE),
        (b"/xproducts", Reason.ROUTE),
        (b"/logout", Reason.SIDE_EFFECT),
        (b"/%6cogout", Reason.SIDE_EFFECT),
        (b"/%256cogout", Reason.SIDE_EFFECT),
        ("/categories/\uff4c\uff4f\uff47\uff4f\uff55\uff54".encode(), Reason.SIDE_EFFECT),
        (b"/export/orders", Reason.SIDE_EFFECT),
        (b"/products/17/DELETE", Reason.SIDE_EFFECT),
        (b"/products/confirmEmail", Reason.SIDE_EFFECT),
        (b"/products/delete_all", Reason.SIDE_EFFECT),
        (b"/logout;x=1", Reason.SIDE_EFFECT),
        (b"/categories/buyer@mail.example", Reason.PERSONAL_PATH),
        (b"/categories/buyer%40mail.example", Reason.PERSONAL_PATH),
        (b"/categories/buyer%2540mail.example", Reason.PERSONAL_PATH),
        (b"/categories/x;email=me", Reason.PERSONAL_PATH),
        (b"/categories/x;jsessionid=0123", Reason.CREDENTIAL),
        (b"/categories/x;to%6ben=0123", Reason.CREDENTIAL),
        (b"/products/eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.", Reason.CREDENTIAL),
        (b"/products/ewogImFsZyI." + b"a" * 20 + b"." + b"b" * 20, Reason.CREDENTIAL),
        (b"/products?access_token=x", Reason.CREDENTIAL),
        (b"/products/" + b"1" * MAX_BYTES, Reason.TOO_LONG),
        (b"/products?" + b"1" * (MAX_BYTES + 1), Reason.TOO_LONG),
    ],
)  # fmt: skip
def test_what_is_not_replayed(rules: UriRules, uri: bytes, reason: Reason) -> None:
    assert rules.clean(uri) is reason


def test_a_literal_segment_beats_a_placeholder_in_any_order_of_the_plan() -> None:
    for routes in (["/products/{id}", "/products/feed"], ["/products/feed", "/products/{id}"]):
        rules = UriRules(capture_section(routes=routes))
        assert rules.clean(b"/products/feed") == CleanUri("/products/feed", "/products/feed")
        assert rules.clean(b"/products/1") == CleanUri("/products/1", "/products/{id}")


def test_a_route_with_a_side_effect_is_denied_even_when_the_plan_lists_it() -> None:
    rules = UriRules(capture_section(routes=["/export/{id}", "/products/{id}"]))
    assert rules.clean(b"/export/1") is Reason.SIDE_EFFECT
    assert rules.clean(b"/products/1") == CleanUri("/products/1", "/products/{id}")


def test_the_plans_own_deny_patterns_are_asked_of_the_decoded_path_in_any_case() -> None:
    rules = UriRules(capture_section(deny=["^/products/9[0-9]$", "секрет"]))
    assert rules.clean(b"/products/98") is Reason.SIDE_EFFECT
    assert rules.clean(b"/products/9%38") is Reason.SIDE_EFFECT
    assert rules.clean("/categories/%D0%A1екрет".encode()) is Reason.SIDE_EFFECT
    assert rules.clean(b"/products/980") == CleanUri("/products/980", "/products/{id}")


def test_a_template_with_a_segment_of_dots_matches_nothing() -> None:
    assert UriRules(capture_section(routes=["/../products"])).clean(b"/../products") is Reason.AMBIGUOUS_PATH


@pytest.mark.parametrize(
    "piece", [b"a@", b"a.", b"eyJ", b"a=", b"%25", b"..", b"/.", b"log", b"A", b";", b"[", b"&a", b"\xc3\xa9"]
)
@pytest.mark.parametrize("start", [b"/products/", b"/products?", b"/products?q="])
def test_no_uri_takes_long(rules: UriRules, start: bytes, piece: bytes) -> None:
    seconds = []
    for length in (4_000, 16_000):
        uri = start + piece * (length // len(piece)) + b"%21"
        before = time.process_time()
        rules.clean(uri)
        seconds.append(time.process_time() - before)
    # Time grows with the length, not with its square (16 times).
    assert seconds[1] < max(0.05, 10 * seconds[0])

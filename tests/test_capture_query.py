from urllib.parse import parse_qsl, quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.capture.query import ALWAYS_SECRET, QueryRules, plain_name
from perf_pipeline.capture.reasons import Reason
from tests.access_log_lines import capture_section


@pytest.fixture(scope="module")
def rules() -> QueryRules:
    return QueryRules(capture_section())


@pytest.mark.parametrize(
    ("query", "clean"),
    [
        (b"", b""),
        (b"page=2&sort=price", b"page=2&sort=price"),
        (b"q=red+lamp&q=&flag&=x&&", b"q=red+lamp&q=&flag&=x&&"),
        (b"q=a;b=c", b"q=a;b=c"),
        (b"q=%D0%BB&u=http://x/?a", b"q=%D0%BB&u=http://x/?a"),
        (b"q=100%", b"q=100%"),
        (b"email=me", b"email=REDACTED"),
        (b"EMAIL=me&page=1", b"EMAIL=REDACTED&page=1"),
        (b"e%2Dmail=me", b"e%2Dmail=REDACTED"),
        (b"%65mail=me", b"%65mail=REDACTED"),
        (b"%2565mail=me", b"%2565mail=REDACTED"),
        (b"user[email]=me", b"user%5Bemail%5D=REDACTED"),
        (b"user.phone=1", b"user.phone=REDACTED"),
        (b"email=", b"email="),
        (b"name=Ann;Smith&q=1", b"name=REDACTED&q=1"),
        (b"q=1;name=Ann", b"q=REDACTED"),
        (b"email", b"email"),
        (b"q=write+to+me@mail.example+now", b"q=REDACTED"),
        (b"q=me%40mail.example", b"q=REDACTED"),
        (b"q=me%2540mail.example", b"q=REDACTED"),
        ("q=me＠mail.example".encode(), b"q=REDACTED"),
        (b"me@mail.example", b"REDACTED"),
        (b"me@mail.example=1", b"REDACTED=1"),
        (b"q=me@mail", b"q=me@mail"),
        (b"q=name%3A+Ann", b"q=REDACTED"),
        (b"next=%2Fcart%3Femail%3Dx", b"next=REDACTED"),
        (b'filter={"email":"x"}', b"filter=REDACTED"),
        (b"do=show&action=view", b"do=show&action=view"),
        (b"query=%7Bshop%7Bid%7D%7D", b"query=%7Bshop%7Bid%7D%7D"),
        (b"cursor=eyJpZCI6MTd9", b"cursor=eyJpZCI6MTd9"),
        (b"encode=1&tokens=2&decoder=3", b"encode=1&tokens=2&decoder=3"),
        (b"page_token=x&nextPageToken=y&continuation-token=z", b"page_token=x&nextPageToken=y&continuation-token=z"),
        (b"callback=jQuery123&page=2&view=list", b"callback=jQuery123&page=2&view=list"),
        (b"q=logout&next=stream", b"q=logout&next=stream"),
    ],
)
def test_what_is_replayed(rules: QueryRules, query: bytes, clean: bytes) -> None:
    assert rules.clean(query) == clean


@pytest.mark.parametrize(
    "query",
    [
        b"access_token=x", b"q=1&token", b"Access-Token=x", b"accessToken=x", b"%74oken=x", b"%2574oken=x",
        b"a;token=x", b"auth[token]=x", b"X-Amz-Signature=x", b"x-amz-date=x", b"X-Goog-Credential=x", b"code=x",
        b"api_key=x", b"apiKey=x", b"PASSWORD=x", b"q=Bearer+abc", b"q=bearer%20abc", b"q=eyJhbGciOi.eyJzdWIiOi.sig",
        b"eyJhbGciOi.eyJzdWIiOi", b"q=ewogImFsZyI." + b"a" * 20 + b"." + b"b" * 20, b"next=%2Fx%3Ftoken%3D1",
        b"next=/x?token=1", b"next=%252Fx%253Ftoken%253D1", b'v={"password":"x"}',
        b"v=%7B%22password%22%20:%22x%22%7D", b"q=" + b"%25" * 3 + b"2525252540", b"?token=x", b"jsessionid=1",
        b"token%3Dx", b"confirmation_token=x", b"reset_password_token=x", b"invitationToken=x", b"authenticity_token=x",
        b"client-secret=x", b"user[newPassword]=x", b"X-Api-Key=x", b"aws_credentials=x", b"q=AKIA" + b"A" * 16,
        b"key=AIza" + b"a" * 35, b"q=ghp_" + b"a" * 36,
    ],
)  # fmt: skip
def test_secrets_reject_the_request(rules: QueryRules, query: bytes) -> None:
    assert rules.clean(query) is Reason.CREDENTIAL


@pytest.mark.parametrize(
    "query",
    [b"_method=DELETE", b"_METHOD=put", b"X-HTTP-Method-Override=POST", b"action=delete", b"do=log-out", b"op=%64elete",
     b"action=deleteAccount", b"query=mutation%7Bx%7D", b"query=subscription+S{x}", b"logout", b"unsubscribe=1",
     b"remove_item=17", b"add-to-cart=17", b"%6cogout", b"cart[delete]=1", b"route=account/logout", b"r=site%2Flogout",
     b"task=user.logout", b"mode=logout", b"operationName=DeleteCart", b"download=1"],
)  # fmt: skip
def test_side_effects_reject_the_request(rules: QueryRules, query: bytes) -> None:
    assert rules.clean(query) is Reason.SIDE_EFFECT


@pytest.mark.parametrize("name", ALWAYS_SECRET)
def test_some_names_are_secret_whatever_the_plan_says(name: str) -> None:
    rules = QueryRules(capture_section(drop_query=[], redact_query=[]))
    assert rules.clean(f"{name}=x".encode()) is Reason.CREDENTIAL
    assert rules.clean(b"email=x&code=y") == b"email=x&code=y"


QUERY = st.one_of(
    st.binary(max_size=40),
    st.lists(
        st.sampled_from(
            [b"q", b"=", b"&", b";", b"email", b"token", b"%", b"%40", b"%25", b"@", b"mail.example", b"+", b"%20",
            b"%2B",
             b"%2C", b"%2f", b"eyJ", b"abcd.", b"bearer", b"[", b"]", b":", b'"', b"?", b"page", b"a", b"action",
             b"delete", b"\xff", b"query", b"mutation", b"."]
        ),
        max_size=12,
    ).map(b"".join),
)  # fmt: skip


@settings(max_examples=1000, deadline=None)
@given(QUERY)
def test_the_short_cut_for_plain_values_changes_no_answer(query: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perf_pipeline.capture.query._is_plain", lambda value: False)
        exactly = QueryRules(capture_section()).clean(query)
    assert QueryRules(capture_section()).clean(query) == exactly


@settings(max_examples=500, deadline=None)
@given(QUERY)
def test_a_clean_query_is_ascii_and_stays_as_it_is(rules: QueryRules, query: bytes) -> None:
    clean = rules.clean(query)
    if isinstance(clean, bytes):
        assert clean.isascii()
        assert not set(clean) & set(b' #"<>\\^`{|}\r\n\t\0')
        assert rules.clean(clean) == clean


NAMES = st.sampled_from(["q", "page", "user", "ref"])


ADDRESS = st.builds(
    "{}@{}.{}".format,
    st.text("az09.+_-", min_size=1, max_size=8),
    st.text("az09-", min_size=1, max_size=6),
    st.sampled_from(["example", "co.example", "de"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(NAMES, ADDRESS), min_size=1, max_size=3), st.integers(0, 4))
def test_no_e_mail_address_is_left_however_it_is_encoded(
    rules: QueryRules, pairs: list[tuple[str, str]], depth: int
) -> None:
    query = "&".join(f"{name}={_encoded(f'mail {address} please', depth)}" for name, address in pairs)
    clean = rules.clean(query.encode())
    assert isinstance(clean, bytes)
    for name, value in parse_qsl(clean.decode()):
        assert value == "REDACTED", name


def _encoded(text: str, depth: int) -> str:
    for _ in range(depth):
        text = quote(text, safe="")
    return text


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["access_token", "code", "sig", "password", "X-Amz-Security-Token"]), st.data())
def test_no_secret_parameter_comes_through_however_its_name_is_spelled(
    rules: QueryRules, name: str, data: st.DataObject
) -> None:
    spelled = "".join(
        data.draw(st.sampled_from([letter, letter.upper(), f"%{ord(letter):02x}", f"%25{ord(letter):02X}"]))
        for letter in name
    )
    assert rules.clean(f"page=1&{spelled}=x".encode()) is Reason.CREDENTIAL
    assert rules.clean(f"next={quote(f'/cart?{spelled}=x', safe='')}".encode()) is Reason.CREDENTIAL


def test_names_are_compared_in_lower_case_without_punctuation() -> None:
    assert plain_name("X-Amz_Date") == plain_name("xamzdate") == "xamzdate"


@settings(max_examples=1000, deadline=None)
@given(QUERY)
def test_no_parser_of_queries_finds_what_was_to_be_taken_out(rules: QueryRules, query: bytes) -> None:
    clean = rules.clean(query)
    if not isinstance(clean, bytes):
        return
    for text in (clean.decode(), unquote(clean.decode()), clean.decode().replace("+", "%2B")):
        for separator in "&;":
            names = {name.strip().lower() for name, _ in parse_qsl(text, keep_blank_values=True, separator=separator)}
            assert not names & {"token", "access_token", "code", "password"}
    for name, value in parse_qsl(clean.decode(), keep_blank_values=True):
        assert name.strip().lower() != "email" or value in ("", "REDACTED")

import copy
import json
import pickle

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.capture.token_keys import SigningKey, public_jwk, public_key_pem
from perf_pipeline.capture.tokens import NEVER, SignedTokens, Token, unfit
from perf_pipeline.plan_tokens import TokenSection
from tests.access_log_lines import USER

NOW_S = 1_796_000_000.0
SECTION = TokenSection(issuer="pipeline", audience="shop", ttl_s=600)
OTHER_USER = "8d0f9c1e-3a77-4d4e-9a55-0a2b6a1c0002"
CLAIMS = {
    "iss": "pipeline", "aud": "shop", "sub": USER, "scope": "read", "act": {"sub": "perf_pipeline"},
    "client_id": "perf_pipeline", "load_test": True, "iat": int(NOW_S), "exp": int(NOW_S) + 600,
}  # fmt: skip


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def issued(issuer: SignedTokens, user: str = USER, now_s: float = NOW_S) -> str:
    return issuer.issue([user], now_s)[user].text


def test_a_token_says_who_may_read_what_for_whom_and_how_long(
    key: Ed25519PrivateKey, rsa_key: rsa.RSAPrivateKey
) -> None:
    keys: list[tuple[SigningKey, str]] = [(key, "EdDSA"), (rsa_key, "RS256")]
    for each, algorithm in keys:
        token = SignedTokens(each, SECTION).issue([USER], NOW_S + 0.9)[USER]
        claims = jwt.decode(
            token.text, public_key_pem(each), algorithms=[algorithm], audience="shop", issuer="pipeline",
            options={"verify_exp": False, "verify_iat": False},
        )  # fmt: skip
        assert len(claims.pop("jti")) == 32
        assert claims == CLAIMS
        assert token.expires_s == claims["exp"]
        header = jwt.get_unverified_header(token.text)
        assert header == {"alg": algorithm, "kid": public_jwk(each)["kid"], "typ": "at+jwt"}


def test_each_user_and_second_has_its_own_token_id(key: Ed25519PrivateKey) -> None:
    issuer = SignedTokens(key, SECTION)
    tokens = [issued(issuer, user, now_s) for user in (USER, OTHER_USER) for now_s in (NOW_S, NOW_S + 1)]
    ids = {jwt.decode(token, options={"verify_signature": False})["jti"] for token in tokens}
    assert len(ids) == 4
    assert issued(issuer) == tokens[0]
    assert list(issuer.issue([USER, OTHER_USER, USER], NOW_S)) == [USER, OTHER_USER]
    assert issuer.issue([], NOW_S) == {}


def test_neither_key_nor_token_is_shown(key: Ed25519PrivateKey) -> None:
    issuer = SignedTokens(key, SECTION)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    tokens = issuer.issue([USER], NOW_S)
    signature = tokens[USER].text.rpartition(".")[2]
    for text in (repr(issuer), str(issuer), f"{issuer!r} {[issuer]} {vars(issuer)} {tokens} {tokens[USER]}"):
        assert pem.splitlines()[1] not in text
        assert signature not in text
    assert repr(issuer) == "SignedTokens(issuer='pipeline', audience='shop')"
    assert repr(tokens[USER]) == f"Token(expires_s={int(NOW_S) + 600})"
    for write in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="never written"):
            write(issuer)


def test_only_our_tokens_for_this_user_have_an_expiry(key: Ed25519PrivateKey) -> None:
    issuer = SignedTokens(key, SECTION)
    assert issuer.expiry_s(issued(issuer), USER) == NOW_S + 600
    assert issuer.expiry_s(issued(issuer), OTHER_USER) == NEVER
    foreign = [
        issued(SignedTokens(Ed25519PrivateKey.generate(), SECTION)),
        jwt.encode(CLAIMS, "a secret that is long enough for this", algorithm="HS256"),
        jwt.encode(CLAIMS, None, algorithm="none"),
        "", "x.y.z",
    ]  # fmt: skip
    for changed in (
        {"iss": "other"}, {"aud": "bank"}, {"scope": "read write"}, {"scope": ""}, {"act": {"sub": "another"}},
        {"act": "perf_pipeline"}, {"load_test": "true"}, {"load_test": False}, {"exp": None}, {"sub": OTHER_USER},
    ):  # fmt: skip
        foreign.append(jwt.encode({**CLAIMS, **changed}, key, algorithm="EdDSA"))
    foreign += [
        jwt.encode({name: value for name, value in CLAIMS.items() if name != left_out}, key, algorithm="EdDSA")
        for left_out in ("iss", "aud", "sub", "scope", "act", "load_test", "exp")
    ]
    assert jwt.encode(CLAIMS, key, algorithm="EdDSA") not in foreign
    assert issuer.expiry_s(jwt.encode(CLAIMS, key, algorithm="EdDSA"), USER) == NOW_S + 600
    assert [token for token in foreign if issuer.expiry_s(token, USER) != NEVER] == []


def test_the_plan_names_who_acts(key: Ed25519PrivateKey) -> None:
    section = SECTION.model_copy(update={"actor": "load-tester"})
    claims = jwt.decode(issued(SignedTokens(key, section)), options={"verify_signature": False})
    assert (claims["act"], claims["client_id"]) == ({"sub": "load-tester"}, "load-tester")
    assert SignedTokens(key, SECTION).expiry_s(issued(SignedTokens(key, section)), USER) == NEVER


def test_claims_that_fit() -> None:
    assert unfit(CLAIMS, SECTION, USER) is None
    assert unfit({**CLAIMS, "aud": ["bank", "shop"]}, SECTION, USER) is None
    assert unfit({**CLAIMS, "act": {"sub": "client-17", "act": {"sub": "another"}}}, SECTION, USER) is None


@pytest.mark.parametrize("exp", [None, True, "1796000600", float("nan"), float("inf"), []])
def test_an_expiry_must_be_a_time(exp: object) -> None:
    assert unfit({**CLAIMS, "exp": exp}, SECTION, USER) == "it never expires (exp)"


ODD_VALUE = st.sampled_from(
    [
        None,
        True,
        0,
        1.5,
        float("nan"),
        "",
        "shop",
        "read",
        USER,
        [],
        ["shop"],
        [None],
        {},
        {"sub": "x"},
        {"sub": 1},
        "x",
    ]
)


@given(st.dictionaries(st.sampled_from([*CLAIMS, "x"]), ODD_VALUE, max_size=4))
def test_no_claims_are_taken_for_fit_that_lack_one(changed: dict) -> None:
    claims = {**CLAIMS, **changed}
    if unfit(claims, SECTION, USER) is None:
        assert (claims["iss"], claims["sub"], claims["scope"], claims["load_test"]) == ("pipeline", USER, "read", True)
        assert "shop" in claims["aud"]
        assert isinstance(claims["act"]["sub"], str)
        assert float("-inf") < claims["exp"] < float("inf")


def test_a_token_as_json_is_an_error_not_a_leak() -> None:
    with pytest.raises(TypeError):
        json.dumps(Token("eyJ", 1.0))

import copy
import logging
import pickle
import stat
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture.tokens import (
    SignedTokens,
    ensure_signing_key,
    generate_signing_key,
    load_signing_key,
    public_key_pem,
    tokens_for,
)
from perf_pipeline.errors import InputError
from perf_pipeline.plan import TokenSection
from tests.access_log_lines import USER

NOW_S = 1_796_000_000.0
SECTION = TokenSection(issuer="pipeline", audience="shop", ttl_s=600)
OTHER_USER = "8d0f9c1e-3a77-4d4e-9a55-0a2b6a1c0002"


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def pem_of(key: object, passphrase: bytes | None = None) -> str:
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def test_a_token_says_who_may_read_what_and_how_long(key: Ed25519PrivateKey) -> None:
    token = SignedTokens(key, SECTION).issue(USER, NOW_S + 0.9)
    claims = jwt.decode(
        token, public_key_pem(key), algorithms=["EdDSA"], audience="shop", issuer="pipeline",
        options={"verify_exp": False, "verify_iat": False},
    )  # fmt: skip
    assert len(claims.pop("jti")) == 32
    assert claims == {
        "iss": "pipeline", "aud": "shop", "sub": USER, "scope": "read", "load_test": True, "iat": int(NOW_S),
        "exp": int(NOW_S) + 600,
    }  # fmt: skip


def test_each_user_and_second_has_its_own_token_id(key: Ed25519PrivateKey) -> None:
    issuer = SignedTokens(key, SECTION)
    tokens = [issuer.issue(user, now_s) for user in (USER, OTHER_USER) for now_s in (NOW_S, NOW_S + 1)]
    ids = {jwt.decode(token, options={"verify_signature": False})["jti"] for token in tokens}
    assert len(ids) == 4
    assert issuer.issue(USER, NOW_S) == tokens[0]


def test_neither_key_nor_issuer_shows_the_key(key: Ed25519PrivateKey) -> None:
    issuer = SignedTokens(key, SECTION)
    body = pem_of(key).splitlines()[1]
    for text in (repr(issuer), str(issuer), f"{issuer!r} {[issuer]} {vars(issuer)}"):
        assert body not in text
    assert repr(issuer) == "SignedTokens(issuer='pipeline', audience='shop')"
    for write in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="never written"):
            write(issuer)


def test_recorded_tokens_are_kept_while_they_outlive_the_run(key: Ed25519PrivateKey) -> None:
    issuer = SignedTokens(key, SECTION)
    recorded = {USER: issuer.issue(USER, NOW_S - 300), OTHER_USER: issuer.issue(OTHER_USER, NOW_S - 300)}
    assert tokens_for([USER], recorded, NOW_S + 299, issuer, NOW_S) == {USER: recorded[USER]}
    minted = tokens_for([USER], recorded, NOW_S + 300, issuer, NOW_S)
    assert minted == {USER: issuer.issue(USER, NOW_S)}
    assert tokens_for([], recorded, NOW_S, issuer) == {}


def test_a_user_without_a_recorded_token_gets_one_that_is_valid_now(key: Ed25519PrivateKey) -> None:
    tokens = tokens_for([USER], {}, 0, SignedTokens(key, SECTION))
    jwt.decode(tokens[USER], public_key_pem(key), algorithms=["EdDSA"], audience="shop", issuer="pipeline")


def test_a_recorded_token_that_is_not_ours_is_not_sent(key: Ed25519PrivateKey) -> None:
    issuer = SignedTokens(key, SECTION)
    of_another_key = SignedTokens(Ed25519PrivateKey.generate(), SECTION).issue(USER, NOW_S)
    of_another_audience = SignedTokens(key, SECTION.model_copy(update={"audience": "bank"})).issue(USER, NOW_S)
    may_write = jwt.encode(
        {"iss": "pipeline", "aud": "shop", "sub": USER, "scope": "read write", "exp": NOW_S + 999},
        key,
        algorithm="EdDSA",
    )
    never_ends = jwt.encode({"iss": "pipeline", "aud": "shop", "sub": USER, "scope": "read"}, key, algorithm="EdDSA")
    for foreign in (
        of_another_key,
        of_another_audience,
        issuer.issue(OTHER_USER, NOW_S),
        may_write,
        never_ends,
        "",
        "x.y.z",
    ):
        assert tokens_for([USER], {USER: foreign}, NOW_S + 1, issuer, NOW_S) == {USER: issuer.issue(USER, NOW_S)}


def test_tokens_that_cannot_live_long_enough_are_refused(key: Ed25519PrivateKey) -> None:
    with pytest.raises(InputError) as caught:
        tokens_for([USER], {}, NOW_S + 600, SignedTokens(key, SECTION), NOW_S)
    message = str(caught.value)
    assert "tokens.ttl_s" in message
    assert "live for 600 s, but are needed for 600 s" in message
    assert "eyJ" not in message


def test_the_key_comes_from_the_environment_or_from_a_file(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    path = tmp_path / "deep" / "key.pem"
    generate_signing_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    from_file = load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(path)})
    assert pem_of(from_file) == path.read_text()
    both = {"PERF_PIPELINE_TOKEN_KEY": pem_of(key), "PERF_PIPELINE_TOKEN_KEY_FILE": str(path)}
    assert public_key_pem(load_signing_key(both)) == public_key_pem(key)


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    assert ensure_signing_key(path) is True
    before = path.read_bytes()
    assert ensure_signing_key(path) is False
    with pytest.raises(FileExistsError):
        generate_signing_key(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileExistsError):
        ensure_signing_key(path / "below-a-file.pem")


def test_no_key_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="openssl genpkey -algorithm ed25519"):
        load_signing_key({})
    with pytest.raises(InputError, match="cannot be read"):
        load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(tmp_path / "none.pem")})


def test_what_is_no_key_is_an_error_that_does_not_show_it(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for pem in ("secret stuff", pem_of(key)[:-40], pem_of(key, b"passphrase"), pem_of(rsa_key), public_key_pem(key)):
        path = tmp_path / "key.pem"
        path.write_text(pem)
        for environ in ({"PERF_PIPELINE_TOKEN_KEY": pem}, {"PERF_PIPELINE_TOKEN_KEY_FILE": str(path)}):
            with pytest.raises(InputError, match="is not an Ed25519 private key") as caught:
                load_signing_key(environ)
            assert "secret stuff" not in str(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_key_file_that_others_can_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "key.pem"
    generate_signing_key(path)
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(path)})
    assert "can be read by others" in caplog.text
    assert path.read_text().splitlines()[1] not in caplog.text

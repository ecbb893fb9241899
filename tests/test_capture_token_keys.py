import logging
import stat
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture.token_keys import (
    algorithm_of,
    ensure_signing_key,
    generate_signing_key,
    load_signing_key,
    public_jwk,
    public_key_pem,
    replace_signing_key,
)
from perf_pipeline.errors import InputError


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem_of(key: object, passphrase: bytes | None = None) -> str:
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def test_the_key_decides_the_algorithm(key: Ed25519PrivateKey, rsa_key: rsa.RSAPrivateKey) -> None:
    assert (algorithm_of(key), algorithm_of(rsa_key)) == ("EdDSA", "RS256")
    assert pem_of(load_signing_key({"PERF_PIPELINE_TOKEN_KEY": pem_of(rsa_key)})) == pem_of(rsa_key)


def test_the_public_half_as_a_json_web_key_verifies_and_holds_nothing_private(
    key: Ed25519PrivateKey, rsa_key: rsa.RSAPrivateKey
) -> None:
    for each in (key, rsa_key):
        jwk = public_jwk(each)
        assert set(jwk) - {"use", "alg", "kid"} in ({"crv", "kty", "x"}, {"e", "kty", "n"})
        token = jwt.encode({"a": 1}, each, algorithm=algorithm_of(each))
        assert jwt.decode(token, jwt.PyJWK(jwk), algorithms=[algorithm_of(each)]) == {"a": 1}


def test_the_key_id_is_the_thumbprint_of_rfc_8037() -> None:
    """Appendix A.3 of RFC 8037."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert (
        public_jwk(Ed25519PrivateKey.from_private_bytes(seed))["kid"] == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    )


def test_a_key_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    generate_signing_key(path)
    before = path.read_bytes()
    replace_signing_key(path)
    assert path.read_bytes() != before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(path)})


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


def test_no_key_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="openssl genpkey -algorithm ed25519"):
        load_signing_key({})
    with pytest.raises(InputError, match="cannot be read"):
        load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(tmp_path / "none.pem")})


def test_what_is_no_key_is_an_error_that_does_not_show_it(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    other = ec.generate_private_key(ec.SECP256R1())
    for pem in (
        "secret stuff", pem_of(key)[:-40], pem_of(key, b"passphrase"), pem_of(short), pem_of(other),
        public_key_pem(key),
    ):  # fmt: skip
        path = tmp_path / "key.pem"
        path.write_text(pem)
        for environ in ({"PERF_PIPELINE_TOKEN_KEY": pem}, {"PERF_PIPELINE_TOKEN_KEY_FILE": str(path)}):
            with pytest.raises(InputError, match="is no Ed25519 private key") as caught:
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

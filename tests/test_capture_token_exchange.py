import copy
import json
import logging
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture.token_exchange import CLIENT_SECRET_VARIABLE, ExchangedTokens
from perf_pipeline.capture.token_keys import SigningKey
from perf_pipeline.capture.tokens import NEVER
from perf_pipeline.errors import InputError
from perf_pipeline.plan_tokens import TokenSection
from tests.access_log_lines import USER
from tests.token_endpoint import TYPE, Answer, TokenEndpoint, as_json, granted, token_endpoint

USERS = [f"8d0f9c1e-3a77-4d4e-9a55-{number:012x}" for number in range(40)]
SECRET = "a-client-secret-that-nobody-sees"


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def endpoint(key: Ed25519PrivateKey) -> Iterator[TokenEndpoint]:
    with token_endpoint(key.public_key()) as running:
        yield running
        assert running.problems == []


def tokens_of(
    endpoint: TokenEndpoint, key: SigningKey, environ: dict[str, str] | None = None, **changed: Any
) -> ExchangedTokens:
    exchange = {"endpoint": endpoint.address, "attempts": 3, "timeout_s": 5, **changed}
    section = TokenSection.model_validate(
        {"issuer": "https://id.example.test", "audience": "shop", "ttl_s": 600, "exchange": exchange}
    )
    return ExchangedTokens(key, section, environ or {})


def refused(issuer: ExchangedTokens, users: list[str] | None = None) -> str:
    """The message of the error; nothing of what was exchanged stands in it, or in its traceback."""
    with pytest.raises(InputError) as caught:
        issuer.issue(users or [USER], time.time())
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__dict__)
    assert "eyJ" not in shown
    assert SECRET not in shown
    return str(caught.value)


def test_each_user_gets_a_read_only_token_that_names_who_acts(endpoint: TokenEndpoint, key: Ed25519PrivateKey) -> None:
    def answered_beside_another(number: int, form: dict[str, str]) -> Answer | None:
        """The first answer comes when a second question is there; however busy the machine, it is asked meanwhile."""
        deadline = time.monotonic() + 5
        while number == 1 and endpoint.most_at_once < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        return None

    endpoint.misbehave = answered_beside_another
    issuer = tokens_of(endpoint, key)
    tokens = issuer.issue(USERS, time.time())
    assert list(tokens) == USERS
    for user, token in tokens.items():
        claims = jwt.decode(token.text, endpoint.key.public_key(), algorithms=["EdDSA"], audience="shop")
        assert (claims["sub"], claims["scope"], claims["act"], claims["load_test"]) == (
            user, "read", {"sub": "perf_pipeline"}, True,
        )  # fmt: skip
        assert token.expires_s == claims["exp"] == issuer.expiry_s(token.text, user)
    assert len(endpoint.forms) == len(USERS), "one exchange a user"
    assert 1 < endpoint.most_at_once <= 4
    assert issuer.issue([], time.time()) == {}


def test_the_endpoint_can_verify_an_rsa_client_and_ask_for_a_secret() -> None:
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with token_endpoint(rsa_key.public_key(), SECRET) as endpoint:
        assert tokens_of(endpoint, rsa_key, {CLIENT_SECRET_VARIABLE: SECRET}).issue([USER], time.time())
        for environ in ({}, {CLIENT_SECRET_VARIABLE: "wrong"}):
            message = refused(tokens_of(endpoint, rsa_key, environ))
            assert "answered 401 invalid_client" in message
            assert CLIENT_SECRET_VARIABLE in message
    issuer = tokens_of(endpoint, rsa_key, {CLIENT_SECRET_VARIABLE: SECRET})
    assert SECRET not in repr(issuer)
    with pytest.raises(TypeError, match="never written"):
        copy.copy(issuer)


def test_a_netrc_file_is_not_read(
    endpoint: TokenEndpoint, key: Ed25519PrivateKey, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    assert tokens_of(endpoint, key).issue([USER], time.time())


def test_a_key_that_the_endpoint_does_not_know_is_refused(key: Ed25519PrivateKey) -> None:
    with token_endpoint(Ed25519PrivateKey.generate().public_key()) as endpoint:
        message = refused(tokens_of(endpoint, key))
    assert "answered 400 invalid_grant" in message
    assert "-> check tokens.audience" in message


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_endpoint_is_asked_again_after_a_pause(
    endpoint: TokenEndpoint, key: Ed25519PrivateKey, status: int
) -> None:
    endpoint.misbehave = lambda number, form: (
        as_json(status, {}, **{"Retry-After": "1"}) if number in (1, 2) and status == 429 else
        as_json(status, {}) if number in (1, 2) else None
    )  # fmt: skip
    began = time.monotonic()
    assert tokens_of(endpoint, key).issue([USER], time.time())
    assert len(endpoint.forms) == 3
    assert time.monotonic() - began > (2 if status == 429 else 0.2)


def test_a_connection_that_breaks_off_is_made_again(endpoint: TokenEndpoint, key: Ed25519PrivateKey) -> None:
    endpoint.misbehave = lambda number, form: (0, {}, b"") if number == 1 else None
    assert tokens_of(endpoint, key).issue([USER], time.time())
    assert len(endpoint.forms) == 2


@pytest.mark.parametrize("status", [429, 503])
def test_an_endpoint_that_stays_busy_is_given_up(endpoint: TokenEndpoint, key: Ed25519PrivateKey, status: int) -> None:
    endpoint.misbehave = lambda number, form: as_json(status, {"error": "temporarily_unavailable"})
    message = refused(tokens_of(endpoint, key))
    assert f"answered {status} temporarily_unavailable" in message
    assert "it was so 3 times" in message
    assert len(endpoint.forms) == 3


def test_an_answer_that_does_not_come_in_time_is_given_up(endpoint: TokenEndpoint, key: Ed25519PrivateKey) -> None:
    endpoint.misbehave = lambda number, form: time.sleep(1)
    began = time.monotonic()
    message = refused(tokens_of(endpoint, key, timeout_s=0.2, attempts=2))
    assert "gave no answer, in up to 2 attempts" in message
    assert time.monotonic() - began < 5


def test_an_answer_that_is_far_too_long_is_given_up(endpoint: TokenEndpoint, key: Ed25519PrivateKey) -> None:
    endpoint.misbehave = lambda number, form: as_json(200, granted("x" * 200_000))
    assert "gave no answer" in refused(tokens_of(endpoint, key))


def test_an_answer_that_drips_is_given_up(key: Ed25519PrivateKey) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
                try:
                    for _ in range(100):
                        connection.sendall(b"x")
                        time.sleep(0.05)
                except OSError:
                    pass

        thread = threading.Thread(target=drip)
        thread.start()
        section = TokenSection.model_validate(
            {
                "issuer": "i", "audience": "shop",
                "exchange": {"endpoint": f"http://127.0.0.1:{server.getsockname()[1]}/t", "timeout_s": 0.3},
            }
        )  # fmt: skip
        began = time.monotonic()
        assert "takes longer than" in refused(ExchangedTokens(key, section, {}))
        assert time.monotonic() - began < 3
        thread.join()


def test_an_endpoint_that_is_not_there(key: Ed25519PrivateKey) -> None:
    with token_endpoint(key.public_key()) as endpoint:
        pass
    assert "no connection" in refused(tokens_of(endpoint, key, attempts=1))


def test_the_first_failure_ends_it(endpoint: TokenEndpoint, key: Ed25519PrivateKey) -> None:
    endpoint.misbehave = lambda number, form: as_json(403, {"error": "access_denied"}) if number == 3 else None
    message = refused(tokens_of(endpoint, key, concurrency=1), USERS)
    assert "answered 403 access_denied" in message
    assert len(endpoint.forms) < 10


def test_no_redirect_is_followed(endpoint: TokenEndpoint, key: Ed25519PrivateKey) -> None:
    endpoint.misbehave = lambda number, form: (307, {"Location": endpoint.address + "/else"}, b"")
    assert "answered 307, a redirect" in refused(tokens_of(endpoint, key))
    assert len(endpoint.forms) == 1


def test_what_the_endpoint_says_is_not_shown(
    endpoint: TokenEndpoint, key: Ed25519PrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    """An endpoint that repeats what it was sent must not make us print it."""
    echo = "error eyJ"

    def repeat(number: int, form: dict[str, str]) -> Answer:
        described = {"error": f"{echo}{form['subject_token']}", "error_description": form["subject_token"]}
        return as_json(400, described)

    endpoint.misbehave = repeat
    with caplog.at_level(logging.DEBUG):
        assert "answered 400\n" in refused(tokens_of(endpoint, key, {CLIENT_SECRET_VARIABLE: SECRET}))
        endpoint.misbehave = lambda number, form: None
        endpoint.secret = SECRET
        tokens = tokens_of(endpoint, key, {CLIENT_SECRET_VARIABLE: SECRET}).issue(USERS[:3], time.time())
    assert "eyJ" not in caplog.text
    assert SECRET not in caplog.text
    assert "eyJ" not in repr(tokens)


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"scope": "read write"}, "scope is not 'read' alone"),
        ({"scope": None}, "scope is not 'read' alone"),
        ({"act": None}, "who acts for the user"),
        ({"load_test": None}, "load_test: true"),
        ({"sub": USERS[7]}, "not for the user"),
        ({"aud": "bank"}, "tokens.audience"),
        ({"iss": "https://other.example.test"}, "tokens.issuer"),
        ({"exp": None}, "never expires"),
        ({"exp": 1_000_000_000}, "has expired"),
        ({"exp": int(time.time()) + 86_400}, "the plan allows 600 s"),
    ],
)
def test_a_token_that_may_do_more_or_longer_is_refused(
    endpoint: TokenEndpoint, key: Ed25519PrivateKey, extra: dict[str, Any], reason: str
) -> None:
    endpoint.extra |= extra
    issuer = tokens_of(endpoint, key)
    assert reason in refused(issuer)
    if "exp" not in extra:
        full = {
            "exp": time.time() + 60, "iss": "https://id.example.test", "aud": "shop", "sub": USER, "scope": "read",
            "act": {"sub": "x"}, "load_test": True,
        }  # fmt: skip
        assert issuer.expiry_s(jwt.encode(full, endpoint.key, algorithm="EdDSA"), USER) == full["exp"]
        assert issuer.expiry_s(jwt.encode({**full, **extra}, endpoint.key, algorithm="EdDSA"), USER) == NEVER


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "without an access_token"),
        (b"<html>", "without an access_token"),
        (b"[]", "without an access_token"),
        (b"\xff", "without an access_token"),
        (json.dumps({"token_type": "Bearer"}).encode(), "without an access_token"),
        (json.dumps(granted("opaque-0123456789")).encode(), "no JWT"),
        (json.dumps(granted("x.y.z")).encode(), "no JWT"),
        (json.dumps(granted("x", token_type="N_A")).encode(), "no bearer token"),
        (json.dumps(granted("x", token_type=None)).encode(), "no bearer token"),
    ],
)
def test_an_answer_that_is_none_is_refused(
    endpoint: TokenEndpoint, key: Ed25519PrivateKey, body: bytes, reason: str
) -> None:
    endpoint.misbehave = lambda number, form: (200, {}, body)
    assert reason in refused(tokens_of(endpoint, key))


def test_stored_texts_that_are_no_tokens_have_no_expiry(endpoint: TokenEndpoint, key: Ed25519PrivateKey) -> None:
    issuer = tokens_of(endpoint, key)
    for text in ("", "x", "x.y.z", jwt.encode({"exp": 1}, key, algorithm="EdDSA")):
        assert issuer.expiry_s(text, USER) == NEVER


def test_the_types_that_are_asked_for_are_those_of_rfc_8693(endpoint: TokenEndpoint, key: Ed25519PrivateKey) -> None:
    tokens_of(endpoint, key).issue([USER], time.time())
    (form,) = endpoint.forms
    assert form["requested_token_type"] == f"{TYPE}access_token"
    subject = jwt.decode(form["subject_token"], options={"verify_signature": False})
    actor = jwt.decode(form["actor_token"], options={"verify_signature": False})
    assert (subject["sub"], actor["sub"]) == (USER, "perf_pipeline")
    assert subject["exp"] - subject["iat"] == 300
    assert subject["jti"] != actor["jti"]

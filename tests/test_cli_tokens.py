"""`perf-pipeline tokens`: kept, renewed or refused, and nothing that should not be shown."""

import json
import time
from pathlib import Path

import jwt
import pytest
from click.testing import CliRunner, Result

from perf_pipeline.capture.token_keys import KEY_VARIABLE, ensure_signing_key, load_signing_key
from perf_pipeline.capture.token_renewal import renew_tokens
from perf_pipeline.capture.tokens import SignedTokens
from perf_pipeline.cli import main
from perf_pipeline.plan import Plan
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import HOUR, small_plan
from tests.test_capture_token_source import written_hour

SECTION = {"issuer": "tests", "audience": "service", "ttl_s": 600}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STORE", "TOKEN_KEY", "TOKEN_KEY_FILE"):
        monkeypatch.delenv(f"PERF_PIPELINE_{name}", raising=False)
    monkeypatch.setenv("PERF_PIPELINE_HOME", str(tmp_path / "home"))
    ensure_signing_key(tmp_path / "home/token_signing_key.pem")
    return tmp_path / "home"


def run(*arguments: object, input: str | None = None) -> Result:  # noqa: A002
    result = CliRunner().invoke(main, ["tokens", *map(str, arguments)], catch_exceptions=False, input=input)
    assert "eyJ" not in result.output
    assert "PRIVATE" not in result.output
    return result


def stored(home: Path, folder: Path, age_s: float, **tokens: object) -> Plan:
    """A plan whose hour has tokens of this age."""
    plan = small_plan(folder, tokens=SECTION | tokens)
    key = load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(home / "token_signing_key.pem")})
    store = LocalObjectStore(home / "objects")
    written_hour(store, 10)
    renew_tokens(store, HOUR, SignedTokens(key, plan.tokens), time.time() - age_s)
    return plan


def test_it_says_whether_tokens_are_kept_renewed_or_refused(home: Path, tmp_path: Path) -> None:
    plan = stored(home, tmp_path / "plan", age_s=300)
    kept = run("check", plan.path)
    assert (kept.exit_code, kept.output.startswith("kept: the stored tokens of all 2 users last")) == (0, True)
    renewed = run("check", plan.path, "--for", 280)
    assert renewed.exit_code == 0
    assert renewed.output.startswith("renewed before each run (tokens.expired: renew): 2 of 2 users have no")
    refusing = small_plan(tmp_path / "plan", tokens=SECTION | {"expired": "refuse"})
    assert run("check", refusing.path).exit_code == 0
    refused = run("check", refusing.path, "--for", 280)
    assert refused.exit_code == 2
    assert "tokens.expired: refused: 2 of 2 users" in refused.output
    never_stored = small_plan(tmp_path / "plan", tokens=SECTION | {"minted": "replay"})
    assert "none is stored" in run("check", never_stored.path).output


def test_renewing_makes_them_last(home: Path, tmp_path: Path) -> None:
    plan = stored(home, tmp_path / "plan", age_s=550)
    assert "renewed before each run" in run("check", plan.path).output
    assert run("renew", plan.path).output.startswith(f"{HOUR}: until 20")
    assert run("check", plan.path, "--for", 500).output.startswith("kept: ")


def test_an_hour_that_was_not_captured_is_an_error(home: Path, tmp_path: Path) -> None:
    plan = small_plan(tmp_path / "plan", tokens=SECTION)
    for command in ("check", "renew"):
        result = run(command, plan.path)
        assert (result.exit_code, "replay_requests" in result.output) == (2, True)


def test_the_public_key_verifies_what_is_signed(home: Path) -> None:
    key = load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(home / "token_signing_key.pem")})
    token = jwt.encode({"a": 1}, key, algorithm="EdDSA")
    assert jwt.decode(token, run("public-key").output, algorithms=["EdDSA"]) == {"a": 1}
    (jwk,) = json.loads(run("public-key", "--jwks").output)["keys"]
    assert jwt.decode(token, jwt.PyJWK(jwk), algorithms=["EdDSA"]) == {"a": 1}


def test_the_key_is_replaced_when_asked_twice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "token_signing_key.pem"
    before = path.read_text()
    assert run("rotate-key", input="n\n").exit_code == 130
    assert path.read_text() == before
    assert run("rotate-key", input="y\n").exit_code == 0
    assert path.read_text() != before
    monkeypatch.setenv(KEY_VARIABLE, before)
    result = run("rotate-key", "--yes")
    assert (result.exit_code, "replace it in your secret store" in result.output) == (2, True)

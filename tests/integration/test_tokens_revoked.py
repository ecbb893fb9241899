"""The revocation drill of docs/operations.md with a real service: the key is replaced, no older token is any good."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
import yaml

from perf_pipeline.capture.token_keys import ensure_signing_key, load_signing_key, public_key_pem
from perf_pipeline.capture.token_renewal import renew_tokens
from perf_pipeline.capture.token_source import captured_requests, stored_tokens, token_issuer
from perf_pipeline.lab.local import LocalEnvironment
from perf_pipeline.plan import Plan
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import HOUR
from tests.integration.demo_lab import demo_store, short_demo_plan
from tests.test_capture_token_source import written_hour

pytestmark = pytest.mark.integration

COMMAND = str(Path(sys.executable).with_name("perf-pipeline"))


def perf_pipeline(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PERF_PIPELINE_")}
    environ |= {"PERF_PIPELINE_HOME": str(home)}
    return subprocess.run([COMMAND, *arguments], env=environ, capture_output=True, text=True, timeout=60)


def key_in(home: Path) -> Path:
    return home / "token_signing_key.pem"


def public_key_of(home: Path) -> str:
    return public_key_pem(load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(key_in(home))}))


def answers(plan: Plan, public_key: str, tokens: list[str], logs: Path) -> list[int]:
    """What the service that knows this key answers to each token."""
    environment = LocalEnvironment(plan, public_key)
    with environment.started("1.0.0", plan.scenarios[0], logs) as started:
        return [
            requests.get(
                f"{started.service.url}/cart", headers={"Authorization": f"Bearer {token}"}, timeout=5
            ).status_code
            for token in tokens
        ]


def test_the_drill(tmp_path: Path) -> None:
    home = tmp_path / "home"
    plan = short_demo_plan(tmp_path)
    plan_file = str(tmp_path / "plan.yaml")
    ensure_signing_key(key_in(home))
    store = LocalObjectStore(home / "objects")
    written_hour(store, 10)
    old_key = load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(key_in(home))})
    renew_tokens(store, HOUR, token_issuer(old_key, plan.tokens), time.time())
    old = list(stored_tokens(captured_requests(store, HOUR)).values())

    kept = perf_pipeline(home, "tokens", "check", plan_file)
    assert kept.returncode == 0 and kept.stdout.startswith("kept: "), kept.stderr
    assert perf_pipeline(home, "tokens", "public-key").stdout.strip() == public_key_of(home).strip()
    assert answers(plan, public_key_of(home), old, tmp_path / "before") == [200, 200]

    # Step 3: replace the key.
    asked = perf_pipeline(home, "tokens", "rotate-key")
    assert asked.returncode == 130, "it asks first"
    rotated = perf_pipeline(home, "tokens", "rotate-key", "--yes")
    assert rotated.returncode == 0, rotated.stderr
    assert rotated.stdout.strip() == public_key_of(home).strip() != public_key_pem(old_key).strip()

    # Step 5: what is stored is worthless, here and at the service.
    checked = perf_pipeline(home, "tokens", "check", plan_file)
    assert "users have no stored token that is valid" in checked.stdout
    assert answers(plan, public_key_of(home), old, tmp_path / "after") == [401, 401]

    # Step 6: new tokens are accepted, by the services that know the new key only.
    renewed = perf_pipeline(home, "tokens", "renew", plan_file)
    assert renewed.returncode == 0, renewed.stderr
    new = list(stored_tokens(captured_requests(store, HOUR)).values())
    assert answers(plan, public_key_of(home), new, tmp_path / "renewed") == [200, 200]
    assert answers(plan, public_key_pem(old_key), new, tmp_path / "old-service") == [401, 401]
    said = "".join(each.stdout + each.stderr for each in (kept, asked, rotated, checked, renewed))
    assert "eyJ" not in said
    assert not set(new) & set(old)


def test_a_service_that_does_not_know_the_new_key_ends_a_comparison_before_it_is_loaded(tmp_path: Path) -> None:
    """Step 5 while services know the old key only: exit code 2, and no run."""
    home = tmp_path / "home"
    ensure_signing_key(key_in(home))
    short_demo_plan(tmp_path)
    plan_file = tmp_path / "plan.yaml"
    plan = yaml.safe_load(plan_file.read_text())
    # The service goes on with the old public key, whatever the deployment signs with.
    plan["environment"]["service"]["env"]["SHOP_TOKEN_PUBLIC_KEY"] = public_key_of(home)
    plan_file.write_text(yaml.safe_dump(plan))
    demo_store(home / "objects")
    assert perf_pipeline(home, "tokens", "rotate-key", "--yes").returncode == 0
    compared = perf_pipeline(home, "compare", str(plan_file))
    assert compared.returncode == 2, compared.stdout + compared.stderr
    assert "the service answers 401" in compared.stderr
    assert list((home / "objects").glob("runs/*/*/run.json")) == []

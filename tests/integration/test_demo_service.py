"""The demo shop: who may ask for what, three versions of one source, instruments that show a change."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client.parser import text_string_to_metric_families

from perf_pipeline.capture.token_keys import public_key_pem
from perf_pipeline.lab.local import LocalEnvironment, StartedLocally
from perf_pipeline.plan import load_plan
from tests.integration.demo_lab import DEMO

pytestmark = pytest.mark.integration

KEY = Ed25519PrivateKey.generate()
USER = "7f3c1f5e-2f0b-4c53-9d7b-0a2f6f1d0001"
ROUTES = (
    "/products?q=lamp&sort=price",
    "/products/17",
    "/products/17/reviews",
    "/categories/lamps",
    "/recommendations",
    "/cart",
    "/orders/12",
)


def token(key: Ed25519PrivateKey = KEY, **changes: Any) -> str:
    claims = {
        "iss": "perf-pipeline-demo",
        "aud": "shop",
        "sub": USER,
        "scope": "read",
        "load_test": True,
        "exp": time.time() + 3600,  # made at collection, used after every test before it
    }
    return jwt.encode({name: value for name, value in (claims | changes).items() if value is not None}, key, "EdDSA")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, StartedLocally]]:
    """Each version, with an upstream of its own."""
    plan = load_plan(DEMO / "plan.yaml")
    environment = LocalEnvironment(plan, public_key_pem(KEY))
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        yield {
            version: stack.enter_context(environment.started(version, plan.scenarios[0], logs / version))
            for version in plan.versions
        }


@pytest.fixture(scope="module")
def shops(started: dict[str, StartedLocally]) -> dict[str, str]:
    """The base URL of each version."""
    return {version: one.service.url for version, one in started.items()}


@pytest.fixture(scope="module")
def upstreams(started: dict[str, StartedLocally]) -> dict[str, str]:
    """The base URL of each version's upstream."""
    return {version: one.upstream.url for version, one in started.items() if one.upstream}


def ask(url: str, bearer: str | None = None, method: str = "GET", **more: Any) -> requests.Response:
    headers = more.pop("headers", {}) | ({"Authorization": f"Bearer {bearer}"} if bearer else {})
    return requests.request(method, url, headers=headers, timeout=5, **more)


@pytest.mark.parametrize("path", ROUTES)
def test_builds_that_are_the_same_in_effect_answer_the_same(shops: dict[str, str], path: str) -> None:
    answers = {version: ask(url + path, token()) for version, url in shops.items()}
    assert {answer.status_code for answer in answers.values()} == {200}
    assert {version: answer.headers["X-Shop-Version"] for version, answer in answers.items()} == {v: v for v in shops}
    assert answers["1.0.0"].json() == answers["1.0.1"].json() == ask(shops["1.0.0"] + path, token()).json()
    assert answers["1.1.0"].json() != answers["1.0.0"].json(), "1.1.0 shows personal prices"


@pytest.mark.parametrize(
    ("bearer", "method", "path", "status", "reason"),
    [
        (None, "GET", "/cart", 401, "a bearer token is needed"),
        ("nonsense", "GET", "/cart", 401, "Not enough segments"),
        (token(Ed25519PrivateKey.generate()), "GET", "/cart", 401, "Signature verification failed"),
        (token(exp=time.time() - 1), "GET", "/cart", 401, "Signature has expired"),
        (token(exp=None), "GET", "/cart", 401, "missing the"),
        (token(aud="other"), "GET", "/cart", 401, "Audience doesn't match"),
        (token(iss="other"), "GET", "/cart", 401, "Invalid issuer"),
        (token(scope="write"), "GET", "/cart", 403, "the token lacks the scope read"),
        (token(), "POST", "/cart", 403, "the token lacks the scope write"),
        (token(scope="read write"), "POST", "/orders", 403, "a load test may only read"),
        (token(), "GET", "/logout", 403, "a load test may only read"),
        (token(), "GET", "/export/orders", 403, "a load test may only read"),
    ],
)
def test_a_request_that_its_token_does_not_cover_is_refused(
    shops: dict[str, str], bearer: str | None, method: str, path: str, status: int, reason: str
) -> None:
    answer = ask(shops["1.0.0"] + path, bearer, method)
    assert answer.status_code == status
    assert reason in answer.json()["error"]


def test_a_user_may_write_leave_and_then_no_more(shops: dict[str, str]) -> None:
    bearer = token(scope="read write", load_test=None)
    url = shops["1.0.0"]
    assert ask(f"{url}/cart", bearer, "POST", json={"product": 3}).status_code == 201
    assert ask(f"{url}/orders", bearer, "POST", data="{").status_code == 400
    assert ask(f"{url}/export/orders", bearer).headers["Content-Type"].startswith("text/csv")
    assert ask(f"{url}/logout", bearer).status_code == 200
    assert ask(f"{url}/cart", bearer).status_code == 401


def test_a_proxy_learns_the_user_from_the_token_alone(shops: dict[str, str]) -> None:
    url = shops["1.0.0"] + "/auth"
    assert ask(url, token(), headers={"X-User-Uuid": "somebody else"}).headers["X-User-Uuid"] == USER
    assert ask(url).status_code == 401


def test_a_category_that_is_known_is_not_sent_again(shops: dict[str, str]) -> None:
    url = shops["1.0.0"] + "/categories/lamps"
    etag = ask(url, token()).headers["ETag"]
    again = ask(url, token(), headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    assert ask(url, token(), headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/products?page=0", "/products?page=x", "/products/601", "/orders/0", "/categories/x"]
)
def test_what_is_not_there_is_a_client_error(shops: dict[str, str], path: str) -> None:
    assert ask(shops["1.0.0"] + path, token()).status_code in {400, 404}


def scrape(url: str) -> dict[str, float]:
    return {
        sample.name + json.dumps(sample.labels): sample.value
        for family in text_string_to_metric_families(ask(f"{url}/metrics").text)
        for sample in family.samples
    }


def test_the_page_counts_what_was_answered_in_buckets_that_show_five_per_cent(shops: dict[str, str]) -> None:
    url = shops["1.0.0"]
    before = scrape(url)
    for status in (200, 401):
        assert ask(f"{url}/orders/1", token() if status == 200 else None).status_code == status
    after = scrape(url)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown["shop_request_duration_seconds_count{}"] == 2
    assert grown['shop_requests_total{"status": "2xx"}'] == grown['shop_requests_total{"status": "4xx"}'] == 1
    edges = sorted(float(json.loads(name.partition("bucket")[2])["le"]) for name in after if "bucket" in name)
    assert edges[0] <= 0.0001
    assert edges[-2] >= 2.0
    assert max(high / low for low, high in pairwise(edges[:-1])) < 1.05
    assert after["process_resident_memory_bytes{}"] > 10_000_000


def test_the_regression_is_one_more_question_to_the_upstream(shops: dict[str, str], upstreams: dict[str, str]) -> None:
    asked = {}
    for version, url in shops.items():
        before = scrape(upstreams[version])["upstream_request_duration_seconds_count{}"]
        for path in ("/products/5", "/products/5/reviews", "/recommendations"):
            ask(url + path, token())
        asked[version] = scrape(upstreams[version])["upstream_request_duration_seconds_count{}"] - before
    assert asked == {"1.0.0": 3, "1.0.1": 3, "1.1.0": 6}

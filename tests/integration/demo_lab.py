"""The demo's plan made short, with a few captured requests, for tests of the lab with real programs."""

import random
import time
from pathlib import Path
from typing import Any

import psutil
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture.token_keys import public_key_pem
from perf_pipeline.capture.tokens import SignedTokens
from perf_pipeline.lab.run import TokenSource
from perf_pipeline.plan import Plan, load_plan
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import HOUR, captured, store_hour

DEMO = Path(__file__).parents[2] / "examples/demo"
URIS = {
    "/products": "/products?q=lamp&page=1",
    "/products/{id}": "/products/%d",
    "/products/{id}/reviews": "/products/%d/reviews",
    "/categories/{name}": "/categories/lamps",
    "/recommendations": "/recommendations",
    "/cart": "/cart",
    "/orders/{id}": "/orders/%d",
}


def short_demo_plan(folder: Path, **sections: Any) -> Plan:
    """The demo's plan with one scenario at 60 requests/s, held for 4 s, two repeats.

    `max_latency_s` gives k6 virtual users enough for answers that a busy machine delays.
    """
    plan = yaml.safe_load((DEMO / "plan.yaml").read_text().replace("{plan_dir}", str(DEMO)))
    plan |= {
        "workload": {"hours": [HOUR]},
        "scenarios": [{"name": "browse", "rate_per_s": 60}],
        "load": {"warmup_s": 1, "hold_s": 4, "max_latency_s": 1},
        "schedule": {"repeats": 2, "seed": 1},
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(plan | sections))
    return load_plan(path)


def demo_store(folder: Path) -> LocalObjectStore:
    """A store with a captured hour of the demo's routes."""
    store = LocalObjectStore(folder)
    chance = random.Random(1)
    routes = [chance.choice(list(URIS)) for _ in range(900)]
    uris = [URIS[route].replace("%d", str(1 + number % 500)) for number, route in enumerate(routes)]
    rows = captured(900, route=lambda number: routes[number], uri=lambda number: uris[number])
    store_hour(store, rows, capture=load_plan(DEMO / "plan.yaml").capture)
    return store


def token_source(plan: Plan) -> tuple[TokenSource, str, list[str]]:
    """Tokens by a new key, its public half, and a list of every token that was issued."""
    key = Ed25519PrivateKey.generate()
    issuer = SignedTokens(key, plan.tokens)
    issued: list[str] = []

    def tokens(users: Any, until_s: float) -> dict[str, str]:
        made = {user: token.text for user, token in issuer.issue(users, time.time()).items()}
        issued.extend(made.values())
        return made

    return tokens, public_key_pem(key), issued


def gone(pids: set[int], seconds: float = 60) -> bool:
    """Whether all processes end within the time."""
    deadline = time.monotonic() + seconds
    while running := [pid for pid in pids if _runs(pid)]:
        if time.monotonic() > deadline:
            raise AssertionError([psutil.Process(pid).cmdline() for pid in running if psutil.pid_exists(pid)])
        time.sleep(0.02)
    return True


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

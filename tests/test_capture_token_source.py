import logging
import time
from pathlib import Path

import jwt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from perf_pipeline.capture.requests_file import REQUESTS, private_writer
from perf_pipeline.capture.token_exchange import ExchangedTokens
from perf_pipeline.capture.token_renewal import renew_tokens
from perf_pipeline.capture.token_source import (
    TokenSource,
    captured_requests,
    requests_folder,
    stored_tokens,
    token_issuer,
)
from perf_pipeline.capture.tokens import SignedTokens
from perf_pipeline.errors import InputError
from perf_pipeline.plan import Plan
from perf_pipeline.plan_tokens import TokenSection
from perf_pipeline.storage import LocalObjectStore
from tests.captured_requests import HOUR, USERS, captured, small_plan, store_hour

TTL_S = 600
SKEW_S = 30


def plan_with(folder: Path, **tokens: object) -> Plan:
    return small_plan(folder, tokens={"issuer": "tests", "audience": "service", "ttl_s": TTL_S, **tokens})


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "store")


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_with(tmp_path)


@pytest.fixture
def issuer(key: Ed25519PrivateKey, plan: Plan) -> SignedTokens:
    return SignedTokens(key, plan.tokens)


def store_tokens(
    store: LocalObjectStore, issuer: SignedTokens, ages_s: dict[str, float], hour: str = HOUR
) -> dict[str, str]:
    """An hour whose users have tokens of these ages."""
    now_s = time.time()
    texts = {user: issuer.issue([user], now_s - age_s)[user].text for user, age_s in ages_s.items()}
    users = list(ages_s)
    rows = captured(4 * len(users), user=lambda number: users[number % len(users)])
    rows = [row | {"token": texts[row["user"]]} for row in rows]
    store_hour(store, rows, hour)
    return texts


def test_a_stored_token_is_sent_as_long_as_it_outlives_the_run_and_the_skew(
    store: LocalObjectStore, plan: Plan, issuer: SignedTokens
) -> None:
    texts = store_tokens(store, issuer, {USERS[0]: 300, USERS[1]: 400})
    source = TokenSource(store, plan, issuer)
    lasts_s = time.time() + TTL_S - 300 - SKEW_S
    tokens = source(USERS, lasts_s - 5)
    assert tokens[USERS[0]] == texts[USERS[0]]
    assert tokens[USERS[1]] != texts[USERS[1]]
    assert source.renewed == 1
    assert source([USERS[0]], lasts_s + 5)[USERS[0]] != texts[USERS[0]]
    assert source.renewed == 2


def test_a_new_token_is_kept_for_the_runs_that_follow(
    store: LocalObjectStore, plan: Plan, issuer: SignedTokens
) -> None:
    """One token per user until it would expire, not one per run."""
    store_tokens(store, issuer, dict.fromkeys(USERS, TTL_S))
    source = TokenSource(store, plan, issuer)
    first = source(USERS, time.time() + 60)
    assert source(USERS, time.time() + 90) == first
    assert source.renewed == len(USERS)
    source(USERS, time.time() + TTL_S - SKEW_S - 1)
    assert source([], time.time()) == {}


def test_a_user_without_a_stored_token_gets_one(store: LocalObjectStore, plan: Plan, issuer: SignedTokens) -> None:
    store_hour(store, captured(4, token=""))
    source = TokenSource(store, plan, issuer)
    other = "7f3c1f5e-2f0b-4c53-9d7b-0a2f6f1d0009"
    tokens = source([USERS[0], other], time.time() + 60)
    for user in (USERS[0], other):
        claims = jwt.decode(tokens[user], options={"verify_signature": False})
        assert claims["sub"] == user


def test_a_stored_token_of_another_key_or_user_is_not_sent(
    store: LocalObjectStore, plan: Plan, issuer: SignedTokens
) -> None:
    """What revocation relies on: after the key was replaced, nothing that it signed is sent."""
    old = SignedTokens(Ed25519PrivateKey.generate(), plan.tokens)
    texts = store_tokens(store, old, {USERS[0]: 0})
    store_hour(
        store, captured(1, user=USERS[1], token=issuer.issue(USERS[:1], time.time())[USERS[0]].text), "2026-11-30-05:00"
    )
    both = plan.model_copy(update={"workload": plan.workload.model_copy(update={"hours": [HOUR, "2026-11-30-05:00"]})})
    source = TokenSource(store, both, issuer)
    tokens = source(USERS, time.time() + 60)
    assert source.renewed == 2
    assert tokens[USERS[0]] != texts[USERS[0]]
    assert all(issuer.expiry_s(token, user) > time.time() for user, token in tokens.items())


def test_of_several_hours_the_token_that_lives_longest_is_taken(
    store: LocalObjectStore, plan: Plan, issuer: SignedTokens
) -> None:
    hours = [HOUR, "2026-11-30-05:00", "2026-11-30-06:00"]
    made = [
        store_tokens(store, issuer, {USERS[0]: age_s}, hour) for hour, age_s in zip(hours, (200, 100, 300), strict=True)
    ]
    both = plan.model_copy(update={"workload": plan.workload.model_copy(update={"hours": hours})})
    assert TokenSource(store, both, issuer)(USERS[:1], time.time())[USERS[0]] == made[1][USERS[0]]


def test_tokens_that_cannot_live_long_enough_are_refused(
    store: LocalObjectStore, plan: Plan, issuer: SignedTokens
) -> None:
    store_hour(store, captured(2))
    source = TokenSource(store, plan, issuer)
    with pytest.raises(InputError) as caught:
        source(USERS, time.time() + TTL_S)
    message = str(caught.value)
    assert "tokens.ttl_s" in message
    assert f"needed for {TTL_S + SKEW_S} s" in message
    assert "eyJ" not in message


def test_a_comparison_that_outlasts_its_stored_tokens_is_told_that_they_are_renewed(
    store: LocalObjectStore, plan: Plan, issuer: SignedTokens, caplog: pytest.LogCaptureFixture
) -> None:
    store_tokens(store, issuer, {USERS[0]: 100, USERS[1]: 0})
    source = TokenSource(store, plan, issuer)
    caplog.set_level(logging.INFO, "perf_pipeline")
    source.begin(time.time() + TTL_S - 60)
    said = caplog.text
    assert "1 of 2 users have no stored token that lasts until the planned end" in said
    assert "(tokens.expired: renew)" in said
    source.begin(time.time() + 60)
    assert "the stored tokens of all 2 users last until the planned end" in caplog.text
    assert source.renewed == 0


def test_it_is_refused_where_the_plan_says_so(store: LocalObjectStore, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    plan = plan_with(tmp_path, expired="refuse")
    issuer = SignedTokens(key, plan.tokens)
    store_tokens(store, issuer, {USERS[0]: 100, USERS[1]: 0})
    source = TokenSource(store, plan, issuer)
    source.begin(time.time() + 60)
    with pytest.raises(InputError) as caught:
        source.begin(time.time() + TTL_S - 60)
    assert "tokens.expired: refused: 1 of 2 users" in str(caught.value)
    assert "-> store new ones with `perf-pipeline tokens renew PLAN`" in str(caught.value)
    store_tokens(store, SignedTokens(Ed25519PrivateKey.generate(), plan.tokens), {USERS[0]: 0})
    with pytest.raises(InputError, match="1 of 1 users have no stored token that is valid"):
        TokenSource(store, plan, issuer).begin(time.time())


def test_tokens_that_are_never_stored_are_made_before_each_run(
    store: LocalObjectStore, tmp_path: Path, key: Ed25519PrivateKey, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_with(tmp_path, minted="replay", expired="refuse")
    store_hour(store, captured(2, token=""))
    source = TokenSource(store, plan, SignedTokens(key, plan.tokens))
    caplog.set_level(logging.INFO, "perf_pipeline")
    source.begin(time.time() + 60)
    assert "made before each run and held in memory only" in caplog.text
    assert set(source(USERS, time.time() + 60)) == set(USERS)


def test_it_shows_no_token(store: LocalObjectStore, plan: Plan, issuer: SignedTokens) -> None:
    store_tokens(store, issuer, {USERS[0]: 0})
    source = TokenSource(store, plan, issuer)
    assert "eyJ" not in f"{source!r} {vars(source)} {source.review(time.time())}"


def test_an_hour_that_was_not_captured_is_an_error(store: LocalObjectStore, plan: Plan, issuer: SignedTokens) -> None:
    for ask in (lambda: TokenSource(store, plan, issuer), lambda: renew_tokens(store, HOUR, issuer)):
        with pytest.raises(InputError, match="replay_requests"):
            ask()


def test_the_plan_decides_who_issues(key: Ed25519PrivateKey) -> None:
    section = {"issuer": "i", "audience": "a"}
    assert isinstance(token_issuer(key, TokenSection.model_validate(section)), SignedTokens)
    exchange = {"exchange": {"endpoint": "https://id.example.test/token"}}
    assert isinstance(token_issuer(key, TokenSection.model_validate(section | exchange)), ExchangedTokens)


def written_hour(store: LocalObjectStore, count: int) -> Path:
    """An hour as the capture writes it, in several row groups."""
    folder = store.root / requests_folder(HOUR)
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(captured(10)).slice(0, count).cast(REQUESTS)
    with private_writer(folder / "requests.parquet", REQUESTS) as writer:
        writer.write_table(table, row_group_size=3)
    (folder / "manifest.json").write_text('{"accepted": 10, "tokens_expire": "then"}')
    return folder / "requests.parquet"


def test_renewing_changes_the_tokens_and_nothing_else(store: LocalObjectStore, issuer: SignedTokens) -> None:
    path = written_hour(store, 10)
    before = pq.read_table(path)
    now_s = time.time()
    assert renew_tokens(store, HOUR, issuer, now_s) == int(now_s) + TTL_S
    after = pq.read_table(path)
    assert after.schema.equals(before.schema)
    assert after.drop_columns("token").equals(before.drop_columns("token"))
    expected = issuer.issue(USERS, now_s)
    assert stored_tokens(captured_requests(store, HOUR)) == {user: token.text for user, token in expected.items()}
    assert after["token"].to_pylist() == [expected[user].text for user in after["user"].to_pylist()]
    assert pq.ParquetFile(path).num_row_groups == 4
    assert path.stat().st_mode & 0o077 == 0
    manifest = store.get(f"{requests_folder(HOUR)}/manifest.json").decode()
    assert '"accepted": 10' in manifest and '"then"' not in manifest and "+00:00" in manifest
    assert {each.name for each in store.root.iterdir()} == {"requests"}


def test_renewing_an_hour_without_requests(store: LocalObjectStore, issuer: SignedTokens) -> None:
    written_hour(store, 0)
    assert renew_tokens(store, HOUR, issuer) is None
    assert stored_tokens(captured_requests(store, HOUR)) == {}

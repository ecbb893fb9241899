"""A real nginx with the configuration of examples/capture: what it samples, excludes and quotes, and how it rotates."""

import math
import os
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from perf_pipeline.capture.access_log import NEEDED_KEYS, RATE_KEY, read_fields, read_sampling_rate
from perf_pipeline.capture.suspicious import names_side_effect
from perf_pipeline.lab.programs import Programs, programs
from tests.integration.capture_nginx import NGINX, capture_nginx, need_nginx, user_ids

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def started() -> Iterator[Programs]:
    need_nginx()
    with programs() as started:
        yield started


def within_binomial(found: int, of: int, share: float, sigmas: float = 5) -> bool:
    """Whether a count is one that sampling gives but for one test in a million."""
    return abs(found - of * share) <= sigmas * math.sqrt(of * share * (1 - share))


def test_a_share_of_the_requests_is_sampled_and_each_line_says_which(started: Programs, tmp_path: Path) -> None:
    with capture_nginx(started, tmp_path, "request", "10%", "0.1") as nginx:
        for user in user_ids(20, seed=1):
            nginx.get([f"/products/{number}" for number in range(500)], user)
        records = nginx.flushed().records()
    assert within_binomial(len(records), of=10_000, share=0.1)
    assert {read_sampling_rate(record["rate"]) for record in records} == {0.1}
    assert len({record["user"] for record in records}) == 20, "each user has lost requests"
    assert all(record["user"] in user_ids(20, seed=1) for record in records)


def test_sampling_by_user_keeps_whole_users_and_samples_the_anonymous(started: Programs, tmp_path: Path) -> None:
    users = user_ids(1000, seed=2)
    with capture_nginx(started, tmp_path, "user", "20%", "0.2") as nginx:
        for user in users:
            nginx.get([f"/products/{number}" for number in range(5)], user)
        nginx.get([f"/products/{number}" for number in range(2000)])
        records = nginx.flushed().records()
    counts = Counter(record["user"] for record in records)
    anonymous = counts.pop("")
    assert within_binomial(len(counts), of=1000, share=0.2)
    assert set(counts.values()) == {5}, "all requests of a user, or none"
    assert within_binomial(anonymous, of=2000, share=0.2), "an empty key would have put all of them in"


def test_a_larger_share_keeps_the_users_that_are_in(started: Programs, tmp_path: Path) -> None:
    users = user_ids(400, seed=3)
    sampled = []
    for percent, share in (("10%", "0.1"), ("30%", "0.3")):
        with capture_nginx(started, tmp_path / share, "user", percent, share) as nginx:
            for user in users:
                nginx.get(["/cart"], user)
            sampled.append({record["user"] for record in nginx.flushed().records()})
    assert sampled[0] < sampled[1]


def test_what_is_not_captured(started: Programs, tmp_path: Path) -> None:
    (user,) = user_ids(1, seed=4)
    denied = [
        "/logout",
        "/%6cogout",
        "/account/deleteMe",
        "/userDelete/3",
        "/e-mail/unsubscribe",
        "/a//sign-out",
        "/orders/export?x=1",
    ]
    kept = ["/products/1", "/deletedness", "/catalogout/7", "/cart?next=/logout"]
    with capture_nginx(started, tmp_path) as nginx:
        nginx.get([*denied, *kept], user)
        nginx.get(["/products/replayed"], user, headers="X-Load-Test: perf_pipeline\r\n")
        nginx.get(["/products/upgraded"], user, headers="Upgrade: websocket\r\nConnection: Upgrade\r\n")
        nginx.get(["/products/probed"], user, headers="User-Agent: kube-probe/1.32\r\n")
        nginx.get(["/health", "/healthz", "/livez", "/readyz", "/metrics"])
        for method in ("POST", "HEAD", "OPTIONS", "DELETE"):
            nginx.get([f"/products/{method}"], user, headers="Content-Length: 0\r\n", method=method)
        nginx.get(["/products/not-authenticated"], "wrong")
        nginx.get(["/products/forged"], headers=f"X-User-Uuid: {user}\r\n")
        records = nginx.flushed().records()
    assert [record["uri"] for record in records if record["user"] == user] == kept
    others = {record["uri"]: (record["user"], record["st"]) for record in records if record["user"] != user}
    assert others == {"/products/not-authenticated": ("", "401"), "/products/forged": ("", "200")}


def test_nginx_denies_the_words_that_the_pipeline_denies() -> None:
    text = (NGINX / "capture.conf").read_text()
    (pattern,) = re.findall(r'"~(.*)" denied;', text)
    denied = re.compile(pattern)
    words = "logout logoff log-out signout sign_off unsubscribe confirm verify reset delete deleteAll remove destroy"
    words += (
        " deactivate cancel revoke purge export exporting myExport download callback oauth oauth2 webhook poll stream"
    )
    words += " websocket websockets"
    for word in words.split():
        assert names_side_effect(f"/a/{word}") and denied.search(f"/a/{word}"), word
    for word in ("products", "catalogout", "polly", "stressed", "cart"):
        assert not names_side_effect(f"/a/{word}") and not denied.search(f"/a/{word}"), word


def test_odd_values_stay_one_line_of_json_with_every_value_quoted(started: Programs, tmp_path: Path) -> None:
    (user,) = user_ids(1, seed=5)
    odd = [
        b'/q?a="b"',
        rb"/q?a=\b\x22",
        b"/caf\xc3\xa9",
        b"/latin\xe9",
        b"/\xff\xfe",
        b"/%0a%22",
        b"/{}[]|^`'",
        b"//evil.test/x",
    ]
    with capture_nginx(started, tmp_path) as nginx:
        nginx.get(odd, user, headers='Accept-Encoding: gzip"\t,\\br\xe9\r\n')
        nginx.send([b"GET http://other.test:8443/absolute HTTP/1.1\r\nHost: x\r\n\r\n"])
        lines, records = nginx.flushed().lines(), nginx.records()
    assert len(lines) == len(odd) + 1 and all(line.endswith(b"}\n") and line.startswith(b'{"v":"1",') for line in lines)
    assert [record["uri"].encode("utf-8", "surrogateescape") for record in records[:-1]] == odd
    assert records[-1]["uri"] == "/absolute"
    for line, record in zip(lines, records, strict=True):
        assert {*NEEDED_KEYS, RATE_KEY} <= set(record) and all(isinstance(value, str) for value in record.values())
        assert isinstance(read_fields(line), dict), "the pipeline reads it"
        assert user.encode() in line or record["user"] == ""
        assert b"Bearer" not in line


def test_rotation_under_load_loses_no_line_and_doubles_none(started: Programs, tmp_path: Path) -> None:
    """Three clients send while the log is rotated and nginx is reloaded: what was sent is what was logged."""
    users = user_ids(3, seed=6)
    sent = dict.fromkeys(users, 0)
    over = threading.Event()
    failures: list[BaseException] = []

    with capture_nginx(started, tmp_path) as nginx:

        def load(user: str) -> None:
            try:
                while not over.is_set():
                    first = sent[user]
                    nginx.get([f"/products/{number}" for number in range(first, first + 200)], user)
                    sent[user] = first + 200
            except BaseException as failure:
                failures.append(failure)

        clients = [threading.Thread(target=load, args=(user,)) for user in users]
        for client in clients:
            client.start()
        for _ in range(8):
            time.sleep(0.4)
            rotated = nginx.rotate()
            assert rotated.returncode == 0, rotated.stderr
        over.set()
        for client in clients:
            client.join()
        assert nginx.flushed().rotate().returncode == 0
        assert not failures
        files, records = nginx.files(), nginx.records()
        assert nginx.log.stat().st_size == 0
        assert len(files) > 5 and all(path.stat().st_size for path in files if path != nginx.log)
    logged = Counter((record["user"], record["uri"]) for record in records)
    asked = {(user, f"/products/{number}") for user in users for number in range(sent[user])}
    assert len(asked) > 2000
    assert set(logged) == asked and set(logged.values()) == {1}
    assert len({record["rid"] for record in records}) == len(records)


def test_a_reload_and_an_end_in_good_order_flush_the_buffers(started: Programs, tmp_path: Path) -> None:
    (user,) = user_ids(1, seed=7)
    with capture_nginx(started, tmp_path) as nginx:
        nginx.get(["/products/1"], user)
        nginx.reload()
        nginx.get(["/products/2"], user)
        os.kill(nginx.program.pid, 3)  # QUIT: workers finish what they are at
        nginx.program.process.wait(20)
        assert sorted(record["uri"] for record in nginx.records()) == ["/products/1", "/products/2"]


def test_an_empty_log_is_not_rotated_and_old_files_go(started: Programs, tmp_path: Path) -> None:
    (user,) = user_ids(1, seed=8)
    with capture_nginx(started, tmp_path) as nginx:
        assert nginx.rotate().returncode == 0
        assert nginx.files() == [nginx.log]
        nginx.get(["/products/1"], user)
        assert nginx.flushed().rotate().returncode == 0
        (old,) = set(nginx.files()) - {nginx.log}
        assert old.match(nginx.handed_over.name)
        os.utime(old, (0, 0))
        nginx.get(["/products/2"], user)
        assert nginx.flushed().rotate().returncode == 0
        assert not old.exists() and len(nginx.files()) == 2


def test_a_rotation_that_was_killed_is_finished_by_the_next(started: Programs, tmp_path: Path) -> None:
    (user,) = user_ids(1, seed=10)
    with capture_nginx(started, tmp_path) as nginx:
        nginx.get(["/products/1"], user)
        nginx.log.rename(nginx.log.with_name("rotating-20261130T040000Z.1"))
        nginx.get(["/products/2"], user)
        assert nginx.rotate().returncode == 0
        assert [path.name for path in nginx.files()] == ["capture-20261130T040000Z.1.log", "capture.log"]
        assert len(nginx.files()[0].read_bytes().splitlines()) == 2
        nginx.get(["/products/3"], user)
        os.kill(nginx.program.pid, 3)
        nginx.program.process.wait(20)
        assert nginx.rotate().returncode == 0, "nginx has ended, and its last lines are handed over"
        assert not nginx.log.exists() and len(nginx.records()) == 3


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start workers of another user: NOT tested")
def test_a_folder_that_the_workers_cannot_enter_is_told(started: Programs, tmp_path: Path) -> None:
    (user,) = user_ids(1, seed=9)
    (tmp_path / "captured").mkdir(mode=0o700)
    with capture_nginx(started, tmp_path, **{"user root;": "user nobody nogroup;"}) as nginx:
        nginx.get(["/products/1"], user)
        rotated = nginx.flushed().rotate()
    assert rotated.returncode == 1
    assert "still writes to" in rotated.stderr and "may its user enter" in rotated.stderr


def test_nginx_accepts_the_configuration_of_the_pods(tmp_path: Path) -> None:
    need_nginx()
    (tmp_path / "capture").mkdir()
    for path in [NGINX.parents[2] / "k8s/capture/nginx.conf", *NGINX.glob("[cs]*.conf")]:
        text = re.sub(r"[a-z]+\.shop\.svc\.cluster\.local", "127.0.0.1", path.read_text())
        text = re.sub(r"/var/log/nginx-capture|/run/nginx|/tmp(?=/)", str(tmp_path), text)
        place = tmp_path if path.parent.name == "capture" else tmp_path / "capture"
        (place / path.name).write_text(text)
    command = ["nginx", "-t", "-e", "stderr", "-c", str(tmp_path / "nginx.conf")]
    tested = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert tested.returncode == 0, tested.stderr

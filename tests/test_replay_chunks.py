"""The files for k6: every request with its user's token, in order, in a folder that nobody else can read."""

import json
import re
import stat
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.plan import LoadSection, ScenarioSection
from perf_pipeline.replay import chunks
from perf_pipeline.replay.chunks import drain_ms, replay_folder, virtual_users, write_replay
from perf_pipeline.replay.order import RequestOrder

SCENARIO = ScenarioSection(name="browse", rate_per_s=30)
LOAD = LoadSection(warmup_s=1, hold_s=4)


def table(rows: list[tuple[str, str | None, str, str | None]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    names = ("uri", "user", "route", "accept_encoding")
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)})


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def decoded(config_path: Path) -> list[tuple[str, str, str, str]]:
    """What replay.js sends, read as it reads it: URI, Authorization, name tag, Accept-Encoding."""
    config = json.loads(config_path.read_text())
    texts = lambda uri: dict(re.findall(r'exports\.(\w+) = (".*");', path_of(uri).read_text()))  # noqa: E731
    tokens = json.loads(texts(config["tokens"])["tokens"])
    width = config["field_starts"][-1]

    def text(whole: str, place: int) -> str:
        start, length = divmod(place, config["lengths_below"])
        return whole[start : start + length]

    with_token: dict[int, bool] = {}
    sent = []
    for path in config["chunks"]:
        parts = {name: json.loads(text) for name, text in texts(path).items()}
        for at in range(0, len(parts["index"]), width):
            record = parts["index"][at : at + width]
            values = [int(record[start:end]) for start, end in pairwise(config["field_starts"])]
            uri, token, kind = values
            sent.append((text(parts["uris"], uri), text(tokens, token), *config["kinds"][kind].values()))
            assert with_token.setdefault(kind, token > 0) == (token > 0), "a token would be sent where there is none"
    assert len(sent) == config["rows"]
    return sent


uris = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40).map(lambda text: "/" + text)
users = st.sampled_from(["u1", "u2", "", None])
rows = st.lists(st.tuples(uris, users, st.sampled_from(["/a", "/b/{id}"]), st.sampled_from(["gzip", "", None, "br"])))


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(rows=rows.filter(bool), seed=st.integers(0, 99))
def test_k6_reads_back_what_was_captured(
    rows: list, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 7)
    order = RequestOrder(np.random.default_rng(seed).permutation(len(rows)), 0)
    tokens = {"u1": 'one"\\', "u2": "two-" + "x" * 400}
    files = write_replay(tmp_path, table(rows), order, tokens, "http://127.0.0.1:1", SCENARIO, LOAD)
    expected = [
        (uri, f"Bearer {tokens[user]}" if user else "", route, encoding or "")
        for uri, user, route, encoding in (rows[number] for number in order.rows)
    ]
    assert decoded(files.config) == expected


def test_a_user_without_a_token_stops_the_run(tmp_path: Path) -> None:
    requests = table([("/a", "u1", "/a", None), ("/a", "u2", "/a", None)])
    with pytest.raises(InputError, match="1 of the users to replay have none, such as u2"):
        write_replay(tmp_path, requests, RequestOrder(np.arange(2), 0), {"u1": "x"}, "http://h", SCENARIO, LOAD)


def test_a_token_that_no_header_can_hold_stops_the_run(tmp_path: Path) -> None:
    requests = table([("/a", "u1", "/a", None)])
    with pytest.raises(InputError, match="99,993 characters or more"):
        write_replay(
            tmp_path, requests, RequestOrder(np.arange(1), 0), {"u1": "x" * 99_993}, "http://h", SCENARIO, LOAD
        )


def test_the_folder_is_private_and_gone_afterwards() -> None:
    with replay_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "tokens.js").write_text("secret")
    assert not folder.exists()
    with pytest.raises(RuntimeError), replay_folder() as other:
        raise RuntimeError
    assert not other.exists()


@pytest.mark.parametrize(
    ("rate", "latency_s", "expected"), [(100, 0.5, 75), (1, 0.1, 4), (2000, 0.25, 750), (7, 1, 11)]
)
def test_virtual_users_are_rate_times_slowest_answer_and_a_half_more(
    rate: int, latency_s: float, expected: int
) -> None:
    load = LoadSection(warmup_s=1, hold_s=4, max_latency_s=latency_s)
    assert virtual_users(ScenarioSection(name="s", rate_per_s=rate), load) == expected
    assert drain_ms(load) == latency_s * 1000


def test_a_text_is_stored_once_in_a_chunk(tmp_path: Path) -> None:
    requests = table([("/same", "u1", "/a", None)] * 1000)
    files = write_replay(
        tmp_path, requests, RequestOrder(np.arange(1000), 0), {"u1": "T" * 300}, "http://h", SCENARIO, LOAD
    )
    config = json.loads(files.config.read_text())
    assert path_of(config["tokens"]).read_text().count("T" * 300) == 1
    assert path_of(config["chunks"][0]).read_text().count("/same") == 1

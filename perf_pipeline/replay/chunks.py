"""The files that k6 reads its requests from, made for one run and removed with it.

What belongs here: requests in the order of a run, their tokens, and how `replay.js` is told where they are.

The requests stand in JavaScript modules, as text constants: k6 compiles a module once and all its virtual users share
the constants, so that the text lies in memory once and reading a request is a few substrings. A `SharedArray` decodes
JSON and freezes it on each get, which costs several times as much (`bench/replay_overhead.py`). A chunk holds
`CHUNK_ROWS` requests, so that no single text grows with the run. Each request has one record of fixed width in `index`:
the places of its URI and of its token, and the number of its kind. A place is start x 100,000 + length, 0 where there
is none. Requests of one kind have the same route and Accept-Encoding, and all have a token or none has.

These are the only files besides `requests.parquet` that hold tokens. They stand in a folder that only its owner can
read (mode 0700) and that `replay_folder` removes.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.plan import LoadSection, ScenarioSection
from perf_pipeline.replay.order import RequestOrder

CHUNK_ROWS = 20_000
VU_HEADROOM = 1.5
"""Virtual users beyond rate x slowest answer [reference: load-and-safety.md, section 4]."""
MIN_VUS = 4

_LENGTHS_BELOW = 100_000
"""Texts are shorter than this, as `workload.MAX_URI_BYTES` says of URIs."""
_WIDTHS = (15, 15, 5)
"""Digits of the fields of a record: place of the URI, place of the token, kind. JavaScript counts 15 digits exactly."""


@dataclass(frozen=True)
class ReplayFiles:
    """What k6 is given for one run."""

    config: Path
    """JSON file that `replay.js` reads; it names the others."""
    folder: Path


@contextmanager
def replay_folder() -> Iterator[Path]:
    """A new folder that only its owner can read, removed at the end with all that it holds."""
    folder = Path(tempfile.mkdtemp(prefix="perf_pipeline-replay-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_replay(
    folder: Path,
    requests: pa.Table,
    order: RequestOrder,
    tokens: Mapping[str, str],
    target: str,
    scenario: ScenarioSection,
    load: LoadSection,
    graphql: bool = False,
) -> ReplayFiles:
    """Write the files of one run below `folder`.

    `requests` are the scenario's requests (columns uri, user, route, accept_encoding), which the order numbers;
    `target` is the fixed base that every URI is appended to, such as http://127.0.0.1:8080. A request without a user
    carries no token. Raises InputError when a user has none.
    """
    rows = requests.select(["uri", "user", "route", "accept_encoding"]).take(pa.array(order.rows))
    bearers, kinds = _Texts(), _Kinds()
    _check_tokens(rows["user"], tokens)
    chunks: list[str] = []
    for start in range(0, rows.num_rows, CHUNK_ROWS):
        uris = _Texts()
        records = []
        columns = [column.to_pylist() for column in rows.slice(start, CHUNK_ROWS).itercolumns()]
        for uri, user, route, encoding in zip(*columns, strict=True):
            token = bearers.place(f"Bearer {tokens[user]}") if user else 0
            fields = (uris.place(uri), token, kinds.number(_Kind(route, encoding or "", bool(user))))
            records.append("".join(f"{value:0{width}d}" for value, width in zip(fields, _WIDTHS, strict=True)))
        path = folder / f"chunk-{len(chunks):05d}.js"
        path.write_text(f"exports.index = {json.dumps(''.join(records))};\nexports.uris = {uris.as_literal()};\n")
        chunks.append(path.as_uri())
    token_path = folder / "tokens.js"
    token_path.write_text(f"exports.tokens = {bearers.as_literal()};\n")
    config = folder / "replay.json"
    config.write_text(
        json.dumps(
            {
                "target": target,
                "chunks": chunks,
                "chunk_rows": CHUNK_ROWS,
                "rows": rows.num_rows,
                "warmup_from": order.warmup_from,
                "tokens": token_path.as_uri(),
                "field_starts": [0, *accumulate(_WIDTHS)],
                "lengths_below": _LENGTHS_BELOW,
                "kinds": [{"route": kind.route, "accept_encoding": kind.accept_encoding} for kind in kinds],
                "rate_per_s": scenario.rate_per_s,
                "vus": virtual_users(scenario, load),
                "warmup_s": load.warmup_s,
                "drain_ms": drain_ms(load),
                "hold_s": load.hold_s,
                "request_timeout_ms": round(load.request_timeout_s * 1000),
                "graphql": graphql,
            },
            indent=1,
        )
    )
    return ReplayFiles(config, folder)


def virtual_users(scenario: ScenarioSection, load: LoadSection) -> int:
    """Virtual users that k6 makes beforehand: rate x slowest answer x 1.5, so that no request waits for one."""
    return max(MIN_VUS, -int(-scenario.rate_per_s * load.max_latency_s * VU_HEADROOM // 1))


def drain_ms(load: LoadSection) -> int:
    """Milliseconds between warm-up and hold, in which the last answers of the warm-up come in.

    k6 then holds with the virtual users, and the connections, that warmed up; else it would make as many again.
    """
    return max(1, round(load.max_latency_s * 1000))


def _check_tokens(users: pa.ChunkedArray, tokens: Mapping[str, str]) -> None:
    present = [user for user in users.unique().to_pylist() if user]
    missing = [user for user in present if user not in tokens]
    if missing:
        what = f"{len(missing)} of the users to replay have none, such as {missing[0]}"
        raise InputError(Problem("tokens", what, "issue a token for every user of the workload"))
    if any(len(tokens[user]) + len("Bearer ") >= _LENGTHS_BELOW for user in present):
        what = f"one has {_LENGTHS_BELOW - len('Bearer '):,} characters or more"
        raise InputError(Problem("tokens", what, "no server takes such a header; look at what the issuer returns"))


@dataclass(frozen=True)
class _Kind:
    """What requests have in common that k6 sends with the same parameters."""

    route: str
    accept_encoding: str
    with_token: bool


class _Texts:
    """Texts put one behind the other, each once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._length = 0

    def place(self, text: str) -> int:
        """Where the text begins, times `_LENGTHS_BELOW`, and its length."""
        if text not in self._places:
            self._places[text] = self._length * _LENGTHS_BELOW + len(text)
            self._length += len(text)
        return self._places[text]

    def as_literal(self) -> str:
        """All of it as a JavaScript string literal."""
        return json.dumps("".join(self._places))


class _Kinds(dict[_Kind, int]):
    """Kinds numbered in the order in which they first came."""

    def number(self, kind: _Kind) -> int:
        """The number of a kind."""
        return self.setdefault(kind, len(self))

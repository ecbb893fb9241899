"""The loop that a person would write first: access-log lines to Parquet with nothing but `json`, `re` and `urllib`.

What belongs here: what `bench/capture_requests.py` compares with. It does less than `build_requests`: it looks at a
query once and not through several encodings, writes no quarantine, and keeps everything in memory.
"""

import json
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from perf_pipeline.capture.tokens import TokenIssuer

SECRET = {"access_token", "token", "code", "signature", "sig", "password", "secret", "api_key"}
PERSONAL = {"email", "e-mail", "phone", "name"}
DENIED = re.compile(
    r"logout|signout|unsubscribe|confirm|verify|reset|delete|export|download|callback|oauth|webhook|poll|stream", re.I
)
E_MAIL = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)


def write_requests(objects: list[str], routes: list[str], target: Path, issuer: TokenIssuer, now_s: float) -> int:
    """Write the requests of raw objects (local paths) that may be replayed; how many there are."""
    patterns = [(route, re.compile(re.sub(r"\{\w+\}", "[^/]+", route))) for route in routes]
    seen: set[str] = set()
    rows: list[tuple] = []
    rejected = 0
    for name in objects:
        for line in zstandard.ZstdDecompressor().stream_reader(Path(name).read_bytes()).read().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                rejected += 1
                continue
            if (
                record["m"] != "GET"
                or record["st"] not in ("200", "304")
                or record["ok"] != "OK"
                or not UUID.fullmatch(record["user"])
                or record["rid"] in seen
            ):
                rejected += 1
                continue
            seen.add(record["rid"])
            parts = urlsplit(record["uri"])
            path = unquote(parts.path)
            route = next((route for route, pattern in patterns if pattern.fullmatch(path)), None)
            pairs = parse_qsl(parts.query, keep_blank_values=True)
            if route is None or DENIED.search(path) or any(name.lower() in SECRET for name, _ in pairs):
                rejected += 1
                continue
            uri = parts.path
            if pairs:
                uri += "?" + urlencode(
                    [
                        (name, "REDACTED" if name.lower() in PERSONAL or E_MAIL.search(value) else value)
                        for name, value in pairs
                    ]
                )
            rows.append(
                (
                    float(record["msec"]) - float(record["rt"]), record["rid"], record["user"].lower(), uri, route,
                    int(record["st"]), float(record["rate"]), record["ae"],
                )
            )  # fmt: skip
    rows.sort()
    tokens = issuer.issue({row[2] for row in rows}, now_s)
    columns = [*map(list, zip(*rows, strict=True))]
    names = ["arrival", "request_id", "user", "uri", "route", "status", "sampling_rate", "accept_encoding", "token"]
    columns.append([tokens[user].text for user in columns[2]])
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), target, compression="zstd")
    return len(rows)

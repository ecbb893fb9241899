"""A small plan with its captured requests, for tests of replay and lab."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from perf_pipeline.capture.origin import origin
from perf_pipeline.plan import CaptureSection, Plan, load_plan
from perf_pipeline.storage import LocalObjectStore

HOUR = "2026-11-30-04:00"
USERS = ("7f3c1f5e-2f0b-4c53-9d7b-0a2f6f1d0001", "7f3c1f5e-2f0b-4c53-9d7b-0a2f6f1d0002")

SERVICE = '''\
"""A service of a few lines: answers, and says how often on its metrics page."""
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answered = 0

    def do_GET(self):
        Handler.answered += 1
        page = f"# TYPE answered counter\\nanswered_total {Handler.answered}\\n" if self.path == "/metrics" else "ok\\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''

PLAN: dict[str, Any] = {
    "name": "small",
    "service": "a service of a few lines",
    "versions": ["1.0", "1.1"],
    "baseline": "1.0",
    "candidate": "1.1",
    "capture": {"topic": "small", "routes": ["/a", "/b/{id}"]},
    "tokens": {"issuer": "tests", "audience": "service"},
    "workload": {"hours": [HOUR]},
    "environment": {
        "service": {"command": ["{python}", "{plan_dir}/serve.py", "{port}"], "env": {"BUILD": "{version}"}}
    },
    "scenarios": [{"name": "all", "rate_per_s": 20}],
    "load": {"warmup_s": 1, "hold_s": 4, "max_latency_s": 0.2},
    "schedule": {"repeats": 2, "seed": 5},
    "metrics": {},
}


def small_plan(folder: Path, **sections: Any) -> Plan:
    """The plan with some sections replaced, loaded from a file in the folder, with its service beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "serve.py").write_text(SERVICE)
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(PLAN | sections))
    return load_plan(path)


def captured(count: int, **changes: Any) -> list[dict[str, Any]]:
    """Captured requests as rows; a change is a value for all of them or a function of the number."""
    start = datetime(2026, 11, 30, 4, tzinfo=UTC)
    rows = []
    for number in range(count):
        row = {
            "arrival": start + timedelta(seconds=number),
            "request_id": f"{number:032x}",
            "user": USERS[number % 2],
            "uri": f"/b/{number}?x={number}",
            "route": "/b/{id}",
            "status": 200,
            "sampling_rate": 1.0,
            "accept_encoding": "gzip",
            "token": f"recorded-{number}",
        }
        row |= {name: change(number) if callable(change) else change for name, change in changes.items()}
        rows.append(row)
    return rows


def store_hour(
    store: LocalObjectStore,
    rows: Sequence[Mapping[str, Any]],
    hour: str = HOUR,
    capture: CaptureSection | None = None,
) -> None:
    """Put rows where the capture puts the requests of an hour, as if captured by the small plan or by these rules."""
    path = store.root / f"requests/dt={hour[:10]}/hour={hour[11:13]}/requests.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.Table.from_pylist(captured(1)).schema
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), path)
    made_of = origin(store, capture or CaptureSection.model_validate(PLAN["capture"]), hour)
    path.with_name("manifest.json").write_text(json.dumps(made_of))

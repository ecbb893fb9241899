"""Run directories for the tests of the metrics: written as k6 and the collectors write them, from a known truth."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

HOLD_START = 1_796_000_000.0
SERVICE_HISTOGRAM = "http_request_duration_seconds"
MEMORY = "process_resident_memory_bytes"
METRICS = {
    "service_latency": {"histogram": SERVICE_HISTOGRAM},
    "service_p99": "service_latency",
    "service_memory": {"gauge": MEMORY},
    "upstream_latency": {"histogram": "upstream_seconds", "process": "upstream"},
}
# fmt: off
COLUMNS = [
    "metric_name", "timestamp", "metric_value", "check", "error", "error_code", "expected_response", "group", "method",
    "name", "proto", "scenario", "service", "status", "subproto", "tls_version", "url", "extra_tags", "metadata",
]
# fmt: on

Row = dict[str, str]


def request_rows(end_s: float, duration_ms: float, status: int = 200, scenario: str = "hold") -> list[Row]:
    """The rows of one request that matter, and some that do not."""
    stamp = str(round(end_s * 1e6))
    tags = {"scenario": scenario, "status": str(status), "method": "GET", "name": "/items/{id}"}
    values = {
        "http_reqs": 1.0,
        "http_req_duration": duration_ms,
        "http_req_waiting": duration_ms * 0.9,
        "http_req_failed": float(status == 0 or status >= 400),
    }
    return [
        {"metric_name": name, "timestamp": stamp, "metric_value": f"{value:f}"} | tags for name, value in values.items()
    ]


def k6_csv(rows: Iterable[Mapping[str, str]], columns: Sequence[str] = COLUMNS) -> bytes:
    """The text of a k6 file with these columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def series_csv(samples: Iterable[tuple[float, str, Mapping[str, str], float]]) -> bytes:
    """The text of a series file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["timestamp", "name", "labels", "value"])
    writer.writerows([f"{time:.3f}", name, json.dumps(labels), f"{value!r}"] for time, name, labels, value in samples)
    return text.getvalue().encode()


def histogram_samples(
    times_s: Sequence[float], latencies_s: Sequence[Sequence[float]], edges_s: Sequence[float], name: str, job: str
) -> list[tuple[float, str, dict[str, str], float]]:
    """Cumulative buckets at each time; `latencies_s[i]` are the requests that ended since the time before."""
    samples = []
    total = np.zeros(len(edges_s) + 1)
    for time, ended in zip(times_s, latencies_s, strict=True):
        values = np.asarray(ended, dtype=float)
        total += [*(float((values <= edge).sum()) for edge in edges_s), float(values.size)]
        for edge, count in zip([*map(str, edges_s), "+Inf"], total, strict=True):
            samples.append((time, f"{name}_bucket", {"job": job, "le": edge}, float(count)))
    return samples


def write_run(
    folder: Path,
    run_id: str = "1.0.0-browse-r01",
    seed: int = 1,
    hold_s: int = 6,
    rate_per_s: int = 50,
    slower: float = 1.0,
    **record: object,
) -> Path:
    """A whole run: a second of warm-up, then a hold at a constant rate, with series of the service and the upstream."""
    rng = np.random.default_rng(seed)
    run = folder / run_id
    run.mkdir(parents=True)
    version, scenario, repeat = run_id.rsplit("-", 2)
    fields = {
        "run_id": run_id,
        "version": version,
        "scenario": scenario,
        "repeat": int(repeat.removeprefix("r")),
        "target_rate_per_s": rate_per_s,
        "hold": {"start": HOLD_START, "end": HOLD_START + hold_s},
        "environment": {"node": "lab-1", "cpus": "2"},
        "service_digest": f"digest of {version}",
        "workload": "abc",
        "metrics": METRICS,
    }
    (run / "run.json").write_text(json.dumps(fields | record))
    starts_s = HOLD_START - 1 + np.arange((hold_s + 1) * rate_per_s) / rate_per_s
    latencies_ms = slower * rng.lognormal(1.0, 0.4, starts_s.size)
    rows: list[Row] = [
        {
            "metric_name": "hold_start",
            "timestamp": "1796000000000000",
            "metric_value": f"{HOLD_START * 1000:f}",
            "scenario": "hold",
        }
    ]
    for number, (start_s, latency_ms) in enumerate(zip(starts_s, latencies_ms, strict=True)):
        tag = "hold" if start_s >= HOLD_START else "warmup"
        rows += request_rows(start_s + latency_ms / 1000, latency_ms, 500 if number % 50 == 49 else 200, tag)
    (run / "k6.csv.gz").write_bytes(gzip.compress(k6_csv(rows)))
    times_s = HOLD_START - 1.5 + np.arange(hold_s + 4)
    ended = [latencies_ms[(starts_s > time - 1) & (starts_s <= time)] / 1000 for time in times_s]
    edges_s = [float(edge) for edge in np.round(1e-3 * 1.05 ** np.arange(60), 6)]
    samples = histogram_samples(times_s, ended, edges_s, SERVICE_HISTOGRAM, "service")
    upstream = [rng.lognormal(-6.0, 0.3, len(some)) for some in ended]
    samples += histogram_samples(times_s, upstream, edges_s, "upstream_seconds", "upstream")
    samples += [(time, MEMORY, {"job": "service"}, 1e8 + 1e5 * (number % 2)) for number, time in enumerate(times_s)]
    samples += [
        (time, "container_cpu_cfs_periods_total", {"job": "service"}, 10.0 * number)
        for number, time in enumerate(times_s)
    ]
    samples += [
        (time, "container_cpu_cfs_throttled_periods_total", {"job": "service"}, 1.0 * number)
        for number, time in enumerate(times_s)
    ]
    requests = np.cumsum([len(some) for some in ended])
    samples += [
        (time, f"{SERVICE_HISTOGRAM}_count", {"job": "service"}, float(count))
        for time, count in zip(times_s, requests, strict=True)
    ]
    (run / "series.csv.gz").write_bytes(gzip.compress(series_csv(samples)))
    return run

"""From what is so in each run to the run directories that k6 and the collectors would have left.

What belongs here: drawing requests one by one, and writing them as `docs/run-directory.md` says. `perf-pipeline judge`
reads what stands here like the runs of any harness. A run of a hundred thousand requests takes a second and a few MB;
where thousands of campaigns are needed, `evidence` gives the gates the same at once.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from perf_pipeline.gates.evidence import FloatArray
from perf_pipeline.lab.run_directory import RECORD_NAME
from perf_pipeline.metrics.series import CFS_PERIODS, CFS_THROTTLED_PERIODS
from perf_pipeline.simulation.campaign import Campaign
from perf_pipeline.simulation.truth import LatencyTruth, Truth, draw_truth

START_S = 1_796_000_000.0
"""Unix seconds at which the first run of a campaign is started."""
WARM_UP_S = 2
SERVICE_HISTOGRAM = "service_request_duration_seconds"
UPSTREAM_HISTOGRAM = "upstream_request_duration_seconds"
MEMORY_GAUGE = "process_resident_memory_bytes"

_PAUSE_S = 30
"""Between the end of a run and the start of the next."""
_CPU_PERIODS_PER_S = 10
_SOURCES = {
    "client_latency": "k6",
    "service_latency": {"histogram": SERVICE_HISTOGRAM},
    "service_memory": {"gauge": MEMORY_GAUGE},
    "http_error_rate": "k6",
    "graphql_error_rate": "k6",
    "upstream_latency": {"histogram": UPSTREAM_HISTOGRAM, "process": "upstream"},
}
_HISTOGRAMS = {"service_latency": (SERVICE_HISTOGRAM, "service"), "upstream_latency": (UPSTREAM_HISTOGRAM, "upstream")}
_WIDEST = 100.0
"""Buckets reach from the median of a scenario this many times down and up."""


def write_runs(campaign: Campaign, seed: int, folder: Path) -> list[Path]:
    """Write the run directories of a campaign below a folder; the same seed gives the same runs as in `evidence`.

    The runs are the same in what is so in them; what is measured differs by the noise of finitely many requests. Each
    directory is whole or not there. Raises FileExistsError when one of them is there already.
    """
    truth = draw_truth(campaign, seed)
    return [_write_run(truth, row, folder, start_s) for row, start_s in enumerate(_starts_s(truth))]


def _starts_s(truth: Truth) -> list[float]:
    """When the hold of each run starts: blocks one after the other, in each the sides of a scenario in a row."""
    runs = truth.runs
    order = sorted(range(len(runs)), key=lambda row: (runs[row].repeat, runs[row].scenario, row))
    period_s = WARM_UP_S + truth.campaign.hold_s + _PAUSE_S
    return [START_S + WARM_UP_S + place * period_s for place in np.argsort(order).tolist()]


def _write_run(truth: Truth, row: int, folder: Path, start_s: float) -> Path:
    path = folder / truth.runs[row].run_id
    if path.exists():
        raise FileExistsError(path)
    unfinished = path.with_name(f".{path.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    (unfinished / RECORD_NAME).write_text(json.dumps(_record(truth, row, start_s), indent=2), encoding="utf-8")
    if truth.incident(row).failure is None:
        rng = np.random.default_rng([truth.seed, row])
        requests = _Requests(truth, row, rng, start_s)
        with pa.CompressedOutputStream(str(unfinished / "k6.csv.gz"), "gzip") as file:
            pa.csv.write_csv(_k6_table(truth, row, rng, requests), file)
        pa.parquet.write_table(_series_table(truth, row, rng, requests), unfinished / "series.parquet")
    os.replace(unfinished, path)
    return path


def _record(truth: Truth, row: int, start_s: float) -> dict[str, object]:
    campaign, scenario, run = truth.campaign, truth.scenarios[row], truth.runs[row]
    described = {*scenario.latencies, *scenario.errors, *(["service_memory"] if scenario.memory else [])}
    sources: dict[str, object] = {
        metric: source if metric in described else None for metric, source in _SOURCES.items()
    }
    sources["service_p99"] = "service_latency" if "service_latency" in described else None
    failure = truth.incident(row).failure
    return {
        "run_id": run.run_id,
        "comparison": f"{campaign.baseline}__{campaign.candidate}",
        "version": run.version,
        "scenario": run.scenario,
        "repeat": run.repeat,
        "block": run.repeat,
        "arm": run.arm,
        "design": vars(campaign.design) if campaign.design else None,
        "target_rate_per_s": scenario.rate_per_s,
        "hold": {"start": start_s, "end": start_s + campaign.hold_s},
        "environment": campaign.environment_of(run),
        "workload": "simulated",
        "seed": truth.seed,
        "metrics": sources,
        "status": "failed" if failure else "complete",
        "failure": failure,
    }


class _Requests:
    """The requests of one run: when each starts, in which second of the hold, and whether it is answered."""

    def __init__(self, truth: Truth, row: int, rng: np.random.Generator, hold_start_s: float) -> None:
        """Draw them: at even distances, as an open model starts them, after a warm-up at the same rate."""
        hold_s, started = truth.campaign.hold_s, int(truth.requests[row])
        warming = round(started * WARM_UP_S / hold_s)
        self.offset_s = (np.arange(-warming, started) + 0.5) * hold_s / started
        self.hold_start_s = hold_start_s
        self.start_s = hold_start_s + self.offset_s
        self.in_hold = self.offset_s >= 0
        self.failed = np.zeros(len(self.offset_s), dtype=bool)
        if errors := truth.errors.get("http_error_rate"):
            rate = errors.rates[errors.rows == row]
            self.failed = rng.random(len(self.offset_s)) < (rate[0] if rate.size else 0.0)

    def latency_ms(self, truth: LatencyTruth, row: int, rng: np.random.Generator) -> FloatArray:
        """The latency of each request, drawn."""
        one = truth.of(row)
        scores = rng.standard_normal((1, len(self.offset_s)))
        second = np.clip(self.offset_s, 0, one.seconds.shape[1] - 1).astype(np.int64)
        return np.asarray(np.exp(one.log_latency(scores)[0] + one.seconds[0, second]))


def _k6_table(truth: Truth, row: int, rng: np.random.Generator, requests: _Requests) -> pa.Table:
    """What k6 writes, one row a sample, in the order of their time stamps (us)."""
    start_s = requests.hold_start_s
    latency_ms = requests.latency_ms(truth.latencies["client_latency"], row, rng)
    end_s = requests.start_s + latency_ms / 1000
    tag = np.where(requests.in_hold, "hold", "warmup")
    status = np.where(requests.failed, "503", "200")
    samples = [
        ("http_reqs", end_s, np.ones(len(end_s)), tag, status),
        ("http_req_duration", end_s, latency_ms, tag, status),
        ("http_req_failed", end_s, requests.failed.astype(float), tag, status),
        ("hold_start", np.array([start_s]), np.array([start_s * 1000]), np.array(["hold"]), np.array([""])),
    ]
    if errors := truth.errors.get("graphql_error_rate"):
        answered = ~requests.failed
        rate = errors.rates[errors.rows == row]
        with_errors = (rng.random(len(end_s)) < (rate[0] if rate.size else 0.0))[answered].astype(float)
        samples.append(("graphql_errors", end_s[answered], with_errors, tag[answered], status[answered]))
    if dropped := round(truth.scenarios[row].rate_per_s * truth.campaign.hold_s) - int(truth.requests[row]):
        samples.append(
            (
                "dropped_iterations",
                np.array([start_s + 1.0]),
                np.array([float(dropped)]),
                np.array(["hold"]),
                np.array([""]),
            )
        )
    names = np.repeat([name for name, *_ in samples], [len(times_s) for _, times_s, *_ in samples])
    times_s, values, tags, statuses = (np.concatenate(column) for column in list(zip(*samples, strict=True))[1:])
    order = np.argsort(times_s, kind="stable")
    return pa.table(
        {
            "metric_name": names[order],
            "timestamp": np.rint(times_s[order] * 1e6).astype(np.int64),
            "metric_value": values[order],
            "scenario": tags[order],
            "status": statuses[order],
        }
    )


def _series_table(truth: Truth, row: int, rng: np.random.Generator, requests: _Requests) -> pa.Table:
    """What a scrape a second sees, from before the hold to after it."""
    hold_s, incident = truth.campaign.hold_s, truth.incident(row)
    offsets_s = np.arange(-1.0, hold_s + 1) + 0.5
    offsets_s = offsets_s[offsets_s < hold_s * incident.scrape_share + (incident.scrape_share == 1.0)]
    times_s = requests.hold_start_s + offsets_s
    periods = _CPU_PERIODS_PER_S * np.arange(1.0, len(times_s) + 1)
    series = [
        (CFS_PERIODS, {"job": "service"}, periods),
        (CFS_THROTTLED_PERIODS, {"job": "service"}, periods * truth.campaign.throttled(truth.runs[row])),
    ]
    mine = truth.memory.rows == row
    if mine.any():
        values = np.exp(truth.memory.log_bytes[mine][0])
        second = np.clip(offsets_s, 0, hold_s - 1).astype(np.int64)
        series.append((MEMORY_GAUGE, {"job": "service"}, values[second]))
    for metric, (name, job) in _HISTOGRAMS.items():
        if metric in truth.scenarios[row].latencies:
            series.extend(_buckets(truth, metric, row, rng, requests, times_s, name, job))
    return pa.table(
        {
            "timestamp": np.tile(times_s, len(series)),
            "name": pa.array(np.repeat([name for name, _, _ in series], len(times_s))).dictionary_encode(),
            "labels": pa.array(
                np.repeat([json.dumps(labels) for _, labels, _ in series], len(times_s))
            ).dictionary_encode(),
            "value": np.concatenate([values for _, _, values in series]),
        }
    )


def _buckets(
    truth: Truth,
    metric: str,
    row: int,
    rng: np.random.Generator,
    requests: _Requests,
    times_s: FloatArray,
    name: str,
    job: str,
) -> Iterator[tuple[str, dict[str, str], FloatArray]]:
    """Cumulative Prometheus buckets of one latency metric at each scrape; answers count when they end."""
    described = truth.scenarios[row].latencies[metric]
    latency_s = requests.latency_ms(truth.latencies[metric], row, rng)[~requests.failed] / 1000
    end_s = requests.start_s[~requests.failed] + latency_s
    reach = int(np.ceil(np.log(_WIDEST) / np.log(described.bucket_ratio)))
    edges_s = described.median_ms / 1000 * described.bucket_ratio ** np.arange(-reach, reach + 1.0)
    bucket = np.searchsorted(edges_s, latency_s)
    scrape = np.searchsorted(times_s, end_s)
    counts = np.zeros((len(times_s) + 1, len(edges_s) + 1))
    np.add.at(counts, (scrape, bucket), 1.0)
    seen = counts.cumsum(axis=0).cumsum(axis=1)[: len(times_s)]
    for edge, values in zip([*(repr(float(edge)) for edge in edges_s), "+Inf"], seen.T, strict=True):
        yield f"{name}_bucket", {"job": job, "le": edge}, values

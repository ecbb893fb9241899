"""How long a judgement takes, and how that grows with the number of runs.

    .venv/bin/python bench/judge_speed.py            # about three minutes
    .venv/bin/python bench/judge_speed.py --runs 500

Runs are simulated: seven metrics, 21 percentiles, a hold of 4 min in 24 sub-windows, 240 levels. Each figure is taken
in a process of its own on one thread: CPU seconds from run directories to the judgement, where k6's CSV is what there
is most of (bench/k6_samples.py holds that against DuckDB); then from stored metrics (Parquet), of which in the gates;
and peak memory. Targets: 500 runs from metrics in 10 s, linear to 5,000; importing the gates in 1.5 s.
"""

import os

# Before numpy and pyarrow start their threads: figures are those of one core.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perf_pipeline.gates.verdict import judge
from perf_pipeline.judge import judge_folder, load_policy
from perf_pipeline.lab.run_directory import find_runs
from perf_pipeline.metrics.extract import evidence, extract_runs, read_metrics, write_metrics
from perf_pipeline.metrics.tables import MetricTables
from perf_pipeline.simulation.campaign import Campaign, named
from perf_pipeline.simulation.run_directories import write_runs
from perf_pipeline.simulation.run_effects import RunEffects
from perf_pipeline.simulation.scenario import every_metric
from perf_pipeline.storage import LocalObjectStore

BASELINE, CANDIDATE, COMPARISON = "1.0", "1.1", "1.0__1.1"
RATE_PER_S = 200.0
SCENARIOS_DRAWN = 2
RUNS_PER_SCENARIO = 10
RUNS = (500, 1000, 2000, 5000)
TARGET_S, TARGET_RUNS, IMPORT_TARGET_S = 10.0, 500, 1.5


def several(tables: MetricTables, times: int) -> MetricTables:
    """As many campaigns of the same kind in one: each with scenarios, run ids and counts of its own."""
    rng = np.random.default_rng(1)
    copies = [_another(tables, number, rng) for number in range(times)]
    names = ("run", "latency_histogram", "run_metric")
    return MetricTables(
        **{name: pa.concat_tables([getattr(one, name) for one in copies]).unify_dictionaries() for name in names}
    )


def _another(tables: MetricTables, number: int, rng: np.random.Generator) -> MetricTables:
    """The same campaign with other counts, under other names."""
    drawn = rng.poisson(tables.latency_histogram["count"].to_numpy())
    histogram = _with(tables.latency_histogram, "count", pa.array(drawn))
    histogram = _with(histogram, "odd_count", pa.array(rng.binomial(drawn, 0.5)))
    run = _renamed(tables.run, "scenario", number)
    return MetricTables(
        _renamed(run, "run_id", number),
        _renamed(histogram, "run_id", number),
        _renamed(tables.run_metric, "run_id", number),
    )


def _renamed(table: pa.Table, name: str, number: int) -> pa.Table:
    column = table[name].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = pa.DictionaryArray.from_arrays(
            column.indices, pc.binary_join_element_wise(column.dictionary, str(number), "-")
        )
    else:
        column = pc.binary_join_element_wise(column, str(number), "-")
    return _with(table, name, column)


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), column.cast(table.schema.field(at).type))


def from_metrics(folder: Path) -> dict[str, float]:
    """CPU seconds from stored metrics to the judgement, of which in the gates."""
    began = time.process_time()
    runs = evidence(read_metrics(LocalObjectStore(folder), COMPARISON))
    read = time.process_time()
    judge(runs, BASELINE, CANDIDATE, load_policy("default"))
    return {"cpu_s": time.process_time() - began, "gates_s": time.process_time() - read}


def from_runs(folder: Path) -> dict[str, float]:
    """CPU seconds from run directories to the judgement."""
    began = time.process_time()
    judge_folder(folder, BASELINE, CANDIDATE, load_policy("default"))
    return {"cpu_s": time.process_time() - began}


MEASURES: dict[str, Callable[[Path], dict[str, float]]] = {"metrics": from_metrics, "runs": from_runs}


def measure_apart(name: str, folder: Path) -> dict[str, float]:
    """One of the measures, in a process of its own whose memory holds nothing else; its peak in MB with it."""
    command = [sys.executable, __file__, "--measure", name, str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def import_s() -> float:
    """Seconds that importing the gates takes beyond starting Python, the best of five."""
    seconds = []
    for statement in ("pass", "import perf_pipeline.gates.verdict"):
        best_s = np.inf
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            best_s = min(best_s, time.perf_counter() - began)
        seconds.append(best_s)
    return seconds[1] - seconds[0]


def main() -> int:
    """Simulate, measure, print the figures and how they grow; 1 when a target is missed."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, nargs="+", default=RUNS)
    arguments.add_argument("--measure", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.measure:
        found = MEASURES[chosen.measure[0]](Path(chosen.measure[1]))
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
        print(json.dumps({**found, "peak_mb": peak_kb / 1024}))
        return 0
    missed = []
    imported_s = import_s()
    print(f"import of the gates: {imported_s:.2f} s (target {IMPORT_TARGET_S:g} s)")
    if imported_s > IMPORT_TARGET_S:
        missed.append("import")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        scenario = every_metric(rate_per_s=RATE_PER_S, effects=RunEffects(level=0.02))
        write_runs(Campaign(named(scenario, SCENARIOS_DRAWN)), 1, folder / "runs")
        drawn = SCENARIOS_DRAWN * RUNS_PER_SCENARIO
        raw = measure_apart("runs", folder / "runs")
        # Of each request k6 writes here its start, its duration, whether it failed, and its GraphQL errors.
        rows = drawn * 4 * RATE_PER_S * 240
        print(
            f"from {drawn} run directories, {rows / 1e6:.1f} M rows of k6.csv.gz beside their series: "
            f"{raw['cpu_s']:.1f} s, {rows / raw['cpu_s'] / 1e6:.2f} M rows/s, {raw['peak_mb']:.0f} MB"
        )
        tables = extract_runs(find_runs(folder / "runs"))
        print(f"\nfrom stored metrics, {tables.latency_histogram.num_rows / drawn:,.0f} rows of histograms a run")
        print(f"{'runs':>6} {'CPU s':>7} {'gates s':>8} {'ms a run':>9} {'peak MB':>8}")
        for runs in chosen.runs:
            store = folder / f"{runs}"
            write_metrics(LocalObjectStore(store), COMPARISON, several(tables, runs // drawn))
            found = measure_apart("metrics", store)
            each_ms = 1000 * found["cpu_s"] / runs
            print(
                f"{runs:>6} {found['cpu_s']:>7.1f} {found['gates_s']:>8.1f} {each_ms:>9.1f} {found['peak_mb']:>8.0f}",
                flush=True,
            )
            if found["cpu_s"] > TARGET_S * runs / TARGET_RUNS:
                missed.append(f"{runs} runs")
    print(
        f"\ntarget: {TARGET_S:g} s for {TARGET_RUNS} runs, and linear: " + (f"missed by {missed}" if missed else "kept")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

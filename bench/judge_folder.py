"""`perf-pipeline judge` on a folder of run directories: seconds and peak memory of the whole command.

    .venv/bin/python bench/judge_folder.py          # 20 runs of 100,000 requests each, some two minutes

The runs are written once, as k6 writes them; the candidate is 15 % slower. Beside it: DuckDB counting the rows of the
same files, which is the least that anything that reads them can take.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from k6_samples import HOLD_S, START_S, WARM_UP_S, write_k6_csv


def write_runs(folder: Path, repeats: int, requests: int) -> None:
    """Run directories of two versions; k6 wrote `requests` requests in the hold of each."""
    rows = round(requests * (WARM_UP_S + HOLD_S) / HOLD_S) * 9
    for number, version in enumerate(("1.0.0", "1.1.0")):
        for repeat in range(1, repeats + 1):
            run = folder / f"{version}-browse-r{repeat:02d}"
            run.mkdir()
            write_k6_csv(run / "k6.csv", rows, seed=number * repeats + repeat, slower=1.0 + 0.15 * number)
            record = {
                "run_id": run.name,
                "version": version,
                "scenario": "browse",
                "repeat": repeat,
                "target_rate_per_s": requests / HOLD_S,
                "hold": {"start": START_S, "end": START_S + HOLD_S},
            }
            (run / "run.json").write_text(json.dumps(record))


def measured(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak memory in MB of a command and its children."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s, after.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Write the runs, count their rows, judge them, print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=10, help="runs of each of the two versions")
    arguments.add_argument("--requests", type=int, default=100_000, help="requests in the hold of each run")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_runs(folder, chosen.repeats, chosen.requests)
        size_mb = sum(path.stat().st_size for path in folder.rglob("k6.csv")) / 1e6
        print(f"{2 * chosen.repeats} runs of {chosen.requests:,} requests, {size_mb:,.0f} MB of k6 CSV")
        count = (
            'import duckdb, sys; duckdb.sql("SELECT count(*) FROM read_csv(\'" + sys.argv[1] + "/*/k6.csv\')").show()'
        )
        judge = [str(Path(sys.executable).with_name("perf-pipeline")), "judge", name, "--json"]
        # The peak of the children is the largest so far, so the smaller command goes first.
        for what, command in (
            ("perf-pipeline judge", [*judge, "--baseline", "1.0.0", "--candidate", "1.1.0"]),
            ("DuckDB count", [sys.executable, "-c", count, name]),
        ):
            wall_s, cpu_s, peak_mb = measured(command)
            print(f"{what:>20}  {wall_s:6.1f} s  {cpu_s:6.1f} s of CPU  {peak_mb:6.0f} MB")


if __name__ == "__main__":
    main()

"""Text as wrk2 prints it: a short one, and recorded spectra put back into that form."""

import csv
import gzip
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SHARED = Path(__file__).parents[2] / "shared" / "data" / "wrk2_node_mysql2"

_HEAD = """Running 30s test @ http://127.0.0.1:80/index.html
  {threads} threads and {connections} connections
  Thread calibration: mean lat.: 10087 usec, rate sampling interval: 22 msec
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     6.60ms    1.92ms  12.50ms   68.46%
    Req/Sec     1.04k     1.08k    2.50k    72.79%
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    6.67ms
 75.000%    7.78ms
100.000%   12.50ms

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

"""
_FOOT = """#[Mean    =        6.602, StdDeviation   =        1.919]
#[Max     =       12.496, Total count    = {total:12d}]
#[Buckets =           27, SubBuckets     =         2048]
----------------------------------------------------------
  {requests} requests in {duration}, 19.81MB read
Requests/sec:   {rate}
Transfer/sec:    676.18KB
"""

WRK2_TEXT = (
    _HEAD.format(threads=2, connections=100)
    + "     1.000     0.000000            1         1.00\n"
    + "     6.671     0.500000      19783         2.00\n"
    + "     8.839     0.875000      34571         8.00\n"
    + "     9.000     1.000000      39500          inf\n"
    + _FOOT.format(total=39500, requests=60018, duration="30.00s", rate="2000.28")
)


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run: its row of runs.csv, its rows of percentile_spectrum.csv, and what wrk2 printed of them."""

    row: Mapping[str, str]
    ticks: Sequence[Mapping[str, str]]

    @property
    def text(self) -> str:
        lines = []
        for tick in self.ticks:
            level = float(tick["percentile"])
            distance = f"{1 / (1 - level):12.2f}" if level < 1 else "         inf"
            count = int(tick["cumulative_count"])
            lines.append(f"{float(tick['latency_ms']):10.3f} {level:12.6f} {count:10d} {distance}\n")
        return (
            _HEAD.format(threads=self.row["threads"], connections=self.row["connections"])
            + "".join(lines)
            + _FOOT.format(
                total=int(self.ticks[-1]["cumulative_count"]),
                requests=self.row["requests_total"],
                duration=f"{float(self.row['duration'].removesuffix('s')) / 60:.2f}m",
                rate=self.row["achieved_rps"],
            )
        )


def recorded_runs() -> list[RecordedRun]:
    """The recorded runs of three versions of a driver at 31 rates each."""
    ticks: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    with gzip.open(SHARED / "percentile_spectrum.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            ticks[row["version"], row["run_index"]].append(row)
    with (SHARED / "runs.csv").open() as file:
        return [RecordedRun(row, ticks[row["version"], row["run_index"]]) for row in csv.DictReader(file)]

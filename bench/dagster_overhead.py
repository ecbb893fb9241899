"""What Dagster costs a comparison: `perf-pipeline compare` against the same calls of the library, on the same plan.

    .venv/bin/python bench/dagster_overhead.py                        # about four minutes

Both start in a process and a folder of their own, and go from the captured log to the report. The plan is the demo's
with one scenario and holds of 4 s: short, so that what Dagster adds is not lost in them. Two figures: how much longer
it is from one hold to the next, which each run pays, and how much longer everything else takes, which a comparison pays
once. Both come in turns, and the least of the rounds counts, so that a slow moment of the machine meets neither. CPU
seconds, of the process and all that it started, stand beside: they say more on a machine that is busy. Target: 5 % at
holds of 60 s.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from perf_pipeline.capture.landing import land_file
from perf_pipeline.capture.origin import hours_to_capture
from perf_pipeline.capture.requests import build_requests
from perf_pipeline.capture.token_keys import ensure_signing_key, load_signing_key, public_key_pem
from perf_pipeline.capture.token_source import TokenSource
from perf_pipeline.capture.tokens import SignedTokens
from perf_pipeline.files import project_file
from perf_pipeline.history.releases import chain_table, chains_to, shifts
from perf_pipeline.judge import judge_stored, load_policy, settled_at
from perf_pipeline.lab.campaign import run_campaign
from perf_pipeline.lab.run_directory import find_runs, read_record
from perf_pipeline.metrics.extract import extract_runs, write_metrics
from perf_pipeline.plan import compare_command, comparison_key, load_plan
from perf_pipeline.replay.workload import freeze_workload
from perf_pipeline.report import html, markdown
from perf_pipeline.report.context import context_of
from perf_pipeline.report.tables import judgement_tables
from perf_pipeline.settings import DEMO_PLAN, read_settings
from perf_pipeline.storage import open_store
from perf_pipeline.warehouse import Warehouse, write_tables

BASELINE, CANDIDATE = "1.0.0", "1.0.1"
COMPARISON = comparison_key(BASELINE, CANDIDATE)
REPEATS, WARMUP_S, HOLD_S, ASKED_HOLD_S = 2, 1, 4, 60
TARGET = 0.05


def compare_without_dagster(plan_path: Path) -> None:
    """What the assets do, by the calls that they make."""
    settings = read_settings()
    plan, store, warehouse = load_plan(plan_path), open_store(settings.store), Warehouse(settings.warehouse)
    ensure_signing_key(settings.token_key_file)
    key = load_signing_key({"PERF_PIPELINE_TOKEN_KEY_FILE": str(settings.token_key_file)})
    issuer = SignedTokens(key, plan.tokens)
    for hour in hours_to_capture(store, plan):
        land_file(store, plan.folder / str(plan.capture.log), plan.capture.topic, hour)
        build_requests(store, plan, hour, issuer)
    workload = freeze_workload(store, plan)
    tokens = TokenSource(store, plan, issuer)
    run_campaign(
        store,
        plan,
        BASELINE,
        CANDIDATE,
        workload,
        tokens,
        public_key_pem(key),
        settled=lambda look: settled_at(store, COMPARISON, plan, look),
    )
    tables = extract_runs(find_runs(store.local_folder(f"runs/{COMPARISON}")))
    write_metrics(store, COMPARISON, tables)
    warehouse.replace_comparison(COMPARISON, tables.by_name(), drop_others=True)
    judged = judge_stored(store, COMPARISON, plan)
    found = judgement_tables(judged.judgement, COMPARISON)
    write_tables(store, COMPARISON, found)
    warehouse.replace_comparison(COMPARISON, found)
    context = context_of(judged, plan.service, compare_command(plan, COMPARISON))
    store.put(f"reports/{COMPARISON}/report.html", html.render(judged.judgement, context).encode())
    store.put(f"reports/{COMPARISON}/report.md", markdown.render(judged.judgement, context).encode())
    policy = load_policy(plan.policy, plan.folder)
    chain = {"release_chain": chain_table(chains_to(warehouse, CANDIDATE, policy, plan.anchor), COMPARISON)}
    write_tables(store, COMPARISON, chain)
    warehouse.replace_comparison(COMPARISON, chain)
    shifts(warehouse, policy)


@dataclass(frozen=True)
class Taken:
    """Seconds of one comparison."""

    apart_s: float
    """From one hold's start to the next one's, the mean."""
    around_s: float
    """Everything else."""
    cpu_s: float
    """Of the process and all that it started and waited for."""


def measure(command: list[str], home: Path) -> Taken:
    """Run a comparison in a folder of its own, and divide the time that it took."""
    began = time.perf_counter()
    environ = os.environ | {"PERF_PIPELINE_HOME": str(home)}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        taken_s = time.perf_counter() - began
        if process.returncode not in (0, 1):
            said.seek(0)
            raise RuntimeError(f"{command} ended with {process.returncode}: {said.read().decode()[-2000:]}")
    records = [read_record(run) for run in find_runs(home / "objects" / "runs" / COMPARISON)]
    starts = sorted(record.hold.start for record in records if record.hold)
    apart_s = (starts[-1] - starts[0]) / (len(starts) - 1)
    return Taken(apart_s, taken_s - apart_s * len(starts), used.ru_utime + used.ru_stime)


def main() -> int:
    """Measure in turns and print both figures; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--bare", type=Path, metavar="PLAN", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        compare_without_dagster(arguments.bare)
        return 0
    demo = project_file(DEMO_PLAN)
    plan = yaml.safe_load(demo.read_text(encoding="utf-8").replace("{plan_dir}", str(demo.parent)))
    plan["capture"]["log"] = str(demo.parent / plan["capture"]["log"])
    plan |= {"scenarios": [{"name": "browse", "rate_per_s": 200}], "baseline": BASELINE, "candidate": CANDIDATE}
    plan["load"] |= {"warmup_s": WARMUP_S, "hold_s": HOLD_S}
    plan["schedule"] = {"repeats": REPEATS}
    taken: dict[str, list[Taken]] = {"library": [], "Dagster": []}
    with tempfile.TemporaryDirectory() as folder:
        plan_path = Path(folder) / "plan.yaml"
        plan_path.write_text(yaml.safe_dump(plan), encoding="utf-8")
        commands = {
            "library": [sys.executable, __file__, "--bare", str(plan_path)],
            "Dagster": [str(Path(sys.executable).parent / "perf-pipeline"), "compare", str(plan_path)],
        }
        for number in range(arguments.rounds):
            for name in sorted(commands, reverse=number % 2 == 0):
                one = measure(commands[name], Path(folder) / f"{name}{number}")
                taken[name].append(one)
                print(
                    f"{name:<8} {one.apart_s:6.2f} s a run, {one.around_s:6.2f} s around, {one.cpu_s:6.2f} CPU s",
                    flush=True,
                )
    apart = {name: min(one.apart_s for one in of_name) for name, of_name in taken.items()}
    around = {name: min(one.around_s for one in of_name) for name, of_name in taken.items()}
    cpu = {name: min(one.cpu_s for one in of_name) for name, of_name in taken.items()}
    each_s, once_s = apart["Dagster"] - apart["library"], around["Dagster"] - around["library"]
    runs = 2 * REPEATS
    asked_s = apart["library"] - HOLD_S + ASKED_HOLD_S
    share = (each_s + once_s / runs) / asked_s
    print(f"\nDagster adds {each_s:+.3f} s to a run and {once_s:+.2f} s to a comparison")
    print(f"altogether {cpu['Dagster'] - cpu['library']:+.2f} CPU s a comparison")
    print(
        f"at holds of {ASKED_HOLD_S} s a run takes {asked_s:.1f} s: {100 * share:+.2f} % with {runs} runs a comparison "
        f"(target {100 * TARGET:g} %)"
    )
    return 1 if share > TARGET else 0


if __name__ == "__main__":
    sys.exit(main())

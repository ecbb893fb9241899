"""How large the pages of a large campaign are, how long they take to write, and how long Chromium takes to show them.

    .venv/bin/python bench/report_size.py            # about a minute; needs Chromium
    .venv/bin/python bench/report_size.py --keep DIR # also keep the pages

The report is that of the article's campaign, simulated and judged: 50 scenarios, every metric that it has, 500 runs
with their levels, each of them drawn. The index is that of 1,000
comparisons. Showing is from the start of navigation to the end of layout with every picture in it, from a file, and the
time to the first paint. Targets: 2 MB and 2 s.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the bench is run as a file

from bench.chromium import chromium
from perf_pipeline.gates.verdict import judge
from perf_pipeline.history.comparisons import JudgedComparison, WorstCell
from perf_pipeline.judge import Judged, load_policy
from perf_pipeline.report import html, index_page
from perf_pipeline.report.context import context_of
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.seed_campaign import SEED, seed_campaign

LARGEST_BYTES, SLOWEST_S = 2_000_000, 2.0
ROUNDS = 5


def main() -> int:
    """Print the figures; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder to keep the pages in")
    folder = parser.parse_args().keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    pages = [("report of the article's campaign", *_report(folder)), ("index of 1,000 comparisons", *_index(folder))]
    missed = False
    print(f"{'page':<34}{'bytes':>11}{'written':>10}{'painted':>10}{'shown':>8}   target {LARGEST_BYTES:,} bytes, 2 s")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, chromium(Path(profile)) as browser:
        for name, path, written_s in pages:
            painted, shown = [], []
            for _ in range(ROUNDS):
                browser.show(path.as_uri(), 1280, 800)
                browser.value("document.documentElement.getBoundingClientRect().height")
                shown.append(browser.value("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000)
                paint = browser.value("(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime")
                painted.append((paint or 0) / 1000)
            size = path.stat().st_size
            missed |= size > LARGEST_BYTES or median(shown) > SLOWEST_S
            print(f"{name:<34}{size:>11,}{written_s:>8.2f} s{median(painted):>8.2f} s{median(shown):>6.2f} s")
    return int(missed)


def _report(folder: Path) -> tuple[Path, float]:
    runs = simulate(seed_campaign(), SEED)
    policy = load_policy("default")
    judgement = judge(runs, "2.17.0", "2.18.0", policy)
    metrics = len({verdict.metric for verdict in judgement.verdicts if not verdict.absent})
    scenarios = len({run.scenario for run in runs})
    print(f"{len(runs)} runs, {scenarios} scenarios, {metrics} metrics: {len(judgement.verdicts)} verdicts")
    context = context_of(Judged(judgement, policy, (), tuple(runs)), "the article's campaign", "")
    return _written(folder / "report.html", lambda: html.render(judgement, context))


def _index(folder: Path) -> tuple[Path, float]:
    night = JudgedComparison(
        "1.0.0__1.1.0", "1.0.0", "1.1.0", datetime(2026, 1, 1, tzinfo=UTC), "no regression",
        "No regression found in 1.1.0 against 1.0.0: of 10 comparisons 9 are equivalent, 1 is inconclusive.", "quiet",
        None, "default", "1", {"equivalent": 9, "inconclusive": 1},
        WorstCell("browse", "client_latency", "inconclusive", 99.0, 0.04, -0.02, 0.11),
    )  # fmt: skip
    nights: Sequence[JudgedComparison] = [
        replace(night, comparison=f"1.{number}.0__1.{number + 1}.0", measured=night.measured + timedelta(days=number))
        for number in range(1_000)
    ]
    reports = {item.comparison for item in nights}
    return _written(folder / "index.html", lambda: index_page.render("nightly", nights, reports=reports))


def _written(path: Path, render: Callable[[], str]) -> tuple[Path, float]:
    started = time.perf_counter()
    path.write_text(render(), encoding="utf-8")
    return path, time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())

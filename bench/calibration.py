"""How often the gates are right, measured on simulated campaigns whose truth is known.

    .venv/bin/python bench/calibration.py            # writes docs/calibration.md; minutes on two cores
    .venv/bin/python bench/calibration.py --quick    # prints it from a few campaigns, writes nothing; half a minute
    .venv/bin/python bench/calibration.py --only drift

Seeds are fixed, so that the same code gives the same page. A claim that does not hold makes the exit code 1.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypeAlias

# One thread a process: the arrays are small, and threads that wait for each other cost more than they save.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from perf_pipeline.gates.verdict import judge
from perf_pipeline.judge import load_policy
from perf_pipeline.simulation.claims import BESIDE, CLAIMS, PEER_COLUMNS, PEER_ROWS, Claim, Experiment, every_experiment
from perf_pipeline.simulation.evidence import simulate
from perf_pipeline.simulation.rates import Counts, Rate, rates
from perf_pipeline.simulation.seed_campaign import SEED, Line, beside_the_article, seed_campaign

PAGE = Path(__file__).parents[1] / "docs" / "calibration.md"
POLICY = "default"
CHUNK = 4
"""Campaigns that a process does before it reports."""

MORE_SEEDS = 10
"""Further draws of the noise in the first seed's campaign."""

Measured: TypeAlias = Mapping[Experiment, Mapping[str, Rate]]


def measure(experiments: Iterable[Experiment], share: float = 1.0, processes: int | None = None) -> Measured:
    """The rates of each experiment, from this share of its campaigns (at least four)."""
    campaigns = {one: max(CHUNK, round(one.campaigns * share)) for one in experiments}
    found: dict[Experiment, dict[int, list[Counts]]] = {one: {} for one in campaigns}
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        ProcessPoolExecutor(processes) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as bars,
    ):
        tasks = {one: bars.add_task(one.name, total=number) for one, number in campaigns.items()}
        chunks = {
            pool.submit(run_campaigns, one, start, min(start + CHUNK, number)): (one, start)
            for one, number in campaigns.items()
            for start in range(0, number, CHUNK)
        }
        for chunk in as_completed(chunks):
            one, start = chunks[chunk]
            found[one][start] = chunk.result()
            bars.advance(tasks[one], len(found[one][start]))
    # In the order of the campaigns, whichever process was first: sums of floats depend on it.
    return {one: rates(counts for start in sorted(parts) for counts in parts[start]) for one, parts in found.items()}


def run_campaigns(experiment: Experiment, start: int, stop: int) -> list[Counts]:
    """What the campaigns from `start` up to `stop` show, under the default policy."""
    policy = load_policy(POLICY)
    return [experiment.campaign(number, policy) for number in range(start, stop)]


def seed_lines() -> tuple[Line, ...]:
    """The first seed's campaign, judged by both built-in policies, beside its article."""
    campaign = seed_campaign()
    runs = simulate(campaign, SEED)
    return beside_the_article(
        {name: judge(runs, campaign.baseline, campaign.candidate, load_policy(name)) for name in ("v2.18", "default")}
    )


def as_the_article(seed: int) -> bool:
    """Whether Gate 1 finds what the article found, with other noise around the same causes."""
    campaign = seed_campaign()
    judged = judge(simulate(campaign, seed), campaign.baseline, campaign.candidate, load_policy(POLICY))
    lines = [line for line in beside_the_article({POLICY: judged}) if line.label.startswith("Gate 1")]
    return all(line.found[POLICY] == line.article for line in lines)


def page(measured: Measured, lines: Sequence[Line], as_article: Sequence[bool]) -> str:
    """The page in Markdown."""
    policy = load_policy(POLICY)
    campaigns = sum(next(iter(found.values())).campaigns for found in measured.values())
    peers = [[f"**{name}**" if name == PEER_ROWS[0] else name, *_peer(measured, name)] for name in PEER_ROWS]
    return _TEXT.format(
        campaigns=f"{campaigns:,}",
        policy=f"{policy.name}, version {policy.version}",
        claims=_table(
            ("claim", "nominal", "required", "measured", "error", "simulated", "holds"),
            (_claim(claim, measured) for claim in CLAIMS),
        ),
        missed=_missed(measured),
        beside=_table(
            ("also measured", "share"),
            [[name, _shares([measured[one][what] for one, what in pairs])] for name, pairs in BESIDE.items()],
        ),
        peers=_table(("rule", *PEER_COLUMNS), peers),
        seed=_table(
            ("first seed's campaign", "article", *lines[0].found),
            [[line.label, line.article, *line.found.values()] for line in lines],
        ),
        as_article=sum(as_article),
        seeds=len(as_article),
    )


def _missed(measured: Measured) -> str:
    """How many claims are shown to hold, how many are not, and how many do not hold."""
    found = {claim: claim.rates(measured) for claim in CLAIMS}
    answers = Counter(claim.answer(rates) for claim, rates in found.items())
    close = sum(claim.answer(rates) == "no" and claim.holds(rates, errors=1.0) for claim, rates in found.items())
    return (
        f"{answers['yes']} of {len(CLAIMS)} lines are shown to hold. {answers['not shown']} are not shown: their bound "
        "is kept, by less than\nthe error, and more campaigns might say otherwise (a rate below 1 % of campaigns takes "
        f"300 without an event).\n{answers['no']} do not hold, {close} of them by less than their error."
    )


def _claim(claim: Claim, measured: Measured) -> list[str]:
    found = claim.rates(measured)
    campaigns = sum({one: measured[one][what].campaigns for one, what in claim.asked}.values())
    return [
        claim.text,
        claim.nominal,
        claim.required,
        _shares(found),
        f"±{100 * max(rate.error for rate in found):.2g} %",
        f"{sum(rate.tries for rate in found):,.0f} in {campaigns:,} campaigns",
        "**no**" if (answer := claim.answer(found)) == "no" else answer,
    ]


def _peer(measured: Measured, name: str) -> list[str]:
    return [_shares([measured[experiment][name]]) for experiment in PEER_COLUMNS.values()]


def _shares(found: Sequence[Rate]) -> str:
    """`95.1 / 94.8 %`; rates below 1 % with one digit more."""
    return (
        " / ".join(f"{100 * rate.value:.{1 if rate.value >= 0.01 or rate.value == 0 else 2}f}" for rate in found) + " %"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


_TEXT = """# Calibration: how often the gates are right

This page is written by `.venv/bin/python bench/calibration.py`, with fixed seeds; the same code writes the same page.
{campaigns} campaigns whose truth is known were simulated and judged under the policy {policy}. A campaign has
50 scenarios (20 where the question is about single runs, repeats, or peers) with five runs of each version unless a
line says otherwise, 120,000 requests a run, and run effects whose size differs between scenarios: log-normal, spread
0.4, mean as stated; equal in the lines on +15 % with five runs and on peers. `perf_pipeline/simulation` describes them,
`experiments.py` and `designs.py` there ask the questions, `claims.py` holds the bounds.

**What it does not show.** Runs are drawn from the laws that are named here: level, spread and tail of a run vary
independently of each other, and of other scenarios. A lab whose runs depend on each other in ways that no block
records, whose noise comes in rarer and larger outliers than t with 4 degrees of freedom, or whose candidate changes the
noise itself by much, is not on this page. Nor is a wrong measurement: the gates are given what is true.

## Claims

Rates are shares of comparisons, intervals, runs or campaigns, as the claim says; several rates stand in the order of
the words in the claim, and each must keep the bound. The error is half of the 95 % Monte-Carlo interval of the least
certain of them, from the scatter between campaigns. "Nominal" is what the method promises by itself, where it does.
A bound is shown to hold where a rate keeps it by at least its own error, and "not shown" where by less.

{claims}

{missed}

## Beside the claims

{beside}

## The rules of others on the same runs

How often each calls a change of client latency, 5 + 5 runs, seconds of a run that vary by 2 % with autocorrelation 0.5.
perf_pipeline answers another question than its peers: not whether there is a difference, but whether it is larger than
the zone of 10 %. Its band without 0 is what can be held against them: a difference at some percentile, however small.

{peers}

Sources: spinnaker/kayenta (`MannWhitneyClassifier`, 98 % and a quarter of the estimate; on points of 10 s of all runs),
golang/perf (`benchmath`, exact test at 5 % on the medians of the runs), apache/otava (`TTestSignificanceTester`,
p < 0.001; the true split is told to it). Filters, scores and searches around these rules are left out.

## The campaign of the first seed

10 graphs x 5 configurations x 5 repeats x 2 versions, in which nothing changed. The causes are put in as its article
names them; the noise is what the article says of it, read as `perf_pipeline/simulation/seed_campaign.py` explains, and
is not fitted to the table of verdicts. Gate 1 finds exactly its three numbers, under the default policy, in
{as_article} of {seeds} further draws of the noise.

{seed}

The article left more comparisons inconclusive than this noise explains. Either its scenarios were noisier than the two
that it gives intervals of, or coarser histogram buckets, which it says it has refined since, added to the noise.
"""


def main() -> int:
    """Measure, print, and write the page."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="a tenth of the campaigns, printed and not written")
    arguments.add_argument("--only", metavar="NAME", help="experiments whose name contains this; prints their rates")
    arguments.add_argument("--processes", type=int, default=os.cpu_count())
    chosen = arguments.parse_args()
    share = 0.1 if chosen.quick else 1.0
    if chosen.only:
        wanted = [one for one in every_experiment() if chosen.only in one.name]
        for experiment, found in measure(wanted, share, chosen.processes).items():
            for what, rate in found.items():
                print(f"{experiment.name}: {what} {_shares([rate])} ±{100 * rate.error:.2g} % of {rate.tries:,.0f}")
        return 0
    measured = measure(every_experiment(), share, chosen.processes)
    seeds = range(1, 1 + max(2, round(share * MORE_SEEDS)))
    with ProcessPoolExecutor(chosen.processes) as pool:
        text = page(measured, seed_lines(), list(pool.map(as_the_article, seeds)))
    if chosen.quick:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"wrote {PAGE.relative_to(PAGE.parents[1])}")
    missed = [claim for claim in CLAIMS if not claim.holds(claim.rates(measured))]
    for claim in missed:
        print(f"does not hold: {claim.text}: {_shares(claim.rates(measured))}, required {claim.required}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

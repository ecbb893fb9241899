"""How often a chain of twelve releases is called a regression, measured on campaigns whose truth is known.

    .venv/bin/python bench/release_chain.py                      # the tables of docs/history.md; about four minutes
    .venv/bin/python bench/release_chain.py --campaigns 50       # half a minute

Twelve comparisons of neighbours, and one of the first release with the last, each from five runs of both versions of
its own. The runs go through the interval and band of Gate 3, are stored as limits, read back and added up, as
`perf_pipeline.history` does it. Each step is +1 % or nothing. Seeds are fixed; the error behind +- is that of the
Monte Carlo, one standard error.
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import argparse
import math
import sys
from collections import Counter

import numpy as np

from perf_pipeline.gates.evidence import PERCENTILES
from perf_pipeline.gates.intervals import difference, simultaneous_tail
from perf_pipeline.history.chain import add_up, place
from perf_pipeline.history.effect import Effect, effects_from_limits

RELEASES, REPEATS, STEPS = 12, 5, (0.0, 0.01)
CVS = (0.005, 0.01, 0.02, 0.03)
ZONES = (0.05, 0.10)
CONFIDENCE = 0.95
OWN_NOISE = 0.5
"""What each percentile of a run strays by itself, in units of what all of its percentiles stray by together."""
SHAPES = {"a number": np.array([np.nan]), f"{len(PERCENTILES)} percentiles": np.array(PERCENTILES, dtype=float)}


def compared(rng: np.random.Generator, percentiles: np.ndarray, change: float, cv: float, tail: float) -> Effect:
    """A comparison from runs of its own, as the tables hold it: limits at `tail`, which an effect is read back from."""
    shape = (2, REPEATS, len(percentiles))
    own = OWN_NOISE if len(percentiles) > 1 else 0.0
    common = rng.standard_normal((2, REPEATS, 1)) + own * rng.standard_normal(shape)
    logs = cv * common / math.sqrt(1 + own**2) + np.array([0.0, change])[:, None, None]
    sides = (logs[0], logs[1])
    found = difference(sides, np.zeros(len(percentiles)))
    low, high = found.limits(tail)
    band_low, band_high = found.limits(simultaneous_tail(sides, tail))
    limits = np.expm1(np.stack([found.estimate, low, high, band_low, band_high]))
    (effect,) = effects_from_limits(percentiles, limits[:, None], found.df[None], np.array([tail]))
    if effect is None:
        raise ArithmeticError("a comparison of complete runs has an effect")
    return effect


def rate(count: int, of: int) -> str:
    """A share in percent with its standard error; a count of none or all by the rule of three."""
    if count in (0, of):
        return f"{'<' if count == 0 else '>'} {300 / of if count == 0 else 100 - 300 / of:.1f}"
    share = count / of
    return f"{100 * share:.1f} +- {100 * math.sqrt(share * (1 - share) / of):.1f}"


def row(shape: str, step: float, cv: float, campaigns: int) -> list[str]:
    """The rates of one cell in all zones: the same campaigns are held against each."""
    seed = [20261130, len(SHAPES[shape]), round(1e4 * step), round(1e4 * cv)]
    rng = np.random.default_rng(seed)
    tail = (1 - CONFIDENCE) / 2
    counts: dict[float, Counter] = {zone: Counter() for zone in ZONES}
    change = math.log1p(step)
    for _ in range(campaigns):
        chain = [compared(rng, SHAPES[shape], change, cv, tail) for _ in range(RELEASES)]
        total, direct = add_up(chain), compared(rng, SHAPES[shape], RELEASES * change, cv, tail)
        for zone, count in counts.items():
            edge = math.log1p(zone)
            count.update(f"step {place(effect, edge, tail).answer}" for effect in chain)
            answers = {"chain": place(total, edge, tail / 2).answer, "direct": place(direct, edge, tail / 2).answer}
            count.update(f"{path} {answer}" for path, answer in answers.items())
            count["either regression"] += "regression" in answers.values()
            count["alone regression"] += place(total, edge, tail).answer == "regression"
    return [
        f"| {shape} | {100 * zone:.0f} % | {100 * cv:g} % | {rate(count['step equivalent'], RELEASES * campaigns)} "
        f"| {rate(count['step regression'], RELEASES * campaigns)} | {rate(count['alone regression'], campaigns)} "
        f"| {rate(count['chain regression'], campaigns)} | {rate(count['direct regression'], campaigns)} "
        f"| {rate(count['either regression'], campaigns)} | {rate(count['chain equivalent'], campaigns)} |"
        for zone, count in counts.items()
    ]


def main() -> int:
    """Print one table for each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=400)
    campaigns = parser.parse_args().campaigns
    heads = ("metric", "zone", "run CV", "a step equivalent", "a step regression", "chain alone", "chain", "direct")
    for step in STEPS:
        print(f"\nTwelve releases of {100 * step:+g} % each, altogether {100 * ((1 + step) ** RELEASES - 1):+.1f} %:")
        print("rates in percent; the last column but one: chain or direct; the last: chain equivalent\n")
        print(f"| {' | '.join(heads)} | either | chain equivalent |")
        print(f"|{' --- |' * (len(heads) + 2)}")
        for shape in SHAPES:
            rows = [row(shape, step, cv, campaigns) for cv in CVS]
            for at in range(len(ZONES)):
                print("\n".join(of_cv[at] for of_cv in rows), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

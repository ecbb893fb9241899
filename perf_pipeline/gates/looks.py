"""Looks: judging a campaign more than once, at repeats that were fixed before its first run.

What belongs here: how much of the probability of error each look may spend, and which scenarios need no further look.
Looking twice at 5 % each would raise a false alarm in 8 % of cases.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from perf_pipeline.gates import wording
from perf_pipeline.gates.evidence import NEGATIVE_CONTROL, Design, FloatArray, RunEvidence
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.gates.policy import Spending

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_FAR = 8.0
"""Standard deviations beyond which a normal variable is not followed."""


@dataclass(frozen=True)
class Look:
    """One look at the runs of a scenario."""

    number: int | None
    """From 1; None when only one look, at the end, was planned, or when runs name different ones."""
    tail: float
    """The tail probability of its intervals."""


def look_at(runs: Iterable[RunEvidence], spending: Spending, tail: float) -> Look:
    """Which look the runs of a scenario are at, and the tail that is left to it of `tail`, that of a single look.

    Where runs name different looks, or some name none, the smallest tail of any design that is named counts: forgetting
    a plan must not lend its scenario more than the plan left it. The repeats of a scenario are those that were tried:
    runs that Gate 1 set aside have spent their look like any other.
    """
    runs = list(runs)
    repeats = max(run.repeat for run in runs)
    named = designs_of(runs)
    number = _reached(repeats, next(iter(named))) if len(named) == 1 else None
    return Look(number, min(tail_at(repeats, looks, spending, tail) if len(looks) > 1 else tail for looks in named))


def designs_of(runs: Iterable[RunEvidence]) -> set[tuple[int, ...]]:
    """The different looks that runs name, each rising, in repeats; () for those that name none."""
    return {(run.design or Design()).looks for run in runs}


def notes_on_looks(by_scenario: Mapping[str, Sequence[RunEvidence]]) -> Iterator[str]:
    """What a reader has to know where the runs of a scenario, given by its name, are not at a look of one plan."""
    mixed, between, beyond = [], [], []
    for name, runs in by_scenario.items():
        designs, repeats = designs_of(runs), max(run.repeat for run in runs)
        if len(designs) > 1:
            mixed.append(name)
        planned = {look for looks in designs if len(looks) > 1 for look in looks}
        if planned and repeats > max(planned):
            beyond.append(name)
        elif planned and repeats not in planned:
            between.append(name)
    if mixed:
        yield f"Runs of {wording.named(mixed)} name different looks: the smallest tail of those named counts."
    if between:
        yield f"No look was planned at the repeats of {wording.named(between)}; it spends what they allow."
    if beyond:
        yield (
            f"The repeats of {wording.named(beyond)} lie beyond the last look that was planned, where nothing is left "
            "to spend: intervals have the tail of the last look, and err more often than promised."
        )


def _reached(repeats: int, looks: Sequence[int]) -> int | None:
    """The number of the look that so many repeats are at, from 1; None where only one look, at the end, was planned."""
    return min(sum(look < repeats for look in looks) + 1, len(looks)) if len(looks) > 1 else None


def tail_at(repeats: int, looks: Sequence[int], spending: Spending, tail: float) -> float:
    """The tail of the intervals after so many repeats, when earlier `looks` (rising, in repeats) were taken already.

    Alpha spending (Lan and DeMets 1983): up to the share t of all planned repeats the probability of a wrong word is
    spent(t), and it reaches `tail` at the last look. A look between the planned ones spends as much as its repeats
    allow; a look beyond the last one has nothing left to spend, and repeats the last.
    """
    repeats = min(repeats, looks[-1])
    taken = (*(look for look in looks if look < repeats), repeats)
    return _last_tail(tuple(look / looks[-1] for look in taken), spending, tail)


def settled(judgement: Judgement) -> tuple[str, ...]:
    """The scenarios that need no more repeats, by name.

    More repeats are for what they can answer: an inconclusive verdict, or a comparison that lacks usable runs. The
    negative control is answered by all scenarios together and keeps none of them open.
    """
    scenarios = dict.fromkeys(verdict.scenario for verdict in judgement.verdicts)
    still_open = {
        verdict.scenario
        for verdict in judgement.verdicts
        if verdict.metric != NEGATIVE_CONTROL and verdict.open_to_repeats
    }
    return tuple(sorted(scenario for scenario in scenarios if scenario not in still_open))


@lru_cache(maxsize=256)
def _last_tail(shares: tuple[float, ...], spending: Spending, tail: float) -> float:
    """The tail of the last of several looks at these shares of the information, each taken when its turn came.

    The mean of the runs so far, times their number, is a Brownian motion over the shares t. Its density among the paths
    that crossed no boundary yet is carried from look to look (Armitage, McPherson and Rowe 1969).
    """
    boundary, nodes, density = math.inf, np.zeros(0), np.zeros(0)
    before, spent = 0.0, 0.0
    for share in shares:
        step = math.sqrt(share - before)
        still_to_spend = _spent(share, spending, tail) - spent
        if before == 0:
            boundary = -step * float(ndtri(still_to_spend))
        else:
            boundary = _boundary(nodes, density, step, still_to_spend)
        low = -_FAR * math.sqrt(share)
        grid = low + (boundary - low) * (_NODES + 1) / 2
        weights = _WEIGHTS * (boundary - low) / 2
        if before == 0:
            arriving = np.exp(-((grid / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
        else:
            moves = (grid[:, None] - nodes[None, :]) / step
            arriving = np.exp(-(moves**2) / 2) @ density / (step * math.sqrt(2 * math.pi))
        nodes, density = grid, arriving * weights
        before, spent = share, spent + still_to_spend
    return float(ndtr(-boundary / math.sqrt(shares[-1])))


def _boundary(nodes: FloatArray, density: FloatArray, step: float, probability: float) -> float:
    """The value that a path, at `nodes` with weights `density`, exceeds after a step with this probability."""
    low, high = float(nodes[0]), float(nodes[-1]) + 2 * _FAR * step
    for _ in range(60):
        middle = (low + high) / 2
        if float(ndtr((nodes - middle) / step) @ density) > probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _spent(share: float, spending: Spending, tail: float) -> float:
    """The one-sided probability of error that is spent up to a share of the information (Lan and DeMets 1983)."""
    if spending == "pocock":
        return tail * math.log1p((math.e - 1) * share)
    return float(2 * ndtr(ndtri(tail / 2) / math.sqrt(share)))

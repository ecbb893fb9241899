"""Slow drift: what a chain of releases changed altogether, where no single step changed enough to be seen.

What belongs here: choosing the steps from one release to another, adding their effects up, and what the sum says
against the zone. Each comparison measures both of its versions itself, so the errors of different steps are independent
and whatever the lab did from one night to the next cancels within each step.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np

from perf_pipeline.history.effect import Effect, FloatArray

Answer = Literal["regression", "improvement", "equivalent", "inconclusive"]


@dataclass(frozen=True)
class Link:
    """A comparison as a step between two releases."""

    comparison: str
    baseline: str
    candidate: str
    measured: datetime | None
    """When its first run held; None where no table tells."""


@dataclass(frozen=True)
class Placed:
    """An effect against the zone."""

    effect: Effect
    answer: Answer
    deciding: int
    """Index of the percentile that the answer rests on."""
    low: float
    high: float
    """With low, the interval of ln that decided: a regression's or improvement's band, else the pointwise one."""


def steps_to(links: Sequence[Link], release: str, start: str | None = None) -> list[Link]:
    """The steps that lead to a release, in order: from each release to its baseline, by the latest comparison of both.

    Stops at `start`, else where no comparison leads further back, or where one would come round to a release that is
    in the chain already. Comparisons of the same two versions are not added up: the latest one stands for the step.
    Of several baselines the one that came last is taken: a comparison with a fixed anchor is a step only where nothing
    finer leads back.
    """
    arrived: dict[str, float] = {}
    for link in links:
        arrived[link.candidate] = min(_when(link), arrived.get(link.candidate, np.inf))
    arriving: dict[str, list[Link]] = defaultdict(list)
    for link in links:
        arriving[link.candidate].append(link)
    steps: list[Link] = []
    seen, at = {release}, release
    while at != start:
        into = [link for link in arriving[at] if link.baseline not in seen]
        if not into:
            break
        step = max(into, key=lambda link: (arrived.get(link.baseline, -np.inf), _when(link)))
        steps.append(step)
        at = step.baseline
        seen.add(at)
    return steps[::-1]


def directly(links: Sequence[Link], start: str, release: str) -> Link | None:
    """The latest comparison of the two versions themselves: the fixed anchor beside a chain; else None."""
    between = [link for link in links if (link.baseline, link.candidate) == (start, release)]
    return max(between, key=_when, default=None)


def add_up(steps: Sequence[Effect]) -> Effect:
    """The effect of all steps together: sums of ln, degrees of freedom by Satterthwaite (1946).

    Only percentiles that every step has are added. Raises ValueError when there are no steps, or no such percentile.
    """
    if not steps:
        raise ValueError("a chain needs at least one step")
    # Steps that were read together share the array, which is then looked through once.
    different = {id(step.percentiles): _places(step.percentiles) for step in steps}
    shared = [p for p in _places(steps[0].percentiles) if all(p in places for places in different.values())]
    if not shared:
        raise ValueError("the steps of the chain share no percentile")
    chosen = {key: [places[p] for p in shared] for key, places in different.items()}
    places = [chosen[id(step.percentiles)] for step in steps]
    estimate = sum(step.estimate[place] for step, place in zip(steps, places, strict=True))
    variances = np.stack([step.standard_error[place] ** 2 for step, place in zip(steps, places, strict=True)])
    df = np.stack([step.df[place] for step, place in zip(steps, places, strict=True)])
    total = variances.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        joint = np.where(total > 0, total**2 / (variances**2 / df).sum(axis=0), df.sum(axis=0))
    return Effect(
        np.array([np.nan if p is None else p for p in shared]),
        np.asarray(estimate),
        np.sqrt(total),
        joint,
        max(step.tests for step in steps),
    )


def place(effect: Effect, edge: float, tail: float) -> Placed:
    """The effect against the zone [-edge, edge] of ln, by the rule of Gate 3.

    Wholly beyond it somewhere even in the simultaneous band is a regression or an improvement; wholly inside it at
    every percentile, point by point, is equivalent (intersection-union); anything else is inconclusive.
    """
    low, high = effect.limits(tail)
    band_low, band_high = effect.band(tail)
    protrusion = np.maximum(high, -low) - edge
    if (band_low > edge).any():
        at = int(band_low.argmax())
        return Placed(effect, "regression", at, float(band_low[at]), float(band_high[at]))
    if (band_high < -edge).any():
        at = int(band_high.argmin())
        return Placed(effect, "improvement", at, float(band_low[at]), float(band_high[at]))
    at = int(protrusion.argmax())
    answer: Answer = "equivalent" if (protrusion < 0).all() else "inconclusive"
    return Placed(effect, answer, at, float(low[at]), float(high[at]))


def _when(link: Link) -> float:
    return link.measured.timestamp() if link.measured else -np.inf


def _places(percentiles: FloatArray) -> dict[float | None, int]:
    """The index of each percentile; None is the place of a number, whose percentile is nan."""
    return {None if np.isnan(p) else p: at for at, p in enumerate(percentiles.tolist())}

"""Pictures of slow drift: what all releases since the first one changed together, release by release.

What belongs here: chains as series of releases, which of them a reader has to see, and how one is drawn. A filled dot
is an answer, a hollow one is none; upwards is worse.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from perf_pipeline.gates.findings import VerdictName
from perf_pipeline.history.releases import Chained
from perf_pipeline.report.overview import VERDICTS_WORST_FIRST
from perf_pipeline.report.palette import tone_of_verdict
from perf_pipeline.report.picture import Area, Dot, Label, Picture, Shape, Stroke
from perf_pipeline.report.scale import WIDTH, Axis, box
from perf_pipeline.report.wording import (
    change,
    finite,
    interval_with_units,
    listed,
    metric_label,
    percentile_label,
    plural,
)

CHAINS_DRAWN = 8
"""Chains that are drawn, the worst first; all are in the table."""

_HEIGHT = 220
_LABEL_PX = 64
_SHOWN = 40
"""The most releases in one picture, the last ones."""


@dataclass(frozen=True)
class Chain:
    """One scenario and metric over releases."""

    steps: tuple[Chained, ...]
    """What was added up to each release, oldest first."""
    direct: Chained | None
    """The newest release measured directly against the first one."""

    @property
    def attention(self) -> tuple[int, float]:
        """Sorts what needs a reader's attention first: the worst answer, then the change in zones."""
        last = self.steps[-1]
        size = abs(finite(last.estimate) or 0.0) / (last.zone_high or 1.0)
        return VERDICTS_WORST_FIRST.index(cast(VerdictName, last.answer)), -size


def chains_of(rows: Sequence[Chained]) -> list[Chain]:
    """The chains that begin where the newest one begins; of a release that was reached twice the later row counts."""
    if not rows:
        return []
    start = rows[-1].from_version
    added: dict[tuple[str, str], dict[str, Chained]] = {}
    direct: dict[tuple[str, str], Chained] = {}
    for row in rows:
        if row.from_version != start:
            continue
        cell = (row.scenario, row.metric)
        if row.path == "direct":
            direct[cell] = row
        else:
            added.setdefault(cell, {}).pop(row.to_version, None)
            added[cell][row.to_version] = row
    return [Chain(tuple(steps.values()), direct.get(cell)) for cell, steps in added.items()]


def worst_chains(chains: Sequence[Chain]) -> list[Chain]:
    """The chains to draw, those that need attention first; one release alone is no chain."""
    return sorted((chain for chain in chains if len(chain.steps) > 1), key=lambda one: one.attention)[:CHAINS_DRAWN]


def chain_picture(chain: Chain) -> Picture:
    """The change since the first release at each one after it, with its interval, against the zone."""
    steps = chain.steps[-_SHOWN:]
    last = steps[-1]
    left, right, top, bottom = 64.0, WIDTH - 68.0, 14.0, _HEIGHT - 46.0
    y = _axis([*steps, *([chain.direct] if chain.direct else [])], bottom, top)
    gap = (right - left) / (len(steps) + (chain.direct is not None))
    xs = [left + gap * (number + 0.5) for number in range(len(steps))]
    ticks = y.ticks(6, last.metric)
    shapes: list[Shape] = [Area("zone", box(left, y(last.zone_high), right, y(last.zone_low)))]
    shapes += [Stroke("grid", ((left, y(tick)), (right, y(tick)))) for tick, _ in ticks]
    shapes += [Label("tick", (left - 6, y(tick) + 4), text, "end") for tick, text in ticks]
    shapes.append(Stroke("zero", ((left, y(0)), (right, y(0)))))
    shapes.append(Label("label", (right + 5, (y(last.zone_low) + y(last.zone_high)) / 2 + 4), "zone"))
    for x, step in zip(xs, steps, strict=True):
        shapes += _marks(step, x, y)
    if chain.direct:
        shapes += _marks(chain.direct, right - gap / 2, y)
        shapes.append(Label("tick", (right, bottom + 16), "direct", "end"))
    every = -(-_LABEL_PX // int(gap)) if gap >= 1 else len(steps)
    for number in range(len(steps) - 1, -1, -every):
        shapes.append(Label("tick", (xs[number], bottom + 16), _shortened(steps[number].to_version), "middle"))
    since = f"change since {_shortened(last.from_version)} (↑ worse)"
    shapes.append(Label("tick", ((left + right) / 2, bottom + 36), since, "middle"))
    at = f" {percentile_label(last.deciding_percentile)}" if last.deciding_percentile is not None else ""
    title = f"{last.answer.capitalize()} over {plural(last.steps, 'comparison')}{_size(last)}."
    words = [f"{step.to_version} {step.answer}{_size(step)}" for step in steps]
    if chain.direct:
        words.append(f"measured directly {chain.direct.answer}{_size(chain.direct)}")
    subject = f"{last.scenario}, {metric_label(last.metric)}{at}"
    return Picture(subject, title, f"Since {last.from_version}: {listed(words)}.", WIDTH, _HEIGHT, tuple(shapes))


def _marks(step: Chained, x: float, y: Axis) -> list[Shape]:
    estimate, low, high = finite(step.estimate), finite(step.low), finite(step.high)
    if estimate is None or low is None or high is None:
        return []
    tone = tone_of_verdict(cast(VerdictName, step.answer))
    role = "dot" if step.answer in ("equivalent", "regression", "improvement") else "open"
    return [Stroke("line", ((x, y(low)), (x, y(high))), tone), Dot(role, (x, y(estimate)), 4, tone)]


def _axis(steps: Sequence[Chained], bottom: float, top: float) -> Axis:
    """A scale that holds everything that is drawn, and the zone."""
    ends = [value for step in steps for value in map(finite, (step.low, step.high, step.estimate)) if value is not None]
    low = min([*(1.3 * step.zone_low for step in steps), *ends])
    high = max([*(1.3 * step.zone_high for step in steps), *ends])
    margin = 0.04 * (high - low) or 0.01
    return Axis(low - margin, high + margin, bottom, top)


def _size(step: Chained) -> str:
    if finite(step.estimate) is None:
        return f", {step.reason}" if step.reason else ""
    interval = interval_with_units(step.metric, step.low, step.high)
    return f": {change(step.metric, step.estimate)} ({interval})"


def _shortened(version: str) -> str:
    return version if len(version) <= 10 else f"{version[:9]}…"

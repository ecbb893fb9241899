"""What tells runs of the same version and scenario apart, and what tells the seconds of one run apart.

What belongs here: the sizes of these effects and how they are drawn. Everything is in natural logarithms of latency, so
that 0.02 is 2 %. Effects are shifts of a whole distribution: run effects are the noise that Gate 3 measures changes
against, and more requests do not make them smaller.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.signal import lfilter

from perf_pipeline.gates.evidence import FloatArray

Law: TypeAlias = Literal["normal", "t4", "skewed"]
"""How effects are distributed: normal; heavy-tailed (Student's t with 4 degrees of freedom); skewed to the slow side
(gamma with shape 2). Each has mean 0 and the standard deviation that is asked for."""


@dataclass(frozen=True)
class Shift:
    """A change of a distribution of ln latency: by how much which requests are slower."""

    level: float = 0.0
    """Added to ln latency of every request."""
    spread: float = 0.0
    """Stretches the distribution around its median: 0.1 makes every distance from it 10 % longer in ln latency."""
    tail: float = 0.0
    """Added at p99, nothing below p90, in between and beyond in step with ln(1 - p)."""


@dataclass(frozen=True)
class RunEffects:
    """Standard deviations, between runs, of the parts of a shift."""

    level: float = 0.02
    spread: float = 0.0
    tail: float = 0.0
    block: float = 0.0
    """Of a level that the runs of one block and scenario share, whatever their version."""
    law: Law = "normal"


@dataclass(frozen=True)
class Seconds:
    """Noise of the level from second to second within a run: first-order autoregressive."""

    sd: float = 0.0
    autocorrelation: float = 0.5
    """Of neighbouring seconds."""


def draw(rng: np.random.Generator, law: Law, size: tuple[int, ...]) -> FloatArray:
    """Effects of mean 0 and standard deviation 1."""
    match law:
        case "normal":
            return rng.standard_normal(size)
        case "t4":
            return rng.standard_t(4, size) / np.sqrt(2.0)
        case "skewed":
            return (rng.gamma(2.0, size=size) - 2.0) / np.sqrt(2.0)


def draw_seconds(rng: np.random.Generator, seconds: Seconds, runs: int, length_s: int) -> FloatArray:
    """(runs, length_s) stationary noise of the level, one value a second."""
    rho = seconds.autocorrelation
    fresh = rng.standard_normal((runs, length_s))
    fresh[:, 1:] *= np.sqrt(1 - rho**2)
    return seconds.sd * np.asarray(lfilter([1.0], [1.0, -rho], fresh, axis=1))

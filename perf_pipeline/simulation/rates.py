"""Rates that are measured by simulation, with their Monte-Carlo errors.

What belongs here: counting over campaigns. Comparisons of one campaign may depend on each other, because the gates look
at them together, so the campaign is what errors are computed from, never the comparison.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import betaincinv

Counts: TypeAlias = Mapping[str, tuple[float, float]]
"""What one campaign shows: by name, how often it happened and how often it could have."""


@dataclass(frozen=True)
class Rate:
    """How often something happened in all campaigns together."""

    hits: float
    tries: float
    campaigns: int
    error: float
    """Half of the 95 % interval; where nothing or everything was hit, its one-sided distance (3 / tries)."""

    @property
    def value(self) -> float:
        """Hits per try."""
        return self.hits / self.tries if self.tries else float("nan")


def rates(campaigns: Iterable[Counts]) -> dict[str, Rate]:
    """The rate of each name over all campaigns that could show it.

    The error is that of a ratio of sums over independent campaigns (Cochran 1977, Sampling Techniques, ch. 6). Rates of
    0 and 1 have none of that kind; theirs is the exact one-sided bound of tries that are taken as independent.
    """
    rows: dict[str, list[tuple[float, float]]] = {}
    for counts in campaigns:
        for name, pair in counts.items():
            if pair[1]:
                rows.setdefault(name, []).append(pair)
    return {name: _rate(np.array(pairs, dtype=float)) for name, pairs in rows.items()}


def _rate(pairs: np.ndarray) -> Rate:
    hits, tries = pairs.sum(axis=0)
    campaigns, value = len(pairs), hits / tries
    if value in (0.0, 1.0):
        error = float(betaincinv(1.0, tries, 0.95))
    else:
        residuals = pairs[:, 0] - value * pairs[:, 1]
        clustered = np.sqrt(campaigns / max(campaigns - 1, 1) * (residuals**2).sum()) / tries
        # A handful of campaigns may agree by luck; no error is smaller than that of independent tries.
        error = float(1.96 * max(clustered, np.sqrt(value * (1 - value) / tries)))
    return Rate(float(hits), float(tries), campaigns, error)

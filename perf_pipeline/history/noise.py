"""Whether the lab is as quiet as it was: what the newest comparison could have seen, beside those before it.

What belongs here: the noise of each cell over comparisons, read from the view `noise_floor`, and when it has grown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.special import chdtri, fdtri

from perf_pipeline.warehouse import Warehouse

EARLIER = 30
"""The earlier comparisons whose median is taken, the last ones."""
EARLIER_AT_LEAST = 8
"""Fewer say nothing about how it was."""
GROWN_AT_LEAST = 2.0
"""Times the earlier noise, however surely less than that is known to have grown."""
FALSE_ALARM = 0.01
"""Probability that anything at all is said to have grown in a comparison of a lab that is as it was."""
_COUNTS = 0.1
"""Of the zone: noise that grew by less is too small to matter."""

_NOISE = """
WITH seen AS (
    SELECT floor.*, verdict.zone_high, row_number() OVER (
        PARTITION BY scenario, metric ORDER BY measured_from DESC NULLS LAST, comparison DESC
    ) AS place
    FROM noise_floor AS floor JOIN verdict USING (comparison, scenario, metric)
    WHERE floor.smallest_detectable IS NOT NULL AND verdict.zone_high > 0
)
SELECT latest.scenario, latest.metric, latest.comparison, latest.zone_high AS zone,
    latest.smallest_detectable AS now, median(earlier.smallest_detectable) AS before,
    count(earlier.place) AS earlier, latest.repeats, median(earlier.repeats) AS repeats_before
FROM seen AS latest LEFT JOIN seen AS earlier
    ON earlier.scenario = latest.scenario AND earlier.metric = latest.metric
    AND earlier.place BETWEEN 2 AND $earlier + 1
WHERE latest.place = 1 AND latest.comparison = (
    SELECT comparison FROM noise_floor ORDER BY measured_from DESC NULLS LAST, comparison DESC LIMIT 1
)
GROUP BY ALL ORDER BY latest.scenario, latest.metric
"""


@dataclass(frozen=True)
class CellNoise:
    """The smallest worsening that 8 of 10 comparisons would call a regression, in one scenario and metric."""

    scenario: str
    metric: str
    comparison: str
    """The newest one."""
    zone: float
    """A quiet lab sees everything beyond it."""
    now: float
    before: float | None
    """Median of earlier comparisons."""
    earlier: int
    """How many these are."""
    repeats: int
    repeats_before: float | None

    grew: float | None = None
    """How many times the earlier noise it is, where it grew."""

    @property
    def known_before(self) -> float | None:
        """What it was before; None where too few comparisons say it."""
        return self.before if self.earlier >= EARLIER_AT_LEAST else None


def lab_noise(warehouse: Warehouse) -> list[CellNoise]:
    """The noise of each cell of the newest comparison that tells it, what needs attention first."""
    cells = [CellNoise(**row) for row in warehouse.query(_NOISE, {"earlier": EARLIER}).to_pylist()]
    return noisiest([replace(cell, grew=_grew(cell, len(cells))) for cell in cells])


def noisiest(cells: Sequence[CellNoise]) -> list[CellNoise]:
    """The cells, those that grew first and then the noisiest in zones."""
    return sorted(cells, key=lambda cell: (cell.grew is None, -cell.now / cell.zone))


def grown_from(repeats: int, earlier: int, cells: int) -> float:
    """How many times the median of earlier noise is more than chance, when so many cells are asked at once.

    A standard deviation of 2 (r - 1) degrees of freedom, over the median of `earlier` such ones, by the F distribution;
    that median, of which half the degrees of freedom are left, lies below the true one. A simulation in the tests
    holds the probability.
    """
    df = 2 * max(repeats - 1, 1)
    variances = float(fdtri(df, 0.5 * earlier * df, 1 - FALSE_ALARM / cells) / chdtri(df, 0.5) * df)
    return max(GROWN_AT_LEAST, math.sqrt(variances))


def _grew(cell: CellNoise, cells: int) -> float | None:
    """How many times the earlier noise it is; None where it did not surely grow, or where fewer runs explain it."""
    before = cell.known_before
    if before is None or cell.repeats < (cell.repeats_before or 0):
        return None
    was, is_now = max(before - cell.zone, 1e-9), cell.now - cell.zone
    surely = is_now >= was * grown_from(cell.repeats, cell.earlier, cells)
    return is_now / was if surely and is_now - was >= _COUNTS * cell.zone else None

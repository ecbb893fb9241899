"""How quiet the lab is: what the newest comparison could have seen, beside those before it.

What belongs here: the noise of each cell over comparisons, read from the view `noise_floor`. Whether it has grown is
for a person to say.
"""

from dataclasses import dataclass

from perf_pipeline.warehouse import Warehouse

EARLIER = 30
"""The earlier comparisons whose median is taken, the last ones."""
EARLIER_AT_LEAST = 8
"""Fewer say nothing about how it was."""

_NEWEST = "SELECT comparison FROM noise_floor ORDER BY measured_from DESC NULLS LAST, comparison DESC LIMIT 1"
_CELLS = f"""
WITH seen AS (
    SELECT floor.*, verdict.zone_low, verdict.zone_high, row_number() OVER (
        PARTITION BY scenario, metric, zone_low, zone_high ORDER BY measured_from DESC NULLS LAST, comparison DESC
    ) AS place
    FROM noise_floor AS floor JOIN verdict USING (comparison, scenario, metric)
    WHERE isfinite(floor.smallest_detectable) AND verdict.zone_high > 0
)
SELECT latest.scenario, latest.metric, latest.zone_high AS zone,
    latest.smallest_detectable AS now, median(earlier.smallest_detectable) AS before,
    count(earlier.place) AS earlier, latest.repeats, median(earlier.repeats) AS repeats_before
FROM seen AS latest LEFT JOIN seen AS earlier
    ON earlier.scenario = latest.scenario AND earlier.metric = latest.metric
    AND earlier.zone_low IS NOT DISTINCT FROM latest.zone_low AND earlier.zone_high = latest.zone_high
    AND earlier.place BETWEEN 2 AND $earlier + 1
WHERE latest.comparison = ({_NEWEST})
GROUP BY ALL ORDER BY latest.scenario, latest.metric
"""  # noqa: S608 - of constants
_ALL = f"SELECT comparison, count(*) AS number FROM noise_floor WHERE comparison = ({_NEWEST}) GROUP BY comparison"  # noqa: S608 - of constants


@dataclass(frozen=True)
class CellNoise:
    """The smallest worsening that 8 of 10 comparisons would call a regression, in one scenario and metric."""

    scenario: str
    metric: str
    zone: float
    """A quiet lab sees everything beyond it."""
    now: float
    before: float | None
    """Median of the earlier comparisons that had the same zone: another zone makes another number of the same noise."""
    earlier: int
    """How many these are."""
    repeats: int
    repeats_before: float | None

    @property
    def known_before(self) -> float | None:
        """What it was before; None where too few comparisons say it."""
        return self.before if self.earlier >= EARLIER_AT_LEAST else None


@dataclass(frozen=True)
class LabNoise:
    """The noise of the newest comparison."""

    comparison: str
    cells: tuple[CellNoise, ...]
    """The noisiest in zones first."""
    unmeasured: int
    """Cells that do not tell it: they were not comparable, or no change would have been seen."""


def lab_noise(warehouse: Warehouse) -> LabNoise | None:
    """The noise of each cell of the newest comparison; None where nothing was compared."""
    newest = warehouse.query(_ALL).to_pylist()
    if not newest:
        return None
    cells = [CellNoise(**row) for row in warehouse.query(_CELLS, {"earlier": EARLIER}).to_pylist()]
    cells.sort(key=lambda cell: -cell.now / cell.zone)
    return LabNoise(newest[0]["comparison"], tuple(cells), newest[0]["number"] - len(cells))

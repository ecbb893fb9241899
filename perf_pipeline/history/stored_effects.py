"""Effects of comparisons as the warehouse holds them: from rows of limits to effects that can be added up.

What belongs here: the query and reading its answer, many comparisons at once. What an effect is stands in `effect`.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from perf_pipeline.history.effect import Effect, FloatArray, effects_from_limits
from perf_pipeline.warehouse import Warehouse

Cell = tuple[str, str]
"""Scenario and metric."""

_LIMITS = ("estimate", "low", "high", "band_low", "band_high")

_EFFECTS = """
SELECT comparison, scenario, metric, verdict.tail, verdict.reason, verdict.verdict,
    list(p ORDER BY p) AS p, list(change.estimate ORDER BY p) AS estimate,
    list(change.low ORDER BY p) AS low, list(change.high ORDER BY p) AS high,
    list(band_low ORDER BY p) AS band_low, list(band_high ORDER BY p) AS band_high, list(change.df ORDER BY p) AS df
FROM verdict JOIN gate_change AS change USING (comparison, scenario, metric)
WHERE list_contains($comparisons, comparison) GROUP BY ALL
UNION ALL
SELECT comparison, scenario, metric, tail, reason, verdict,
    [NULL], [estimate], [low], [high], [low], [high], [df]
FROM verdict
WHERE list_contains($comparisons, comparison) AND NOT absent AND metric IN ('service_p99', 'service_memory')
"""
# Error rates are not added up: their intervals are no t intervals, and shares near zero have no common scale.


def stored_effects(warehouse: Warehouse, comparisons: Sequence[str]) -> dict[str, dict[Cell, Effect | str]]:
    """By comparison, scenario and metric: the effect, or why there is none.

    Rows with the same percentiles are read together: a history of a thousand comparisons has ten thousand rows.
    """
    table = warehouse.query(_EFFECTS, {"comparisons": list(comparisons)})
    plain = table.select(["comparison", "scenario", "metric", "reason", "verdict", "tail"]).to_pylist()
    p, df, *limits = (_lists(table[name]) for name in ("p", "df", *_LIMITS))
    alike: dict[bytes, list[int]] = defaultdict(list)
    for at, row in enumerate(plain):
        if row["verdict"] != "not comparable":
            alike[p[at].tobytes()].append(at)
    effects: dict[int, Effect | None] = {}
    for places in alike.values():
        changes = np.stack([np.stack([of_name[at] for at in places]) for of_name in limits])
        tails = np.array([plain[at]["tail"] or math.nan for at in places], dtype=float)
        read = effects_from_limits(p[places[0]], changes, np.stack([df[at] for at in places]), tails)
        effects |= dict(zip(places, read, strict=True))
    found: dict[str, dict[Cell, Effect | str]] = defaultdict(dict)
    for at, row in enumerate(plain):
        found[row["comparison"]][row["scenario"], row["metric"]] = effects.get(at) or row["reason"]
    return found


def _lists(column: pa.ChunkedArray) -> list[FloatArray]:
    """The numbers of each row's list; nan where there is none."""
    array = column.combine_chunks()
    offsets = array.offsets.to_numpy()
    values = np.asarray(array.values.to_numpy(zero_copy_only=False), dtype=float)
    return np.split(values[offsets[0] : offsets[-1]], offsets[1:-1] - offsets[0])

"""Series as Prometheus' HTTP API answers them: the result of a range, with floats or native histograms.

What belongs here: turning such answers into the rows of a series file, so that `series` reads them as what was scraped.
The text that a service exposes has no native histograms, and neither has a series file of rows; the API does, and this
is its answer as `curl` leaves it, or several of them one after the other.

A native histogram names the buckets that hold something, each with both edges. Its rows are those of a classic
histogram with an upper edge wherever a bucket of any sample begins or ends: nothing is lost, and its own resolution
stays visible. A histogram that halves its resolution in between has wider buckets from then on, and the edges inside
these are left out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.metrics.foreign.form import MAKE_AGAIN, read_text

_MOST_BYTES = 1_000_000_000
_ROUNDING = 1e-12
_ASK = "ask for a range: curl -G PROMETHEUS/api/v1/query --data-urlencode 'query={job=\"service\"}[10m]'"

Row = tuple[float, str, str, float]
"""timestamp (unix s), name, labels (JSON text), value"""


def api_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a file with answers of the API: columns timestamp, name, labels, value, one batch a series.

    Raises InputError when the file is cut off or holds something else.
    """
    for result in _results(path):
        labels = dict(result.get("metric", {}))
        name = labels.pop("__name__", "")
        try:
            rows = list(_float_rows(name, labels, result.get("values", ())))
            rows += _histogram_rows(name, labels, result.get("histograms", ()))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise InputError(Problem(f"{path}: {name}", f"cannot be read: {error}", MAKE_AGAIN)) from error
        if rows:
            stamps, names, texts, values = zip(*rows, strict=True)
            yield pa.RecordBatch.from_pydict(
                {
                    "timestamp": pa.array(stamps, pa.float64()),
                    "name": pa.array(names).dictionary_encode(),
                    "labels": pa.array(texts).dictionary_encode(),
                    "value": pa.array(values, pa.float64()),
                }
            )


def _results(path: Path) -> Iterator[Mapping[str, Any]]:
    """The series of all answers in a file."""
    text = read_text(path, _MOST_BYTES)
    decoder, position = json.JSONDecoder(), 0
    while (position := _skip_space(text, position)) < len(text):
        try:
            answer, position = decoder.raw_decode(text, position)
        except ValueError as error:
            line = text.count("\n", 0, position) + 1
            what = f"is cut off or no JSON: {error}"
            raise InputError(Problem(f"{path}:{line}", what, MAKE_AGAIN)) from error
        if not isinstance(answer, dict) or answer.get("status") != "success":
            error_text = answer.get("error", "") if isinstance(answer, dict) else ""
            what = f"is no successful answer of Prometheus: {error_text or str(answer)[:100]}"
            raise InputError(Problem(str(path), what, _ASK))
        data = answer.get("data", {})
        if data.get("resultType") != "matrix":
            raise InputError(Problem(str(path), f"holds a {data.get('resultType')}, not the series of a range", _ASK))
        yield from data.get("result", ())


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _float_rows(name: str, labels: Mapping[str, str], values: Sequence) -> Iterator[Row]:
    text = json.dumps(labels)
    for stamp, value in values:
        yield float(stamp), name, text, float(value)


def _histogram_rows(name: str, labels: Mapping[str, str], samples: Sequence) -> Iterator[Row]:
    """Native histograms as cumulative buckets. Raises ValueError for buckets below 0, which no latency has."""
    if not samples:
        return
    decoded = [(float(stamp), float(histogram["count"]), *_buckets(histogram)) for stamp, histogram in samples]
    edges = np.unique(np.concatenate([np.concatenate((low, high)) for _, _, low, high, _ in decoded]))
    edges = edges[(edges > 0) & np.isfinite(edges)]
    # The same edge at two resolutions may differ in its last place.
    edges = edges[np.diff(edges, prepend=0.0) > _ROUNDING * edges]
    for _, _, low, high, _ in decoded:
        # Buckets do not overlap: an edge lies strictly inside at most one, the last that begins below it.
        if low.size:
            last = np.searchsorted(low, edges * (1 - _ROUNDING), side="left") - 1
            edges = edges[(last < 0) | (edges >= high[last] * (1 - _ROUNDING))]
    texts = [json.dumps({**labels, "le": repr(edge)}) for edge in edges.tolist()]
    everything = json.dumps({**labels, "le": "+Inf"})
    for stamp, count, _, high, counts in decoded:
        below = np.concatenate(([0.0], np.cumsum(counts)))[np.searchsorted(high, edges * (1 + _ROUNDING), side="right")]
        for text, value in zip(texts, below.tolist(), strict=True):
            yield stamp, f"{name}_bucket", text, value
        yield stamp, f"{name}_bucket", everything, count


def _buckets(histogram: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower and upper edges of the buckets of one sample, rising, and their counts."""
    rows = np.array([row[1:] for row in histogram.get("buckets", ())], dtype=np.float64).reshape(-1, 3)
    low, high, counts = rows.T
    if (high[counts > 0] <= 0).any():
        raise ValueError("a bucket below 0 holds something, which no latency does")
    # The bucket around zero reaches as far below it as above.
    low = np.maximum(low, 0.0)
    order = np.argsort(high)
    return low[order], high[order], counts[order]

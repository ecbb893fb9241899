"""Pictures and tables of the report as Dagster metadata.

What belongs here: the forms that the UI shows. What is drawn and counted is in the library.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime

import dagster as dg

from perf_pipeline.report.picture import Picture


def as_metadata(picture: Picture) -> dg.MetadataValue:
    """A picture that the UI draws beside the asset."""
    return dg.MetadataValue.md(f"![picture](data:image/png;base64,{base64.b64encode(picture.png()).decode()})")


def as_table(rows: Sequence[Mapping[str, object]]) -> dg.MetadataValue:
    """Rows with the same fields as a table; the words "none" where there are no rows."""
    if not rows:
        return dg.MetadataValue.text("none")
    cells = [{name: _cell(value) for name, value in row.items()} for row in rows]
    schema = dg.TableSchema([dg.TableColumn(name) for name in cells[0]])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in cells], schema=schema)


def _cell(value: object) -> str | int | float | bool | None:
    """A value that a table of the UI takes: no time of its own, and no more digits than are read."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value if isinstance(value, str | int | bool) or value is None else str(value)

"""Pictures of the report as Dagster metadata.

What belongs here: the form that the UI shows, a picture inside Markdown. What is drawn is in `perf_pipeline.report`.
"""

import base64

import dagster as dg

from perf_pipeline.report.picture import Picture


def as_metadata(picture: Picture) -> dg.MetadataValue:
    """A picture that the UI draws beside the asset."""
    return dg.MetadataValue.md(f"![picture](data:image/png;base64,{base64.b64encode(picture.png()).decode()})")

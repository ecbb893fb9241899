"""What every section of a plan rests on: names that are safe in paths and keys, and a strict model.

What belongs here: nothing that says what a plan holds. That is in `plan`, and in `plan_operation` for what no run
depends on.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
"""A name that is safe in paths, partition keys and labels."""

VERSION_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9.-]|_[A-Za-z0-9.-])*$"
Version = Annotated[str, Field(pattern=VERSION_PATTERN, max_length=80)]
"""A version that can stand in a comparison key: a name without two underscores in a row or one at its end."""


class Section(BaseModel):
    """A section of the plan: unknown fields are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)

"""The run directory: what a run leaves behind, and what `judge` reads.

    <run>/run.json                 this module's RunRecord
    <run>/k6.csv[.gz]              k6 `--out csv`; columns found by header name
    <run>/series.csv[.gz] or series.parquet   timestamp (unix s), name, labels (JSON text), value; as scraped
    <run>/logs/                    what each process printed

What belongs here: the record's model, finding run directories in a folder, and moving a finished one into place. A run
directory exists whole or not at all. What its files mean is in `metrics`.
"""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.half_written import is_partial
from perf_pipeline.plan_metrics import MetricsSection

RECORD_NAME = "run.json"
_MOST = 1_000_000
"""Larger numbers of runs are mistakes, and do not fit into the tables."""
_LONGEST_HOLD_S = 7 * 86_400
_REMEDY = "docs/run-directory.md says what a run directory holds"


class Hold(BaseModel):
    """The measured window in unix seconds."""

    model_config = ConfigDict(frozen=True)

    start: float
    end: float

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Self:
        if not self.end > self.start:
            raise ValueError("end must be after start")
        if self.seconds > _LONGEST_HOLD_S:
            raise ValueError(
                f"start and end are unix seconds, and {self.seconds:.0f} s apart: a hold is at most a week"
            )
        return self

    @property
    def seconds(self) -> float:
        """Length of the window in seconds."""
        return self.end - self.start


class Design(BaseModel):
    """What was fixed before the first run of a campaign, so that no result could shape it."""

    model_config = ConfigDict(frozen=True)

    looks: tuple[int, ...] = Field((), description="repeats per version at which the campaign is judged, rising")
    paired: bool = Field(False, description="whether runs of one block are analysed as pairs")

    @model_validator(mode="after")
    def _looks_rise(self) -> Self:
        if any(look < 2 for look in self.looks) or list(self.looks) != sorted(set(self.looks)):
            raise ValueError("looks are numbers of repeats from 2, each larger than the one before")
        return self


class RunRecord(BaseModel):
    """`run.json`: what was run, when, where and how it ended.

    `run_id`, `version`, `scenario`, `repeat`, `target_rate_per_s` and `hold` are needed; a harness that does not know
    the rest leaves it out, and the gates say what they could not check.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str = Field(min_length=1)
    version: str = Field(min_length=1)
    scenario: str = Field(min_length=1)
    repeat: int = Field(ge=1, le=_MOST)
    target_rate_per_s: float = Field(gt=0, allow_inf_nan=False)
    hold: Hold
    comparison: str | None = None
    block: int = Field(0, ge=0, le=_MOST)
    position: int | None = Field(None, ge=1, le=_MOST, description="place in the order of the campaign, from 1")
    arm: Literal["main", "aa"] = Field(
        default="main",
        description="aa for runs of the baseline that stand in for a candidate, held against its other runs",
    )
    design: Design | None = Field(default=None, description="what was fixed beforehand; without it one look, unpaired")
    environment: dict[str, str] = Field(
        default_factory=dict, description="identity of the environment; equal on both sides of a valid comparison"
    )
    service_digest: str | None = Field(None, description="digest of the service's image or command")
    workload: str | None = Field(None, description="content hash of the workload")
    plan: str | None = Field(None, description="content hash of the plan")
    seed: int | None = Field(None, description="seed of the order of requests")
    scrape_interval_s: float = Field(1.0, gt=0, description="how often the series were scraped")
    metrics: MetricsSection = Field(MetricsSection.model_validate({}), description="where each metric comes from")
    status: Literal["complete", "failed"] = "complete"
    failure: str | None = Field(None, description="why the run did not finish")
    k6_exit_code: int | None = None


def read_record(run: Path) -> RunRecord:
    """The record of one run directory. Raises InputError naming the file and each field that is wrong."""
    path = run / RECORD_NAME
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(Problem(str(path), "is missing", _REMEDY)) from error
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error.strerror}", _REMEDY)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(Problem(str(path), f"is not JSON: {error}", "measure the run again, or remove it")) from error
    if not isinstance(data, dict):
        raise InputError(Problem(str(path), "is not an object with the fields of a run", _REMEDY))
    try:
        return RunRecord.model_validate(data)
    except ValidationError as error:
        raise InputError(
            Problem(
                f"{path}: {'.'.join(str(part) for part in detail['loc'])}",
                "is missing" if detail["type"] == "missing" else detail["msg"].removeprefix("Value error, "),
                _REMEDY,
            )
            for detail in error.errors()
        ) from error


def find_runs(folder: Path, read_otherwise: Collection[Path] = ()) -> list[Path]:
    """Every run directory below the folder, sorted.

    `read_otherwise` are files of runs that nobody wrote a run.json for. Raises InputError when there is neither, when
    two directories share an id, and for k6 output in a folder without run.json that is not among them.
    """
    if not folder.is_dir():
        raise InputError(Problem(str(folder), "is not a folder", "name a folder of run directories"))
    runs = sorted(path.parent for path in _whole(folder, RECORD_NAME))
    strays = sorted({path.parent for path in _whole(folder, "k6.csv*") if path not in read_otherwise} - set(runs))
    problems = [Problem(str(run), "has k6 output but no run.json", _REMEDY) for run in strays]
    seen: dict[str, tuple[Path, RunRecord]] = {}
    comparisons: set[str] = set()
    for run in runs:
        try:
            record = read_record(run)
        except InputError as error:
            problems.extend(error.problems)
            continue
        if record.run_id in seen:
            other, other_record = seen[record.run_id]
            shared = {record.comparison, other_record.comparison} - {None}
            if len(shared) > 1:
                comparisons |= {name for name in shared if name}
                continue
            what = f"has the run_id {record.run_id} of {other}"
            problems.append(Problem(str(run), what, "give each run its own id, or remove one"))
        seen[record.run_id] = run, record
    if comparisons:
        what = f"holds runs of several comparisons ({', '.join(sorted(comparisons))}) under the same ids"
        problems.append(Problem(str(folder), what, "name the folder of one comparison"))
    if not runs and not problems and not read_otherwise:
        problems.append(Problem(str(folder), "holds no run directory", _REMEDY))
    if problems:
        raise InputError(problems)
    return runs


def _whole(folder: Path, pattern: str) -> Iterator[Path]:
    """Files of that name below the folder, without those of a run that is being written or never was to its end."""
    return (path for path in folder.rglob(pattern) if not is_partial(path.relative_to(folder)))

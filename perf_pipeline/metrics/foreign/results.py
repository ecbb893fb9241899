"""Which files of a folder are results of other load generators, and of which runs they are.

What belongs here: the forms that are known, finding their files in a folder, telling version, scenario and repeat by
their paths, and measuring one. A form is told by what is in a file, never by its name.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates import wording
from perf_pipeline.lab.run_directory import RECORD_NAME
from perf_pipeline.metrics.foreign.form import MAKE_AGAIN, Form, UnreadableForm, head_of
from perf_pipeline.metrics.foreign.hdr_log import HDR_LOG
from perf_pipeline.metrics.foreign.hgrm import HGRM
from perf_pipeline.metrics.foreign.k6 import K6_CSV, K6_JSON, K6_SUMMARY
from perf_pipeline.metrics.foreign.layout import Layout, Place, names_a_version, tell_layout
from perf_pipeline.metrics.foreign.measured import measured_run
from perf_pipeline.metrics.foreign.told import TAG_SEPARATOR, Told
from perf_pipeline.metrics.foreign.vegeta import VEGETA_CSV, VEGETA_GOB, VEGETA_JSON, VEGETA_REPORT
from perf_pipeline.metrics.foreign.wrk import WRK
from perf_pipeline.metrics.measured_run import MeasuredRun

FORMS: tuple[Form, ...] = (K6_JSON, K6_CSV, HDR_LOG, WRK, HGRM, VEGETA_CSV, VEGETA_JSON)
"""Every form that can be read. None recognises a file of another one."""
UNREADABLE_FORMS: tuple[UnreadableForm, ...] = (K6_SUMMARY, VEGETA_GOB, VEGETA_REPORT)

DOCUMENTATION = "docs/results-of-others.md says which files can be judged"


@dataclass(frozen=True)
class ForeignResult:
    """A file with the results of one run, or of as many as it has tags."""

    path: Path
    name: str
    """Its path below the folder that is judged: the run_id."""
    form: Form
    version: str
    scenario: str
    repeat: int
    told: Told
    rate_per_s: float | None = None
    """Target rate that its path names; None when it names none."""


@dataclass(frozen=True)
class FoundResults:
    """What was found in a folder besides run directories."""

    results: tuple[ForeignResult, ...]
    pattern: str | None = None
    """The pattern that their paths were read by; None where there are none."""
    others: tuple[str, ...] = ()
    """Result files that are of neither version, or outside of the pattern."""
    unreadable: tuple[Problem, ...] = ()
    """Files of forms that cannot be judged, with what to do."""
    files: tuple[Path, ...] = ()
    """The files that need no run.json."""
    problems: tuple[Problem, ...] = ()
    """What has to be put right first: damaged files, and files that are of the same run."""

    def notes(self) -> Iterator[str]:
        """What a reader of the judgement has to know of how the results were found, one sentence each."""
        if self.results:
            counts = Counter(result.form.name for result in self.results)
            forms = ", ".join(f"{wording.counted(number, 'file')} of {name}" for name, number in sorted(counts.items()))
            yield f"Which run a file is of was read from its path as {self.pattern}; no run.json confirms it ({forms})."
        if self.others:
            yield f"Left out, because of neither version by their paths: {wording.named(self.others)}."
        for what, problems in groupby(sorted(self.unreadable, key=str), key=lambda one: one.what):
            yield f"Left out, because a file {what}: {wording.named(problem.where for problem in problems)}."


def find_results(folder: Path, versions: Sequence[str], told: Told, pattern: str | None = None) -> FoundResults:
    """The results of other load generators below a folder, outside of run directories.

    `versions` are those of the comparison; files of other versions are named and left out. Without a pattern the paths
    are read by the first of the usual layouts that fits them all. Raises InputError when it cannot be told which run a
    file is of, and when a pattern was given that is wrong or fits no file.
    """
    layout = None if pattern is None else Layout(pattern, versions)
    forms, unreadable, damaged = _recognise(folder)
    if layout is None:
        if not any(names_a_version(path, versions) for path in forms) and any(folder.rglob(RECORD_NAME)):
            # Among run directories, a result that has to do with neither version is somebody's note.
            return FoundResults((), others=tuple(map(str, forms)), unreadable=unreadable, problems=damaged)
        if not forms:
            return FoundResults((), unreadable=unreadable)
        layout = tell_layout(list(forms), versions)
    places = {path: layout.place(path) for path in forms}
    placed = {path: place for path, place in places.items() if place is not None and place.version in versions}
    if pattern is not None and not any(places.values()) and (forms or not unreadable):
        such = f", such as {wording.named(map(str, forms))}" if forms else ""
        what = f"{pattern!r} fits none of {wording.counted(len(forms), 'result file')} in {folder}{such}"
        raise InputError(Problem("--pattern", what, "the pattern begins below RUNS, and goes to a file or a folder"))
    repeats = _repeats(placed)
    results = tuple(
        ForeignResult(
            path=folder / path,
            name=path.as_posix(),
            form=forms[path],
            version=place.version,
            scenario=place.scenario,
            repeat=repeats[path],
            told=told,
            rate_per_s=place.rate_per_s,
        )
        for path, place in placed.items()
    )
    others = tuple(path.as_posix() for path in forms if path not in placed)
    # k6 output among run directories needs a run.json unless a pattern says what it is: it lost its own.
    lost = pattern is None and any(folder.rglob(RECORD_NAME))
    files = () if lost else tuple(folder / path for path in forms)
    problems = (*damaged, *_of_one_run(folder, placed, repeats))
    return FoundResults(results, layout.pattern, others, unreadable, files, problems)


def measure_result(result: ForeignResult) -> list[MeasuredRun]:
    """Measure a file: one run, or one for each tag, each a scenario of its own. Raises InputError with its problems."""
    runs = []
    for load in result.form.read(result.path, result.told):
        scenario = f"{result.scenario}{TAG_SEPARATOR}{load.tag}" if load.tag else result.scenario
        rate_per_s = result.told.rate_per_s(scenario)
        if rate_per_s is None and not load.tag:
            rate_per_s = result.rate_per_s
        runs.append(
            measured_run(
                result.form,
                load,
                run_id=f"{result.name}#{load.tag}" if load.tag else result.name,
                version=result.version,
                scenario=scenario,
                repeat=result.repeat,
                rate_per_s=rate_per_s,
            )
        )
    return runs


def _recognise(folder: Path) -> tuple[dict[PurePosixPath, Form], tuple[Problem, ...], tuple[Problem, ...]]:
    """The forms of the results in a folder by their paths in it, the files of forms without use, and the damaged ones.

    A file that is named like a result and is none is an empty or a damaged one.
    """
    forms: dict[PurePosixPath, Form] = {}
    unreadable: list[Problem] = []
    unknown: dict[Path, bytes] = {}
    for path in _files(folder):
        head = head_of(path)
        if form := next((form for form in FORMS if form.recognises(head)), None):
            forms[PurePosixPath(path.relative_to(folder).as_posix())] = form
        elif hopeless := next((form for form in UNREADABLE_FORMS if form.recognises(head)), None):
            unreadable.append(Problem(str(path), f"is {hopeless.name}", hopeless.remedy))
        else:
            unknown[path] = head
    named = {_blank(path.name) for path in forms}
    damaged = (
        Problem(str(path), _why_unknown(head), f"{MAKE_AGAIN}; {DOCUMENTATION}")
        for path, head in unknown.items()
        if _blank(path.name) in named
    )
    return forms, tuple(unreadable), tuple(damaged)


def _why_unknown(head: bytes) -> str:
    if not head:
        return "is empty"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "is in UTF-16, as PowerShell writes what it redirects, and not in UTF-8"
    return "begins like no known form of result"


def _blank(name: str) -> str:
    """A file name without its numbers: what the results of one campaign have in common."""
    return re.sub(r"\d+", "#", name)


def _files(folder: Path) -> list[Path]:
    """Every file below a folder, sorted, but hidden ones and those of run directories."""
    runs = {path.parent for path in folder.rglob(RECORD_NAME)}
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and runs.isdisjoint(path.parents)
    )


def _repeats(places: dict[PurePosixPath, Place]) -> dict[PurePosixPath, int]:
    """The repeat of each file; counted in the order of the paths where they do not name it."""
    counted: Counter[tuple[str, str]] = Counter()
    repeats = {}
    for path, place in places.items():
        counted[place.version, place.scenario] += 1
        repeats[path] = counted[place.version, place.scenario] if place.repeat is None else place.repeat
    return repeats


def _of_one_run(
    folder: Path, places: dict[PurePosixPath, Place], repeats: dict[PurePosixPath, int]
) -> Iterator[Problem]:
    """The files that are of the same run as another one."""
    first: dict[tuple[str, str, int], PurePosixPath] = {}
    for path, place in places.items():
        other = first.setdefault((place.version, place.scenario, repeats[path]), path)
        if other != path:
            what = f"is of version {place.version}, scenario {place.scenario}, repeat {repeats[path]}, as is {other}"
            remedy = (
                "keep one of them, or tell them apart: --pattern '{version}/{scenario}/{repeat}/k6.json', for example"
            )
            yield Problem(str(folder / path), what, remedy)

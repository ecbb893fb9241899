"""Which version, scenario and repeat a file is of: read from its path.

What belongs here: path patterns, and telling the pattern from the paths when nobody gave one. A path that fits a
pattern in two ways is read the way that names a version of the comparison.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from perf_pipeline.errors import InputError, Problem

ONLY_SCENARIO = "all"
"""Name of the scenario where the paths name none."""

LAYOUTS = (
    "{version}/{scenario}/{repeat}",
    "{scenario}/{version}/{repeat}",
    "{repeat}/{version}/{scenario}",
    "{repeat}/{scenario}/{version}",
    "{version}/{repeat}/{scenario}",
    "{version}/{repeat}",
    "{repeat}/{version}",
    "{version}-{repeat}",
    "{version}_{repeat}",
    "{version}/{scenario}-{repeat}",
    "{version}/{scenario}_{repeat}",
    "{scenario}/{version}-{repeat}",
    "{scenario}/{version}_{repeat}",
    "{version}-{scenario}-{repeat}",
    "{version}_{scenario}_{repeat}",
    "{scenario}-{version}-{repeat}",
    "{scenario}_{version}_{repeat}",
)
"""The patterns that are tried, in this order, when none is given: the first that fits every file of either version."""

_EXAMPLE = "--pattern '{version}/{scenario}/{repeat}/*', for example"
_FIELDS = {
    "scenario": r"(?P<scenario>[^/]+?)",
    "repeat": r"(?i:(?:r|run|rep|repeat|repetition|iter|iteration|round|try|attempt|n|no)[-_. ]?)?(?P<repeat>\d+)",
    "rate": r"(?P<rate>\d+(?:\.\d+)?)(?:rps|qps)?",
}
_ENDINGS = r"(?i:\.(?:csv|json|jsonl|ndjson|hlog|hgrm|hdr|txt|log|out|gz))*"
"""What may follow the name that a pattern gives a file. Not any ending: 1.0.0.1 is not a file of version 1.0.0."""


@dataclass(frozen=True)
class Place:
    """What a path says of a run; None where it says nothing."""

    version: str
    scenario: str
    repeat: int | None
    rate_per_s: float | None


class Layout:
    """A path pattern: text, `{version}`, `{scenario}`, `{repeat}`, `{rate}`, `*` within a name and `**` across folders.

    It has to fit from the start of the path. It may leave out the endings of a file, and everything below a folder.
    """

    def __init__(self, pattern: str, versions: Sequence[str]) -> None:
        """Understand a pattern; `versions` are those of the comparison. Raises InputError naming what is wrong."""
        self.pattern = pattern
        # A longer name first: 1.0.0-rc1 is not version 1.0.0.
        known = sorted(map(re.escape, versions), key=len, reverse=True)
        fields = _FIELDS | {"version": f"(?P<version>{'|'.join([*known, '[^/]+?'])})"}
        names = re.findall(r"\{([^{}]*)\}", pattern)
        problems = [
            Problem("--pattern", f"{{{name}}} is not known", f"it may hold {', '.join(f'{{{one}}}' for one in fields)}")
            for name in dict.fromkeys(names)
            if name not in fields
        ]
        problems += [
            Problem("--pattern", f"{{{name}}} stands twice", "keep one of them, and write * for the other")
            for name in fields
            if names.count(name) > 1
        ]
        if "version" not in names:
            problems.append(Problem("--pattern", f"{pattern!r} has no {{version}}", _EXAMPLE))
        if problems:
            raise InputError(problems)
        parts = (
            fields[part[1:-1]] if part.startswith("{")
            else {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}.get(part) or re.escape(part)
            for part in re.findall(r"\{[^{}]*\}|\*\*/|\*\*|\*|[^{}*]+|[{}]", pattern.removeprefix("./").rstrip("/"))
        )  # fmt: skip
        self._expression = re.compile("".join(parts) + f"(?:{_ENDINGS}|/.*)")

    def place(self, path: PurePosixPath) -> Place | None:
        """What a path says, None when it does not fit the pattern."""
        found = self._expression.fullmatch(path.as_posix())
        if found is None:
            return None
        fields = found.groupdict()
        repeat, rate = fields.get("repeat"), fields.get("rate")
        scenario = fields.get("scenario") or (ONLY_SCENARIO if rate is None else f"{rate} per s")
        return Place(
            fields["version"], scenario, None if repeat is None else int(repeat), None if rate is None else float(rate)
        )


def tell_layout(paths: Sequence[PurePosixPath], versions: Sequence[str]) -> Layout:
    """The first of LAYOUTS that fits every path of one of these versions.

    Raises InputError when none does, and when no path names a version.
    """
    named = [path for path in paths if names_a_version(path, versions)]
    if not named:
        shown = ", ".join(map(str, paths[:3]))
        what = f"none of {len(paths)} result files names {' or '.join(versions)} in its path, such as {shown}"
        raise InputError(Problem("RUNS", what, f"say where the version stands: {_EXAMPLE}"))
    for pattern in LAYOUTS:
        layout = Layout(pattern, versions)
        places = [layout.place(path) for path in named]
        if all(place is not None and place.version in versions for place in places):
            return layout
    shown = ", ".join(map(str, named[:3]))
    what = f"version, scenario and repeat cannot be told from the paths of {len(named)} result files, such as {shown}"
    raise InputError(Problem("RUNS", what, f"say where they stand: {_EXAMPLE}"))


def names_a_version(path: PurePosixPath, versions: Sequence[str]) -> bool:
    """Whether a version stands in a path, between characters that are no part of another version's name."""
    return any(
        re.search(rf"(?<![A-Za-z0-9.]){re.escape(version)}(?![A-Za-z0-9]|\.\d)", path.as_posix())
        for version in versions
    )

"""Deploys: which comparisons the versions that were deployed ask for.

What belongs here: reading deploy records from the object store, and one pure function from what was seen before and
what is there now to the comparisons to start. Starting them is the orchestration's affair.

Whoever deploys puts an object below `deploys/`, its name in order of time:

    deploys/2026-11-30T04-00-00Z-1.1.0.json     {"version": "1.1.0"}

Optional fields: `baseline` (the version that it replaced; otherwise the one deployed before it) and `judge_again` (true
compares a version that was compared already, such as after a rollback).

What ran when a record came is its baseline, also where the record could not be read then and is mended later: it is
remembered, and a deploy that came in between stays the one that runs.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from perf_pipeline.errors import Problem
from perf_pipeline.plan import comparison_key, split_comparison_key
from perf_pipeline.plan_base import Version
from perf_pipeline.storage import ObjectStore

FOLDER = "deploys"


@dataclass(frozen=True)
class Deploy:
    """One version that was deployed, or built."""

    name: str
    """What tells it from every other deploy: the key of its object."""
    version: str | None
    """None as long as its record cannot be read."""
    baseline: str | None = None
    """The version that it replaced, where the record says so."""
    judge_again: bool = False
    runs: bool = True
    """Whether it runs now; a build that is only made changes no later baseline."""


@dataclass(frozen=True)
class Seen:
    """What was handled before: the memory between two looks."""

    current: str | None = None
    """The version that runs as far as the handled deploys say; None before the first."""
    handled: frozenset[str] = frozenset()
    """Names of the deploys that need nothing more."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """By name of each deploy whose record cannot be read yet: the version that ran when it came."""

    def to_text(self) -> str:
        """As text that `from_text` reads."""
        waiting = {"waiting": dict(self.waiting)} if self.waiting else {}
        return json.dumps({"current": self.current, "handled": sorted(self.handled), **waiting})

    @classmethod
    def from_text(cls, text: str | None) -> Self:
        """What `to_text` wrote; nothing was seen when there is no text."""
        known = json.loads(text) if text else {}
        return cls(known.get("current"), frozenset(known.get("handled", ())), known.get("waiting", {}))


@dataclass(frozen=True)
class Asked:
    """What to start now, and what to remember."""

    comparisons: tuple[str, ...]
    """Keys `<baseline>__<candidate>`, in order of deploying, each once."""
    again: Mapping[str, str]
    """Of these, the ones that were compared before: the deploy whose record asks for them, by key."""
    ignored: tuple[str, ...]
    """A sentence for each deploy that asks for no comparison."""
    seen: Seen


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore")

    version: Version
    baseline: Version | None = None
    judge_again: bool = False


def read_deploys(store: ObjectStore, handled: Collection[str]) -> tuple[list[Deploy], list[str], list[Problem]]:
    """The deploys that are not handled yet in order of time, the names of all, and what is wrong with the others.

    A record that cannot be read is a problem, not an error, so that it keeps no other deploy from its comparison: a
    deploy without a version, which stays unhandled until somebody mends or removes it.
    """
    names = store.keys(FOLDER)
    deploys, problems = [], []
    for name in names:
        if name in handled:
            continue
        try:
            record = _Record.model_validate_json(store.get(name))
        except KeyError:  # removed since it was listed
            continue
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors())
            remedy = (
                'write JSON such as {"version": "1.1.0"}; it is then compared with what ran when it came. Until then '
                'later deploys take that for their baseline, unless their records say "baseline"'
            )
            problems.append(Problem(store.uri(name), wrong, remedy))
            deploys.append(Deploy(name, None))
            continue
        deploys.append(Deploy(name, record.version, record.baseline, record.judge_again))
    return deploys, names, problems


def ask(deploys: Sequence[Deploy], seen: Seen, running: str, compared: Collection[str], limit: int) -> Asked:
    """The comparisons that new deploys ask for, at most `limit` of them; the others are left for the next look.

    `running` is the version that runs now, where no deploy was ever seen, and `compared` the keys of all
    comparisons there are. The baseline of a deploy is the version that ran when it was made, frozen into the key; for
    one whose record could not be read, it is frozen when it is first seen. A version that has been on either side of a
    comparison, such as one that a rollback brings back, is not compared again unless its record says so.
    """
    known = {version for key in compared for version in split_comparison_key(key)}
    current = seen.current
    handled, waiting = set(seen.handled), dict(seen.waiting)
    comparisons: list[str] = []
    again: dict[str, str] = {}
    ignored: list[str] = []
    for deploy in deploys:
        if deploy.name in handled:
            continue
        if deploy.version is None:
            waiting.setdefault(deploy.name, current or running)
            continue
        baseline = deploy.baseline or waiting.get(deploy.name, current or running)
        reason = _reason_to_ignore(deploy, deploy.version, baseline, known)
        if reason:
            ignored.append(f"{deploy.name}: {reason}")
        elif len(comparisons) == limit:
            break
        else:
            key = comparison_key(baseline, deploy.version)
            if key in compared or key in comparisons:
                again[key] = deploy.name
            comparisons.append(key)
        if deploy.runs:
            mended = waiting.pop(deploy.name, None) is not None
            later = _next_record(handled, deploy.name) if mended else None
            current = current if later else deploy.version
            # Others that wait came after it, up to the next one that was read.
            waiting |= {name: deploy.version for name in waiting if deploy.name < name and not (later and later < name)}
        handled.add(deploy.name)
        known |= {baseline, deploy.version}
    return Asked(tuple(dict.fromkeys(comparisons)), again, tuple(ignored), Seen(current, frozenset(handled), waiting))


def forget(seen: Seen, there: Collection[str]) -> Seen:
    """Without the names of deploys whose objects are gone, so that the memory does not grow for ever."""
    waiting = {name: version for name, version in seen.waiting.items() if name in there}
    return replace(seen, handled=seen.handled & frozenset(there), waiting=waiting)


def _next_record(names: Collection[str], name: str) -> str | None:
    """The first of these names after a name, in order of time, that is the name of a record and not that of a build."""
    return min((other for other in names if other > name and other.startswith(f"{FOLDER}/")), default=None)


def _reason_to_ignore(deploy: Deploy, version: str, baseline: str, known: Collection[str]) -> str | None:
    if version == baseline:
        return f"{version} was running already"
    if version in known and not deploy.judge_again:
        return f"{version} was compared before; a record with judge_again: true compares it again"
    return None

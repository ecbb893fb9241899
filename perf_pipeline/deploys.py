"""Deploys: which comparisons the versions that were deployed ask for.

What belongs here: reading deploy records from the object store, and one pure function from what was seen before and
what is there now to the comparisons to start. Starting them is the orchestration's affair.

Whoever deploys puts an object below `deploys/`, its name in order of time:

    deploys/2026-11-30T04-00-00Z-1.1.0.json     {"version": "1.1.0"}

Optional fields: `baseline` (the version that it replaced; otherwise the one deployed before it) and `judge_again` (true
compares a version that was compared already, such as after a rollback).

What ran when a record came is its baseline, also where the record could not be read then and is mended later: it is
remembered, and a deploy that came in between stays the one that runs.

A version counts as compared once there is a verdict on it. A deploy of one whose comparison failed asks for it again;
one whose comparison is under way waits for what becomes of it.
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
    """By name of each deploy that came and is not handled yet, such as one whose record cannot be read: the version
    that ran when it came."""
    releases: tuple[str, ...] = ()
    """What ran by the version source: at the last look, and before it the release that it took the place of."""
    ran: frozenset[str] | None = frozenset()
    """Versions that ran as far as the handled deploys say; None where a memory of old does not say."""

    def looked(self, release: str) -> "Seen":
        """With the release of this look, which moved before or after its deploy record was written."""
        moved = [] if self.releases and self.releases[-1] == release else [release]
        return replace(self, releases=(*self.releases, *moved)[-2:])

    def to_text(self) -> str:
        """As text that `from_text` reads."""
        waiting = {"waiting": dict(self.waiting)} if self.waiting else {}
        releases = {"releases": self.releases} if self.releases else {}
        ran = {} if self.ran is None else {"ran": sorted(self.ran)}
        return json.dumps({"current": self.current, "handled": sorted(self.handled), **waiting, **releases, **ran})

    @classmethod
    def from_text(cls, text: str | None) -> Self:
        """What `to_text` wrote; nothing was seen when there is no text."""
        known = json.loads(text) if text else {}
        handled, releases = frozenset(known.get("handled", ())), tuple(known.get("releases", ()))
        ran = known.get("ran", None if known.get("current") else ())
        return cls(
            known.get("current"), handled, known.get("waiting", {}), releases, None if ran is None else frozenset(ran)
        )


@dataclass(frozen=True)
class Comparisons:
    """What became of the comparisons that were asked for, by whomever: keys, each in one of the three."""

    judged: frozenset[str] = frozenset()
    under_way: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    """Asked for, ended or stopped, and without a verdict."""


@dataclass(frozen=True)
class Asked:
    """What to start now, and what to remember."""

    comparisons: tuple[str, ...]
    """Keys `<baseline>__<candidate>`, in order of deploying, each once."""
    again: Mapping[str, str]
    """Of these, the ones that were compared before: the deploy whose record asks for them, by key."""
    ignored: tuple[str, ...]
    """A sentence for each deploy that asks for no comparison, or for none yet."""
    seen: Seen
    asked_by: Mapping[str, str] = field(default_factory=dict)
    """By key, the name of the deploy record that asks for it. A new build is none: it is asked for once."""


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


def ask(deploys: Sequence[Deploy], seen: Seen, running: str, made: Comparisons, limit: int) -> Asked:
    """The comparisons that new deploys ask for, at most `limit` of them; the others are left for the next look.

    `running` is the version that runs now, where no deploy was ever seen, and `made` what became of all comparisons
    there are. The baseline of a deploy is the version that ran when it was made, frozen into the key; for one that has
    to wait, it is frozen when it is first seen. A version that was compared or that ran before, such as one that a
    rollback brings back, is not compared again unless its record says so. That it was the baseline of a nightly or of a
    build alone says neither: the version source may name it before its record comes.
    """
    known, current = _Known(made, seen), seen.current
    handled, waiting = set(seen.handled), dict(seen.waiting)
    comparisons: list[str] = []
    again: dict[str, str] = {}
    asked_by: dict[str, str] = {}
    ignored: list[str] = []
    for deploy in deploys:
        if deploy.name in handled:
            continue
        if deploy.version is None:
            waiting.setdefault(deploy.name, current or running)
            continue
        ran = waiting.get(deploy.name) or current or _replaced(deploy.version, running, seen)
        unknown = ran == deploy.version and deploy.runs and _is_first(deploy.name, current, handled, waiting)
        baseline = deploy.baseline or ran
        runs_already = f"{deploy.version} was running already" if deploy.version == baseline else None
        if not (runs_already and current) and (reason := known.why_to_wait(deploy, deploy.version, unknown)):
            ignored.append(f"{deploy.name}: {reason}")
            waiting.setdefault(deploy.name, baseline)
            break  # the lab measures one comparison at a time, and what is deployed later takes this for its baseline
        why_not = known.why_not(deploy, deploy.version, unknown)
        if runs_already and unknown and not (why_not or deploy.baseline):
            ignored.append(f"{deploy.name}: {_UNKNOWN_BASELINE.format(version=deploy.version)}")
            waiting.setdefault(deploy.name, baseline)
            continue
        if reason := runs_already or why_not:
            ignored.append(f"{deploy.name}: {reason}")
        elif len(comparisons) == limit:
            break
        else:
            key = comparison_key(baseline, deploy.version)
            if key in comparisons or known.measured_afresh(key, deploy):
                again[key] = deploy.name
            if deploy.runs:
                asked_by[key] = deploy.name
            comparisons.append(key)
        if deploy.runs:
            mended = waiting.pop(deploy.name, None) is not None
            later = _next_record(handled, deploy.name) if mended else None
            current = current if later else deploy.version
            # Others that wait came after it, up to the next one that was read.
            waiting |= {name: deploy.version for name in waiting if deploy.name < name and not (later and later < name)}
        handled.add(deploy.name)
        known.judged |= {baseline, deploy.version}
        known.candidates.add(deploy.version)
        if deploy.runs:
            known.ran |= {baseline, deploy.version}
    remembered = replace(seen, current=current, handled=frozenset(handled), waiting=waiting, ran=frozenset(known.ran))
    return Asked(tuple(dict.fromkeys(comparisons)), again, tuple(ignored), remembered, asked_by)


def forget(seen: Seen, there: Collection[str]) -> Seen:
    """Without the names of deploys whose objects are gone, so that the memory does not grow for ever."""
    waiting = {name: version for name, version in seen.waiting.items() if name in there}
    return replace(seen, handled=seen.handled & frozenset(there), waiting=waiting)


def _next_record(names: Collection[str], name: str) -> str | None:
    """The first of these names after a name, in order of time, that is the name of a record and not that of a build."""
    return min((other for other in names if other > name and other.startswith(f"{FOLDER}/")), default=None)


def _is_first(name: str, current: str | None, handled: Collection[str], waiting: Collection[str]) -> bool:
    """Whether no deploy before this one says what ran when it came, also where later ones are handled."""
    before = any(other < name and other.startswith(f"{FOLDER}/") for other in handled)
    return current is None or (name in waiting and not before)


def _replaced(version: str, running: str, seen: Seen) -> str:
    """What ran before any deploy was seen; where the source names the deployed version already, the release before."""
    before = [release for release in seen.releases if release != running]
    return before[-1] if version == running and before else running


_UNKNOWN_BASELINE = (
    "{version} was running already when it was first seen, and what it replaced is not known: say it in the record, as "
    '"baseline": "…"; the next deploy takes {version} for its baseline'
)


class _Known:
    """What is known of versions from the comparisons that were made."""

    def __init__(self, made: Comparisons, seen: Seen) -> None:
        self._made = made
        self.judged = {version for key in made.judged for version in split_comparison_key(key)}
        """Versions on either side of a verdict, and those that this look has dealt with."""
        self.candidates = {split_comparison_key(key)[1] for key in made.judged}
        """Of these, the ones that were compared with another."""
        self._under_way = {split_comparison_key(key)[1] for key in made.under_way}
        self._failed = {split_comparison_key(key)[1] for key in made.failed}
        self._baselines = {split_comparison_key(key)[0] for key in made.under_way | made.failed}
        self.ran = {*((self.judged | self._baselines) if seen.ran is None else seen.ran)}
        """Versions that ran as far as deploys say."""
        self._pairs = [split_comparison_key(key) for key in made.judged | made.under_way | made.failed]

    def why_to_wait(self, deploy: Deploy, version: str, unknown: bool) -> str | None:
        """Why a deploy can neither be asked for nor be left now."""
        done = deploy.judge_again or self.why_not(deploy, version, unknown)
        if done or version not in self._under_way or not deploy.runs:
            return None
        return f"{version} is being compared; it is asked for again if that comes to no verdict"

    def why_not(self, deploy: Deploy, version: str, unknown: bool) -> str | None:
        """Why a deploy asks for no comparison.

        One of which it was `unknown` what it replaced may be the baseline of others, and was not compared by that.
        """
        replaced = {baseline for baseline, candidate in self._pairs if candidate in self.ran}
        deployed = version in self.ran | replaced | self._under_way | self._failed and not unknown
        again = "a record with judge_again: true compares it again"
        if deploy.judge_again:
            return None
        if version in (self.judged if deployed or not deploy.runs else self.candidates):
            return f"{version} was compared before; {again}"
        if version in self._baselines and (deployed or not deploy.runs):
            return f"{version} ran before; {again}"
        if not deploy.runs and version in self._under_way | self._failed:
            return f"a comparison of {version} was asked for before, and a build is asked for once"
        return None

    def measured_afresh(self, key: str, deploy: Deploy) -> bool:
        """Whether a comparison was asked for before and its record wants it measured again, not gone on with."""
        made = self._made
        return deploy.judge_again and key in made.judged | made.under_way | made.failed

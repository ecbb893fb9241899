"""Whether both sides of a comparison ran in the same environment, and each with one build.

What belongs here: comparing the identities that runs carry, scenario by scenario. A difference between the sides is not
noise: it moves every metric, and no number of repeats averages it away.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from perf_pipeline.gates.evidence import RunEvidence

Identity: TypeAlias = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class EnvironmentFindings:
    """Which runs and which scenarios cannot be compared because of where they ran."""

    deviating: Mapping[str, str]
    """By run_id: how the run's environment differs from that of the runs it would be compared with."""
    apart: Mapping[str, str]
    """By scenario: how the sides differ, when no environment was used by both."""
    unknown: frozenset[str]
    """run_ids of the runs that carry no identity."""


def compare_environments(
    runs: Iterable[RunEvidence], baseline: str, candidate: str, ignored_keys: Collection[str]
) -> EnvironmentFindings:
    """Compare the environments of the runs of two versions.

    In each scenario the runs belong in the environment that both sides share, the one that keeps most runs on the
    poorer side where they share several. Runs without an identity are left out: they are unknown, not equal.
    """
    by_scenario: dict[str, list[RunEvidence]] = {}
    for run in runs:
        by_scenario.setdefault(run.scenario, []).append(run)
    deviating: dict[str, str] = {}
    apart: dict[str, str] = {}
    unknown: set[str] = set()
    for scenario, members in by_scenario.items():
        identities = {run.run_id: _identity(run, ignored_keys) for run in members}
        unknown.update(run_id for run_id, identity in identities.items() if not identity)
        known = [run for run in members if identities[run.run_id]]
        on_baseline = Counter(identities[run.run_id] for run in known if run.version == baseline)
        on_candidate = Counter(identities[run.run_id] for run in known if run.version == candidate)
        shared = sorted(on_baseline.keys() & on_candidate.keys(), key=sorted)
        if shared:
            # max keeps the first of equals, and shared is sorted: the same runs always give the same answer.
            common = max(
                shared,
                key=lambda one: (min(on_baseline[one], on_candidate[one]), on_baseline[one] + on_candidate[one]),
            )
            deviating.update(
                {
                    run.run_id: f"environment differs from the scenario's other runs in "
                    f"{_differences(identities[run.run_id], common)}"
                    for run in known
                    if identities[run.run_id] != common
                }
            )
        elif on_baseline and on_candidate:
            apart[scenario] = f"the sides ran in different environments: {_sides(on_baseline, on_candidate)}"
    return EnvironmentFindings(deviating, apart, frozenset(unknown))


def other_builds(runs: Iterable[RunEvidence]) -> dict[str, str]:
    """By run_id, how the build that a run tested differs from the one that most runs of its version and scenario did.

    A version is one build. Where a name was used for two, their runs are no repeats of each other. Runs that do not
    name their build are left out.
    """
    by_key: dict[tuple[str, str], list[RunEvidence]] = {}
    for run in runs:
        if run.service_digest is not None:
            by_key.setdefault((run.version, run.scenario), []).append(run)
    others: dict[str, str] = {}
    for members in by_key.values():
        counts = Counter(run.service_digest for run in members)
        # The first by name of those that are equally frequent: the same runs always give the same answer.
        common = min(counts, key=lambda digest: (-counts[digest], digest or ""))
        others |= {
            run.run_id: f"tested another build ({run.service_digest}) than the version's other runs ({common})"
            for run in members
            if run.service_digest != common
        }
    return others


def _identity(run: RunEvidence, ignored_keys: Collection[str]) -> Identity:
    return frozenset((key, value) for key, value in run.environment.items() if key not in ignored_keys)


def _differences(one: Identity, other: Identity) -> str:
    """The keys in which two identities differ, each with both values: `kernel (6.1, not 6.8)`."""
    left, right = dict(one), dict(other)
    keys: Sequence[str] = sorted({key for key, _ in one ^ other})
    return ", ".join(f"{key} ({left.get(key, 'unknown')}, not {right.get(key, 'unknown')})" for key in keys)


def _sides(on_baseline: Counter[Identity], on_candidate: Counter[Identity]) -> str:
    """How the most frequent environments of two sides differ: `kernel (6.1, not 6.8) on the baseline`."""
    most = [min(side, key=lambda one: (-side[one], sorted(one))) for side in (on_baseline, on_candidate)]
    return f"{_differences(most[0], most[1])} on the baseline"

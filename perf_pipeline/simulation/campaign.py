"""A campaign with a known truth: scenarios, repeats of two versions, and what befalls single runs.

What belongs here: the description of a campaign, as values. `truth` draws from it what is so in each run; from that,
`evidence` makes what the gates take in and `run_directories` what k6 and the collectors would have left.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from perf_pipeline.gates.evidence import Design
from perf_pipeline.simulation.run_effects import Shift
from perf_pipeline.simulation.scenario import Scenario

ENVIRONMENT = {"cpu_model": "model A", "kernel": "6.1", "k6": "1.1.0"}


class RunKey(NamedTuple):
    """Which run of a campaign."""

    version: str
    scenario: str
    repeat: int
    """From 1."""
    arm: str = "main"

    @property
    def run_id(self) -> str:
        """`<version>-<scenario>-r01`."""
        arm = "" if self.arm == "main" else f"-{self.arm}"
        return f"{self.version}{arm}-{self.scenario}-r{self.repeat:02d}"


@dataclass(frozen=True)
class Step:
    """A jump of the level in the middle of a hold, as when a cache is lost."""

    size: float
    """Of ln level."""
    at_share: float = 0.5
    """Where in the hold, as a share of it."""


@dataclass(frozen=True)
class Incident:
    """What befalls one run beyond the ordinary differences between runs. Metrics are latencies or service_memory."""

    shifts: Mapping[str, Shift] = field(default_factory=dict)
    """By metric: an outlier repeat."""
    drifts: Mapping[str, float] = field(default_factory=dict)
    """By metric: change of ln level per 240 s, through the whole hold and 0 in its middle."""
    steps: Mapping[str, Step] = field(default_factory=dict)
    throttled_share: float | None = None
    """CPU periods that were throttled; None for the campaign's own share."""
    load_share: float = 1.0
    """Requests that the load generator started, as a share of those that it should have; the rest is dropped."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What differs from the campaign's environment."""
    scrape_share: float = 1.0
    """Scrapes that are there, as a share of those expected; the missing ones are the last."""
    failure: str | None = None
    """Why the run did not finish; it then has no measurements."""


@dataclass(frozen=True)
class Campaign:
    """Everything about a campaign that does not depend on chance."""

    scenarios: tuple[Scenario, ...]
    repeats: int = 5
    baseline: str = "1.0"
    candidate: str = "1.1"
    hold_s: int = 240
    differing_noise: float = 0.0
    """How much noisier some scenarios are than others: the standard deviation of ln of the factor, log-normal with mean
    1, by which the run effects of a metric in a scenario are multiplied."""
    incidents: Mapping[RunKey, Incident] = field(default_factory=dict)
    throttled_share: float = 0.0
    environment: Mapping[str, str] = field(default_factory=lambda: dict(ENVIRONMENT))
    candidate_environment: Mapping[str, str] = field(default_factory=dict)
    """In what the environment of all runs of the candidate differs."""
    design: Design | None = None
    aa_arm: bool = False
    """Whether the baseline is measured a second time, as the arm "aa"."""

    def runs(self) -> Iterator[tuple[Scenario, RunKey]]:
        """Every run, by scenario, side and repeat."""
        sides = [(self.baseline, "main"), (self.candidate, "main")]
        if self.aa_arm:
            sides.append((self.baseline, "aa"))
        for scenario in self.scenarios:
            for version, arm in sides:
                for repeat in range(1, self.repeats + 1):
                    yield scenario, RunKey(version, scenario.name, repeat, arm)

    def incident(self, run: RunKey) -> Incident:
        """What befalls a run; nothing unless the campaign says so."""
        return self.incidents.get(run, _NOTHING)

    def throttled(self, run: RunKey) -> float:
        """Share of the service's CPU periods that are throttled in a run."""
        share = self.incident(run).throttled_share
        return self.throttled_share if share is None else share

    def environment_of(self, run: RunKey) -> dict[str, str]:
        """Identity of the environment of a run."""
        side = self.candidate_environment if run.version == self.candidate else {}
        return {**self.environment, **side, **self.incident(run).environment}


_NOTHING = Incident()


def named(scenario: Scenario, number: int) -> tuple[Scenario, ...]:
    """So many scenarios that differ in nothing but their names: s001, s002, ..."""
    return tuple(replace(scenario, name=f"s{n:03d}") for n in range(1, number + 1))

"""What is claimed of the gates under the default policy, and the experiments that measure it.

What belongs here: the table of `docs/calibration.md` without its measured column. A claim is never tuned to what comes
out; where it does not hold, the page says so.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from perf_pipeline.gates.policy import Policy
from perf_pipeline.simulation import designs, experiments
from perf_pipeline.simulation.peers import PEERS
from perf_pipeline.simulation.rates import Counts, Rate

Answer: TypeAlias = Literal["yes", "not shown", "no"]


@dataclass(frozen=True)
class Experiment:
    """A question to the gates with its settings, and how many campaigns answer it."""

    ask: Callable[..., Counts]
    campaigns: int
    settings: tuple[tuple[str, float | str], ...] = ()

    @property
    def name(self) -> str:
        """Such as `coverage(repeats=5, law=normal)`."""
        return f"{self.ask.__name__}({', '.join(f'{key}={value}' for key, value in self.settings)})"

    def campaign(self, number: int, policy: Policy) -> Counts:
        """What one of its campaigns shows, from 0; the same number gives the same campaign, whatever else is run."""
        return self.ask(zlib.crc32(self.name.encode()) + number, policy, **dict(self.settings))


@dataclass(frozen=True)
class Claim:
    """One line of the table: the same bound on one or several measured rates."""

    text: str
    nominal: str
    asked: tuple[tuple[Experiment, str], ...]
    """The rates: an experiment, and which of its counts."""
    at_least: float = 0.0
    at_most: float = 1.0

    @property
    def required(self) -> str:
        """The bound in words: `93.5 to 97 %`, `<= 2 %`, `>= 90 %`."""
        low, high = (f"{100 * bound:g}" for bound in (self.at_least, self.at_most))
        if self.at_least == 0:
            return f"<= {high} %"
        return f">= {low} %" if self.at_most == 1 else f"{low} to {high} %"

    def rates(self, measured: Mapping[Experiment, Mapping[str, Rate]]) -> tuple[Rate, ...]:
        """The measured rates, in the order in which they are asked for."""
        return tuple(measured[experiment][outcome] for experiment, outcome in self.asked)

    def holds(self, found: Sequence[Rate], errors: float = 0.0) -> bool:
        """Whether every rate keeps the bound, or misses it by no more than so many Monte-Carlo errors.

        With errors below 0, whether every rate keeps it by so many.
        """
        return all(
            (self.at_least == 0 or rate.value >= self.at_least - errors * rate.error)
            and (self.at_most == 1 or rate.value <= self.at_most + errors * rate.error)
            for rate in found
        )

    def answer(self, found: Sequence[Rate]) -> Answer:
        """Whether the rates show that the claim holds: kept by as much as their Monte-Carlo errors, or missed.

        A bound that is kept by less than that is not shown: no event in 20 campaigns does not say that there is less
        than one in 100, for which it takes 300.
        """
        if not self.holds(found):
            return "no"
        return "yes" if self.holds(found, errors=-1.0) else "not shown"


def _experiment(ask: Callable[..., Counts], campaigns: int, **settings: float | str) -> Experiment:
    return Experiment(ask, campaigns, tuple(settings.items()))


_LAWS = ("normal", "t4", "skewed")
_COVERAGE = {
    repeats: tuple(_experiment(experiments.coverage, 40, repeats=repeats, law=law) for law in _LAWS)
    for repeats in (5, 8, 10)
}
_NOTHING_CHANGED = _experiment(experiments.nothing_changed, 200)
_AT_THE_EDGE = _experiment(experiments.at_the_edge, 40)
_EQUIVALENCE = {run_cv: _experiment(experiments.equivalence, 40, run_cv=run_cv) for run_cv in (0.03, 0.05)}
_WORSE = _experiment(experiments.worse_everywhere, 40, change=0.15, run_cv=0.02)
_STEADY = {
    rho: _experiment(experiments.drift, 30, autocorrelation=rho, second_sd=0.05, per_240_s=0.0) for rho in (0.5, 0.9)
}
_DRIFTING = tuple(
    _experiment(experiments.drift, 30, autocorrelation=0.5, second_sd=sd, per_240_s=0.05) for sd in (0.01, 0.02)
)
_OUTLIER = tuple(_experiment(experiments.outlier, 20, shift=shift, run_cv=0.02) for shift in (0.15, -0.13))
_ERROR_RATES = tuple(
    _experiment(experiments.error_rates, 50, errors_per_run=errors, variance=variance)
    for errors in (1, 20)
    for variance in (0.1, 0.5)
)
_LOOKS_NOTHING_CHANGED = _experiment(designs.looks_nothing_changed, 20)
_LOOKS_AT_THE_EDGE = _experiment(designs.looks_at_the_edge, 12)
_LOOKS_AT_LATENCY = tuple(
    _experiment(designs.looks_at_latency, 8, change=change, run_cv=run_cv)
    for change, run_cv in ((0.0, 0.03), (0.0, 0.05), (0.15, 0.02))
)
_PAIRED = tuple(_experiment(designs.paired, 20, block=block) for block in (0.0, 0.03))
_ARM_QUIET = _experiment(designs.arm_against_itself, 40, bias=0.0)
_ARM_BIASED = tuple(_experiment(designs.arm_against_itself, 8, bias=bias) for bias in (0.03, 0.05))

_ASKED_OF_METRICS = (
    "client_latency", "service_latency", "service_p99", "service_memory", "http_error_rate", "graphql_error_rate",
)  # fmt: skip
_AT_AN_EDGE = ("client_latency", "service_p99", "service_memory", "http_error_rate")

CLAIMS: tuple[Claim, ...] = (
    *(
        Claim(
            f"{repeats} repeats: the 95 % interval holds the true change; run effects normal / t4 / skewed",
            "95 %",
            tuple((experiment, "covered") for experiment in _COVERAGE[repeats]),
            at_least=0.935,
            at_most=0.97,
        )
        for repeats in _COVERAGE
    ),
    *(
        Claim(
            f"the same in the noisiest tenth of scenarios, {repeats} repeats",
            "95 %",
            tuple((experiment, "covered in the noisiest tenth") for experiment in _COVERAGE[repeats]),
            at_least=0.91,
        )
        for repeats in _COVERAGE
    ),
    Claim(
        "nothing changed: a regression or an improvement is called, by metric "
        "(client and service latency / p99 / memory / HTTP and GraphQL error rate)",
        "-",
        tuple((_NOTHING_CHANGED, metric) for metric in _ASKED_OF_METRICS),
        at_most=0.005,
    ),
    Claim(
        "nothing changed: any regression or improvement in a campaign of 50 scenarios x 6 metrics",
        "<= 0.5 %",
        ((_NOTHING_CHANGED, "campaign"),),
        at_most=0.01,
    ),
    *(
        Claim(
            f"a true change exactly on the zone's edge is called {name} (client latency / p99 / memory / HTTP errors)",
            "<= 2.5 %",
            tuple((_AT_THE_EDGE, f"{metric} {name}") for metric in _AT_AN_EDGE),
            at_most=0.03,
        )
        for name in ("equivalent", "regression")
    ),
    Claim(
        "nothing changed: the band of any of 21 percentiles excludes 0",
        "<= 5 %",
        ((_NOTHING_CHANGED, "band without 0"),),
        at_most=0.055,
    ),
    *(
        Claim(
            f"nothing changed: client latency is equivalent, 5 + 5 runs, zone 10 %, run CV {100 * run_cv:g} %",
            "-",
            ((experiment, "equivalent"),),
            at_least=least,
        )
        for (run_cv, experiment), least in zip(_EQUIVALENCE.items(), (0.92, 0.62), strict=True)
    ),
    Claim("+15 % on all percentiles, run CV 2 %, 5 + 5 runs: regression", "-", ((_WORSE, "regression"),), at_least=0.9),
    *(
        Claim(
            f"no drift, 240 levels that vary by 5 %, autocorrelation {rho:g}: lost to Gate 1",
            "<= 2.5 %",
            ((experiment, "failed"),),
            at_most=most,
        )
        for (rho, experiment), most in zip(_STEADY.items(), (0.02, 0.06), strict=True)
    ),
    Claim(
        "drift of 5 % per 4 min, 240 levels that vary by 1 / 2 %, autocorrelation 0.5: found",
        "-",
        tuple((experiment, "failed") for experiment in _DRIFTING),
        at_least=0.9,
    ),
    Claim(
        "one of five repeats (run CV 2 %) is shifted by +15 / -13 %: Gate 2 names it",
        "-",
        tuple((experiment, "named") for experiment in _OUTLIER),
        at_least=0.9,
    ),
    Claim(
        "over-dispersed error rates, nothing changed: the interval excludes 0 "
        "(1 error per run with gamma variance 0.1 / 0.5, 20 with 0.1 / 0.5)",
        "5 %",
        tuple((experiment, "excludes 0") for experiment in _ERROR_RATES),
        at_most=0.065,
    ),
    Claim(
        "looks 5/8/12, nothing changed: a regression or an improvement is called, by metric (in the same order)",
        "-",
        tuple((_LOOKS_NOTHING_CHANGED, metric) for metric in _ASKED_OF_METRICS),
        at_most=0.005,
    ),
    Claim(
        "looks 5/8/12, nothing changed: any regression or improvement in a campaign",
        "<= 0.5 %",
        ((_LOOKS_NOTHING_CHANGED, "campaign"),),
        at_most=0.01,
    ),
    *(
        Claim(
            f"looks 5/8/12: a true change exactly on the zone's edge is called {name} (in the same order)",
            "<= 2.5 %",
            tuple((_LOOKS_AT_THE_EDGE, f"{metric} {name}") for metric in _AT_AN_EDGE),
            at_most=0.03,
        )
        for name in ("equivalent", "regression")
    ),
    Claim(
        "looks 5/8/12, nothing changed: the band of any of 21 percentiles excludes 0",
        "<= 5 %",
        ((_LOOKS_NOTHING_CHANGED, "band without 0"),),
        at_most=0.055,
    ),
    Claim(
        "looks 5/8/12: runs spent on client latency beside a fixed 12 "
        "(nothing changed, run CV 3 / 5 %; +15 %, run CV 2 %)",
        "-",
        tuple((experiment, "runs spent") for experiment in _LOOKS_AT_LATENCY),
        at_most=0.7,
    ),
    Claim(
        "8 pairs by block: the 95 % interval holds the true change (runs of a block share nothing / 3 %)",
        "95 %",
        tuple((experiment, "covered") for experiment in _PAIRED),
        at_least=0.935,
        at_most=0.97,
    ),
    Claim("A/A arm: said to have moved when nothing moved", "-", ((_ARM_QUIET, "moved"),), at_most=0.01),
)

BESIDE: Mapping[str, tuple[tuple[Experiment, str], ...]] = {
    "equivalent, run CV 3 / 5 %: the gates": tuple((one, "equivalent") for one in _EQUIVALENCE.values()),
    "the same by Welch's interval alone": tuple((one, "Welch") for one in _EQUIVALENCE.values()),
    "the same if the true variances were known": tuple((one, "known variance") for one in _EQUIVALENCE.values()),
    "looks 5/8/12: client latency answered (nothing changed, run CV 3 / 5 %; +15 %, run CV 2 %)": tuple(
        (one, "answered") for one in _LOOKS_AT_LATENCY
    ),
    "the same by a fixed 12": tuple((one, "answered by a fixed number") for one in _LOOKS_AT_LATENCY),
    "looks 5/8/12: runs spent when six metrics have to be settled, p99 and memory to within 5 %": (
        (_LOOKS_NOTHING_CHANGED, "runs spent"),
    ),
    "equivalent by 8 pairs (runs of a block share nothing / 3 %)": tuple((one, "equivalent") for one in _PAIRED),
    "the same runs without pairing": tuple((one, "equivalent without pairs") for one in _PAIRED),
    "A/A arm whose client latency the harness makes slower by 3 / 5 %: said to have moved": tuple(
        (one, "moved") for one in _ARM_BIASED
    ),
}
"""What else there is to know of the same runs."""

PEER_COLUMNS: Mapping[str, Experiment] = {
    f"{text}, run CV {100 * run_cv:g} %": _experiment(experiments.against_peers, 40, change=change, run_cv=run_cv)
    for text, change in (("nothing changed", 0.0), ("+3 %, inside the zone", 0.03), ("+15 %", 0.15))
    for run_cv in (0.02, 0.05)
}
PEER_ROWS: tuple[str, ...] = ("perf_pipeline", "perf_pipeline, a band without 0", *PEERS)


def every_experiment() -> tuple[Experiment, ...]:
    """Each experiment once, in the order of the page."""
    asked = [experiment for claim in CLAIMS for experiment, _ in claim.asked]
    beside = [experiment for pairs in BESIDE.values() for experiment, _ in pairs]
    return tuple(dict.fromkeys((*asked, *beside, *PEER_COLUMNS.values())))

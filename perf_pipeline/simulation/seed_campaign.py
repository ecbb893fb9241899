"""The campaign of the article that this system is built from, simulated: v2.17.0 against v2.18.0 of a GraphQL router.

What belongs here: its 500 runs, with the causes that the article names put in as it tells them, and what the gates find
in them beside what the article found. The noise is what the article says of it and no more; nothing is fitted to its
table of verdicts:

- Two differences of client p99 come with their limits: 13.0 ms (a zone of 1.30 ms) to within 0.49 ms, and 10.7 ms to
  within 1.225 ms. By the t interval of five and five runs that is 2.6 % and 7.8 % a run. They are taken to lie one
  standard deviation of ln noise to either side of the middle: 4.5 % a run, and 0.55.
- A change "of about 6.5%" can be seen in a single p99. As half the width of an interval that is 4.5 % a run again.
- Run-to-run variation of client latency is "about 11%". As the distance between the fastest and the slowest of five
  repeats, 2.33 standard deviations on average, that is 4.7 % a run. This is the figure used, at p99.
- Changes "of about 2-3%" are seen in a distribution: all percentiles share 2.5 / 6.5 = 0.38 of the noise of p99.
  The rest of it is the tail's.
- The negative control moved by less than half a percent over all scenarios, for which 1 % a run is enough.

Ours, because the article is silent: the rate, the hold of four minutes, memory that varies by 2 % between runs, no
errors at all, the shapes, and the medians of the other graphs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import ndtri

from perf_pipeline.gates.evidence import NEGATIVE_CONTROL
from perf_pipeline.gates.findings import Judgement
from perf_pipeline.simulation.campaign import Campaign, Incident, RunKey
from perf_pipeline.simulation.run_effects import RunEffects, Seconds
from perf_pipeline.simulation.scenario import Errors, Latency, Memory, Scenario
from perf_pipeline.simulation.shapes import Bimodal, HeavyTail, LogNormal, Shape

SEED = 2180
GRAPHS, CONFIGURATIONS, REPEATS = 10, 5, 5
MISSED_LOAD, CLIMBING, THROTTLED = 41, 4, 51
"""Runs to which each of the article's causes happens."""

P99_NOISE, NOISE_SPREAD, SHARED_PART, CONTROL_NOISE = 0.047, 0.55, 0.38, 0.01

_KNOWN_P99_MS = (13.0, 10.7)
"""Client p99 of the two graphs that the article gives it of; the others lie between 5 and 40 ms."""
_EFFECTS = RunEffects(level=SHARED_PART * P99_NOISE, tail=P99_NOISE * float(np.sqrt(1 - SHARED_PART**2)))
_SECONDS = Seconds(0.005, 0.5)
_SHAPES: tuple[Shape, ...] = (LogNormal(0.35), LogNormal(0.5), Bimodal(0.25, 0.7, 0.25), HeavyTail(0.25, 0.08))


def seed_campaign(rate_per_s: float = 2000.0) -> Campaign:
    """The article's campaign: 10 graphs x 5 configurations x 5 repeats x 2 versions, in which nothing changed."""
    campaign = Campaign(
        scenarios=tuple(_scenarios(rate_per_s)),
        repeats=REPEATS,
        baseline="2.17.0",
        candidate="2.18.0",
        differing_noise=NOISE_SPREAD,
    )
    return replace(campaign, incidents=_incidents([run for _, run in campaign.runs()]))


def _scenarios(rate_per_s: float) -> Iterator[Scenario]:
    p99 = np.array([ndtri(0.99)])
    for graph in range(GRAPHS):
        shape = _SHAPES[graph % len(_SHAPES)]
        p99_ms = _KNOWN_P99_MS[graph] if graph < len(_KNOWN_P99_MS) else 5.0 * 8.0 ** ((graph - 2) / (GRAPHS - 3))
        median_ms = p99_ms / float(np.exp(shape.curve(p99)[0]))
        for configuration in range(CONFIGURATIONS):
            yield Scenario(
                name=f"graph-{graph + 1:02d}-config-{configuration + 1}",
                rate_per_s=rate_per_s,
                latencies={
                    "client_latency": Latency(median_ms, shape, _EFFECTS, _SECONDS),
                    "service_latency": Latency(0.8 * median_ms, shape, _EFFECTS, _SECONDS, bucket_ratio=1.02),
                    "upstream_latency": Latency(4.0, LogNormal(0.1), RunEffects(CONTROL_NOISE), _SECONDS, 1.02),
                },
                memory=Memory(2e8 * (1 + graph), RunEffects(level=0.02)),
                errors={"http_error_rate": Errors(), "graphql_error_rate": Errors()},
            )


def _incidents(runs: list[RunKey]) -> dict[RunKey, Incident]:
    """The article's causes, to runs that are drawn once: of its largest graph, of the next three, and of the others."""
    rng = np.random.default_rng(SEED)
    by_graph = {
        graph: [run for run in runs if run.scenario.startswith(f"graph-{graph:02d}-")] for graph in range(1, 11)
    }

    def some(candidates: list[RunKey], number: int) -> list[RunKey]:
        return [candidates[place] for place in sorted(rng.choice(len(candidates), number, replace=False))]

    large = [run for graph in (7, 8, 9) for run in by_graph[graph]]
    small = [run for graph in range(1, 7) for run in by_graph[graph]]
    incidents = {
        run: Incident(load_share=float(rng.uniform(0.75, 0.95)), throttled_share=float(rng.uniform(0.3, 0.6)))
        for run in some(by_graph[GRAPHS], MISSED_LOAD)
    }
    incidents |= {run: Incident(throttled_share=float(rng.uniform(0.06, 0.3))) for run in some(large, THROTTLED)}
    return incidents | {run: Incident(drifts={"service_memory": 0.06}) for run in some(small, CLIMBING)}


@dataclass(frozen=True)
class Line:
    """One line of the comparison with the article."""

    label: str
    article: str
    """What the article says, in its words or numbers."""
    found: Mapping[str, str]
    """By policy, what the gates find in the simulated runs."""


_GATE_1 = (
    ("passed", "passed", 404),
    ("kept, one metric dropped", "metric dropped", 51),
    ("set aside", "set aside", 45),
)
_GATE_3 = (("equivalent", 16), ("inconclusive", 27), ("not comparable", 7), ("regression", 0), ("improvement", 0))
_POOLED = (
    ("client latency over all graphs: median", "client_latency", "p50", "within 2 %"),
    ("client latency over all graphs: p95", "client_latency", "p95", "within 2 %"),
    ("negative control over all graphs: median", "upstream_latency", "p50", "less than 0.5 %"),
)


def beside_the_article(judgements: Mapping[str, Judgement]) -> tuple[Line, ...]:
    """What the article says of Gate 1, of Gate 3 and over all graphs, beside judgements of the campaign by policy."""

    def line(label: str, article: object, find: Callable[[Judgement], object]) -> Line:
        return Line(label, str(article), {policy: str(find(judgement)) for policy, judgement in judgements.items()})

    return (
        *(line(f"Gate 1: {label}", number, partial(_runs, status=status)) for label, status, number in _GATE_1),
        *(line(f"client latency: {name}", number, partial(_client_verdicts, name=name)) for name, number in _GATE_3),
        line("other metrics: regression", 0, _other_regressions),
        *(
            line(label, article, partial(_pooled, metric=metric, statistic=statistic))
            for label, metric, statistic, article in _POOLED
        ),
    )


def _runs(judgement: Judgement, status: str) -> int:
    return sum(run.status == status for run in judgement.runs)


def _client_verdicts(judgement: Judgement, name: str) -> int:
    return sum(one.metric == "client_latency" and one.verdict == name for one in judgement.verdicts)


def _other_regressions(judgement: Judgement) -> int:
    own = {"client_latency", NEGATIVE_CONTROL}
    return sum(one.metric not in own and one.verdict == "regression" for one in judgement.verdicts)


def _pooled(judgement: Judgement, metric: str, statistic: str) -> str:
    """`-0.1 % (-0.9 % to +0.8 %)`."""
    found = [one for one in judgement.pooled if one.metric == metric and one.statistic == statistic]
    return ", ".join(f"{one.estimate:+.1%} ({one.low:+.1%} to {one.high:+.1%})".replace("%", " %") for one in found)

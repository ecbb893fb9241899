"""Which requests of the workload a run sends, and in which order.

What belongs here: one permutation per run. Every run of a scenario sends the *same* requests in its hold, in an order
of its own: which requests are sent is a function of the plan's seed, their order a function of the run's. If each run
drew its own requests, then runs of one version would differ by the luck of the draw, most of all where the distribution
has a gap between cheap and dear routes, and that would look like noise of the service.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.plan import LoadSection, ScenarioSection


@dataclass(frozen=True)
class RequestOrder:
    """The requests of one run: its k6 scenarios walk through `rows`, each from its own place, round and round.

    Iteration i of the hold sends `rows[i % R]`, iteration i of the warm-up `rows[(warmup_from + i) % R]`.
    """

    rows: NDArray[np.int64]
    """(R,) row numbers of the scenario's requests."""
    warmup_from: int
    """Where the warm-up begins: behind the requests of the hold, as far as there are that many."""


def request_order(
    requests: int, scenario: ScenarioSection, load: LoadSection, set_seed: int, order_seed: int
) -> RequestOrder:
    """The order of the requests of one run.

    `requests` is the number that the workload holds for the scenario. `set_seed` decides which of them the hold sends,
    `order_seed` in which order. A hold that needs more than there are sends all of them again and again, and in its
    last, partial round the same ones in every run. Raises InputError when there are none.
    """
    if not requests:
        what = f"the workload holds no request of its routes: {', '.join(scenario.routes or ['any'])}"
        raise InputError(Problem(f"scenarios: {scenario.name}", what, "name other routes, or capture another hour"))
    in_hold = scenario.rate_per_s * load.hold_s
    in_warmup = scenario.rate_per_s * load.warmup_s
    fixed = np.random.default_rng(set_seed).permutation(requests)[: in_hold + in_warmup]
    # The rows before this border are sent once more often than the others: all of the hold, or its last, partial round.
    border = in_hold % requests if in_hold > requests else in_hold
    chance = np.random.default_rng(order_seed)
    rows = np.concatenate([chance.permutation(fixed[:border]), chance.permutation(fixed[border:])])
    return RequestOrder(rows, in_hold % requests)

"""The order of requests: the same requests in every hold, in an order of its own."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.plan import LoadSection, ScenarioSection
from perf_pipeline.replay.order import RequestOrder, request_order


def sent(order: RequestOrder, start: int, count: int) -> list[int]:
    return [int(order.rows[(start + number) % len(order.rows)]) for number in range(count)]


def order_of(requests: int, rate: int, warmup_s: int, hold_s: int, seed: int) -> RequestOrder:
    scenario = ScenarioSection(name="browse", rate_per_s=rate)
    return request_order(requests, scenario, LoadSection(warmup_s=warmup_s, hold_s=hold_s), 7, seed)


@settings(deadline=None)
@given(
    requests=st.integers(1, 400),
    rate=st.integers(1, 40),
    warmup_s=st.integers(1, 4),
    hold_s=st.integers(4, 12),
    seeds=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
)
def test_every_hold_sends_the_same_requests(
    requests: int, rate: int, warmup_s: int, hold_s: int, seeds: tuple[int, int]
) -> None:
    orders = [order_of(requests, rate, warmup_s, hold_s, seed) for seed in seeds]
    holds = [Counter(sent(order, 0, rate * hold_s)) for order in orders]
    warmups = [Counter(sent(order, order.warmup_from, rate * warmup_s)) for order in orders]
    assert holds[0] == holds[1]
    assert max(holds[0].values()) - min(holds[0].values()) <= 1
    if requests >= rate * (hold_s + warmup_s):
        assert warmups[0] == warmups[1]
        assert not warmups[0] & holds[0], "the warm-up sends other requests as long as there are some"
    for order in orders:
        assert len(order.rows) == len(set(order.rows.tolist())) <= requests
        assert 0 <= order.rows.min() <= order.rows.max() < requests


def test_the_order_is_a_function_of_the_seed() -> None:
    assert order_of(500, 20, 2, 5, 1).rows.tolist() == order_of(500, 20, 2, 5, 1).rows.tolist()
    assert order_of(500, 20, 2, 5, 1).rows.tolist() != order_of(500, 20, 2, 5, 2).rows.tolist()


def test_a_scenario_without_requests_is_named() -> None:
    scenario = ScenarioSection(name="pages", rate_per_s=5, routes=["/a"])
    with pytest.raises(InputError, match=r"scenarios: pages: the workload holds no request of its routes: /a"):
        request_order(0, scenario, LoadSection(warmup_s=1, hold_s=4), 1, 1)

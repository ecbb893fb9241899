"""What the demo's two programs measure about themselves: latency, requests, memory, as Prometheus text.

What belongs here: the middleware around a whole application and the page that is scraped. The buckets grow by 4 % a
step, because a change that is smaller than a bucket cannot be seen in it, and 5 % of a p99 is to be seen. The histogram
carries no labels: one page has about 290 lines and costs the event loop about 1.5 ms.
"""

import time

import psutil
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SMALLEST_S = 0.00005
LARGEST_S = 2.0
STEP = 1.04
UNMEASURED = frozenset({"/health", "/metrics"})


def bucket_edges() -> list[float]:
    """Upper edges in seconds, from 0.05 ms to 2 s, each 4 % above the one before."""
    edges = []
    edge = SMALLEST_S
    while edge < LARGEST_S:
        edges.append(round(edge, 9))
        edge *= STEP
    return [*edges, LARGEST_S]


class ResidentMemory(Collector):
    """Memory of this process. The client library's own collector reads it on Linux only."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def collect(self):
        """One gauge in bytes."""
        bytes_now = self._process.memory_info().rss
        yield GaugeMetricFamily("process_resident_memory_bytes", "Resident memory size in bytes.", value=bytes_now)


class Instruments:
    """Pure ASGI middleware: counts and times each request from its first byte read to its last byte handed over."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._registry = CollectorRegistry()
        self._registry.register(ResidentMemory())
        self._latency = Histogram(
            f"{prefix}_request_duration_seconds",
            "Seconds from the request's arrival in the application to the end of its answer.",
            buckets=bucket_edges(),
            registry=self._registry,
        )
        requests = Counter(
            f"{prefix}_requests", "Requests answered, by class of status.", ["status"], registry=self._registry
        )
        self._by_class = {number: requests.labels(f"{number}xx") for number in range(1, 6)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Time one request."""
        if scope["type"] != "http" or scope["path"] in UNMEASURED:
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status_class = 5

        async def watch(message: Message) -> None:
            nonlocal status_class
            if message["type"] == "http.response.start":
                status_class = message["status"] // 100
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            self._latency.observe(time.perf_counter() - start)
            self._by_class[status_class].inc()

    async def page(self, _request: Request) -> Response:
        """The text that Prometheus scrapes."""
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4; charset=utf-8")

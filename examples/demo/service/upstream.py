"""The upstream of the demo shop: stock, terms, reviews, tastes and carts, each after a delay of a few milliseconds.

What belongs here: what the shop calls. Both sides of a comparison start the same upstream, so its latency is the
negative control. Answers and delays are a function of what is asked for, never of the order in which requests arrive,
and everything that is asked for takes its delay from one distribution, so that a version that asks for other things
does not change it. The delay is a timer, not work: it costs no CPU. As in a real upstream some things take longer, so
that the slow end of the shop's distribution comes from requests that are slow and not from chance.

    python upstream.py --port 9001
"""

import argparse
import asyncio
import selectors
import zlib

import uvicorn
from instruments import Instruments
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

SHORTEST_DELAY_S = 0.006
LONGEST_DELAY_S = 0.024


async def answer(key: object, content: dict) -> Response:
    """The answer about a product or a user, after its delay: a long tail between the shortest and the longest one."""
    rank = zlib.crc32(f"d{key}".encode()) / 2**32
    await asyncio.sleep(min(SHORTEST_DELAY_S * (1 - rank) ** -0.4, LONGEST_DELAY_S))
    return JSONResponse(content)


async def stock(request: Request) -> Response:
    """How many pieces of a product each warehouse holds."""
    product = request.path_params["id"]
    pieces = {f"W{house}": (product * 7 + house * 13) % 40 for house in range(4)}
    return await answer(product, {"stock": pieces})


async def terms(request: Request) -> Response:
    """What delivering a product costs, by warehouse."""
    product = request.path_params["id"]
    cents = {f"W{house}": 290 + (product + house * 31) % 200 for house in range(4)}
    return await answer(product, {"terms": cents})


async def reviews(request: Request) -> Response:
    """The newest reviews of a product."""
    product = request.path_params["id"]
    found = [{"stars": 1 + (product * 3 + number) % 5, "text": f"Review {number}"} for number in range(4 + product % 5)]
    return await answer(product, {"reviews": found})


async def tastes(request: Request) -> Response:
    """Which categories a user likes, as weights."""
    user = request.path_params["user"]
    seed = sum(user.encode())
    weights = [(seed * (number + 3)) % 17 for number in range(12)]
    return await answer(user, {"tastes": weights})


async def cart(request: Request) -> Response:
    """What lies in a user's cart."""
    user = request.path_params["user"]
    seed = sum(user.encode())
    lines = [{"product": 1 + (seed * (line + 1)) % 600, "pieces": 1 + line % 3} for line in range(1 + seed % 5)]
    return await answer(user, {"lines": lines})


async def health(_request: Request) -> Response:
    """Whether it can serve: as soon as it answers."""
    return PlainTextResponse("ok\n")


def application() -> Instruments:
    """The application with its instruments around it."""
    routes = [
        Route("/stock/{id:int}", stock),
        Route("/terms/{id:int}", terms),
        Route("/reviews/{id:int}", reviews),
        Route("/tastes/{user}", tastes),
        Route("/carts/{user}", cart),
        Route("/health", health),
    ]
    app = Starlette(routes=routes)
    instruments = Instruments(app, "upstream")
    app.router.routes.append(Route("/metrics", instruments.page))
    return instruments


def punctual_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose timers are exact to some 0.1 ms.

    Others (epoll, kqueue in asyncio, libuv) round to whole milliseconds, by an amount that depends on how busy the loop
    is: twice the requests would make each answer a few per cent faster.
    """
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def main() -> None:
    """Serve on loopback until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    config = uvicorn.Config(
        application(), host="127.0.0.1", port=parser.parse_args().port, http="httptools", access_log=False,
        log_level="warning", timeout_keep_alive=75,
    )  # fmt: skip
    with asyncio.Runner(loop_factory=punctual_loop) as runner:
        runner.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()

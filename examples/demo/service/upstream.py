"""The upstream of the demo shop: stock, delivery terms, reviews and tastes, each after the same fixed delay.

What belongs here: what the shop calls. Both sides of a comparison start the same upstream, so its latency is the
negative control: no version of the shop can change it. The delay is a timer, not work: it costs no CPU. Answers are a
function of the path alone.

    python upstream.py --port 9001
"""

import argparse
import asyncio

import uvicorn
from instruments import Instruments
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

DELAY_S = 0.003


async def stock(request: Request) -> Response:
    """How many pieces of a product each warehouse holds."""
    await asyncio.sleep(DELAY_S)
    product = request.path_params["id"]
    return JSONResponse({"stock": {f"W{house}": (product * 7 + house * 13) % 40 for house in range(4)}})


async def terms(request: Request) -> Response:
    """What delivering a product costs, by warehouse."""
    await asyncio.sleep(DELAY_S)
    product = request.path_params["id"]
    return JSONResponse({"terms": {f"W{house}": 290 + (product + house * 31) % 200 for house in range(4)}})


async def reviews(request: Request) -> Response:
    """The newest reviews of a product."""
    await asyncio.sleep(DELAY_S)
    product = request.path_params["id"]
    found = [{"stars": 1 + (product * 3 + number) % 5, "text": f"Review {number}"} for number in range(4 + product % 5)]
    return JSONResponse({"reviews": found})


async def tastes(request: Request) -> Response:
    """Which categories a user likes, as weights."""
    await asyncio.sleep(DELAY_S)
    seed = sum(request.path_params["user"].encode())
    return JSONResponse({"tastes": [(seed * (number + 3)) % 17 for number in range(12)]})


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
        Route("/health", health),
    ]
    app = Starlette(routes=routes)
    instruments = Instruments(app, "upstream")
    app.router.routes.append(Route("/metrics", instruments.page))
    return instruments


def main() -> None:
    """Serve on loopback until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    uvicorn.run(
        application(), host="127.0.0.1", port=port, loop="uvloop", http="httptools", access_log=False,
        log_level="warning", timeout_keep_alive=75,
    )  # fmt: skip


if __name__ == "__main__":
    main()

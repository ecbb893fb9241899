"""The demo shop: a small HTTP API in three versions from one source.

What belongs here: the routes, and what differs between the versions.

    1.0.0  the baseline
    1.0.1  the same in effect: product pages are put together by smaller functions
    1.1.0  a real regression of a common kind, with the feature "personal prices": pages that lead with a product ask
           the upstream a second time, after the first answer (N+1), and each price that is shown passes through a rule
           engine that is built anew every time

    python shop.py --version 1.0.0 --port 9000

Environment: SHOP_UPSTREAM_URL, SHOP_TOKEN_PUBLIC_KEY (PEM), SHOP_TOKEN_ISSUER, SHOP_TOKEN_AUDIENCE.
"""

import argparse
import contextlib
import csv
import gc
import hashlib
import io
import os
from collections.abc import AsyncIterator, Callable

import aiohttp
import catalog
import orjson
import uvicorn
from access import TokenCheck
from instruments import Instruments
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

VERSIONS = ("1.0.0", "1.0.1", "1.1.0")


class Json(Response):
    """A JSON answer by orjson."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The body."""
        return orjson.dumps(content)


class Shop:
    """The handlers of one version."""

    def __init__(self, version: str, upstream_url: str) -> None:
        self.version = version
        self._upstream_url = upstream_url
        self._session: aiohttp.ClientSession | None = None
        self._card: Callable[[catalog.Product], dict] = catalog.as_card
        self._page: Callable[[catalog.Product, dict[str, int]], dict] = _page_in_one
        if version == "1.0.1":
            self._page = _page_in_parts
        if version == "1.1.0":
            self._card = _card_with_personal_price

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Hold one connection pool to the upstream; keep start-up objects out of later garbage collections."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        async with aiohttp.ClientSession(
            self._upstream_url, connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        ) as self._session:
            gc.collect()
            gc.freeze()
            yield

    async def _ask(self, path: str) -> dict:
        """The upstream's JSON answer."""
        assert self._session is not None
        async with self._session.get(path) as answer:
            return orjson.loads(await answer.read())

    async def _personal_terms(self, number: int) -> dict:
        """What delivering a product costs this user (1.1.0): a second question, after the first answer."""
        if self.version != "1.1.0":
            return {}
        terms = (await self._ask(f"/terms/{number}"))["terms"]
        return {"delivery_cents": min(terms.values())}

    async def products(self, request: Request) -> Response:
        """GET /products?q=&sort=&page=: a page of the catalog."""
        query = request.query_params
        page = query.get("page", "1")
        if not page.isdecimal() or not 1 <= int(page) <= 1000:
            return Json({"error": "page is a number from 1 to 1000"}, 400)
        found, total = catalog.find(query.get("q", ""), query.get("sort", "name"), int(page))
        return Json({"total": total, "products": [self._card(product) for product in found]})

    async def product(self, request: Request) -> Response:
        """GET /products/{id}: a product with its stock."""
        number = request.path_params["id"]
        if not 1 <= number <= catalog.PRODUCTS:
            return Json({"error": "no such product"}, 404)
        stock = (await self._ask(f"/stock/{number}"))["stock"]
        product = catalog.CATALOG[number - 1]
        return Json(self._card(product) | self._page(product, stock) | await self._personal_terms(number))

    async def reviews(self, request: Request) -> Response:
        """GET /products/{id}/reviews: what buyers say."""
        number = request.path_params["id"]
        if not 1 <= number <= catalog.PRODUCTS:
            return Json({"error": "no such product"}, 404)
        found = (await self._ask(f"/reviews/{number}"))["reviews"]
        stars = sum(review["stars"] for review in found) / len(found)
        page = self._card(catalog.CATALOG[number - 1]) | {"stars": round(stars, 2), "reviews": found}
        return Json(page | await self._personal_terms(number))

    async def category(self, request: Request) -> Response:
        """GET /categories/{name}: a whole category, revalidated by ETag."""
        found = catalog.category(request.path_params["name"])
        if not found:
            return Json({"error": "no such category"}, 404)
        answer = Json({"products": [self._card(product) for product in found]})
        etag = f'"{hashlib.blake2b(answer.body, digest_size=8).hexdigest()}"'
        headers = {"ETag": etag, "Cache-Control": "private, max-age=0, must-revalidate"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        answer.headers.update(headers)
        return answer

    async def recommendations(self, request: Request) -> Response:
        """GET /recommendations: what fits the user."""
        tastes = (await self._ask(f"/tastes/{request.scope['bearer'].user}"))["tastes"]
        found = catalog.recommended(tastes)
        return Json({"products": [self._card(product) for product in found]} | await self._personal_terms(found[0].id))

    async def cart(self, request: Request) -> Response:
        """GET /cart: what lies in the user's cart."""
        lines = (await self._ask(f"/carts/{request.scope['bearer'].user}"))["lines"]
        cards = [self._card(catalog.CATALOG[line["product"] - 1]) | {"pieces": line["pieces"]} for line in lines]
        return Json({"lines": cards})

    async def add_to_cart(self, request: Request) -> Response:
        """POST /cart: accepted and forgotten, so that no answer depends on an earlier request."""
        return await _accepted(request, "cart")

    async def place_order(self, request: Request) -> Response:
        """POST /orders: accepted and forgotten."""
        return await _accepted(request, "order")

    async def order(self, request: Request) -> Response:
        """GET /orders/{id}: an order of the past."""
        number = request.path_params["id"]
        if not 1 <= number <= catalog.ORDERS:
            return Json({"error": "no such order"}, 404)
        order = catalog.order(number)
        bought = [self._card(catalog.CATALOG[line["product"] - 1]) for line in order["lines"]]
        return Json(order | {"products": bought})

    async def export_orders(self, _request: Request) -> Response:
        """GET /export/orders: the newest orders as CSV; dear, and never for a load test."""
        text = io.StringIO()
        writer = csv.writer(text)
        for number in range(catalog.ORDERS - 200, catalog.ORDERS):
            writer.writerow([number, catalog.order(number)["total_cents"]])
        return Response(text.getvalue(), media_type="text/csv")

    async def logout(self, request: Request) -> Response:
        """GET /logout: a GET with a side effect; the token is not accepted again."""
        request.scope["revoke"]()
        return Json({"session": "ended"})

    async def who(self, request: Request) -> Response:
        """GET /auth: for nginx's auth_request; the user's id from the verified token, never from the client."""
        return Response(status_code=204, headers={"X-User-Uuid": request.scope["bearer"].user})

    async def health(self, _request: Request) -> Response:
        """GET /health: whether it can serve."""
        return Json({"status": "ok", "version": self.version})


async def _accepted(request: Request, what: str) -> Response:
    try:
        body = orjson.loads(await request.body())
    except orjson.JSONDecodeError:
        return Json({"error": "the body is not JSON"}, 400)
    return Json({what: body}, 201)


def _page_in_one(product: catalog.Product, stock: dict[str, int]) -> dict:
    """What only the product's own page shows."""
    return {
        "category": product.category,
        "in_stock": sum(stock.values()),
        "warehouses": sorted((house for house, pieces in stock.items() if pieces), key=lambda house: -stock[house]),
        "related": [catalog.as_card(other) for other in catalog.category(product.category)[: 4 + product.id % 8]],
    }


def _page_in_parts(product: catalog.Product, stock: dict[str, int]) -> dict:
    """The same page, put together by smaller functions (1.0.1)."""
    return {"category": product.category, **_stock_part(stock), "related": _related_part(product)}


def _stock_part(stock: dict[str, int]) -> dict:
    houses = [house for house, pieces in stock.items() if pieces]
    houses.sort(key=stock.__getitem__, reverse=True)
    return {"in_stock": sum(stock.values()), "warehouses": houses}


def _related_part(product: catalog.Product) -> list[dict]:
    neighbours = catalog.category(product.category)
    return [catalog.as_card(other) for other in neighbours[: 4 + product.id % 8]]


def _card_with_personal_price(product: catalog.Product) -> dict:
    """A product with a personal price (1.1.0): the rule engine is built anew for each price that is shown."""
    rules = {
        (name, step): (lambda cents, step=step: cents - cents * step // 400)
        for name in catalog.CATEGORIES
        for step in range(2)
    }
    price = min(rules[product.category, step](product.price_cents) for step in range(2))
    return catalog.as_card(product) | {"personal_price_cents": price}


SETTINGS = ("SHOP_UPSTREAM_URL", "SHOP_TOKEN_PUBLIC_KEY", "SHOP_TOKEN_ISSUER", "SHOP_TOKEN_AUDIENCE")


def application(version: str, upstream_url: str, public_key_pem: str, issuer: str, audience: str) -> Instruments:
    """The application of one version with its instruments around it."""
    shop = Shop(version, upstream_url)
    routes = [
        Route("/products", shop.products),
        Route("/products/{id:int}", shop.product),
        Route("/products/{id:int}/reviews", shop.reviews),
        Route("/categories/{name}", shop.category),
        Route("/recommendations", shop.recommendations),
        Route("/cart", shop.cart, methods=["GET"]),
        Route("/cart", shop.add_to_cart, methods=["POST"]),
        Route("/orders", shop.place_order, methods=["POST"]),
        Route("/orders/{id:int}", shop.order),
        Route("/export/orders", shop.export_orders),
        Route("/logout", shop.logout),
        Route("/auth", shop.who),
        Route("/health", shop.health),
    ]
    app = Starlette(routes=routes, lifespan=shop.lifespan)
    instruments = Instruments(TokenCheck(app, public_key_pem, issuer, audience), "shop")
    app.router.routes.append(Route("/metrics", instruments.page))
    return instruments


def main() -> None:
    """Serve on loopback until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=VERSIONS, required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    if missing := [name for name in SETTINGS if not os.environ.get(name)]:
        parser.error(f"these environment variables are not set: {', '.join(missing)}")
    app = application(arguments.version, *(os.environ[name] for name in SETTINGS))
    uvicorn.run(
        app, host="127.0.0.1", port=arguments.port, loop="uvloop", http="httptools", access_log=False,
        log_level="warning", timeout_keep_alive=75, headers=[("X-Shop-Version", arguments.version)],
    )  # fmt: skip


if __name__ == "__main__":
    main()

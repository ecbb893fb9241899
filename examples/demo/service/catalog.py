"""What the demo shop sells, has sold and reckons: plain data and plain arithmetic.

What belongs here: data that is a function of its number, the same in every process, and the work that answers cost.
Nothing here is random and nothing remembers, so that the cost of a request does not depend on the ones before it.
"""

from dataclasses import dataclass

PRODUCTS = 600
PAGE_SIZE = 20
ORDERS = 40_000
CATEGORIES = ("audio", "books", "camping", "cycling", "garden", "kitchen", "lamps", "music", "office", "shoes", "tools",
              "toys")  # fmt: skip
_MAKERS = ("Arden", "Birch", "Corvo", "Delta", "Elm", "Fjord", "Grove", "Hazel", "Iris", "Juno")
_KINDS = ("lamp", "chair", "tent", "kettle", "drill", "headset", "saddle", "notebook", "spade", "puzzle", "boot")


@dataclass(frozen=True, slots=True)
class Product:
    """One thing for sale."""

    id: int
    name: str
    category: str
    price_cents: int
    rating: float


def _product(number: int) -> Product:
    maker, kind = _MAKERS[number % len(_MAKERS)], _KINDS[number % len(_KINDS)]
    return Product(
        id=number,
        name=f"{maker} {kind} {number}",
        category=CATEGORIES[number % len(CATEGORIES)],
        price_cents=499 + (number * 7919) % 20_000,
        rating=1 + (number * 31 % 41) / 10,
    )


CATALOG = tuple(_product(number) for number in range(1, PRODUCTS + 1))
_SORT_KEYS = {
    "name": lambda product: product.name,
    "price": lambda product: product.price_cents,
    "rating": lambda product: -product.rating,
}


def find(query: str, sort: str, page: int) -> tuple[list[Product], int]:
    """One page of the products whose name holds the query, and how many there are: a scan and a sort."""
    wanted = query.lower()
    found = [product for product in CATALOG if wanted in product.name.lower()] if wanted else list(CATALOG)
    found.sort(key=_SORT_KEYS.get(sort, _SORT_KEYS["name"]))
    start = (page - 1) * PAGE_SIZE
    return found[start : start + PAGE_SIZE], len(found)


def category(name: str) -> list[Product]:
    """The products of a category; empty when there is no such category."""
    return _BY_CATEGORY.get(name, [])


_BY_CATEGORY = {name: [product for product in CATALOG if product.category == name] for name in CATEGORIES}


def recommended(tastes: list[int]) -> list[Product]:
    """The eight products that fit a user's weights per category best."""
    weight = dict(zip(CATEGORIES, tastes, strict=True))
    ranked = sorted(CATALOG, key=lambda product: (-weight[product.category] * product.rating, product.id))
    return ranked[:8]


def order(number: int) -> dict[str, object]:
    """One order of the past."""
    lines = [
        {"product": 1 + (number * (line + 3)) % PRODUCTS, "pieces": 1 + line % 2} for line in range(1 + number % 4)
    ]
    total = sum(CATALOG[int(line["product"]) - 1].price_cents * line["pieces"] for line in lines)
    return {"id": number, "lines": lines, "total_cents": total}


def as_card(product: Product) -> dict[str, object]:
    """A product as lists show it."""
    return {"id": product.id, "name": product.name, "price_cents": product.price_cents, "rating": product.rating}

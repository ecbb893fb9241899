"""Traffic for the demo shop: what some 2,000 users ask for, drawn from a seed.

What belongs here: who asks for what, and how often. Users, products, words and routes are skewed as they are in shops:
few are asked for often, many rarely. All secrets and addresses in it are made up.
"""

import itertools
import json
import random
import uuid
from dataclasses import dataclass, field

USERS = 2_000
PRODUCTS = 600  # of the shop's catalog
ORDERS = 40_000
CATEGORIES = (
    "audio", "books", "camping", "cycling", "garden", "kitchen", "lamps", "music", "office", "shoes", "tools", "toys",
)  # fmt: skip
MAKERS = ("arden", "birch", "corvo", "delta", "elm", "fjord", "grove", "hazel", "iris", "juno")
KINDS = ("lamp", "chair", "tent", "kettle", "drill", "headset", "saddle", "notebook", "spade", "puzzle", "boot")
ENCODINGS = (
    "gzip, deflate, br",
    "gzip, deflate, br, zstd",
    "gzip, deflate",
    "gzip",
    "br;q=1.0, gzip;q=0.8, *;q=0.1",
    "",
)
ENCODING_WEIGHTS = (50, 28, 12, 6, 2, 2)


@dataclass(frozen=True)
class Ask:
    """One request."""

    user: str | None
    """The user's id; None for one without a token."""
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    revalidate: bool = False
    """Send the ETag that this user got before for the same target."""
    read_only: bool = False
    """With a token that must not write."""


class Traffic:
    """Draws requests from a seed."""

    def __init__(self, seed: int) -> None:
        """Make the users, and who and what is popular among them."""
        self._random = random.Random(seed)
        self._users = [str(uuid.UUID(int=self._random.getrandbits(128), version=4)) for _ in range(USERS)]
        self._user_weights = _skewed(USERS, 1.05)
        self._products = list(range(1, PRODUCTS + 1))
        self._random.shuffle(self._products)
        self._product_weights = _skewed(PRODUCTS, 0.9)
        self._kinds = (
            (30, self._product),
            (21, self._search),
            (11, self._reviews),
            (9, self._category),
            (8, self._recommendations),
            (8, self._cart),
            (4.5, self._order),
            (2.8, self._add_to_cart),
            (0.9, self._place_order),
            (1.0, self._head),
            (1.6, self._missing),
            (0.4, self._bad_page),
            (0.6, self._without_token),
            (0.25, self._may_not_write),
            (0.5, self._with_address),
            (0.35, self._with_secret),
            (0.25, self._logout),
            (0.1, self._export),
            (0.15, self._unsubscribe),
            (0.3, self._health),
            (0.2, self._replayed),
        )
        self._kind_weights = list(itertools.accumulate(weight for weight, _ in self._kinds))

    def asks(self, count: int) -> list[Ask]:
        """The next requests."""
        drawn = self._random.choices([draw for _, draw in self._kinds], cum_weights=self._kind_weights, k=count)
        return [draw() for draw in drawn]

    def _get(self, target: str, **more: bool) -> Ask:
        return Ask(self._user(), "GET", target, self._headers(), **more)

    def _headers(self) -> dict[str, str]:
        (encoding,) = self._random.choices(ENCODINGS, ENCODING_WEIGHTS)
        return {"Accept-Encoding": encoding} if encoding else {}

    def _user(self) -> str:
        return self._random.choices(self._users, cum_weights=self._user_weights)[0]

    def _number(self) -> int:
        return self._random.choices(self._products, cum_weights=self._product_weights)[0]

    def _word(self) -> str:
        return self._random.choice(MAKERS + KINDS)

    def _product(self) -> Ask:
        return self._get(f"/products/{self._number()}")

    def _reviews(self) -> Ask:
        return self._get(f"/products/{self._number()}/reviews")

    def _search(self) -> Ask:
        shape = self._random.random()
        sort = self._random.choice(("name", "price", "rating"))
        page = min(int(self._random.expovariate(0.6)) + 1, 30)
        if shape < 0.25:
            return self._get(f"/products?page={page}&sort={sort}")
        if shape < 0.6:
            return self._get(f"/products?q={self._word()}")
        if shape < 0.85:
            return self._get(f"/products?q={self._word()}&sort={sort}&page={page}")
        if shape < 0.95:
            return self._get(f"/products?q={self._random.choice(MAKERS)}%20{self._random.choice(KINDS)}")
        return self._get(
            self._random.choice(
                ("/products", "/products?q=caf%C3%A9+chair", "/products?q=%D0%BB%D0%B0%D0%BC%D0%BF%D0%B0")
            )
        )

    def _category(self) -> Ask:
        name = CATEGORIES[min(int(self._random.expovariate(0.3)), len(CATEGORIES) - 1)]
        return self._get(f"/categories/{name}", revalidate=self._random.random() < 0.6)

    def _recommendations(self) -> Ask:
        return self._get("/recommendations")

    def _cart(self) -> Ask:
        return self._get("/cart")

    def _order(self) -> Ask:
        return self._get(f"/orders/{self._random.randint(1, ORDERS)}")

    def _add_to_cart(self) -> Ask:
        body = json.dumps({"product": self._number(), "pieces": 1}).encode()
        return Ask(self._user(), "POST", "/cart", self._headers(), body)

    def _place_order(self) -> Ask:
        body = b'{"pay": "invoice"}' if self._random.random() < 0.9 else b"{not json"
        return Ask(self._user(), "POST", "/orders", self._headers(), body)

    def _head(self) -> Ask:
        return Ask(self._user(), "HEAD", f"/products/{self._number()}", self._headers())

    def _missing(self) -> Ask:
        number = self._random.randint(PRODUCTS + 1, 10 * PRODUCTS)
        return self._get(
            self._random.choice((f"/products/{number}", "/wp-login.php", "/favicon.ico", "/categories/none"))
        )

    def _bad_page(self) -> Ask:
        return self._get(f"/products?page={self._random.choice(('0', 'last', '99999'))}")

    def _without_token(self) -> Ask:
        return Ask(None, "GET", f"/products/{self._number()}", self._headers())

    def _may_not_write(self) -> Ask:
        return Ask(self._user(), "POST", "/cart", self._headers(), b"{}", read_only=True)

    def _with_address(self) -> Ask:
        name = self._random.choice(("email", "Email", "contact", "q", "user%5Be-mail%5D"))
        at = self._random.choice(("@", "%40", "%2540"))
        return self._get(
            f"/products?q={self._word()}&{name}=buyer{self._random.randint(1, 999)}{at}example.test&page=1"
        )

    def _with_secret(self) -> Ask:
        fake = f"fake-{self._random.getrandbits(64):016x}"
        jwt = f"eyJhbGciOiJub25lIn0.eyJmYWtlIjoi{fake}In0."
        return self._get(
            self._random.choice(
                (
                    f"/products?q={self._word()}&access_token={fake}",
                    f"/cart?token={jwt}",
                    f"/products?ref={jwt}",
                    f"/cart?next=%2Fcart%3Fcode%3D{fake}",
                    f"/orders/{self._random.randint(1, ORDERS)}?X-Amz-Signature={fake}",
                    f"/products?password={fake}",
                )
            )
        )

    def _logout(self) -> Ask:
        return self._get("/logout")

    def _export(self) -> Ask:
        return self._get("/export/orders?format=csv")

    def _unsubscribe(self) -> Ask:
        return self._get(f"/email/unsubscribe?u={self._random.randint(1, 9999)}")

    def _health(self) -> Ask:
        return Ask(None, "GET", "/health")

    def _replayed(self) -> Ask:
        return Ask(self._user(), "GET", f"/products/{self._number()}", {"X-Load-Test": "1"})


def _skewed(count: int, exponent: float) -> list[float]:
    """Cumulative weights by Zipf's law: the n-th is asked for 1/n**exponent times as often as the first."""
    return list(itertools.accumulate(1 / rank**exponent for rank in range(1, count + 1)))

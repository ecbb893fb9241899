"""Access-log lines for the tests of capture: good ones, odd ones, and strategies that draw both."""

import json

from hypothesis import strategies as st

from perf_pipeline.plan import CaptureSection, Plan

HOUR = "2026-11-30-04:00"
HOUR_START_S = 1_796_011_200
USER = "8d0f9c1e-3a77-4d4e-9a55-0a2b6a1c0001"
ROUTES = ["/products", "/products/{id}", "/products/{id}/reviews", "/categories/{name}", "/cart", "/orders/{id}", "/"]

GOOD = {
    "v": "1", "msec": f"{HOUR_START_S + 60}.250", "rt": "0.042", "rid": "a7b48bfa45ee36f7c7241dcc22728c59",
    "user": USER, "m": "GET", "uri": "/products/17?page=2", "host": "shop.example.test", "proto": "HTTP/1.1",
    "st": "200", "ust": "200", "len": "312", "ae": "gzip, br", "ok": "OK", "rate": "1",
}  # fmt: skip
"""The fields of a line that is accepted, in the order of the log format."""


def line(*without: str, **changed: str) -> bytes:
    """The good line with other values, or without some fields, as nginx writes it (without its newline)."""
    fields = {key: value for key, value in {**GOOD, **changed}.items() if key not in without}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape")


def numbered(number: int, **changed: str) -> bytes:
    """A good line of its own: request id, time and product follow from the number."""
    fields = {
        "rid": f"{number:032x}",
        "msec": f"{HOUR_START_S + number % 3600}.{number % 1000:03d}",
        "uri": f"/products/{number}",
    }
    return line(**{**fields, **changed})


def capture_section(**changed: object) -> CaptureSection:
    """A plan's capture section over the routes of the demo shop."""
    return CaptureSection.model_validate({"topic": "access", "routes": ROUTES, **changed})


def plan(**capture: object) -> Plan:
    """A whole plan with that capture section."""
    return Plan.model_validate(
        {
            "name": "test", "service": "test", "versions": ["1", "2"], "baseline": "1", "candidate": "2",
            "capture": capture_section(**capture).model_dump(),
            "tokens": {"issuer": "test", "audience": "shop", "ttl_s": 600},
            "workload": {"hours": [HOUR]},
            "environment": {"service": {"command": ["true", "{port}"]}},
            "scenarios": [{"name": "all", "rate_per_s": 1}],
            "load": {"warmup_s": 1, "hold_s": 10}, "schedule": {}, "metrics": {},
        }
    )  # fmt: skip


_URIS = st.one_of(
    st.sampled_from(
        [
            "/products", "/products/17", "/products/17/reviews", "/cart?", "/", "?x=1", "", "*", "http://evil.test/x",
            "//evil.test/x", "/\\evil.test", "/%2f%2fevil.test", "/products/%2e%2e", "/products/a%2Fb",
            "/products/p%zz", "/products?q=a+b&page=3", "/products?q=%", "/products?email=a%40b.example",
            "/products?token=abc", "/products?q=x&Access-Token=1", "/products#frag?x", "/products?q=a:b", "/logout",
            "/export/orders", "/products/confirmEmail", "/categories/caf\u00e9", '/products?q="a"',
            "/products?a@b.example", "/cart?a;b=c", "/products?q=eyJhbGciOiJI.eyJzdWIiOiI", "/categories/a@b.example",
            "/products/.", "/products/..;x", "/a|b", "/categories/a|b?q={}", "/products?next=%2Fx%3Ftoken%3D1",
            "/products?q=%2520", "/orders/deadbeef",
        ]
    ),
    st.text(st.sampled_from("/?#&=%;.:@+|azAZ09_ef2\"'"), max_size=12).map(lambda text: f"/products{text}"),
    st.text(max_size=8).map(lambda text: f"/categories/{text}"),
)  # fmt: skip

_VALUES: dict[str, st.SearchStrategy[str]] = {
    "v": st.sampled_from(["1", "2", ""]),
    "msec": st.sampled_from(["1796012912.006", "1796012912", "x", "17960129120.06", "1796012912.0064", "-", ""]),
    "rt": st.sampled_from(["0.000", "12.345", "0.1, 0.2", "", "99999999.000", "1e3"]),
    "rid": st.sampled_from(["a" * 32, "A" * 32, "g" * 32, "a" * 31, "", "a7b48bfa45ee36f7c7241dcc22728c59"]),
    "user": st.sampled_from([USER, USER.upper(), "", "-", "anonymous", "user-1", USER + "0"]),
    "m": st.sampled_from(["GET", "get", "GETX", "POST", "HEAD", ""]),
    "uri": _URIS,
    "host": st.sampled_from(["shop.example.test", "", "[::1]:80", 'a"b']),
    "proto": st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/0.9", ""]),
    "st": st.sampled_from(["200", "304", "404", "", "9" * 40]),
    "ust": st.sampled_from(["200", "", "502, 200"]),
    "len": st.sampled_from(["1", ""]),
    "ae": st.sampled_from(["gzip, br", "", "gzip\r\nX: y", "gzip;q=0.5, *;q=0", "secret"]),
    "ok": st.sampled_from(["OK", ""]),
    "rate": st.sampled_from(["1", "0.01", "1%", "0", "2", "", "x"]),
}


@st.composite
def _near_good_line(draw: st.DrawFn) -> bytes:
    """A good line in which some values are odd, and of which some bytes may be spoilt."""
    keys = draw(st.lists(st.sampled_from(list(_VALUES)), max_size=3, unique=True))
    made = line(**{key: draw(_VALUES[key]) for key in keys})
    if draw(st.integers(0, 3)) == 0:
        start = draw(st.integers(0, len(made)))
        inserted = draw(
            st.sampled_from(
                [b"", b'"', b":", b",", b"\\", b"\xff", b"\0", b"\x7f", b"\t", b" ", b'","', b'":"', b"}", b"\r"]
            )
        )
        made = made[:start] + inserted + made[start + draw(st.integers(0, 3)) :]
    return made


@st.composite
def _other_pattern(draw: st.DrawFn) -> bytes:
    """A line of another log format: other keys, another order, values that are no texts, spaces."""
    keys = draw(st.permutations([*GOOD, "extra"]))
    values = {key: GOOD.get(key, "more") for key in keys[: draw(st.integers(12, len(keys)))]}
    if draw(st.booleans()):
        values[draw(st.sampled_from(keys))] = draw(st.sampled_from([1, None, True, [], {"a": "b"}, ":", '":"']))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    return json.dumps(values, separators=separators).encode()


LOG_LINE = st.one_of(_near_good_line(), _other_pattern(), st.binary(max_size=40)).map(
    lambda made: made.replace(b"\n", b"")
)
"""Any line of a log: mostly nearly good ones."""

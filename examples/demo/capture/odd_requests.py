"""Odd raw requests, as scanners, broken clients and strangers send them to any public server.

What belongs here: bytes on a socket that no HTTP library would send. Each case is one connection.
"""

import socket

HOST = b"Host: shop.example.test\r\nConnection: close\r\n"


def odd_requests(authorization: str) -> list[bytes]:
    """The raw requests; those that should get an answer carry the Authorization value of a user."""
    head = HOST + b"Authorization: " + authorization.encode() + b"\r\n"

    def get(target: bytes, method: bytes = b"GET", version: bytes = b"HTTP/1.1", extra: bytes = b"") -> bytes:
        return method + b" " + target + b" " + version + b"\r\n" + head + extra + b"\r\n"

    return [
        # Targets that nginx passes on, and that must not change where a replay goes.
        get(b"//evil.test/products"),
        get(b"//products/17"),
        get(b"/products//17"),
        get(b"http://evil.test:8443/products/17"),
        get(b"http://evil.test"),
        get(b"/\\evil.test/products"),
        get(b"/%2f%2fevil.test/products"),
        get(b"/products/%2e%2e/cart"),
        get(b"/products/../cart"),
        get(b"/products/17%2Freviews"),
        get(b"/products/17;jsessionid=0123456789ABCDEF"),
        get(b"/products/17#reviews"),
        get(b"/%70roducts/17"),
        get(b"/export/orders"),
        get(b"/EXPORT/orders?format=csv"),
        # Bytes that are not plain ASCII, escaped and not.
        get("/products?q=лампа".encode()),
        get(b"/products?q=%D0%BB%D0%B0%D0%BC%D0%BF%D0%B0"),
        get(b"/products?q=\xff\xfe\x80lamp"),
        get(b"/products?q=caf\xe9"),
        get(b"/categories/caf\xe9"),
        get(b"/categories/\xc0\xaflamps"),
        get(b'/products?q="lamp"\\b\'c'),
        get(b"/products?q=<script>alert(1)</script>"),
        get(b"/products?q={lamp}|^`"),
        get(b"/products?q=100%"),
        get(b"/products?q=%"),
        get(b"/products/p%zz?q=%"),
        # What nginx refuses.
        get(b"/products?q=\x01"),
        get(b"/products?q=\x00"),
        get(b"/products?q=\x7f"),
        get(b"/desk lamp"),
        get(b"/products?q=" + b"a" * 4000),
        get(b"/products?q=" + b"a" * 9000),
        get(b"/products", version=b"HTTP/9.9"),
        get(b"*", method=b"OPTIONS"),
        get(b"/products", method=b"OPTIONS"),
        get(b"shop.example.test:443", method=b"CONNECT"),
        get(b"/products", method=b"get"),
        get(b"/products", method=b"GETX"),
        get(b"/products/17", method=b"DELETE"),
        get(b"/products/17", method=b"PATCH", extra=b"Content-Length: 0\r\n"),
        b"GET /products/17\r\n",
        b"POST /cart\r\n",
        b"GET /health HTTP/1.0\r\n\r\n",
        b"GET /products HTTP/1.1\r\n\r\n",
        b"batman\r\n\r\n",
        b"\r\n\r\n\r\n",
        bytes.fromhex("16030102000100") + b"\x01\xfc\x03\x03" + b"\x00" * 40 + b"\r\n\r\n",
        b"\x03\x00\x00/*\xe0\x00\x00\x00\x00\x00Cookie: mstshash=Administr\r\n\r\n",
        # Headers that are odd, two requests in one, and one that is cut off.
        get(b"/products/17", extra=b"Accept-Encoding: gzip, \xff\xfe\r\n"),
        get(b"/products/17", extra=b'Accept-Encoding: "gzip"; secret=fake\r\n'),
        get(b"/products/17", extra=b"X-Load-Test: 1\r\n"),
        get(b"/products/18").replace(b"Connection: close\r\n", b"") + get(b"/products/19"),
        b"GET /products/20 HTTP/1.1\r\nHost: shop.example.test\r\n",
        # Last, because the token is not accepted afterwards.
        get(b"/%256cogout"),
        get(b"/%6cogout"),
    ]


def send(port: int, request: bytes) -> None:
    """Send one of them to 127.0.0.1, and wait for the end of the answer or half a second."""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        connection.sendall(request)
        connection.settimeout(0.5)
        try:
            while connection.recv(65_536):
                pass
        except (TimeoutError, ConnectionResetError):
            pass

"""A token endpoint for tests: RFC 8693 over real HTTP, with the failures of a bad day."""

import base64
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPE = "urn:ietf:params:oauth:token-type:"

Answer = tuple[int, dict[str, str], bytes]


class TokenEndpoint(http.server.ThreadingHTTPServer):
    """Verifies what it is asked as RFC 8693 says, and issues JWTs; `misbehave` may answer in its place."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, client_key: Any, secret: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.client_key = client_key
        self.secret = secret
        self.key = Ed25519PrivateKey.generate()
        self.ttl_s = 600
        self.extra: dict[str, Any] = {"load_test": True}
        self.misbehave: Callable[[int, dict[str, str]], Answer | None] = lambda number, form: None
        self.forms: list[dict[str, str]] = []
        self.problems: list[str] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/oauth/token"

    def claims(self, form: dict[str, str]) -> dict[str, Any]:
        """The claims of the token that is issued: the cut of what is asked and what may be had."""
        subject, actor = (self._verified(form[f"{side}_token"]) for side in ("subject", "actor"))
        now_s = int(time.time())
        return {
            "iss": "https://id.example.test", "aud": form["audience"], "sub": subject["sub"], "scope": "read",
            "act": {"sub": actor["sub"]}, "client_id": actor["iss"], "iat": now_s, "exp": now_s + self.ttl_s,
            "jti": subject["jti"], **self.extra,
        }  # fmt: skip

    def _verified(self, token: str) -> dict[str, Any]:
        return jwt.decode(
            token, self.client_key, algorithms=["EdDSA", "RS256"], audience=self.address, issuer="perf_pipeline",
            options={"require": ["exp", "iat", "jti", "sub"]},
        )  # fmt: skip

    def answer(self, form: dict[str, str], authorization: str | None) -> Answer:
        expected = {
            "grant_type": GRANT, "audience": "shop", "scope": "read", "requested_token_type": f"{TYPE}access_token",
            "subject_token_type": f"{TYPE}jwt", "actor_token_type": f"{TYPE}jwt",
        }  # fmt: skip
        if self.secret is not None:
            basic = base64.b64encode(f"perf_pipeline:{self.secret}".encode()).decode()
            if authorization != f"Basic {basic}":
                return as_json(401, {"error": "invalid_client"})
        elif authorization is not None:
            self.problems.append("credentials that nobody asked for")
        wrong = {name: form.get(name) for name in expected if form.get(name) != expected[name]}
        if wrong or set(form) != {*expected, "subject_token", "actor_token"}:
            self.problems.append(f"the form is wrong: {wrong} {set(form)}")
            return as_json(400, {"error": "invalid_request"})
        try:
            claims = self.claims(form)
        except jwt.InvalidTokenError as error:
            self.problems.append(str(error))
            return as_json(400, {"error": "invalid_grant"})
        return as_json(200, granted(jwt.encode(claims, self.key, algorithm="EdDSA")))


def granted(token: str, **changed: Any) -> dict[str, Any]:
    """The answer of RFC 8693, section 2.2.1."""
    return {
        "access_token": token, "issued_token_type": f"{TYPE}access_token", "token_type": "Bearer", "expires_in": 600,
    } | changed  # fmt: skip


def as_json(status: int, body: object, **headers: str) -> Answer:
    return status, {"Content-Type": "application/json", **headers}, json.dumps(body).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: TokenEndpoint

    def do_POST(self) -> None:
        endpoint = self.server
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body, strict_parsing=True).items()}
        with endpoint.lock:
            endpoint.forms.append(form)
            number = len(endpoint.forms)
            endpoint.at_once += 1
            endpoint.most_at_once = max(endpoint.most_at_once, endpoint.at_once)
        try:
            answer = endpoint.misbehave(number, form) or endpoint.answer(form, self.headers["Authorization"])
        finally:
            with endpoint.lock:
                endpoint.at_once -= 1
        status, headers, content = answer
        if status == 0:  # break off
            self.close_connection = True
            return
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.server.problems.append(f"GET {self.path}")
        self.send_error(405)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def token_endpoint(client_key: Any, secret: str | None = None) -> Iterator[TokenEndpoint]:
    """A running endpoint that knows the client's public key."""
    endpoint = TokenEndpoint(client_key, secret)
    thread = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.shutdown()
        thread.join()
        endpoint.server_close()

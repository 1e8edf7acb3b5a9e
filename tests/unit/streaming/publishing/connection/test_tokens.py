"""Tokens for SASL/OAUTHBEARER from an endpoint."""

from __future__ import annotations

import base64
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from streaming.errors import Unauthenticated
from streaming.publishing.connection.tokens import provider


class Endpoint(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.answer: dict[str, object] = {}
        self.requests: list[tuple[str, dict[str, list[str]]]] = []  # authorization, form

    def options(self) -> dict[str, str]:
        return {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "job",
            "sasl.oauthbearer.client.secret": "hunter2:&",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{self.server_port}/token",
        }


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.requests.append((self.headers["Authorization"], form))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.answer).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_token_is_fetched_once_and_used_until_it_nearly_expires(endpoint: Endpoint) -> None:
    tokens = provider(endpoint.options())
    endpoint.answer = {"access_token": "first", "expires_in": 3600}
    assert (tokens.token(), tokens.token()) == ("first", "first")
    ((authorization, form),) = endpoint.requests
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"job:hunter2%3A%26"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_an_expired_token_is_replaced(endpoint: Endpoint) -> None:
    tokens = provider(endpoint.options())
    endpoint.answer = {"access_token": "first", "expires_in": 0}
    assert tokens.token() == "first"
    endpoint.answer = {"access_token": "second"}
    assert tokens.token() == "second"


@pytest.mark.parametrize("status", [401, 200])
def test_an_endpoint_that_gives_none(endpoint: Endpoint, status: int) -> None:
    endpoint.status = status
    with pytest.raises(Unauthenticated, match="returned no token") as rejected:
        provider(endpoint.options()).token()
    assert "hunter2" not in str(rejected.value)

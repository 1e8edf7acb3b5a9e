"""Tokens for SASL/OAUTHBEARER from an endpoint."""

from __future__ import annotations

import base64
import itertools
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError

import pytest

from streaming.errors import JobError, Unauthenticated
from streaming.publishing.connection import tokens
from streaming.publishing.connection.tokens import provider
from tests.support.network.http_answers import serving
from tests.support.patience import PATIENCE_S


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


def test_each_request_reads_the_file_of_the_secret(endpoint: Endpoint, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    tokens = provider({**endpoint.options(), "sasl.oauthbearer.client.secret": f"${{file:{secret}}}"})
    endpoint.answer = {"access_token": "token", "expires_in": 0}
    tokens.token()
    secret.write_text("second\n")
    tokens.token()
    users = [base64.b64decode(authorization.removeprefix("Basic ")) for authorization, _ in endpoint.requests]
    assert users == [b"job:first", b"job:second"]


@pytest.mark.parametrize("status", [401, 200])
def test_an_endpoint_that_gives_none(endpoint: Endpoint, status: int) -> None:
    endpoint.status = status
    with pytest.raises(Unauthenticated, match="returned no token") as rejected:
        provider(endpoint.options()).token()
    assert "hunter2" not in str(rejected.value)


@pytest.mark.parametrize("status", [408, 429, 503])
def test_an_endpoint_that_is_busy_is_asked_again(endpoint: Endpoint, status: int) -> None:
    endpoint.status = status
    with pytest.raises(HTTPError) as busy:  # a connection that meets it counts as lost
        provider(endpoint.options()).token()
    assert busy.value.code == status


@pytest.mark.parametrize("content", [None, "nothing"])
def test_certificates_that_cannot_be_read_are_a_wrong_setting(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with Endpoint() as server, pytest.raises(JobError, match=r"https\.ca\.location"):
        provider({**server.options(), "https.ca.location": str(file)})


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b'"abc"',
        b"null",
        b"[" * 100_000,
        b'{"access_token": null}',
        b'{"access_token": ""}',
        b'{"access_token": 5}',
        b'{"access_token": "a\\u0001b"}',
        '{"access_token": "ä"}'.encode(),
        b'{"access_token": "abc", "expires_in": NaN}',
        b'{"access_token": "abc", "expires_in": Infinity}',
        b'{"access_token": "abc", "expires_in": -1}',
        b'{"access_token": "abc", "expires_in": []}',
        b'{"access_token": "abc", "expires_in": "soon"}',
        b'{"access_token": "abc", "more": "' + b"x" * 2_000_000 + b'"}',
    ],
    ids=range(15),
)
def test_an_answer_that_holds_no_token(endpoint: Endpoint, answer: bytes) -> None:
    with serving(lambda request: [b"HTTP/1.1 200 OK\r\n\r\n" + answer]) as url:
        options = endpoint.options() | {"sasl.oauthbearer.token.endpoint.url": url}
        with pytest.raises(Unauthenticated, match="returned no token"):
            provider(options).token()


def test_an_answer_that_trickles_in_is_given_up_on(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_TIMEOUT_S", PATIENCE_S)
    clock = itertools.count(step=100)  # s
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    with serving(lambda request: [b"HTTP/1.1 200 OK\r\n\r\n", *([b" "] * 1_000)]) as url:
        options = endpoint.options() | {"sasl.oauthbearer.token.endpoint.url": url}
        with pytest.raises(TimeoutError, match="no whole answer within 600 s"):
            provider(options).token()


def test_an_address_that_is_none_is_a_wrong_setting(endpoint: Endpoint) -> None:
    options = endpoint.options() | {"sasl.oauthbearer.token.endpoint.url": "http://idp:abc/token"}
    with pytest.raises(JobError, match=r"token\.endpoint\.url in kafka\.client cannot be used: nonnumeric port"):
        provider(options).token()


@pytest.mark.parametrize("answer", [b"", b"no HTTP", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"])
def test_half_an_answer_is_as_good_as_no_connection(endpoint: Endpoint, answer: bytes) -> None:
    with serving(lambda request: [answer]) as url:
        options = endpoint.options() | {"sasl.oauthbearer.token.endpoint.url": url}
        with pytest.raises(OSError, match=r"returned half an answer|closed connection"):
            provider(options).token()


def test_a_lifetime_may_be_a_text_or_missing(endpoint: Endpoint) -> None:
    for lifetime in ("3600", None):
        endpoint.answer = {"access_token": "abc", "expires_in": lifetime}
        tokens_of = provider(endpoint.options())
        assert (tokens_of.token(), tokens_of.token()) == ("abc", "abc")
    assert len(endpoint.requests) == 2

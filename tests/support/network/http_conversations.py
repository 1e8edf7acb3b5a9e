"""The product's clients of a schema registry, a token endpoint and a job's status get wrong answers over HTTP; its own
server gets wrong requests.

A client returns what the untouched answer says, or an error of its own that names the address, within a time and with
bounded memory. The server answers or hangs up, goes on, and logs no failure.
"""

from __future__ import annotations

import http.client
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from random import Random

import pytest

from streaming.codecs import RegistrySettings, Undecodable, open_codec
from streaming.codecs.registry import Registry, Schema
from streaming.errors import JobError
from streaming.monitoring import top
from streaming.monitoring.web.console.pages import ANSWERS
from streaming.monitoring.web.server import Server
from streaming.publishing.connection import tokens
from tests.support.network.http_answers import another, serving, spoiled
from tests.support.patience import PATIENCE_S

TRY_S = 1
TEXT = '{"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}'
SCHEMA = {"schema": TEXT, "schemaType": "AVRO", "references": []}
OTHER = {"name": "o", "subject": "other", "version": 1}
TOKEN = {"access_token": "abc.def", "expires_in": 300, "token_type": "Bearer"}
STATUS = dict.fromkeys(sorted(top.SHOWN), 0)
PATHS = ("/", "/status.json", "/metrics", "/health", "/ready", "/favicon.ico", "/none", *ANSWERS)


def registry(r: Random) -> None:
    """Read a record whose schema comes with faults."""
    document = r.choice([SCHEMA, SCHEMA | {"references": [OTHER] * r.choice([1, 3])}])

    def answer(request: bytes) -> list[bytes]:
        status = r.choice([200] * 8 + [401, 404, 429, 500, 503])
        return list(spoiled(r, r.choice([document, document, another(r, document), {"error_code": 40403}]), status))

    with serving(answer) as url:
        options = {"timeout": f"{TRY_S}", "max.retries": f"{r.choice([0, 1])}"}
        settings = RegistrySettings.of(url, options)
        assert settings is not None
        codec = r.choice(["avro", "protobuf"])
        decode = open_codec.__wrapped__(codec, settings)
        for _ in range(2):
            with _ending(url, Undecodable):
                event = decode(b"\0\0\0\0\1\2", {})
                assert codec == "avro"
                assert isinstance(event, dict)
        with _ending(url, Undecodable):
            schema = Registry(settings).by_id(1, "AVRO")
            assert isinstance(schema, Schema)
            assert isinstance(schema.text, str)


def token(r: Random) -> None:
    """Get a token. Errors that are not ours are a lost connection to the caller, which tries again."""
    with serving(lambda request: spoiled(r, TOKEN, r.choice([200] * 6 + [401, 500]))) as url:
        names = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
        options = dict.fromkeys(names, "x") | {
            "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
            "sasl.oauthbearer.method": "oidc",
        }
        provider = tokens.provider(options)
        with _ending(url, OSError, http.client.HTTPException):
            found = provider.token()
            assert found
            assert found.isprintable()
            assert isfinite(provider._until)


def status(r: Random) -> None:
    with serving(lambda request: spoiled(r, STATUS, r.choice([200] * 6 + [404, 500]))) as url, _ending(url):
        assert top.fetch(url).keys() >= top.SHOWN


def requests(r: Random, server: Server) -> None:
    """Send wrong requests to the server of a job."""
    port = int(server.url.rpartition(":")[2])
    for _ in range(r.randint(1, 4)):
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            try:
                for piece in _request(r):
                    client.sendall(piece)
                client.shutdown(r.choice([socket.SHUT_WR, socket.SHUT_RDWR]))
                while client.recv(1 << 16):
                    pass
            except OSError:  # it hung up
                pass
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/health")
    assert connection.getresponse().read().startswith(b"{")
    connection.close()


def _request(r: Random) -> list[bytes]:
    query = r.choice([b"", b"?", b"?id=%ff%00", b"?a=1&a=2&&=", b"?id=" + b"x" * 3_000, b"?event={", b"?%zz", b"#x"])
    query += r.choice([b"", b"&event=%7B%22x%22%3A1%7D", b"&subscriber=" + r.randbytes(3).hex().encode(), b"&page=-1"])
    target = r.choice(PATHS).encode() + query
    method = r.choice([b"GET", b"GET", b"GET", b"HEAD", b"POST", b"get", b"", b"\xff", b"X" * 50, b"__init__"])
    version = r.choice(
        [b"HTTP/1.0", b"HTTP/1.1", b"HTTP/1.1", b"", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.x", b"HTTP/" + b"9" * 50]
    )
    headers = [
        *(b"Host: 127.0.0.1", b"Host: [::1]:x", b"Host: \xff", b"Host: evil", b"Host:", b"Content-Length: 99999999999"),
        *(b"Authorization: Basic \xff", b"Authorization: Basic =", b"Authorization: Bearer " + b"x" * 1_000),
        *(b"Accept: \0", b"Accept: application/openmetrics-text;q=x", b"Expect: 100-continue", b"X" * 3_000, b": y"),
        *(
            b"Transfer-Encoding: chunked",
            b"Sec-Fetch-Site: cross-site",
            b" folded",
            b"Connection: keep-alive",
            b"\xff: \xff",
        ),
        b"X: " + b"y" * 70_000,
    ]
    lines = [b" ".join((method, target, b"HTTP/" + version)), *r.sample(headers, r.choice([0, 1, 2, 5]))]
    data = r.choice([b"\r\n", b"\r\n", b"\n"]).join([*lines, b"", r.randbytes(r.choice([0, 0, 30]))])
    if r.random() < 0.2:
        data = r.randbytes(r.randint(0, 300)) + r.choice([b"", b"\r\n\r\n"])
    at = r.randint(0, len(data))
    return [data[:at], data[at:]]


@contextmanager
def _ending(url: str, *errors: type[Exception]) -> Iterator[None]:
    """Take one of these errors, or one of ours that names the address."""
    try:
        yield
    except JobError as error:
        if url not in str(error):
            raise AssertionError(f"{error!r} does not name {url}") from error
    except errors:
        pass


class _Failures(logging.Handler):
    """The errors that the server logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def run(patch: pytest.MonkeyPatch, r: Random, server: Callable[[], Server]) -> None:
    """A conversation of each kind. Raises AssertionError, or what a client should not raise."""
    patch.setattr(tokens, "_TIMEOUT_S", float(TRY_S))
    patch.setattr(top, "TIMEOUT_S", float(TRY_S))
    for conversation in (registry, token, status):
        conversation(r)
    failures = _Failures()
    logger = logging.getLogger("sluice.monitoring")
    logger.addHandler(failures)
    try:
        with server() as served:
            requests(r, served)
    finally:
        logger.removeHandler(failures)
    assert not failures.records, failures.records[0].exc_info

"""The HTTP server answers, and leaves nothing behind."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from config import load
from rig.broker import free_port
from streaming.driver import assembly
from streaming.errors import JobError
from streaming.monitoring import status
from streaming.monitoring.monitor import Monitor
from streaming.monitoring.view import RUNNING, JobView, Lag
from streaming.monitoring.web import connections
from streaming.monitoring.web.elements import POLICY
from streaming.monitoring.web.server import Server
from streaming.source_topics import SourceTopics
from tests.support.logged import fields_of
from tests.support.patience import PATIENCE_S
from tests.unit.streaming.monitoring.test_monitoring import ABOUT, TOPICS, Asked, busy, running

PATHS = ["/", "/status.json", "/metrics", "/health", "/ready"]


@pytest.fixture
def answering() -> Iterator[Server]:
    with Server("127.0.0.1", 0, running().view) as found:
        yield found


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", PATHS)
def test_head_says_what_get_says_without_the_body(answering: Server, path: str) -> None:
    code, headers, body = ask(answering, path)
    assert (code, int(headers["Content-Length"])) == (200, len(body))
    head_code, head, nothing = ask(answering, path, "HEAD")
    assert (head_code, head["Content-Type"], nothing) == (200, headers["Content-Type"], b"")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/metrics?name=x", 200),
        ("GET", "/none", 404),
        ("GET", "/../etc/passwd", 404),
        ("GET", "/health/", 404),
        ("GET", "/favicon.ico", 204),
        ("HEAD", "/none", 404),
        ("POST", "/", 405),
        ("PUT", "/health", 405),
        ("DELETE", "/none", 405),
        ("OPTIONS", "/", 405),
        ("BREW", "/", 405),
    ],
)
def test_only_what_is_there_is_answered_and_nothing_can_be_done(
    answering: Server, method: str, path: str, code: int
) -> None:
    found, headers, _ = ask(answering, path, method)
    assert found == code
    assert (headers["Allow"] == "GET, HEAD") == (code == 405)


@pytest.mark.parametrize(("path", "code"), [*((path, 200) for path in PATHS), ("/none", 404)])
def test_every_answer_tells_the_browser_to_be_careful(answering: Server, path: str, code: int) -> None:
    found, headers, _ = ask(answering, path)
    assert found == code
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Python" not in headers["Server"]


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost", 200),
        ("localhost:9000", 200),
        ("LOCALHOST", 200),
        ("LocalHost:9000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("[::1]", 200),
        ("evil.example", 421),
        ("evil.example:80", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1", 421),
        ("", 421),
    ],
)
def test_on_the_loopback_interface_it_answers_to_no_other_name(answering: Server, host: str, code: int) -> None:
    assert ask(answering, "/status.json", Host=host)[0] == code


def test_who_listens_everywhere_answers_to_every_name() -> None:
    with Server("127.0.0.1", 0, busy) as everywhere:
        everywhere.loopback = False  # as it is on any other address
        assert ask(everywhere, "/health", Host="sluice.example")[0] == 200


def test_health_and_readiness_are_json_with_the_reasons() -> None:
    asked = Asked(error="away")
    monitor = Monitor(ABOUT, TOPICS, asked)
    monitor.ask()
    with Server("127.0.0.1", 0, monitor.view) as found:
        code, headers, body = ask(found, "/ready")
        assert (code, headers["Content-Type"]) == (503, "application/json")
        assert json.loads(body) == {"ok": False, "reasons": ["the state is being restored", "away"], "notes": []}
        assert (ask(found, "/health")[0], json.loads(ask(found, "/health")[2])) == (200, {"ok": True, "reasons": []})
        monitor.enter(RUNNING)
        asked.error = ""
        monitor.ask()
        assert ask(found, "/ready")[0] == 200
        monitor._beat_at -= 60
        code, _, body = ask(found, "/health")
        assert (code, json.loads(body)["reasons"]) == (503, ["no sign of life from the Spark query for 60 s"])


def test_what_cannot_be_shown_does_not_end_the_server(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> JobView:
        raise RuntimeError("hunter2")

    logging.getLogger("sluice").propagate = True
    with Server("127.0.0.1", 0, broken) as found:
        for path in PATHS:
            code, _, body = ask(found, path)
            assert (code, b"hunter2" in body) == (500, False)
    assert "request_failed" in caplog.text


def test_a_port_that_is_taken_is_named() -> None:
    with Server("127.0.0.1", 0, busy) as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(JobError, match=rf"monitoring.port = {port}: cannot listen there: Address already in use"):
            Server("127.0.0.1", port, busy)
    for host in ("192.0.2.1", "a..b", f"{'a' * 64}.example"):
        with pytest.raises(JobError, match=f"monitoring.host = '{host}'"):
            Server(host, 0, busy)


def test_the_port_that_was_asked_for_is_taken_again_at_once() -> None:
    port = free_port()
    for _ in range(2):
        with Server("127.0.0.1", port, busy) as found:
            assert ask(found, "/")[0] == 200


def test_nothing_is_left_of_it_even_while_clients_are_connected() -> None:
    before = {*threading.enumerate()}  # of other tests, which may end meanwhile
    with Server("127.0.0.1", 0, busy) as found:
        port = int(found.url.rpartition(":")[2])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        silent[0].sendall(b"GET / HT")
        assert ask(found, "/health")[0] == 200
        began = time.monotonic()
    assert time.monotonic() - began < connections.TIMEOUT_S
    assert {*threading.enumerate()} <= before
    for one in silent:
        one.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@contextmanager
def slow_clients(port: int, number: int) -> Iterator[list[socket.socket]]:
    """Open `number` connections, each of which sends a byte of its request now and then. Closed ones are opened again,
    some at a time."""
    clients = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(number)]
    done = threading.Event()

    def trickle() -> None:
        while not done.wait(0.05):
            closed = []
            for i, client in enumerate(clients):
                try:
                    client.sendall(b"G")
                except OSError:
                    closed.append(i)
            for i in closed[:10]:
                clients[i].close()
                clients[i] = socket.create_connection(("127.0.0.1", port), PATIENCE_S)

    sending = threading.Thread(target=trickle)
    sending.start()
    try:
        yield clients
    finally:
        done.set()
        sending.join()
        for client in clients:
            client.close()


@pytest.mark.parametrize("number", [8, 30, 600])
def test_slow_clients_do_not_keep_the_probes_from_their_answers(number: int) -> None:
    with Server("127.0.0.1", 0, busy) as found, slow_clients(int(found.url.rpartition(":")[2]), number):
        for _ in range(20):
            assert [ask(found, path)[0] for path in ("/health", "/ready")] == [200, 200]


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), PATIENCE_S)


def test_a_request_that_trickles_in_is_hung_up_on_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT_S", 0.2)
    with Server("127.0.0.1", 0, busy) as found, connected(found) as slow:
        with suppress(ConnectionResetError, BrokenPipeError):
            while True:
                slow.sendall(b"x")
                time.sleep(0.01)
        monkeypatch.setattr(connections, "TIMEOUT_S", PATIENCE_S)
        assert ask(found, "/health")[0] == 200


def test_who_does_not_read_the_answer_is_hung_up_on_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT_S", 2.0)  # enough for a probe of a busy machine
    large = replace(busy(), lag=tuple(Lag("t" * 200, n, 0, 1) for n in range(50_000)))
    with Server("127.0.0.1", 0, lambda: large) as found, connected(found) as slow:
        slow.sendall(b"GET /status.json HTTP/1.0\r\n\r\n")
        assert slow.recv(1)  # the answer is made
        assert ask(found, "/health")[0] == 200
        while found.connections:
            time.sleep(0.01)
        received = 0
        with suppress(ConnectionResetError):
            while some := slow.recv(1 << 16):
                received += len(some)
        assert received < len(status.as_json(status.document(large)))


def test_when_all_places_are_taken_the_oldest_connection_makes_room() -> None:
    with Server("127.0.0.1", 0, busy) as found:
        port = int(found.url.rpartition(":")[2])
        silent = [
            socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(connections.MOST_CONNECTIONS)
        ]
        ask(found, "/health")
        assert silent[0].recv(1) == b""
        silent[-1].sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.0 200"
        for one in silent:
            one.close()


@pytest.mark.parametrize(
    ("request_text", "code"),
    [
        (b"GET /" + b"x" * connections.MAX_REQUEST_BYTES, 414),
        (b"GET / HTTP/1.0\r\nX: " + b"x" * connections.MAX_REQUEST_BYTES, 431),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"\r\n\r\n", None),
        (b"GET /health HTTP/1.0\r\n\r\nand more", 200),
        (b"GET /health HTTP/1.0\n\n", 200),
    ],
)
def test_a_request_that_is_none_is_rejected(answering: Server, request_text: bytes, code: int | None) -> None:
    with socket.create_connection(("127.0.0.1", int(answering.url.rpartition(":")[2])), PATIENCE_S) as client:
        client.sendall(request_text)
        answer = b""
        while some := client.recv(1 << 16):
            answer += some
    assert answer.split(b" ")[1:2] == ([str(code).encode()] if code else [])


class SomeEnds:
    def ends(self) -> dict[tuple[str, int], int]:
        return {("events", 0): 0, ("subscriptions", 0): 0}


def test_the_job_says_where_it_answers_for_as_long_as_it_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = load(flags={"query.checkpoint": str(tmp_path)})
    logging.getLogger("sluice").propagate = True
    caplog.set_level(logging.INFO, "sluice")
    before = {*threading.enumerate()}  # of other tests, which may end meanwhile
    with assembly.monitored(settings, SourceTopics.of(settings), SomeEnds(), None, None) as (_, url):  # type: ignore[arg-type]  # a double
        assert url is not None
        assert (tmp_path / "monitoring").read_text() == f"{url}\n"
        with urllib.request.urlopen(f"{url}/health", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
    (line,) = [record for record in caplog.records if record.getMessage() == "monitoring_started"]
    assert fields_of(line) == {"monitoring_url": url}
    assert list(tmp_path.iterdir()) == []
    assert {*threading.enumerate()} <= before


def test_a_job_that_is_not_to_answer_does_not_listen(tmp_path: Path) -> None:
    settings = load(flags={"query.checkpoint": str(tmp_path), "monitoring.enabled": False})
    before = set(threading.enumerate())
    with assembly.monitored(settings, SourceTopics.of(settings), SomeEnds(), None, None) as (monitor, url):  # type: ignore[arg-type]  # a double
        others = [thread.name for thread in set(threading.enumerate()) - before]
        assert (url, others) == (None, ["sluice-monitor"])
        assert monitor.view().figures.batches == 0
    assert list(tmp_path.iterdir()) == []

"""The proxy forwards messages at once, slowly, later, twice or not at all, as told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rig.broker import LOOPBACK
from tests.faults.proxy import LENGTH, Proxy
from tests.support.patience import PATIENCE_S


class Echo:
    """A server that answers each message with the same message, and keeps what it gets in `messages`."""

    def __init__(self, server: socket.socket) -> None:
        self.port: int = server.getsockname()[1]
        self.messages: list[bytes] = []
        self._server = server
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=(self._server.accept()[0],), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while message := received(connection):
                self.messages.append(message)
                send(connection, message)


@pytest.fixture
def echo() -> Iterator[Echo]:
    with socket.create_server((LOOPBACK, 0)) as server:
        yield Echo(server)
        server.shutdown(socket.SHUT_RDWR)


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection((LOOPBACK, proxy.port), PATIENCE_S)


def send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(LENGTH) + message)


def received(connection: socket.socket) -> bytes:
    """Return the next message, or nothing at the end."""
    length = _exactly(connection, LENGTH)
    return _exactly(connection, int.from_bytes(length))


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := connection.recv(size - len(found))):
        found += part
    return found


def echoed(connection: socket.socket, message: bytes) -> bytes:
    threading.Thread(target=send, args=(connection, message), daemon=True).start()
    with suppress(ConnectionResetError):
        return received(connection)
    return b""


def test_all_messages_pass_in_order_on_many_connections(echo: Echo) -> None:
    with Proxy(echo.port) as proxy:
        several = [connected(proxy) for _ in range(5)]
        for number, connection in enumerate(several):
            with connection:
                large = bytes([number]) + bytes(range(256)) * 4_000
                for message in (b"x", large, b"y"):
                    assert echoed(connection, message) == message


def test_a_slow_one_takes_its_time(echo: Echo) -> None:
    with Proxy(echo.port) as proxy, connected(proxy) as connection:
        proxy.slow(0.1, 1e9)
        began = time.monotonic()
        assert echoed(connection, b"x") == b"x"
        assert time.monotonic() - began >= 0.2  # there and back
        proxy.pass_on()
        proxy.slow(0.0, 1e5)
        began = time.monotonic()
        assert echoed(connection, b"x" * 20_000) == b"x" * 20_000
        assert time.monotonic() - began >= 0.2


def test_a_cut_ends_the_connections_and_new_ones_work(echo: Echo) -> None:
    with Proxy(echo.port) as proxy:
        with connected(proxy) as connection:
            assert echoed(connection, b"before") == b"before"
            proxy.drop()
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        with connected(proxy) as connection:
            assert echoed(connection, b"after") == b"after"


def test_a_black_hole_holds_back_what_it_takes(echo: Echo) -> None:
    with Proxy(echo.port) as proxy, connected(proxy) as connection:
        assert echoed(connection, b"before") == b"before"
        proxy.blackhole()
        send(connection, b"within")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        with connected(proxy) as other:  # new ones are taken too
            send(other, b"other")
            other.settimeout(0.3)
            with pytest.raises(TimeoutError):
                other.recv(1)
            proxy.pass_on()
            other.settimeout(PATIENCE_S)
            assert received(other) == b"other"
        connection.settimeout(PATIENCE_S)
        assert received(connection) == b"within"


def test_a_lost_request_or_answer_costs_its_connection(echo: Echo) -> None:
    with Proxy(echo.port) as proxy:
        proxy.lose(1.0)
        for number in range(20):
            with connected(proxy) as connection:
                assert echoed(connection, b"%d" % number) == b""
        assert 0 < len(echo.messages) < 20  # of some only the answer was lost
        proxy.pass_on()
        with connected(proxy) as connection:
            assert echoed(connection, b"after") == b"after"


def test_the_second_answer_to_a_doubled_request_comes(echo: Echo) -> None:
    with Proxy(echo.port) as proxy, connected(proxy) as connection:
        proxy.double(1.0)
        for message in (b"first", b"second"):
            assert echoed(connection, message) == message
        proxy.pass_on()
        assert echoed(connection, b"third") == b"third"
    assert echo.messages == [b"first", b"first", b"second", b"second", b"third"]


def test_held_requests_of_different_connections_overtake_each_other_and_those_of_one_do_not(echo: Echo) -> None:
    with Proxy(echo.port) as proxy:
        several = [connected(proxy) for _ in range(20)]
        proxy.reorder(0.3)
        for order in range(2):
            for number, connection in enumerate(several):
                send(connection, bytes([number, order]))
        for number, connection in enumerate(several):
            with connection:
                assert [received(connection) for _ in range(2)] == [bytes([number, order]) for order in range(2)]
    assert [message[0] for message in echo.messages if message[1] == 0] != list(range(20))


def test_where_nobody_listens_the_connection_ends(echo: Echo) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        free = server.getsockname()[1]
    with Proxy(free) as proxy, connected(proxy) as connection, suppress(ConnectionResetError):
        assert connection.recv(1) == b""

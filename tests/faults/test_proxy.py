"""The proxy forwards data at once, slowly, later or not at all, as told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rig.broker import LOOPBACK
from tests.faults.proxy import Proxy
from tests.support.patience import PATIENCE_S


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""
    with socket.create_server((LOOPBACK, 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(1 << 16):
                connection.sendall(data)
        except OSError:
            return


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection((LOOPBACK, proxy.port), PATIENCE_S)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
    found = b""
    while len(found) < len(data) and (part := connection.recv(1 << 16)):
        found += part
    return found


def test_all_bytes_pass_in_order_on_many_connections(echo: int) -> None:
    with Proxy(echo) as proxy:
        several = [connected(proxy) for _ in range(5)]
        for number, connection in enumerate(several):
            with connection:
                data = bytes([number]) + bytes(range(256)) * 4_000
                assert echoed(connection, data) == data


def test_a_slow_one_takes_its_time(echo: int) -> None:
    with Proxy(echo) as proxy, connected(proxy) as connection:
        proxy.slow(0.1, 1e9)
        began = time.monotonic()
        assert echoed(connection, b"x") == b"x"
        assert time.monotonic() - began >= 0.2  # there and back
        proxy.pass_on()
        proxy.slow(0.0, 1e5)
        began = time.monotonic()
        assert echoed(connection, b"x" * 20_000) == b"x" * 20_000
        assert time.monotonic() - began >= 0.2


def test_a_cut_ends_the_connections_and_new_ones_work(echo: int) -> None:
    with Proxy(echo) as proxy:
        with connected(proxy) as connection:
            assert echoed(connection, b"before") == b"before"
            proxy.drop()
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        with connected(proxy) as connection:
            assert echoed(connection, b"after") == b"after"


def test_a_black_hole_holds_back_what_it_takes(echo: int) -> None:
    with Proxy(echo) as proxy, connected(proxy) as connection:
        assert echoed(connection, b"before") == b"before"
        proxy.blackhole()
        connection.sendall(b"within")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        with connected(proxy) as other:  # new ones are taken too
            other.sendall(b"other")
            other.settimeout(0.3)
            with pytest.raises(TimeoutError):
                other.recv(1)
            proxy.pass_on()
            other.settimeout(PATIENCE_S)
            assert other.recv(5) == b"other"
        connection.settimeout(PATIENCE_S)
        assert connection.recv(6) == b"within"


def test_where_nobody_listens_the_connection_ends(echo: int) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        free = server.getsockname()[1]
    with Proxy(free) as proxy, connected(proxy) as connection, suppress(ConnectionResetError):
        assert connection.recv(1) == b""

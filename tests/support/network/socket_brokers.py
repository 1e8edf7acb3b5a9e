"""The brokers of `tests.support.doubles.fetch_brokers` behind real sockets on 127.0.0.1."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any

from kafka.protocol import metadata

from tests.support.doubles.broker_logs import NODES
from tests.support.doubles.fetch_brokers import FetchBrokers
from tests.support.doubles.wire import Spoil, Wire

HOST = "127.0.0.1"
LONGEST_WAIT_S = 0.03  # before a piece of an answer, whatever the brokers say
LENGTH_BYTES = 4


class _Wire(Wire):
    """Tells clients the ports of these sockets."""

    ports: dict[int, int]

    def _connected(self, name: str, response: Any) -> Any:
        response = super()._connected(name, response)
        if name == "Metadata":
            kind = metadata.MetadataResponse.MetadataResponseBroker
            response.brokers = [kind(node_id=n, host=HOST, port=port, rack=None) for n, port in self.ports.items()]
        return response


class SocketBrokers:
    """`with SocketBrokers(brokers, spoil) as served: served.address`. `spoil` is called for each answer, in turn."""

    def __init__(self, brokers: FetchBrokers, spoil: Spoil) -> None:
        self._wire = _Wire(brokers)
        self._wire.spoil = spoil
        self._turn = threading.Lock()
        self._listeners = {node: socket.create_server((HOST, 0)) for node in NODES}
        self._wire.ports = {node: listener.getsockname()[1] for node, listener in self._listeners.items()}
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.failures: list[Exception] = []  # of the brokers themselves

    @property
    def address(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._wire.ports.values())

    def __enter__(self) -> SocketBrokers:
        for node, listener in self._listeners.items():
            self._start(self._accept, node, listener)
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self._listeners.values(), *self._connections):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (*self._listeners.values(), *self._connections):
            one.close()
        if self.failures:
            raise self.failures[0]

    def _start(self, work: Any, *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self, node: int, listener: socket.socket) -> None:
        with suppress(OSError):  # it was shut down
            while True:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections.append(connection)
                self._start(self._serve, node, connection)

    def _serve(self, node: int, connection: socket.socket) -> None:
        with suppress(OSError):
            while (frame := _frame(connection)) is not None:
                try:
                    with self._turn:
                        pieces = list(self._wire.answer(node, frame))
                except Exception as error:
                    self.failures.append(error)
                    pieces = [(0.0, None)]
                for after_s, piece in pieces:
                    time.sleep(min(after_s, LONGEST_WAIT_S))
                    if piece is None:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    connection.sendall(piece)


def _frame(connection: socket.socket) -> bytes | None:
    """The next request without its length; None at the end."""
    length = _exactly(connection, LENGTH_BYTES)
    return length and _exactly(connection, int.from_bytes(length, "big"))


def _exactly(connection: socket.socket, n: int) -> bytes | None:
    data = bytearray()
    while len(data) < n:
        piece = connection.recv(n - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)

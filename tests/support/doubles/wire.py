"""kafka-python's connections as they are, over sockets in memory: what brokers answer can be spoiled on its way.

The brokers are those of `tests.support.doubles.brokers`. Requests and answers are the bytes of Kafka's protocol; a
client's waits move the brokers' clock. A wait for something that never comes fails at once.
"""

from __future__ import annotations

import io
import selectors
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import kafka.net.connection
import kafka.net.manager
import kafka.net.selector
import kafka.net.transport
import pytest
from kafka import errors
from kafka.protocol import metadata, producer
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest

from streaming.publishing import slot
from streaming.publishing.connection import client, requests
from streaming.reading import fetcher
from tests.support.doubles.broker_logs import NODES
from tests.support.doubles.brokers import Brokers

HOSTS = {node: f"broker-{node}" for node in NODES}
PORT = 9092
LATENCY_S = 0.001

REQUESTS: dict[int, Any] = {
    kind.API_KEY: kind
    for kind in (
        *(metadata.ApiVersionsRequest, metadata.FindCoordinatorRequest, metadata.MetadataRequest),
        *(producer.AddOffsetsToTxnRequest, producer.AddPartitionsToTxnRequest, producer.EndTxnRequest),
        *(producer.InitProducerIdRequest, producer.ProduceRequest, producer.TxnOffsetCommitRequest),
        *(OffsetFetchRequest, FetchRequest, ListOffsetsRequest),
    )
}

Frame = tuple[float, bytes | None]  # after so many seconds these bytes arrive; None: the connection is closed
# Given the name of the request and the response, with its header: what the client gets.
Spoil = Callable[[str, Any], Iterable[Frame]]


class Hang(BaseException):
    """Nobody will ever answer, and nothing wakes up."""


def whole(name: str, response: Any) -> Iterable[Frame]:
    return [(0.0, frame_of(response))]


def frame_of(response: Any) -> bytes:
    """The bytes of a response, with its length. An error to ApiVersions is always of version 0."""
    if isinstance(response, metadata.ApiVersionsResponse) and response.error_code and response.version:
        header = response.header
        response = metadata.ApiVersionsResponse(version=0, error_code=response.error_code, api_keys=response.api_keys)
        response.with_header(header.correlation_id)
    return bytes(response.encode(header=True, framed=True))


class Wire:
    """Two brokers behind sockets. `spoil` is called for each answer, `lose` for each request: if it returns True, the
    request does not arrive and the connection is cut. `until` is the time at which a client has waited too long."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.spoil: Spoil = whole
        self.lose: Callable[[str], bool] = lambda name: False
        self.versions: Mapping[int, tuple[int, int]] = {}  # by request, where a broker speaks other ones
        self.down: set[str] = set()  # hosts
        self.sockets: list[Socket] = []  # all that were ever opened
        self.until = float("inf")

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for module in (
            *(client, slot, fetcher),
            *(kafka.net.selector, kafka.net.connection, kafka.net.manager, kafka.net.transport),
        ):
            patch.setattr(module, "time", self.brokers)
        patch.setattr(client, "create_connection", self._connect)
        patch.setitem(kafka.net.selector.NetworkSelector.DEFAULT_CONFIG, "selector", partial(Selector, self))

    async def _connect(self, net: Any, host: Any, port: int, *_: Any, **__: Any) -> Socket:
        await net.sleep(LATENCY_S)
        if isinstance(host, str):
            host.encode("idna")  # as getaddrinfo does: it raises UnicodeError
        if not 0 <= port < 1 << 16:
            raise OverflowError("connect(): port must be 0-65535.")
        if host not in HOSTS.values() or port != PORT or host in self.down:
            raise errors.KafkaConnectionError(f"unable to connect: {host}:{port}")
        (node,) = (node for node, name in HOSTS.items() if name == host)
        self.sockets.append(Socket(self, node))
        return self.sockets[-1]

    def answer(self, node: int, frame: bytes) -> Iterable[Frame]:
        """Yield the answers of a node to a request, with their delays."""
        key, version, correlation, length = struct.unpack_from(">hhih", frame)
        kind = REQUESTS[key]
        name = kind.__name__.removesuffix("Request")
        if self.lose(name):
            return [(0.0, None)]
        at = 10 + max(length, 0) + kind.flexible_version_q(version)
        if kind is producer.ProduceRequest:
            request: Any = requests.produce(version, frame[at:])
        else:
            request = kind.decode(frame[at:], version=version)
        self.brokers.node = node
        answer = self._connected(name, self.brokers.answer(request))
        kind = RequestHeader(request_api_key=key, request_api_version=version).get_response_class()[None]
        made = _made(kind, answer, version)
        made.with_header(correlation)
        return [(getattr(answer, "after_s", 0.0), b""), *self.spoil(name, made)]

    def _connected(self, name: str, response: Any) -> Any:
        """Add what only connections need."""
        if name == "ApiVersions":
            kind = metadata.ApiVersionsResponse.ApiVersion
            response.api_keys = [
                kind(api_key=key, min_version=low, max_version=high)
                for key, request in REQUESTS.items()
                for low, high in [self.versions.get(key, (0, request.max_version))]
            ]
        if name == "Metadata":
            kind = metadata.MetadataResponse.MetadataResponseBroker
            response.brokers = [kind(node_id=node, host=host, port=PORT, rack=None) for node, host in HOSTS.items()]
        return response


def _made(kind: Any, thing: Any, version: int) -> Any:
    """A response, or a structure of one: the fields of this version, from `thing` or else Kafka's defaults."""
    there = (name for name, field in kind.fields.items() if field.for_version_q(version))
    values = {name: getattr(thing, name) for name in there if hasattr(thing, name)}
    for name, value in values.items():
        if kind.fields[name].is_struct_array() and value is not None:
            values[name] = [_made(kind.fields[name].data_class, one, version) for one in value]
    return kind(version=version, **values)


class Socket:
    """The client's end of a connection."""

    def __init__(self, wire: Wire, node: int) -> None:
        self._wire, self.node = wire, node
        self._sent = bytearray()
        self._coming: deque[tuple[float, bytes | None]] = deque()  # at which time
        self.closed = False

    def send(self, some: Any) -> int:
        if self.closed:
            raise BrokenPipeError
        self._sent += some
        while len(self._sent) >= 4 and len(self._sent) >= (end := 4 + int.from_bytes(self._sent[:4], "big")):
            frame = bytes(self._sent[4:end])
            del self._sent[:end]
            at = max(self._wire.brokers.now + LATENCY_S, self._coming[-1][0] if self._coming else 0.0)
            for after_s, piece in self._wire.answer(self.node, frame):
                at += after_s
                self._coming.append((at, piece))
        return len(some)

    def recv(self, n: int) -> bytes:
        if not self.arrives() <= self._wire.brokers.now:
            raise BlockingIOError
        piece = self._coming[0][1]
        if piece is None:
            return b""
        at, _ = self._coming.popleft()
        if piece[n:]:
            self._coming.appendleft((at, piece[n:]))
        return piece[:n]

    def recv_into(self, view: memoryview) -> int:
        piece = self.recv(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def arrives(self) -> float:
        """Return the time at which the next bytes can be read."""
        while self._coming and self._coming[0][1] == b"":
            self._coming.popleft()
        return self._coming[0][0] if self._coming else float("inf")

    def shutdown(self, how: int) -> None: ...

    def close(self) -> None:
        self.closed = True

    def getpeername(self) -> tuple[str, int]:
        return "memory", 0


class Selector:
    """A selector like selectors.DefaultSelector for these sockets; others are never ready."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, file: Any, events: int, data: Any = None) -> None:
        self._keys[file] = selectors.SelectorKey(file, 0, events, data)

    modify = register

    def unregister(self, file: Any) -> None:
        del self._keys[file]

    def get_key(self, file: Any) -> selectors.SelectorKey:
        return self._keys[file]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        brokers = self._wire.brokers
        if ready := self._ready():
            return ready
        until = float("inf") if timeout is None else brokers.now + timeout
        coming = min((file.arrives() for file, key in self._reading()), default=float("inf"))
        if min(until, coming) == float("inf"):
            raise Hang
        brokers.sleep(max(0.0, min(until, coming) - brokers.now))
        if brokers.now > self._wire.until:
            raise Hang
        return self._ready()

    def close(self) -> None: ...

    def _reading(self) -> list[tuple[Socket, selectors.SelectorKey]]:
        return [
            (file, key)
            for file, key in self._keys.items()
            if isinstance(file, Socket) and key.events & selectors.EVENT_READ
        ]

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        events = {file: key.events & selectors.EVENT_WRITE for file, key in self._keys.items()}
        for file, _ in self._reading():
            if file.arrives() <= self._wire.brokers.now:
                events[file] |= selectors.EVENT_READ
        return [(self._keys[file], some) for file, some in events.items() if some and isinstance(file, Socket)]


def read_strictly(response: Any, frame: bytes) -> Any:
    """Return what a client that knows the protocol reads in a corrupted frame; None if no broker would write such a
    response."""
    kind = type(response)
    with suppress(Exception):
        size, correlation = struct.unpack_from(">ii", frame)
        header = io.BytesIO(frame[4:])
        kind.parse_header(header, version=response.version)
        read = kind.decode(frame[4 + header.tell() :], version=response.version)
        read.with_header(correlation)
        if size == len(frame) - 4 and frame_of(read) == frame:
            return read
    return None

"""Which Kafka a broker is, from the features that it names to whoever asks, before who it is matters.

    request     size, ApiVersions (18) version 3, a number of ours, our name
    answer      size, that number, error, which requests it knows, throttle time, and tagged: the features it knows

A broker does not tell its version. The highest metadata.version that it knows tells the release: each added some.
"""

from __future__ import annotations

import socket
import ssl
import struct
from bisect import bisect_right
from collections.abc import Mapping

WAIT_S = 5.0
MOST_BYTES = 1 << 20
FEATURE = "metadata.version"
# The first level of each release; of later ones we know nothing.
RELEASES = {
    1: "3.3 or older",
    8: "3.4",
    9: "3.5",
    12: "3.6",
    15: "3.7",
    20: "3.8",
    21: "3.9",
    22: "4.0",
    26: "4.1",
    28: "4.2",
    30: "4.3",
}
_REQUEST = struct.pack(">hhi", 18, 3, 1) + struct.pack(">h", 6) + b"sluice" + b"\0" + b"\7sluice" + b"\2" + b"0" + b"\0"


def asked(bootstrap_servers: str, options: Mapping[str, str]) -> str:
    """Such as "3.9", "4.3 or newer", or "" if it is not known."""
    for address in bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            with _connected(host.strip("[]"), int(port), options) as connection:
                connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
                (size,) = struct.unpack(">i", _exactly(connection, 4))
                if 0 < size <= MOST_BYTES and (level := level_of(_exactly(connection, size))):
                    return release(level)
        except (OSError, ValueError, IndexError, struct.error):
            continue
    return ""


def release(level: int) -> str:
    firsts = [*RELEASES]
    name = RELEASES[firsts[bisect_right(firsts, level) - 1]]
    return f"{name} or newer" if level >= firsts[-1] else name


def level_of(answer: bytes) -> int:
    """The highest level of the feature; 0 if the answer has none. Raises IndexError and ValueError."""
    read = _Reader(answer)
    read.skip(6)  # the number of ours, the error
    for _ in range(read.varint() - 1):
        read.skip(6)
        read.tags()
    read.skip(4)
    tags = read.tags()
    if 0 not in tags:
        return 0
    features = _Reader(tags[0])
    for _ in range(features.varint() - 1):
        name = features.take(features.varint() - 1).decode()
        _, highest = struct.unpack(">hh", features.take(4))
        features.tags()
        if name == FEATURE:
            return int(highest)
    return 0


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if size < 0 or len(found) < size:
            raise ValueError("the answer ends too early")
        self._at += size
        return found

    def skip(self, size: int) -> None:
        self.take(size)

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}


def _connected(host: str, port: int, options: Mapping[str, str]) -> socket.socket:
    connection = socket.create_connection((host, port), WAIT_S)
    if "SSL" not in options.get("security.protocol", "").upper():
        return connection
    context = ssl.create_default_context(cafile=options.get("ssl.ca.location"))
    if certificate := options.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, options.get("ssl.key.location"), options.get("ssl.key.password"))
    return context.wrap_socket(connection, server_hostname=host)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            raise ValueError("the connection ended")
        found += piece
    return found

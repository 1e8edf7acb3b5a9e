"""Answers to HTTP requests that are wrong: their lines, lengths, encodings and bodies; and who sends them."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from tests.support.patience import PATIENCE_S

HOST = "127.0.0.1"
WAIT_S = 0.01  # between two pieces
BOMB_BYTES = 8 << 20  # beyond what any client here reads

Answer = Iterable[bytes]  # in pieces; then the connection is closed


@contextmanager
def serving(answer: Callable[[bytes], Answer]) -> Iterator[str]:
    """A server on 127.0.0.1, which passes each request to `answer`; its URL."""
    listener = socket.create_server((HOST, 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = b""
            while not _is_whole(request) and (piece := connection.recv(1 << 16)):
                request += piece
            for piece in answer(request):
                connection.sendall(piece)
                time.sleep(WAIT_S)

    def accept() -> None:
        with suppress(OSError):  # it was shut down
            while True:
                connection, _ = listener.accept()
                connection.settimeout(PATIENCE_S)
                threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
                threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield f"http://{HOST}:{listener.getsockname()[1]}"
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        acceptor.join()
        for thread in threads:
            thread.join()
        listener.close()


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return bool(end) and len(body) >= int(length[1] if length else 0)


def spoiled(r: Random, document: Any, status: int = 200) -> Answer:
    """An answer with this document, as it is or with one or two faults."""
    body = json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} OK".encode(), b"Content-Type: application/json"]
    faults = r.choice([[], ["body"], ["document"], ["body", "lines"], ["length"], ["encoding"], ["lines"], ["pieces"]])
    if "document" in faults:
        body = json.dumps(another(r, document)).encode()
    if "body" in faults:
        body = _body(r, body)
    length = b"Content-Length: %d" % len(body)
    if "length" in faults:
        length, body = _lengths(r, body)
    if "encoding" in faults:
        name, body = _encoded(r, body)
        lines.append(b"Content-Encoding: " + name)
        length = b"Content-Length: %d" % len(body)
    lines.append(length)
    if "lines" in faults:
        lines = _lines(r, lines)
    data = b"\r\n".join(lines) + b"\r\n\r\n" + body
    if "pieces" in faults:
        return _pieces(r, data)
    return [data]


def another(r: Random, document: Any) -> Any:
    """The document with another value in some place."""
    values: tuple[Any, ...] = (
        *(None, True, -1, 0, 2**63, 1e308, "", "x", "\0\n", "ü" * 300),
        *([], [1], {}, {"x": 1}, [[[[]]]], [document]),
    )
    if isinstance(document, dict) and document and r.random() < 0.9:
        key = r.choice([*document])
        if r.random() < 0.2:
            return {name: value for name, value in document.items() if name != key}
        return document | {key: another(r, document[key])}
    if isinstance(document, list) and document and r.random() < 0.7:
        at = r.randrange(len(document))
        return [*document[:at], another(r, document[at]), *document[at + 1 :]]
    return r.choice(values)


def _body(r: Random, body: bytes) -> bytes:
    out = bytearray(body)
    for _ in range(r.choice([1, 1, 3])):
        at = r.randint(0, len(out))
        out[at : at + r.randint(0, 3)] = r.choice(
            [b"", b'"', b"}", b"{", b"\xff", b"\0", b"NaN", b"1e999", b"[" * 3_000, b"9" * 5_000, r.randbytes(2)]
        )
    return bytes(out) if r.random() < 0.8 else r.choice([b"", b" " * 2_000_000, b'"' + b"x" * 2_000_000 + b'"'])


def _lengths(r: Random, body: bytes) -> tuple[bytes, bytes]:
    if r.random() < 0.4:
        size = r.choice([b"%x" % len(body), b"0", b"-1", b"ffffffffffffffff", b"x", b"", b"%x;a=b" % len(body)])
        end = r.choice([b"\r\n0\r\n\r\n", b"", b"0\r\n", b"\r\n0\r\nX: y\r\n\r\n", b"\r\n1\r\n"])
        return b"Transfer-Encoding: chunked", size + b"\r\n" + body + end
    wrong = (len(body) - 1, len(body) + 1, 0, -1, 2**63, 10**400)
    text = r.choice([b"%d" % r.choice(wrong), b"x", b"", b"1, 2", b"%d\r\nContent-Length: 3" % len(body)])
    return b"Content-Length: " + text, body


def _encoded(r: Random, body: bytes) -> tuple[bytes, bytes]:
    """Packed as it says or otherwise, some to a thousandth."""
    text = r.choice([body, body, b" " * BOMB_BYTES])
    name = r.choice([b"gzip", b"deflate", b"br", b"gzip, gzip", b"identity", b"x", b"gzip, " * 40 + b"gzip"])
    packed = gzip.compress(text) if name == b"gzip" else zlib.compress(text) if name == b"deflate" else text
    return name, packed[: r.choice([len(packed), len(packed) // 2])]


def _lines(r: Random, lines: list[bytes]) -> list[bytes]:
    at = r.randrange(len(lines))
    other = [
        *(b"", b"\0", b"x", b"HTTP/1.1", b"HTTP/1.1 999999 x", b"HTTP/9.9 200 OK", b"HTTP/1.1 200"),
        *(b"HTTP/1.1 100 Continue\r\n", b"HTTP/1.1 503 x", b"HTTP/1.1 404 x", b"HTTP/1.1 401 x", b"HTTP/1.1 204 x"),
        *(b"HTTP/1.1 302 x\r\nLocation: /again", b"HTTP/1.1 301 x\r\nLocation: http://127.0.0.1:1/"),
        *(b"HTTP/1.1 302 x\r\nLocation: http://[", b"HTTP/1.1 302 x\r\nLocation: file:///etc/passwd"),
        *(b"X: " + b"y" * 70_000, b"X: y\r\n" * 300, b": x", b"\xff\xfe: \xff", b" folded", r.randbytes(20)),
        *(b"HTTP/1.1 429 x\r\nRetry-After: 100000", b"HTTP/1.1 302 x\r\nLocation: http://a b/\x7f"),
    ]
    return [*lines[:at], r.choice(other), *lines[at + 1 :]]


def _pieces(r: Random, data: bytes) -> Answer:
    """In small pieces, cut off, or without an end."""
    cut = data[: r.choice([len(data), r.randint(0, len(data))])]
    size = r.choice([1, 7, 50]) if len(cut) < 500 else len(cut) // 10
    return [cut[at : at + size] for at in range(0, len(cut), size)][:60] or [b""]

"""The HTTP server of the job: `/metrics`, `/health`, `/ready`, `/status.json` and the page at `/`. Read-only."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from ipaddress import ip_address
from typing import Any

from streaming.errors import JobError
from streaming.log import logger
from streaming.monitoring import status
from streaming.monitoring.exposition import Exposition
from streaming.monitoring.view import JobView
from streaming.monitoring.web import page
from streaming.monitoring.web.connections import BACKLOG, MAX_REQUEST_BYTES, Connections

log = logger("sluice.monitoring")

JSON = "application/json"
PROBES = tuple(
    f"{method} {path}{end}".encode()
    for method in ("GET", "HEAD")
    for path in ("/health", "/ready")
    for end in (" ", "?", "\r", "\n")
)

Response = tuple[HTTPStatus, str, bytes]  # its type and its bytes


class Server:
    """`with Server(host, port, view) as server: server.url`. Port 0 takes a free one. Raises JobError.

    It answers in a thread of its own, and stops it at the end. `view` is called for every request.
    """

    def __init__(self, host: str, port: int, view: Callable[[], JobView]) -> None:
        try:
            listener = _listener(host, port)
        except OSError as error:
            raise JobError(
                f"monitoring.host = {host!r}, monitoring.port = {port}: cannot listen there: {error.strerror}; "
                "port 0 takes a free one"
            ) from None
        self._host, self._port = listener.getsockname()[:2]
        self.loopback = ip_address(self._host).is_loopback
        self._answers = _answers(view)
        self.connections = Connections(listener, self._answer, lambda request: request.startswith(PROBES))
        self._thread = threading.Thread(target=self.connections.serve, name="sluice-http", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.connections.end()
        self._thread.join()
        self.connections.close()

    def _answer(self, request: bytes) -> bytes:
        try:
            return _Request(request, self._answers, self.loopback).answer()
        except Exception:  # the others are answered all the same
            log.exception("a request could not be read")
            return b""


def _listener(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _answers(view: Callable[[], JobView]) -> dict[str, Callable[[str], Response]]:
    """The functions that answer, by path; each takes the Accept header."""
    exposition = Exposition(view)

    def verdict(name: str) -> Callable[[str], Response]:
        def answer(_: str) -> Response:
            found = status.VERDICTS[name](view())
            return HTTPStatus.OK if found["ok"] else HTTPStatus.SERVICE_UNAVAILABLE, JSON, status.as_json(found)

        return answer

    return {
        "/": lambda _: (HTTPStatus.OK, "text/html; charset=utf-8", page.html(status.document(view()))),
        "/status.json": lambda _: (HTTPStatus.OK, JSON, status.as_json(status.document(view()))),
        "/metrics": lambda accept: (HTTPStatus.OK, *exposition.page(accept)),
        "/health": verdict("health"),
        "/ready": verdict("ready"),
        "/favicon.ico": lambda _: (HTTPStatus.NO_CONTENT, "image/x-icon", b""),  # browsers ask for it
    }


class _Request(BaseHTTPRequestHandler):
    """A request that was read, and its answer: the library's parser and writer, on bytes."""

    server_version, sys_version, default_request_version = "Sluice", "", "HTTP/1.0"

    def __init__(self, request: bytes, answers: dict[str, Callable[[str], Response]], loopback: bool) -> None:
        self.rfile, self.wfile = BytesIO(request), BytesIO()
        self._request = request
        self._answers, self._loopback = answers, loopback

    def answer(self) -> bytes:
        if len(self._request) >= MAX_REQUEST_BYTES:
            self._too_long()
        else:
            self.handle_one_request()
        self.wfile.seek(0)
        return self.wfile.read()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # each method that is not GET or HEAD
            return self._other_method
        raise AttributeError(name)

    def do_GET(self) -> None:
        path, _, _ = self.path.partition("?")
        answer = self._answers.get(path)
        if not self._is_for_us():
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"ask for 127.0.0.1 or localhost\n")
        elif answer is None:
            known = " ".join(self._answers)
            self._send(HTTPStatus.NOT_FOUND, "text/plain", f"nothing is here; known: {known}\n".encode())
        else:
            try:
                reply = answer(self.headers.get("Accept", ""))
            except Exception:  # the job continues after any error here
                log.exception("a request could not be answered", path=path)
                reply = (HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"could not be answered; see the log\n")
            self._send(*reply)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""

    def _too_long(self) -> None:
        self.raw_requestline, self.requestline, self.request_version, self.command = b"", "", "HTTP/1.0", ""
        in_headers = b"\n" in self._request
        code = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if in_headers else HTTPStatus.REQUEST_URI_TOO_LONG
        self._send(code, "text/plain", f"a request has at most {MAX_REQUEST_BYTES:,} bytes\n".encode())

    def _other_method(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"GET and HEAD only\n")

    def _is_for_us(self) -> bool:
        """Reject requests to the loopback interface under a name that a web page made to mean this host (DNS
        rebinding)."""
        host = self.headers.get("Host")
        if not self._loopback or host is None:
            return True
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        try:
            return name.lower() == "localhost" or ip_address(name.strip("[]")).is_loopback
        except ValueError:
            return False

    def _send(self, code: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        if code != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", page.POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

"""The HTTP server of the job: `/metrics`, `/health`, `/ready`, `/status.json`, the page at `/`, and the console's.

It is read-only. A page of the console may read Kafka and scan the state: these pages are made in a thread of their own,
one after the other.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from ipaddress import ip_address
from typing import Any, NamedTuple

from streaming.console.console import Console
from streaming.errors import JobError
from streaming.log import logger
from streaming.monitoring import status
from streaming.monitoring.exposition import Exposition
from streaming.monitoring.view import JobView
from streaming.monitoring.web import page
from streaming.monitoring.web.access import Access
from streaming.monitoring.web.connections import BACKLOG, LATE_S, MAX_REQUEST_BYTES, Connections
from streaming.monitoring.web.console import pages
from streaming.monitoring.web.elements import POLICY

log = logger("sluice.monitoring")

JSON = "application/json"
PROBES = tuple(
    f"{method} {path}{end}".encode()
    for method in ("GET", "HEAD")
    for path in ("/health", "/ready")
    for end in (" ", "?", "\r", "\n")
)

HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
MOST_WAITING = 8  # requests for pages of the console; more are rejected, to try again
TOO_LONG = f"a request has at most {MAX_REQUEST_BYTES:,} bytes; `run_stream.py explain` takes longer events\n"
BUSY = "the console is busy with other requests; try again\n"
TOO_LATE = f"the console did not answer within {LATE_S:g} s; try again\n"

Response = tuple[HTTPStatus, str, bytes]  # its type and its bytes


class Asked(NamedTuple):
    """The parts of a request that its answer depends on."""

    query: str  # behind the path
    accept: str
    authorization: str
    is_embedded: bool  # the browser reports that another site's page shows this one as a part


Answers = Mapping[str, Callable[[Asked], Response | None]]  # by path; None: no answer yet


class Server:
    """`with Server(host, port, view) as server: server.url`. Port 0 takes a free one. Raises JobError.

    It answers in a thread of its own, and stops it at the end. `view` is called for every request. With a `console` it
    also answers for its pages, to whom `token` allows.
    """

    def __init__(
        self, host: str, port: int, view: Callable[[], JobView], console: Console | None = None, token: str = ""
    ) -> None:
        try:
            listener = _listener(host, port)
        except (OSError, UnicodeError) as error:  # a name that cannot be one of a host
            reason = error.strerror if isinstance(error, OSError) else error
            raise JobError(
                f"monitoring.host = {host!r}, monitoring.port = {port}: cannot listen there: {reason}; "
                "port 0 takes a free one"
            ) from None
        self._host, self._port = listener.getsockname()[:2]
        self.loopback = ip_address(self._host).is_loopback
        access = Access(token, self.loopback)
        self._pages = {} if console is None else _pages(console)
        self._rejections = dict.fromkeys(self._pages, partial(_rejection, access))
        self._answers = _answers(view, has_console=console is not None and access.is_possible)
        self._known = " ".join((*self._answers, *self._pages))
        self._waiting: list[Future[bytes]] = []
        self._console_thread = ThreadPoolExecutor(1, "sluice-console")
        self.connections = Connections(
            listener, self._answer, lambda request: request.startswith(PROBES), partial(self._fail, TOO_LATE)
        )
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
        self._console_thread.shutdown(cancel_futures=True)
        self.connections.close()

    def _answer(self, request: bytes) -> bytes | Future[bytes]:
        if _path(request) not in self._pages:
            return self._respond(self._answers, request)
        if rejection := self._respond(self._rejections, request):
            return rejection  # in this thread: who lacks the token is not to keep the console busy
        self._waiting = [future for future in self._waiting if not future.done()]
        if len(self._waiting) >= MOST_WAITING:
            return self._fail(BUSY, request)
        future = self._console_thread.submit(self._respond, self._pages, request)
        self._waiting.append(future)
        return future

    def _fail(self, why: str, request: bytes) -> bytes:
        """The answer to a request for a page of the console that cannot be served now."""
        response = HTTPStatus.SERVICE_UNAVAILABLE, TEXT, why.encode()
        return self._respond(dict.fromkeys(self._pages, lambda _: response), request)

    def _respond(self, answers: Answers, request: bytes) -> bytes:
        try:
            return _Request(request, answers, self._known, self.loopback).answer()
        except Exception:  # the others are answered all the same
            log.exception("request_unreadable")
            return b""


def _path(request: bytes) -> str:
    """The path in the first line of a request; "" if there is none."""
    words = request.partition(b"\n")[0].split(b" ")
    return words[1].partition(b"?")[0].decode("latin-1") if len(words) > 1 else ""


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


def _answers(view: Callable[[], JobView], *, has_console: bool) -> Answers:
    exposition = Exposition(view)

    def verdict(name: str) -> Callable[[Asked], Response]:
        def answer(_: Asked) -> Response:
            found = status.VERDICTS[name](view())
            return HTTPStatus.OK if found["ok"] else HTTPStatus.SERVICE_UNAVAILABLE, JSON, status.as_json(found)

        return answer

    return {
        "/": lambda _: (HTTPStatus.OK, HTML, page.html(status.document(view()), has_console=has_console)),
        "/status.json": lambda _: (HTTPStatus.OK, JSON, status.as_json(status.document(view()))),
        "/metrics": lambda asked: (HTTPStatus.OK, *exposition.page(asked.accept)),
        "/health": verdict("health"),
        "/ready": verdict("ready"),
        "/favicon.ico": lambda _: (HTTPStatus.NO_CONTENT, "image/x-icon", b""),  # browsers request it
    }


def _rejection(access: Access, asked: Asked) -> Response | None:
    """Why the console does not answer a request; None if it does."""
    if (rejection := access.rejection(asked.authorization)) is not None:
        return rejection[0], TEXT, rejection[1].encode()
    if asked.is_embedded:
        return HTTPStatus.FORBIDDEN, TEXT, b"the console is not for other sites' pages\n"
    return None


def _pages(console: Console) -> Answers:
    def page_at(path: str) -> Callable[[Asked], Response]:
        def answer(asked: Asked) -> Response:
            found = pages.answer(console, path, asked.query)
            return found.status, HTML, found.html

        return answer

    return {path: page_at(path) for path in pages.ANSWERS}


class _Request(BaseHTTPRequestHandler):
    """A request that was read, and its answer: the library's parser and writer, on bytes."""

    server_version, sys_version, default_request_version = "Sluice", "", "HTTP/1.0"

    def __init__(self, request: bytes, answers: Answers, known: str, loopback: bool) -> None:
        self.rfile, self.wfile = BytesIO(request), BytesIO()
        self._request = request
        self._answers, self._known, self._loopback = answers, known, loopback

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
        path, _, query = self.path.partition("?")
        answer = self._answers.get(path)
        if not self._is_for_us():
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"ask for 127.0.0.1 or localhost\n")
        elif answer is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", f"nothing is here; known: {self._known}\n".encode())
        else:
            try:
                reply = answer(self._asked(query))
            except Exception:  # the job continues after any error here
                log.exception("request_failed", path=path)
                reply = (HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"could not be answered; see the log\n")
            if reply is not None:
                self._send(*reply)

    def _asked(self, query: str) -> Asked:
        header = self.headers.get
        is_foreign = header("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        is_embedded = is_foreign and header("Sec-Fetch-Dest") != "document"
        return Asked(query, header("Accept", ""), header("Authorization", ""), is_embedded)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""

    def _too_long(self) -> None:
        self.raw_requestline, self.requestline, self.request_version, self.command = b"", "", "HTTP/1.0", ""
        in_headers = b"\n" in self._request
        code = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if in_headers else HTTPStatus.REQUEST_URI_TOO_LONG
        self._send(code, "text/plain", TOO_LONG.encode())

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
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if code == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="Sluice", charset="UTF-8"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

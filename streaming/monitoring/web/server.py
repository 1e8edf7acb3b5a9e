"""The HTTP server of the job: `/metrics`, `/health`, `/ready`, `/status.json` and the page at `/`. Read-only."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from typing import Any

from streaming.errors import JobError
from streaming.log import logger
from streaming.monitoring import status
from streaming.monitoring.exposition import Exposition
from streaming.monitoring.verdicts import ailing, waiting
from streaming.monitoring.view import View
from streaming.monitoring.web import page

log = logger("sluice.monitoring")

PATIENCE_S = 5.0  # with a client that sends or takes nothing
AT_ONCE = 8  # requests; one more is not answered
JSON = "application/json"

Answer = tuple[HTTPStatus, str, bytes]  # its type and its bytes


class Server:
    """`with Server(host, port, view) as server: server.url`. Port 0 takes a free one. Raises JobError.

    It answers in threads of its own, and stops them at the end. `view` is called for every request.
    """

    def __init__(self, host: str, port: int, view: Callable[[], View]) -> None:
        try:
            self._server = _Http(host, port, _answers(view))
        except OSError as error:
            raise JobError(
                f"monitoring.host = {host!r}, monitoring.port = {port}: cannot listen there: {error.strerror}; "
                "port 0 takes a free one"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="sluice-http", daemon=True
        )

    @property
    def url(self) -> str:
        host = self._server.server_name
        return f"http://{f'[{host}]' if ':' in host else host}:{self._server.server_port}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.end()


def _answers(view: Callable[[], View]) -> dict[str, Callable[[str], Answer]]:
    """The functions that answer, by path; each takes the Accept header."""
    exposition = Exposition(view)

    def verdict(reasons: Callable[[View], list[str]]) -> Callable[[str], Answer]:
        def answer(_: str) -> Answer:
            problems = reasons(view())
            code = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
            return code, JSON, status.as_json(status.verdict(problems))

        return answer

    return {
        "/": lambda _: (HTTPStatus.OK, "text/html; charset=utf-8", page.html(status.document(view()))),
        "/status.json": lambda _: (HTTPStatus.OK, JSON, status.as_json(status.document(view()))),
        "/metrics": lambda accept: (HTTPStatus.OK, *exposition.page(accept)),
        "/health": verdict(ailing),
        "/ready": verdict(waiting),
    }


class _Http(ThreadingHTTPServer):
    daemon_threads = False  # they are waited for at the end
    request_queue_size = 32

    def __init__(self, host: str, port: int, answers: dict[str, Callable[[str], Answer]]) -> None:
        self.answers = answers
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._open: set[socket.socket] = set()
        self.address_family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        super().__init__((str(address[0]), int(address[1])), _Request)
        self.loopback = ip_address(self.server_name).is_loopback

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's own asks the name service who we are
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a client went away", exc_info=True)

    def end(self) -> None:
        """Hangs up on clients that still hold a connection."""
        for request in tuple(self._open):
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has hung up itself
                continue
        self.server_close()


class _Request(BaseHTTPRequestHandler):
    server: _Http
    timeout = PATIENCE_S
    server_version, sys_version = "Sluice", ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # each method that is not GET or HEAD
            return self._other_method
        raise AttributeError(name)

    def do_GET(self) -> None:
        path, _, _ = self.path.partition("?")
        answer = self.server.answers.get(path)
        if not self._is_for_us():
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"ask for 127.0.0.1 or localhost\n")
        elif answer is None:
            known = " ".join(self.server.answers)
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

    def _other_method(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"GET and HEAD only\n")

    def _is_for_us(self) -> bool:
        """On the loopback interface, refuse requests under a name that a web page made to mean this host (DNS
        rebinding)."""
        host = self.headers.get("Host")
        if not self.server.loopback or host is None:
            return True
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        try:
            return name == "localhost" or ip_address(name.strip("[]")).is_loopback
        except ValueError:
            return False

    def _send(self, code: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
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

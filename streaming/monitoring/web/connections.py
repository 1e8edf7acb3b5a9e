"""Read requests and write answers for many clients in one thread, which waits for none of them.

A client has TIMEOUT_S for its whole request, however it sends it, and as long again to take the answer. At most
MOST_CONNECTIONS are open, each with at most MAX_REQUEST_BYTES: one more closes the oldest. An urgent request is
answered as soon as it is there, the others one after the other, so an urgent one waits for one of them at most.

An answer that another thread makes may take LATE_S; meanwhile others are answered.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from streaming.log import error_fields, logger

log = logger("sluice.monitoring")

TIMEOUT_S = 5.0
LATE_S = 20.0
MOST_CONNECTIONS = 256
MAX_REQUEST_BYTES = 64 << 10
BACKLOG = 128
ACCEPTED_AT_ONCE = 64  # before others are served
FULL_S = 0.1  # pause while this process may not open another file

_ENDS = (b"\r\n\r\n", b"\n\n")  # of a request
END, READY = b"\0", b"\1"  # what the bell means: end, or a future is done


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    until: float  # by the monotonic clock
    request: bytearray = field(default_factory=bytearray)
    answer: memoryview | None = None  # what is left of it; None: the request is not complete, or waits
    answered: bool = False  # what the client still sends is thrown away
    pending: Future[bytes] | None = None  # the answer that another thread makes


class Connections:
    """`serve` answers until `end` is called. `answer` gets a request up to the end of its headers, or MAX_REQUEST_BYTES
    of a longer one, and returns the bytes to send, or their future. `late` returns those to send in place of a future
    that takes too long. None of them may raise."""

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[bytes], bytes | Future[bytes]],
        is_urgent: Callable[[bytes], bool],
        late: Callable[[bytes], bytes] = lambda request: b"",
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._is_urgent = is_urgent
        self._late = late
        self._open: dict[_Connection, None] = {}  # the oldest first
        self._waiting: deque[_Connection] = deque()
        self._selector = selectors.DefaultSelector()
        self._bell, self._ear = socket.socketpair()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._ear, selectors.EVENT_READ)

    def __len__(self) -> int:
        return len(self._open)

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select(self._pause_s()):
                if key.fileobj is self._ear:
                    if END in self._ear.recv(MAX_REQUEST_BYTES):
                        return
                    self._send_pending()
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.data in self._open:
                    self._go_on(key.data)
            while self._waiting:
                connection = self._waiting.popleft()
                if connection in self._open:
                    self._respond(connection)
                    break
            self._hang_up_on_late_ones()

    def end(self) -> None:
        """End `serve`, from another thread."""
        self._bell.send(END)

    def close(self) -> None:
        """Hang up on all clients. Call it after `serve`."""
        for connection in tuple(self._open):
            self._close(connection)
        self._selector.close()
        for one in (self._listener, self._bell, self._ear):
            one.close()

    def _pause_s(self) -> float | None:
        if self._waiting:
            return 0.0
        if not self._open:
            return None
        return max(0.0, min(connection.until for connection in self._open) - time.monotonic())

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # too many open files, or the client has gone
                log.debug("connection_failed", **error_fields(error))
                if not self._open:
                    time.sleep(FULL_S)
                else:
                    self._close_oldest()
                return
            if len(self._open) >= MOST_CONNECTIONS:
                self._close_oldest()
            client.setblocking(False)
            connection = _Connection(client, time.monotonic() + TIMEOUT_S)
            self._open[connection] = None
            self._selector.register(client, selectors.EVENT_READ, connection)
            self._go_on(connection)

    def _go_on(self, connection: _Connection) -> None:
        """Read or write as much as is possible now."""
        try:
            if connection.answer is not None:
                self._write(connection)
            else:
                self._read(connection)
        except BlockingIOError:
            pass
        except OSError:  # the client has gone
            self._close(connection)

    def _read(self, connection: _Connection) -> None:
        some = connection.socket.recv(MAX_REQUEST_BYTES)
        if not some:
            self._close(connection)
        elif not connection.answered:
            connection.request += some
            self._begin(connection)

    def _begin(self, connection: _Connection) -> None:
        """Begin to answer if the request is complete."""
        ends = [at + len(end) for end in _ENDS if (at := connection.request.find(end, 0, MAX_REQUEST_BYTES)) >= 0]
        if not ends and len(connection.request) < MAX_REQUEST_BYTES:
            return
        del connection.request[min(ends, default=MAX_REQUEST_BYTES) :]
        connection.until = time.monotonic() + TIMEOUT_S
        if self._is_urgent(bytes(connection.request)):
            self._respond(connection)
        else:
            self._selector.unregister(connection.socket)
            self._waiting.append(connection)

    def _respond(self, connection: _Connection) -> None:
        answer = self._answer(bytes(connection.request))
        if isinstance(answer, bytes):
            self._send(connection, answer)
            return
        connection.pending = answer
        connection.until = time.monotonic() + LATE_S
        with suppress(KeyError):
            self._selector.unregister(connection.socket)
        answer.add_done_callback(lambda _: self._bell.send(READY))

    def _send_pending(self) -> None:
        """Send the answers that are there now."""
        for connection in [one for one in self._open if one.pending is not None and one.pending.done()]:
            assert connection.pending is not None
            answer, connection.pending = connection.pending.result(), None
            self._send(connection, answer)

    def _send(self, connection: _Connection, answer: bytes) -> None:
        connection.answer = memoryview(answer)
        connection.until = time.monotonic() + TIMEOUT_S
        with suppress(KeyError):
            self._selector.unregister(connection.socket)
        self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        self._go_on(connection)

    def _write(self, connection: _Connection) -> None:
        assert connection.answer is not None
        connection.answer = connection.answer[connection.socket.send(connection.answer) :]
        if not connection.answer:
            # A socket that is closed before all is read resets the connection, and the answer may be lost.
            connection.answer, connection.answered = None, True
            connection.socket.shutdown(socket.SHUT_WR)
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _hang_up_on_late_ones(self) -> None:
        now = time.monotonic()
        for connection in [connection for connection in self._open if connection.until <= now]:
            if connection.pending is not None:
                connection.pending.cancel()
                connection.pending = None
                self._send(connection, self._late(bytes(connection.request)))
            else:
                self._close(connection)

    def _close_oldest(self) -> None:
        self._close(next(iter(self._open)))

    def _close(self, connection: _Connection) -> None:
        del self._open[connection]
        if connection.pending is not None:
            connection.pending.cancel()
        with suppress(KeyError):
            self._selector.unregister(connection.socket)
        connection.socket.close()

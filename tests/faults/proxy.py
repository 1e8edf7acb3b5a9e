"""A proxy for Kafka's protocol on the loopback interface. It makes connections slow, silent or cut, and loses, doubles
and reorders requests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import Any

from rig.broker import LOOPBACK

LENGTH = 4  # bytes before each message, which say how long it is
TIMEOUT_S = 600.0


class Fate(Enum):
    """The fate of the broker's answer to a request, which the proxy decides."""

    PASSED_ON = auto()
    DROPPED = auto()
    LOST = auto()  # with its connection


class Proxy:
    """`with Proxy(port) as proxy: proxy.port` leads to that port. It passes all on, until told otherwise.

    A broker answers the requests of a connection in their order, so `_requests` decides the fate of each answer in
    advance.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._random = Random(0)
        self._undisturbed()
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Proxy:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._start)
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    def slow(self, latency_s: float, bytes_per_s: float) -> None:
        """Each message takes so long, one after the other, and as long as its bytes need."""
        self._latency_s, self._bytes_per_s = latency_s, bytes_per_s

    def lose(self, share: float) -> None:
        """Cut the connection of this share of all requests: half of them before the broker has got them, half after it
        has obeyed, so that only the answer is lost."""
        self._lost = share

    def double(self, share: float) -> None:
        """Send this share of all requests twice. The client gets the second answer, as if it had tried again."""
        self._doubled = share

    def reorder(self, within_s: float) -> None:
        """Hold each request for up to this time, so that requests of different connections overtake each other."""
        self._within_s = within_s

    def drop(self) -> None:
        """Cut all connections; new ones work."""
        self._loop.call_soon_threadsafe(self._cut)

    def blackhole(self) -> None:
        """Accept connections, read what comes, and hold it back until `pass_on`."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def pass_on(self) -> None:
        self._undisturbed()
        self._loop.call_soon_threadsafe(self._open.set)

    def _undisturbed(self) -> None:
        self.slow(0.0, float("inf"))
        self.lose(0.0)
        self.double(0.0)
        self.reorder(0.0)

    def _call(self, what: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(what(), self._loop).result(TIMEOUT_S)

    async def _start(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._cut()

    def _cut(self) -> None:
        for writer in list(self._connections):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                there, back = await asyncio.open_connection(LOOPBACK, self._target)
                self._connections.add(back)
                try:
                    fates: deque[Fate] = deque()
                    # An end of either side ends both.
                    pair = {
                        asyncio.ensure_future(self._requests(reader, back, fates)),
                        asyncio.ensure_future(self._answers(there, writer, fates)),
                    }
                    try:
                        await asyncio.wait(pair, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        for one in pair:
                            one.cancel()
                        await asyncio.gather(*pair, return_exceptions=True)
                finally:
                    self._connections.discard(back)
                    back.transport.abort()
        finally:
            self._tasks.discard(task)
            self._connections.discard(writer)
            writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fates: deque[Fate]) -> None:
        while request := await _message(reader):
            await _pause(self._random.uniform(0.0, self._within_s))
            lost, doubled = self._random.random() < self._lost, self._random.random() < self._doubled
            if lost and self._random.random() < 0.5:
                return
            fates += [Fate.DROPPED] * doubled + [Fate.LOST if lost else Fate.PASSED_ON]
            await self._write(writer, request * (1 + doubled))

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fates: deque[Fate]) -> None:
        while answer := await _message(reader):
            fate = fates.popleft()
            if fate is Fate.LOST:
                return
            if fate is Fate.PASSED_ON:
                await self._write(writer, answer)

    async def _write(self, writer: asyncio.StreamWriter, message: bytes) -> None:
        await _pause(self._latency_s + len(message) / self._bytes_per_s)
        await self._open.wait()
        writer.write(message)
        await writer.drain()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Return the next message with its length, or nothing at the end."""
    try:
        length = await reader.readexactly(LENGTH)
        return length + await reader.readexactly(int.from_bytes(length))
    except asyncio.IncompleteReadError:
        return b""


async def _pause(s: float) -> None:
    """Sleep if there is anything to wait for. A sleep of 0 s is a turn of the loop, which waits for the interpreter's
    lock while the tests compute."""
    if s > 0.0:
        await asyncio.sleep(s)

"""A TCP proxy on the loopback interface that can make connections slow, silent or cut."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

from rig.broker import LOOPBACK

CHUNK = 1 << 16
TIMEOUT_S = 10.0


class Proxy:
    """`with Proxy(port) as proxy: proxy.port` leads to that port. It passes all on, until told otherwise."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._latency_s = 0.0
        self._bytes_per_s = float("inf")
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
        """Each chunk takes so long, one after the other, and as long as its bytes need."""
        self._latency_s, self._bytes_per_s = latency_s, bytes_per_s

    def drop(self) -> None:
        """Cut all connections; new ones work."""
        self._loop.call_soon_threadsafe(self._cut)

    def blackhole(self) -> None:
        """Accept connections, read what comes, and hold it back until `pass_on`."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def pass_on(self) -> None:
        self.slow(0.0, float("inf"))
        self._loop.call_soon_threadsafe(self._open.set)

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
                    # An end of either side ends both.
                    pair = {
                        asyncio.ensure_future(self._pump(reader, back)),
                        asyncio.ensure_future(self._pump(there, writer)),
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

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            await asyncio.sleep(self._latency_s + len(chunk) / self._bytes_per_s)
            await self._open.wait()
            writer.write(chunk)
            await writer.drain()

"""kafka-python's connections, to brokers in memory: a client's waits move their clock."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kafka.protocol.broker_version_data import BrokerVersionData

from streaming.publishing import ownership, producer, slot
from streaming.publishing.connection import client
from tests.support.doubles.broker_logs import NODES
from tests.support.histories.actors import Dead

if TYPE_CHECKING:
    from tests.support.doubles.brokers import Brokers

# The version of Kafka whose requests the brokers know, by that of transactions: the oldest that is supported, and the
# first with version 2.
KAFKA = {1: (3, 0), 2: (4, 0)}


def install(patch: pytest.MonkeyPatch, brokers: Brokers) -> None:
    patch.setattr(client, "_Loop", partial(Loop, brokers))
    patch.setattr(client, "_Manager", partial(Connections, brokers))
    for module in (client, slot, producer, ownership):
        patch.setattr(module, "time", brokers)


class Started:
    """A coroutine on a loop; who awaits it gets its result."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.waiting: list[Started] = []

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done:
            yield self
        if self.error is not None:
            raise self.error
        return self.value


class Sleep:
    def __init__(self, until: float) -> None:
        self.until = until

    def __await__(self) -> Generator[Any, None, None]:
        yield self


class Loop:
    """An event loop like NetworkSelector. A process that dies does so within it, with everything that it had begun."""

    def __init__(self, clock: Brokers, **config: Any) -> None:
        self._clock = clock
        self._ready: deque[Started] = deque()
        self._sleeping: list[tuple[float, int, Started]] = []
        self._number = count()

    def run(self, work: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        main = self.call_soon_with_future(work, *arguments)
        while not main.done:
            if not self._ready:
                until, _, started = heapq.heappop(self._sleeping)
                self._clock.sleep(max(0.0, until - self._clock.now))
                self._ready.append(started)
            self._step(self._ready.popleft())
        if main.error is not None:
            raise main.error
        return main.value

    def call_soon_with_future(self, work: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Started:
        started = Started(work(*arguments))
        self._ready.append(started)
        return started

    def sleep(self, s: float) -> Sleep:
        return Sleep(self._clock.now + s)

    def close(self) -> None: ...

    def _step(self, started: Started) -> None:
        try:
            waits_for = started.coroutine.send(None)
        except StopIteration as stop:
            started.value = stop.value
        except Exception as error:
            started.error = error
        except BaseException:  # the process is dead
            self._bury(started)
            raise
        else:
            if isinstance(waits_for, Sleep):
                heapq.heappush(self._sleeping, (waits_for.until, next(self._number), started))
            else:
                waits_for.waiting.append(started)
            return
        started.done = True
        self._ready += started.waiting

    def _bury(self, started: Started) -> None:
        left = [*self._ready, *(one for _, _, one in self._sleeping), *started.waiting]
        for one in left:
            left += one.waiting
            with suppress(BaseException):
                one.coroutine.throw(Dead())


class Connection:
    """To either broker. It opens at once; what becomes of requests the brokers' `point` says."""

    connected = True
    paused = False
    transport = None
    in_flight_requests = ()

    def __init__(self, brokers: Brokers, loop: Loop) -> None:
        self._brokers, self._loop = brokers, loop
        self.broker_version_data = BrokerVersionData(KAFKA[brokers.version])

    def __await__(self) -> Generator[Any, None, Connection]:
        yield from self._loop.sleep(0).__await__()
        return self

    async def send_request(self, request: Any, request_timeout_ms: float) -> Any:
        await self._loop.sleep(0)
        if request.API_VERSION is None:  # as kafka-python does; raises IncompatibleBrokerVersion
            self.broker_version_data.api_version(request)
        return self._brokers.answer(request)


class Connections:
    """Connections like those of the client's manager, to the cluster that it knows."""

    connecting = 0  # they open at once
    closed = False

    def __init__(self, brokers: Brokers, loop: Loop, **config: Any) -> None:
        connections: dict[Any, Connection] = {node: Connection(brokers, loop) for node in NODES}
        self._conns = connections
        self.cluster = self

    def get_connection(self, node: int, refresh_metadata_on_err: bool) -> Connection:
        return self._conns[node]

    def brokers(self) -> Iterable[Any]:
        return [SimpleNamespace(node_id=node) for node in NODES]

    def bootstrap_brokers(self) -> Iterable[Any]:
        return []

    def broker_metadata(self, node: int) -> Any:
        return node

    def is_bootstrap(self, node: int) -> bool:
        return False

    def update_metadata(self, response: Any) -> None: ...

    def close(self, node: int | None = None) -> None: ...

"""Match the first events by several matchers alternately, and all others by the fastest of them.

The events are not known when the indexes of a table are built. Where several indexes were built for events that were
drawn, the real ones decide: each index matches TURNS batches, and the least median of its times counts, without the
first, which is that of a cold call. An index that is far behind after a few turns gets no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import thread_time
from typing import Any, Generic, TypeVar

import numpy as np

from matchers.contract.tables import EventBatch

Result = TypeVar("Result")

TURNS = 5  # of each, in batches
TURNS_ALONE = 32  # of each, for single events
FAR = 3.0  # times slower than the fastest


class Trial(Generic[Result]):
    """`trial(events, ...)` is what one of `ways` returns, of which the first is thought to be the fastest.

    `over` is called with the fastest. Several threads may call it; then one way may have a turn more than
    another.
    """

    def __init__(
        self,
        ways: Sequence[Callable[..., Result]],
        turns: int,
        over: Callable[[Callable[..., Result]], None] = lambda _: None,
        clock: Callable[[], float] = thread_time,
    ) -> None:
        self.ways, self.over, self.clock = ways, over, clock
        self.fastest = 0
        self.used = False  # whether an event has come
        self.left = turns * len(ways) if len(ways) > 1 else 0  # turns of all
        self._turns, self._few = turns, max(turns // 4, 3)  # after a few turns those that are far behind get no more
        self._begun = [0] * len(ways)
        self._running, self._thinned = list(range(len(ways))), False
        self._seconds: list[list[float]] = [[] for _ in ways]  # of an event, in each turn

    def __call__(self, events: EventBatch, *more: Any) -> Result:
        if not len(events):
            return self.ways[self.fastest](events, *more)
        self.used = True
        if self.left <= 0:
            return self.ways[self.fastest](events, *more)
        way = min(self._running, key=self._begun.__getitem__)
        self._begun[way] += 1
        began = self.clock()
        result = self.ways[way](events, *more)
        self._seconds[way].append((self.clock() - began) / len(events))
        self.left -= 1
        if not self._thinned and all(len(self._seconds[way]) >= self._few for way in self._running):
            self._leave_out_far()
        if self.left <= 0:
            self.fastest = min(self._running, key=self._typical)
            self.over(self.ways[self.fastest])
        return result

    def _leave_out_far(self) -> None:
        self._thinned = True
        least = min(map(self._typical, self._running))
        self._running = [way for way in self._running if self._typical(way) <= FAR * least]
        left = sum(self._turns - len(self._seconds[way]) for way in self._running)
        self.left = left if len(self._running) > 1 else 0

    def _typical(self, way: int) -> float:
        """Seconds for an event; infinite before its second turn."""
        return float(np.median(seconds)) if (seconds := self._seconds[way][1:]) else np.inf

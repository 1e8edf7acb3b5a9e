"""Match the first events by several matchers alternately, and all others by the fastest of them.

The events are not known when the indexes of a table are built. Where two indexes took about as long on events that were
drawn, the real ones decide: each index matches TURNS batches, and the least median of the times counts, because a first
call is cold and a single event shows little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from time import thread_time
from typing import Any, Generic, TypeVar

import numpy as np

from matchers.contract.tables import EventBatch

Result = TypeVar("Result")

TURNS = 5  # of each, in batches
TURNS_ALONE = 32  # of each, for single events


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
        self.turns = self.left = turns * len(ways) if len(ways) > 1 else 0  # of all
        self._calls = count()
        self._seconds: list[list[float]] = [[] for _ in ways]  # of an event, in each turn

    def __call__(self, events: EventBatch, *more: Any) -> Result:
        if not len(events):
            return self.ways[self.fastest](events, *more)
        self.used = True
        if self.left <= 0:
            return self.ways[self.fastest](events, *more)
        way = next(self._calls) % len(self.ways)
        began = self.clock()
        result = self.ways[way](events, *more)
        self._seconds[way].append((self.clock() - began) / len(events))
        self.left -= 1
        if self.left <= 0:
            self.fastest = int(np.argmin([np.median(seconds) for seconds in self._seconds]))
            self.over(self.ways[self.fastest])
        return result

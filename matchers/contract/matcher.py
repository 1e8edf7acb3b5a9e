"""The contract of all algorithms, and the loop that collects a kernel's matches into a MatchBatch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Self

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchers.contract.interfaces import Interfaces
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch
from matchers.kernels.jit import direct


class Matcher(ABC):
    """An index, built once from a SubscriptionTable and then only read; safe to read from several threads at once.

    Exact algorithms list for each event the subscriptions it satisfies, ascending, each once. Approximate ones may list
    more; their docstring and the registry (`Algorithm.approximate`) state it.
    """

    @abstractmethod
    def match(self, events: EventBatch) -> MatchBatch: ...

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        """The interfaces behind which a subscription matches; `match` lists the subscriptions.

        An algorithm overrides this if it has a shorter way: one matching subscription settles an interface.
        """
        return interfaces.behind(self.match(events))

    def alone(self) -> Callable[[EventBatch], Int32]:
        """A function that matches a batch of one event and returns the subscriptions it satisfies, ascending.

        It may hold buffers between calls, so only one thread may call it at a time. The arrays of the event are
        contiguous. An algorithm overrides this if it has a shorter way than through `match`, mostly by `one_event`.
        """
        return lambda event: self.match(event).subscription

    @property
    def about(self) -> str:
        """The algorithm and the reason for it, if `build` chose it; else empty."""
        return ""

    def memory_bytes(self) -> int:
        """The size of all arrays of the index."""
        return sum(array.nbytes for array in self._arrays())

    def read_only(self) -> Self:
        """Return this matcher with read-only arrays, as in an index that is mapped from a file.

        numba gives such arrays another type. Without this it would compile all kernels twice: for an index that a
        process has built, and for one that it has mapped.
        """
        for array in self._arrays():
            array.flags.writeable = False
        return self

    def _arrays(self) -> Iterator[NDArray[Any]]:
        """The arrays in its fields, and in tuples there."""
        parts = [getattr(self, f.name) for f in fields(self)]  # type: ignore[arg-type]
        while parts:
            part = parts.pop()
            if isinstance(part, np.ndarray):
                yield part
            elif isinstance(part, tuple):
                parts += part


_ARRAYS_OF_EVENT = tuple(map(numba.typeof, EventBatch.from_dense(np.empty((1, 0))).arrays))  # their types


def one_event(kernel: Callable[..., Int32], held: Any) -> Callable[[EventBatch], Int32]:
    """A function for `Matcher.alone`, by a kernel that takes the three arrays of an event and a held tuple."""
    match = direct(kernel, *_ARRAYS_OF_EVENT, held)
    return lambda event: match(event.offsets, event.column, event.value, held)


class RatedMatcher(Matcher):
    """An approximate matcher that gets the permitted rate of false positives with each batch."""

    @abstractmethod
    def match(self, events: EventBatch, *, false_positives: ArrayLike | None = None) -> MatchBatch:
        """`false_positives` is F, the share of what is listed that may be wrong: one for the batch, or one for each
        event; 0 is exact. Without it the rate is that of `build`. Raises MatchingError if a rate is not in [0, 1).
        """


class AdaptiveMatcher(Matcher):
    """A matcher that learns from the events it matches, while it matches them."""

    @property
    @abstractmethod
    def learnt(self) -> int:
        """A number that changes whenever a call samples, calibrates or builds an index."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether it has learnt enough: further events of the same kind cost their matching only."""

    def read_only(self) -> Self:
        """Return this matcher unchanged, because it keeps what it has learnt in its arrays."""
        return self


Step = Callable[[int, Int32, Int64], int]


def list_matches(step: Step, n_events: int, n_subscriptions: int) -> MatchBatch:
    """Run a kernel that fills a bounded buffer until all events are done.

    `step(first, out, counts)` matches the events from `first` on, writes their subscriptions one after the other into
    `out` and how many each has into `counts[event]`, and returns the first event it has not done: it stops before an
    event for which fewer than S places are left. So a kernel checks for room once an event and never within.
    """
    offsets = np.zeros(n_events + 1, np.int64)
    counts = offsets[1:]  # of the events not done; of the others, where they end
    out = np.empty(max(2 * n_subscriptions, 1 << 16), np.int32)
    parts = []
    done = 0
    while done < n_events:
        before, done = done, step(done, out, counts)
        ends = offsets[before : done + 1]
        np.add.accumulate(ends, out=ends)
        parts.append(out[: ends[-1] - ends[0]].copy())
    return MatchBatch(offsets, parts[0] if len(parts) == 1 else np.concatenate([out[:0], *parts]))

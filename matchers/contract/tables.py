"""Hold subscriptions, events and matches as arrays: N events, A columns, S subscriptions, I intervals, M matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchers.errors import TableError
from matchers.kernels.events import Events
from matchers.kernels.merge import merge

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SubscriptionTable:
    """The input of every algorithm. Made by `from_intervals`, which establishes its invariants:

    1. Intervals are closed, ascending by (subscription, column, low), and disjoint within a (subscription, column).
    2. An event satisfies a subscription when, in each column the subscription has intervals in, one of the event's
       values lies on one of them.
    3. A subscription without intervals is satisfied by every event. One that contradicts itself in a column has there
       the single empty interval (inf, -inf), on which no value lies.
    """

    subscription: Int32  # [I]
    column: Int32  # [I]
    low: Float64  # [I]
    high: Float64  # [I]
    n_subscriptions: int
    n_columns: int

    @classmethod
    def from_intervals(
        cls,
        subscription: ArrayLike,
        column: ArrayLike,
        low: ArrayLike,
        high: ArrayLike,
        *,
        n_subscriptions: int,
        n_columns: int,
    ) -> SubscriptionTable:
        """Intervals in any order, overlapping or empty ones included. Raises TableError.

        Several intervals of one (subscription, column) are alternatives: a value on any of them will do.
        """
        sub, col = ids_of("subscription", subscription, n_subscriptions), ids_of("column", column, n_columns)
        lo, hi = _doubles("low", low).copy(), _doubles("high", high).copy()
        if not sub.shape == col.shape == lo.shape == hi.shape or sub.ndim != 1:
            shapes = ", ".join(str(a.shape) for a in (sub, col, lo, hi))
            raise TableError(f"subscription, column, low and high must be arrays of one length, not {shapes}")
        if np.isnan(lo).any() or np.isnan(hi).any():
            at = int(np.flatnonzero(np.isnan(lo) | np.isnan(hi))[0])
            raise TableError(f"interval {at} has a bound that is NaN; an open end is -inf or inf")
        ascending = (sub[1:] > sub[:-1]) | ((sub[1:] == sub[:-1]) & (col[1:] > col[:-1]))
        if not ascending.all():
            order = np.lexsort((lo, col, sub))
            sub, col, lo, hi = sub[order], col[order], lo[order], hi[order]
        n = merge(sub, col, lo, hi)
        return cls(_frozen(sub[:n]), _frozen(col[:n]), _frozen(lo[:n]), _frozen(hi[:n]), n_subscriptions, n_columns)

    @classmethod
    def of_sorted(
        cls, subscription: Int32, column: Int32, low: Float64, high: Float64, *, n_subscriptions: int, n_columns: int
    ) -> SubscriptionTable:
        """Intervals that are as promised above, taken from other tables."""
        return cls(_frozen(subscription), _frozen(column), _frozen(low), _frozen(high), n_subscriptions, n_columns)

    @cached_property
    def start(self) -> Int64:
        """[S + 1]: subscription s owns intervals start[s] .. start[s + 1]."""
        return np.searchsorted(self.subscription, np.arange(self.n_subscriptions + 1)).astype(np.int64)

    @property
    def begins(self) -> NDArray[np.bool_]:
        """[I]: whether an interval is the first of its (subscription, column).

        It is not kept: a byte for each interval would be stored and broadcast with the table.
        """
        begins = np.ones(len(self.subscription), bool)
        begins[1:] = (self.subscription[1:] != self.subscription[:-1]) | (self.column[1:] != self.column[:-1])
        return begins

    def listed_beyond(self, length: int) -> int:
        """Count the intervals by which the lists (of one subscription in one column) exceed this length."""
        begin, end = slice(None, -length), slice(length, None)
        same = self.subscription[begin] == self.subscription[end]
        return int(np.count_nonzero(same & (self.column[begin] == self.column[end])))

    @cached_property
    def needed(self) -> Int32:
        """[S]: the number of columns in which an event must hit an interval."""
        return np.bincount(self.subscription[self.begins], minlength=self.n_subscriptions).astype(np.int32)


@dataclass(frozen=True, eq=False)
class EventBatch:
    """Events as the values they hold: event e owns column and value [offsets[e] : offsets[e + 1]].

    Ascending by column within an event. A column may appear several times (the field held an array), or not at all.
    """

    offsets: Int64  # [N + 1]
    column: Int32  # [V]
    value: Float64  # [V], no NaN
    n_columns: int

    def __post_init__(self) -> None:
        """Check types: kernels for one event are called without a look at them (`matcher.one_event`). Raises
        TableError."""
        for name, dtype in (("offsets", np.int64), ("column", np.int32), ("value", np.float64)):
            array = getattr(self, name)
            if not isinstance(array, np.ndarray):
                raise TableError(f"{name} must be an array of {dtype.__name__}, not a {type(array).__name__}")
            if array.dtype != dtype:
                raise TableError(f"{name} must be an array of {dtype.__name__}, not of {array.dtype}")
            if array.ndim != 1:
                raise TableError(f"{name} must have one dimension, not {array.ndim}")
            if not array.flags.c_contiguous:
                raise TableError(f"{name} must be contiguous: copy it")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def part(self, begin: int, end: int) -> EventBatch:
        """Return the events begin .. end, or fewer if there are fewer."""
        offsets = self.offsets[begin : end + 1]
        values = slice(offsets[0], offsets[-1])
        return EventBatch(offsets - offsets[0], self.column[values], self.value[values], self.n_columns)

    @property
    def arrays(self) -> Events:
        """The arrays as kernels take them."""
        return Events(self.offsets, self.column, self.value)

    @classmethod
    def from_dense(cls, values: ArrayLike) -> EventBatch:
        """float64[N, A], one value a column; NaN = absent. Raises TableError."""
        dense = _doubles("values", values)
        if dense.ndim != 2:
            raise TableError(f"values must be [events, columns], not of {dense.ndim} dimension(s)")
        present = ~np.isnan(dense)
        event, column = np.nonzero(present)
        return cls(
            offsets_of(np.bincount(event, minlength=dense.shape[0])),
            column.astype(np.int32),
            dense[present],
            dense.shape[1],
        )

    @classmethod
    def from_values(
        cls, event: ArrayLike, column: ArrayLike, value: ArrayLike, *, n_events: int, n_columns: int
    ) -> EventBatch:
        """Values in any order, each with its event and column, several a column allowed. Raises TableError."""
        of, col = ids_of("event", event, n_events), ids_of("column", column, n_columns)
        val = _doubles("value", value)
        if not of.shape == col.shape == val.shape or of.ndim != 1:
            raise TableError(
                f"event, column and value must be arrays of one length, not {of.shape}, {col.shape}, {val.shape}"
            )
        order = np.lexsort((val, col, of))
        order = order[~np.isnan(val[order])]
        of, col, val = of[order], col[order], val[order]
        return cls(offsets_of(np.bincount(of, minlength=n_events)), col, val, n_columns)


@dataclass(frozen=True, eq=False)
class MatchBatch:
    """The subscriptions that N events satisfy. Event e satisfies subscription[offsets[e] : offsets[e + 1]]."""

    offsets: Int64  # [N + 1]
    subscription: Int32  # [M], ascending within an event

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def joined(cls, parts: Sequence[MatchBatch]) -> MatchBatch:
        """Concatenate the matches of consecutive parts of a batch."""
        if len(parts) == 1:
            return parts[0]
        counts = [np.diff(part.offsets) for part in parts]
        return cls(
            offsets_of(np.concatenate([np.empty(0, np.int64), *counts])),
            np.concatenate([np.empty(0, np.int32), *(part.subscription for part in parts)]),
        )

    def of(self, event: int) -> Int32:
        return self.subscription[self.offsets[event] : self.offsets[event + 1]]


def ids_of(name: str, values: ArrayLike, n: int) -> Int32:
    """Ids below n from whatever holds integers, a copy; `name` is for errors. Raises TableError."""
    try:
        ids = np.array(values)
    except (TypeError, ValueError) as error:
        raise TableError(f"{name} must hold integers: {error}") from None
    if ids.size == 0:
        ids = ids.astype(np.int32)
    if ids.dtype.kind not in "iu":
        raise TableError(f"{name} must hold integers, not {ids.dtype}")
    if ids.size and not (ids.min() >= 0 and ids.max() < n):
        raise TableError(f"{name} must lie within 0 .. {n - 1}, not {ids.min()} .. {ids.max()}")
    return ids.astype(np.int32, copy=False)


def offsets_of(counts: ArrayLike) -> Int64:
    """[N + 1]: the offsets of N consecutive runs with these lengths, with the end of the last."""
    lengths = np.asarray(counts, np.int64)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.add.accumulate(lengths, out=offsets[1:])
    return offsets


def _doubles(name: str, values: ArrayLike) -> Float64:
    """Doubles from whatever holds numbers, not always a copy; `name` is for errors. Raises TableError."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TableError(f"{name} must hold numbers: {error}") from None


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array

"""Insert subscriptions into OpIndex's partitions and delete them from there.

Source: the paper (PVLDB 7(8), 2014) calls its index scalable to updates, and the description in HEM (sec. 2 and 6). To
insert a subscription is to choose its pivot, the rarest of its attributes, and to store each predicate in the list of
its operator and attribute in the pivot's partition; to delete it, to remove these predicates and to free its place.

How often an attribute occurs is counted along, so a new subscription takes the attribute that is the rarest when it
comes. Where it differs from a fresh build: a subscription keeps its pivot when another of its attributes becomes rarer,
until all is built anew. Any of its attributes would do: the choice decides how much is counted, not what matches.

Lists ascend by operand, so what is behind a predicate moves (opindex_lists.py). A place that is free again goes to the
next subscription of the partition, so places do not ascend as in a fresh build; the bits that list matches do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.kernels.bitsets import clear_bits, set_bits
from matchers.kernels.growing import with_room
from matchers.papers import opindex
from matchers.papers.opindex import OperatorPredicates, OpIndex, pivots
from matchers.papers.opindex.kernel import Partitions
from matchers.papers.updates.growing_table import GrowingTable, nbytes
from matchers.papers.updates.opindex_lists import (
    NOWHERE,
    OF_LISTS,
    OF_PLACES,
    OF_PREDICATES,
    GrowingPartitions,
    PlacedPredicates,
    delete_predicates,
    insert_predicates,
    leave_places,
    take_places,
)


class UpdatableOpIndex:
    """OpIndex's partitions, whose arrays change in place."""

    _index: GrowingPartitions
    _frequency: Int64  # [A]: of how many subscriptions have each attribute
    _pivot: Int64  # [n and room]
    _taken: Int32  # [n and room]: the place of each subscription, within its partition
    _unpartitioned: NDArray[np.uint64]  # bits, all ones but for those that always match

    def __init__(self, table: SubscriptionTable) -> None:
        self._table = GrowingTable(table)
        self._build()

    def match(self, events: EventBatch) -> MatchBatch:
        unpartitioned = self._unpartitioned[: -(-self._table.n // 64)]
        return OpIndex(self._index.partitions, unpartitioned, self._table.rows).match(events)

    def memory_bytes(self) -> int:
        index = nbytes(*self._index.partitions, *self._index)
        own = nbytes(self._frequency, self._pivot, self._taken, self._unpartitioned)
        return self._table.memory_bytes() + index + own

    def insert(self, table: SubscriptionTable) -> int:
        first = self._table.append(table)
        if self._table.outgrown:
            self._build()
            return first
        n = self._table.n
        self._frequency += _attributes(table)
        pivot = pivots(table, self._frequency)
        predicates = OperatorPredicates.of(table, pivot)
        self._widen_counters(predicates)
        self._pivot, self._taken = with_room(self._pivot, n), with_room(self._taken, n)
        self._pivot[first:n] = pivot
        self._unpartitioned = with_room(self._unpartitioned, -(-n // 64), fill=~np.uint64(0))
        clear_bits(self._unpartitioned, first + np.flatnonzero(table.needed == 0))
        taken = self._taken[first:n]
        i = 0
        while (i := take_places(i, first, pivot, predicates.needed, self._index, taken)) < len(pivot):
            self._grow()
        placed = _placed(predicates, taken)
        q = 0
        while (q := insert_predicates(q, placed, self._index)) < len(placed.segment):
            self._grow()
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        numbers = self._table.delete(subscriptions)
        if self._table.outgrown:
            self._build()
            return
        table, pivot, taken = self._table.rows_of(numbers), self._pivot[numbers], self._taken[numbers]
        self._frequency -= _attributes(table)
        delete_predicates(_placed(OperatorPredicates.of(table, pivot), taken), self._index)
        leave_places(pivot, taken, self._index)
        set_bits(self._unpartitioned, numbers)

    def _build(self) -> None:
        table = self._table.compact()
        built = opindex.build(table)
        self._index = _with_room(built.partitions)
        self._frequency = _attributes(table)
        self._pivot = pivots(table)
        self._taken = np.zeros(self._table.n, np.int32)
        of = built.partitions.subscription
        place = np.flatnonzero(of >= 0)
        self._taken[of[place]] = place - built.partitions.place[self._pivot[of[place]]]
        self._unpartitioned = built.unpartitioned
        set_bits(self._unpartitioned, np.flatnonzero(self._table.gone))

    def _widen_counters(self, predicates: OperatorPredicates) -> None:
        """Give counters a larger type if new subscriptions need it."""
        partitions = self._index.partitions
        counter = np.promote_types(partitions.needed.dtype, predicates.counter)
        needed = partitions.needed.astype(counter, copy=False)
        self._index = self._index._replace(partitions=partitions._replace(needed=needed))

    def _grow(self) -> None:
        """Make room where an insertion lacked it."""
        old, wanted = self._index.partitions, self._index.wanted
        places, lists, predicates = wanted[OF_PLACES], wanted[OF_LISTS], wanted[OF_PREDICATES]
        grown = old._replace(
            subscription=with_room(old.subscription, places),
            needed=with_room(old.needed, places),
            attribute=with_room(old.attribute, lists),
            start=with_room(old.start, lists),
            end=with_room(old.end, lists),
            operand=with_room(old.operand, predicates),
            of=with_room(old.of, predicates),
        )
        self._index = self._index._replace(partitions=grown, list_room=with_room(self._index.list_room, lists))


def _attributes(table: SubscriptionTable) -> Int64:
    """[A]: how many subscriptions have each."""
    return np.bincount(table.column[table.begins], minlength=table.n_columns)


def _placed(predicates: OperatorPredicates, taken: Int32) -> PlacedPredicates:
    order = np.lexsort((predicates.operand, predicates.attribute, predicates.segment))
    return PlacedPredicates(
        predicates.segment[order],
        predicates.attribute[order],
        predicates.operand[order],
        taken[predicates.subscription[order]],
    )


def _with_room(built: Partitions) -> GrowingPartitions:
    """The partitions of a build, with half as much room again in each list, and their free places chained."""
    length = built.end - built.start
    start = offsets_of(length + length // 2)
    to = np.arange(len(built.of)) + np.repeat(start[:-1] - built.start, length)
    operand, of = np.zeros(start[-1]), np.zeros(start[-1], np.int32)
    operand[to], of[to] = built.operand, built.of
    partitions = built._replace(
        place=built.place.copy(),
        place_end=built.place_end.copy(),
        subscription=built.subscription.copy(),
        segment=built.segment.copy(),
        segment_end=built.segment_end.copy(),
        start=start[:-1].copy(),
        end=start[:-1] + length,
        operand=operand,
        of=of,
    )
    free = np.full(len(built.place), NOWHERE, np.int64)
    empty = np.flatnonzero(built.subscription < 0)
    pivot = np.searchsorted(built.place_end, empty, side="right")
    within = empty - built.place[pivot]
    last = empty + 1 == built.place_end[pivot]
    partitions.subscription[empty] = np.where(last, -1, -2 - (within + 1))
    free[pivot[::-1]] = within[::-1]  # the last one to be stored is the first in its partition
    tail = np.array([len(built.subscription), len(built.start), start[-1]], np.int64)
    lists = built.segment_end - built.segment
    return GrowingPartitions(partitions, free, lists, np.diff(start), tail, np.zeros(3, np.int64))

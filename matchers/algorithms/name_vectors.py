"""Group filters by the names that they constrain, and constraints by name: the data structures of PCM, sec. 3.1.

A filter is our subscription, a name our column. `bits` of a NameVector stand for names (name c for bit c mod bits); a
Filters table holds the filters of one NameVector, its Constraints tables a row for each name:

    Filters table 01101     filters  f7 f9 f12                     ranks 0 1 2 within the table
        row of name 0       ConstrFilterId 0 1 2    ConstrOp IN IN OUT     ConstrVal 3..3 -inf..8 5..5    ConstrBF ...
        row of name 2       ConstrFilterId 0 2      ...

A constraint is the condition of a filter on one name. Each operator of the paper, and most of our language, is an
interval that the value must lie in or out of; other constraints are SEVERAL intervals, and refer to them.

    = 3  IN 3..3      != 5  OUT 5..5      < 8  IN -inf..7.99..      prefix  IN code..code      list  SEVERAL first..end

ConstrBF is a 64-bit Bloom filter of all names of the constraint's filter, two bits a name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchers.algorithms.predicates import Predicates
from matchers.contract.tables import Float64, Int32, Int64, SubscriptionTable
from matchers.errors import MatchingError

IN, OUT, SEVERAL = range(3)

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class NameVectors:
    """T Filters tables of S filters, with R rows of P constraints."""

    bits: int
    vector: Words  # [T] NameVector
    filter_begin: Int64  # [T + 1]: the filters of a table, by rank
    filter_id: Int32  # [S], ascending within a table
    size: Int32  # [S] FiltersInfo.Size, by the place in filter_id
    row_begin: Int64  # [T + 1]: the rows of a table
    row_name: Int32  # [R], ascending within a table
    constraint_begin: Int64  # [R + 1]: the constraints of a row
    several_begin: Int64  # [R]: of these, the first that is SEVERAL; they come last
    operator: NDArray[np.uint8]  # [P] ConstrOp
    low: Float64  # [P] ConstrVal: the interval, or of SEVERAL the first of the table's intervals and where they end
    high: Float64  # [P]
    rank: Int32  # [P] ConstrFilterId, counted from the first filter of the table
    bloom: Words  # [P] ConstrBF
    interval_low: Float64  # [I], for SEVERAL
    interval_high: Float64  # [I]

    @classmethod
    def of(cls, table: SubscriptionTable, bits: int) -> NameVectors:
        """Raises MatchingError."""
        if not 1 <= bits <= 64:
            raise MatchingError(f"bits must lie within 1 .. 64, not {bits}")
        predicates = Predicates.of(table)
        of, column = predicates.subscription, predicates.column
        vector = vectors_of(predicates, bits, table.n_subscriptions)
        order = np.argsort(vector, kind="stable")
        vectors, filter_begin = np.unique(vector[order], return_index=True)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        table_of = np.repeat(np.arange(len(vectors)), np.diff(np.append(filter_begin, len(order))))
        row_of = table_of[place[of]] * np.int64(max(table.n_columns, 1)) + column
        operator, low, high = _operands(table, predicates)
        by_row = np.lexsort((place[of], operator == SEVERAL, row_of))
        rows, constraint_begin = np.unique(row_of[by_row], return_index=True)
        constraint_begin = np.append(constraint_begin, len(by_row)).astype(np.int64)
        several = np.concatenate(([0], np.cumsum(operator[by_row] == SEVERAL)))
        bloom = _united(bloom_of(column), of, table.n_subscriptions)
        return cls(
            bits,
            vectors,
            np.append(filter_begin, len(order)).astype(np.int64),
            order.astype(np.int32),
            table.needed[order],
            np.searchsorted(rows // max(table.n_columns, 1), np.arange(len(vectors) + 1)).astype(np.int64),
            (rows % max(table.n_columns, 1)).astype(np.int32),
            constraint_begin,
            constraint_begin[1:] - np.diff(several[constraint_begin]),
            operator[by_row],
            low[by_row],
            high[by_row],
            (place[of] - filter_begin[table_of[place[of]]]).astype(np.int32)[by_row],
            bloom[of][by_row],
            table.low,
            table.high,
        )

    def __len__(self) -> int:
        return len(self.vector)

    def nbytes(self) -> int:
        return sum(a.nbytes for a in vars(self).values() if isinstance(a, np.ndarray))


def best_bits(table: SubscriptionTable, filters: int) -> int:
    """The most bits for which a Filters table has that many `filters` on average; 1 if there is none."""
    predicates = Predicates.of(table)
    for bits in (64, 32, 16, 8, 4, 2):
        if len(np.unique(vectors_of(predicates, bits, table.n_subscriptions))) * filters <= table.n_subscriptions:
            return bits
    return 1


def vectors_of(predicates: Predicates, bits: int, n_subscriptions: int) -> Words:
    """[S]: the NameVector of each filter."""
    named = np.uint64(1) << (predicates.column % bits).astype(np.uint64)
    return _united(named, predicates.subscription, n_subscriptions)


def bloom_of(column: Int32) -> Words:
    """The two bits of each name in ConstrBF."""
    mixed = column.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    one = np.uint64(1)
    bits: Words = (one << (mixed >> np.uint64(58))) | (one << (mixed >> np.uint64(40) & np.uint64(63)))
    return bits


def _united(bits: Words, of: Int32, n: int) -> Words:
    """[n]: for each filter, the OR of the bits of its constraints. `of`, the filter of each constraint, ascends."""
    united = np.zeros(n, np.uint64)
    if len(of):
        begin = np.flatnonzero(np.diff(of, prepend=-1))
        united[of[begin]] = np.bitwise_or.reduceat(bits, begin)
    return united


def _operands(table: SubscriptionTable, predicates: Predicates) -> tuple[NDArray[np.uint8], Float64, Float64]:
    """ConstrOp and ConstrVal of each predicate."""
    first, end = predicates.first[:-1], predicates.first[1:]
    several = end - first > 1
    low, high = predicates.low.copy(), predicates.high.copy()
    unless = np.flatnonzero((end - first == 2) & (low == -np.inf) & (high == np.inf))
    operator = np.where(several, SEVERAL, IN).astype(np.uint8)
    low[several], high[several] = first[several], end[several]
    operator[unless] = OUT
    low[unless] = np.nextafter(table.high[first[unless]], np.inf)
    high[unless] = np.nextafter(table.low[first[unless] + 1], -np.inf)
    return operator, low, high

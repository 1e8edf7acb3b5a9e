"""Some subscriptions, compiled: their ids, the vocabulary that encodes events for them, and their table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from matchers import verification
from matchers.facets import NUMBER, Interval
from matchers.lowering import Column, Conjunction
from matchers.model import Event, Operator, Path, Scalar
from matchers.tables import Float64, Int32, MatchBatch, SubscriptionTable, offsets_of
from matchers.verification import Condition
from matchers.vocabulary import Vocabulary

Id = TypeVar("Id", bound=Hashable)
_NEVER: Sequence[Interval] = ((np.inf, -np.inf),)


_ARRAYS, _ALWAYS = 1, 2  # when a row's columns leave doubt

Residual = tuple[tuple[Path, Operator], ...]  # what a row asks for besides its intervals


@dataclass(frozen=True, eq=False)
class Segment(Generic[Id]):
    """A row of the table is one alternative of a subscription; all rows of one lie side by side."""

    ids: tuple[Id, ...]  # [subscriptions]
    owner: Int32  # [rows] position in ids, ascending
    vocabulary: Vocabulary
    table: SubscriptionTable
    residuals: Mapping[int, Residual]  # by row; most have none

    @classmethod
    def build(cls, subscriptions: Iterable[tuple[Id, Sequence[Conjunction]]]) -> Segment[Id]:
        """From ids, each once, with what their patterns lower to."""
        given = list(subscriptions)
        rows = [conjunction for _, conjunctions in given for conjunction in conjunctions]
        vocabulary = Vocabulary.of(rows)
        owner = np.repeat(np.arange(len(given), dtype=np.int32), [len(conjunctions) for _, conjunctions in given])
        position = vocabulary.position
        subscription, column, low, high = [], [], [], []
        for row, conjunction in enumerate(rows):
            for key, region in conjunction.regions.items():
                c = position[key]
                for begin, end in vocabulary.intervals(c, region) or _NEVER:
                    subscription.append(row)
                    column.append(c)
                    low.append(begin)
                    high.append(end)
        table = SubscriptionTable.from_intervals(
            subscription, column, low, high, n_subscriptions=len(rows), n_columns=len(vocabulary.columns)
        )
        residuals = {row: conjunction.residual for row, conjunction in enumerate(rows) if conjunction.residual}
        return cls(tuple([id for id, _ in given]), owner, vocabulary, table, residuals)

    @classmethod
    def merge(cls, parts: Sequence[tuple[Segment[Id], Int32]]) -> Segment[Id]:
        """The subscriptions of several segments in one, without those at the positions listed beside each.

        Works on the arrays, never on patterns: a code of an old vocabulary names two cuts, and these have a place
        among the cuts of the new one.
        """
        vocabulary = _united([segment.vocabulary for segment, _ in parts])
        ids: list[Id] = []
        residuals: dict[int, Residual] = {}
        owners, subscriptions, columns, lows, highs = ([np.empty(0, t)] for t in "iiidd")
        row = 0
        for segment, removed in parts:
            table = segment.table
            kept = np.ones(len(segment.ids), bool)
            kept[removed] = False
            kept_row = kept[segment.owner]
            kept_interval = kept_row[table.subscription]
            owners.append((len(ids) + np.cumsum(kept) - 1)[segment.owner[kept_row]])
            new_row = row + np.cumsum(kept_row) - 1
            residuals |= {int(new_row[r]): residual for r, residual in segment.residuals.items() if kept_row[r]}
            subscriptions.append(new_row[table.subscription[kept_interval]])
            column, low, high = _translated(segment, vocabulary)
            columns.append(column[kept_interval])
            lows.append(low[kept_interval])
            highs.append(high[kept_interval])
            ids += [id for id, keep in zip(segment.ids, kept, strict=True) if keep]
            row += int(kept_row.sum())
        table = SubscriptionTable.from_intervals(
            np.concatenate(subscriptions).astype(np.int32),
            np.concatenate(columns).astype(np.int32),
            np.concatenate(lows),
            np.concatenate(highs),
            n_subscriptions=row,
            n_columns=len(vocabulary.columns),
        )
        return cls(tuple(ids), np.concatenate(owners).astype(np.int32), vocabulary, table, residuals)

    @cached_property
    def position(self) -> dict[Id, int]:
        return {id: position for position, id in enumerate(self.ids)}

    def confirmed(self, rows: MatchBatch, several: NDArray[np.bool_], document: Callable[[int], Event]) -> MatchBatch:
        """Without the rows that only seem to match: their columns are hit, but their residual does not hold, or not by
        the same element of an array. `document` gives an event, `several` says which hold arrays that matter."""
        event = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
        doubt = self._doubt[rows.subscription]
        suspects = np.flatnonzero((doubt == _ALWAYS) | ((doubt == _ARRAYS) & several[event]))
        if not len(suspects):
            return rows
        keep = np.ones(len(event), bool)
        conditions: dict[int, list[Condition]] = {}
        for i in suspects.tolist():
            row = int(rows.subscription[i])
            if row not in conditions:
                conditions[row] = self._conditions(row)
            keep[i] = verification.holds(document(int(event[i])), conditions[row])
        counts = np.bincount(event[keep], minlength=len(rows))
        return MatchBatch(offsets_of(counts), rows.subscription[keep])

    @cached_property
    def _doubt(self) -> NDArray[np.uint8]:
        """[rows]: whether the columns tell all, or not for events with arrays, or not at all."""
        table = self.table
        group: dict[str, int] = {}
        top = np.array([group.setdefault(path[0], len(group)) for path, _ in self.vocabulary.columns], np.int32)
        other = np.flatnonzero((np.diff(table.column) != 0) & (np.diff(table.subscription) == 0))
        beside = other[top[table.column[other]] == top[table.column[other + 1]]]  # columns are ascending by path
        doubt = np.zeros(table.n_subscriptions, np.uint8)
        doubt[table.subscription[beside]] = _ARRAYS
        doubt[list(self.residuals)] = _ALWAYS
        return doubt

    def _conditions(self, row: int) -> list[Condition]:
        """What a row asks for, as tests of the values at its paths."""
        intervals: dict[int, list[Interval]] = {}
        for i in range(*self.table.start[row : row + 2].tolist()):
            bounds = (float(self.table.low[i]), float(self.table.high[i]))
            intervals.setdefault(int(self.table.column[i]), []).append(bounds)
        columns = [(self.vocabulary.columns[c][0], self._on(c, wanted)) for c, wanted in intervals.items()]
        return columns + [(path, operator.holds) for path, operator in self.residuals.get(row, ())]

    def _on(self, column: int, wanted: Sequence[Interval]) -> Callable[[Scalar], bool]:
        def test(value: Scalar) -> bool:
            place = self.vocabulary.place(column, value)
            return place is not None and any(low <= place <= high for low, high in wanted)

        return test

    def subscriptions(self, rows: MatchBatch) -> MatchBatch:
        """Matches of rows as matches of positions in `ids`, each once an event."""
        owner = self.owner[rows.subscription]
        fresh = np.ones(len(owner), bool)
        fresh[1:] = owner[1:] != owner[:-1]
        begins = rows.offsets[:-1]
        fresh[begins[begins < len(owner)]] = True
        kept_before = np.concatenate(([0], np.cumsum(fresh)))
        return MatchBatch(kept_before[rows.offsets], owner[fresh])

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k != "position"}


def _united(vocabularies: Sequence[Vocabulary]) -> Vocabulary:
    cuts: dict[Column, set[bytes]] = {}
    for vocabulary in vocabularies:
        for column, own in zip(vocabulary.columns, vocabulary.cuts, strict=True):
            cuts.setdefault(column, set()).update(own)
    return Vocabulary(tuple(sorted(cuts)), tuple(tuple(sorted(cuts[c])) for c in sorted(cuts)))


def _translated(segment: Segment[Id], to: Vocabulary) -> tuple[Int32, Float64, Float64]:
    """Column, low and high of a segment's intervals in another vocabulary, which knows all its columns and cuts."""
    table, vocabulary = segment.table, segment.vocabulary
    place = np.array([to.position[key] for key in vocabulary.columns], np.int32)
    column = place[table.column] if len(place) else table.column
    low, high = table.low.copy(), table.high.copy()
    for c, (key, cuts) in enumerate(zip(vocabulary.columns, vocabulary.cuts, strict=True)):
        if key[1] == NUMBER:
            continue
        new_cuts = to.cuts[to.position[key]]
        moved = np.array([bisect_left(new_cuts, cut) for cut in cuts], np.float64)
        mine = (table.column == c) & (table.low <= table.high)
        low[mine] = moved[low[mine].astype(np.int64) - 1] + 1
        high[mine] = moved[high[mine].astype(np.int64)]
    return column, low, high

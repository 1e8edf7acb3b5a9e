"""Some subscriptions, compiled: their ids, the vocabulary that encodes events for them, and their table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from matchers.facets import TOKEN
from matchers.lowering import Conjunction
from matchers.tables import Float64, Int32, MatchBatch, SubscriptionTable
from matchers.vocabulary import Vocabulary

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Segment(Generic[Id]):
    """A row of the table is one alternative of a subscription; all rows of one lie side by side."""

    ids: tuple[Id, ...]  # [subscriptions]
    owner: Int32  # [rows] position in ids, ascending
    vocabulary: Vocabulary
    table: SubscriptionTable

    @classmethod
    def build(cls, subscriptions: Iterable[tuple[Id, Sequence[Conjunction]]]) -> Segment[Id]:
        """From ids, each once, with what their patterns lower to."""
        given = list(subscriptions)
        vocabulary = Vocabulary.of(c for _, conjunctions in given for c in conjunctions)
        owner = [position for position, (_, conjunctions) in enumerate(given) for _ in conjunctions]
        intervals = []
        row = 0
        for _, conjunctions in given:
            for conjunction in conjunctions:
                for key, region in conjunction.items():
                    column = vocabulary.position[key]
                    pairs = vocabulary.intervals(column, region) or [(np.inf, -np.inf)]
                    intervals += [(row, column, low, high) for low, high in pairs]
                row += 1
        columns = list(zip(*intervals, strict=True)) or [(), (), (), ()]
        table = SubscriptionTable.from_intervals(*columns, n_subscriptions=row, n_columns=len(vocabulary.columns))
        return cls(tuple(id for id, _ in given), np.array(owner, np.int32), vocabulary, table)

    @classmethod
    def merge(cls, parts: Sequence[tuple[Segment[Id], Int32]]) -> Segment[Id]:
        """The subscriptions of several segments in one, without those at the positions listed beside each.

        Works on the arrays, never on patterns: a code of an old vocabulary names two cuts, and these have a place
        among the cuts of the new one.
        """
        vocabulary = _united([segment.vocabulary for segment, _ in parts])
        ids: list[Id] = []
        owners, subscriptions, columns, lows, highs = ([np.empty(0, t)] for t in "iiidd")
        row = 0
        for segment, removed in parts:
            table = segment.table
            kept = np.ones(len(segment.ids), bool)
            kept[removed] = False
            kept_row = kept[segment.owner]
            kept_interval = kept_row[table.subscription]
            owners.append((len(ids) + np.cumsum(kept) - 1)[segment.owner[kept_row]])
            subscriptions.append((row + np.cumsum(kept_row) - 1)[table.subscription[kept_interval]])
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
        return cls(tuple(ids), np.concatenate(owners).astype(np.int32), vocabulary, table)

    @cached_property
    def position(self) -> dict[Id, int]:
        return {id: position for position, id in enumerate(self.ids)}

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
    cuts: dict[tuple[tuple[str, ...], str], set[bytes]] = {}
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
        if key[1] != TOKEN:
            continue
        new_cuts = to.cuts[to.position[key]]
        moved = np.array([bisect_left(new_cuts, cut) for cut in cuts], np.float64)
        mine = (table.column == c) & (table.low <= table.high)
        low[mine] = moved[low[mine].astype(np.int64) - 1] + 1
        high[mine] = moved[high[mine].astype(np.int64)]
    return column, low, high

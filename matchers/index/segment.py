"""Build, merge and read segments: subscriptions compiled together, with ids, vocabulary and table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.index.conditions import Conditions, Residual
from matchers.index.texts import Texts
from matchers.index.vocabulary import Vocabulary
from matchers.language import verification
from matchers.language.facets import NUMBER
from matchers.language.lowering import Column, Conjunction
from matchers.language.model import Event, Interval

_NO_INTERVALS: Sequence[Interval] = ((np.inf, -np.inf),)


_ARRAYS, _ALWAYS = 1, 2  # when a row's columns leave doubt

Note = Texts | NDArray[Any]


@dataclass(frozen=True, eq=False)
class Segment:
    """A row of the table is one alternative of a subscription; all rows of one lie side by side."""

    ids: Texts  # [subscriptions], each once
    owner: Int32  # [rows] position in ids, ascending
    vocabulary: Vocabulary
    table: SubscriptionTable
    residuals: Mapping[int, Residual]  # by row; most have none
    notes: Mapping[str, Note] = field(default_factory=dict)  # [subscriptions] each; what matching does not need

    @classmethod
    def build(
        cls, subscriptions: Iterable[tuple[str, Sequence[Conjunction]]], notes: Mapping[str, Note] | None = None
    ) -> Segment:
        """Build a segment from distinct ids, each with the conjunctions of its pattern."""
        listed = list(subscriptions)
        rows = [conjunction for _, conjunctions in listed for conjunction in conjunctions]
        vocabulary = Vocabulary.of(rows)
        owner = np.repeat(np.arange(len(listed), dtype=np.int32), [len(conjunctions) for _, conjunctions in listed])
        position = vocabulary.position
        subscription, column, low, high = [], [], [], []
        for row, conjunction in enumerate(rows):
            for key, region in conjunction.regions.items():
                c = position[key]
                for begin, end in vocabulary.intervals(c, region) or _NO_INTERVALS:
                    subscription.append(row)
                    column.append(c)
                    low.append(begin)
                    high.append(end)
        table = SubscriptionTable.from_intervals(
            subscription, column, low, high, n_subscriptions=len(rows), n_columns=len(vocabulary.columns)
        )
        residuals = {row: conjunction.residual for row, conjunction in enumerate(rows) if conjunction.residual}
        return cls(Texts.of(id for id, _ in listed), owner, vocabulary, table, residuals, notes or {})

    @classmethod
    def merge(cls, parts: Sequence[tuple[Segment, Int32]]) -> Segment:
        """Merge segments into one, without the subscriptions at the positions listed beside each.

        Works on the arrays, never on patterns: a code of an old vocabulary names two cuts, and these have a place among
        the cuts of the new one. Columns and codes keep their order, so nothing is sorted again.
        """
        residuals: dict[int, Residual] = {}
        owners, subscriptions = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        subscribed = row = 0
        kept_of, intervals_of = [], []
        for segment, removed in parts:
            kept = np.ones(len(segment.ids), bool)
            kept[removed] = False
            kept_of.append(np.flatnonzero(kept))
            kept_row = kept[segment.owner]
            kept_interval = kept_row[segment.table.subscription]
            intervals_of.append(_Intervals.of(segment, kept_interval))
            owners.append((subscribed + np.cumsum(kept) - 1)[segment.owner[kept_row]])
            new_row = row + np.cumsum(kept_row) - 1
            residuals |= {int(new_row[r]): residual for r, residual in segment.residuals.items() if kept_row[r]}
            subscriptions.append(new_row[segment.table.subscription[kept_interval]])
            subscribed += len(kept_of[-1])
            row += int(kept_row.sum())
        vocabulary = _united([intervals.used() for intervals in intervals_of])
        columns, lows, highs = zip(*(intervals.within(vocabulary) for intervals in intervals_of), strict=True)
        table = SubscriptionTable.of_sorted(
            np.concatenate(subscriptions).astype(np.int32),
            np.concatenate(columns).astype(np.int32),
            np.concatenate(lows),
            np.concatenate(highs),
            n_subscriptions=row,
            n_columns=len(vocabulary.columns),
        )
        ids = Texts.joined([segment.ids.take(kept) for (segment, _), kept in zip(parts, kept_of, strict=True)])
        notes = {
            name: _joined([(segment.notes[name], kept) for (segment, _), kept in zip(parts, kept_of, strict=True)])
            for name in parts[0][0].notes
        }
        return cls(ids, np.concatenate(owners).astype(np.int32), vocabulary, table, residuals, notes)

    def prepared(self) -> Segment:
        """Compute the cached properties now, so that copies carry them."""
        _ = self.doubt, self.vocabulary.coded, self.ids.last
        return self

    def confirmed(self, rows: MatchBatch, several: NDArray[np.bool_], document: Callable[[int], Event]) -> MatchBatch:
        """Remove matches whose columns are hit although the residual does not hold, or not by the same element of an
        array.

        `document` gives an event; `several`: whether an event holds arrays that matter.
        """
        suspects = self.suspects(rows, several)
        if not len(suspects):
            return rows
        event = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
        keep = np.ones(len(event), bool)
        of = -1
        for i in suspects.tolist():
            if event[i] != of:  # ascending; to give an event may take parsing it
                of = int(event[i])
                given = document(of)
            keep[i] = verification.holds(given, self._conditions.of(int(rows.subscription[i])))
        counts = np.bincount(event[keep], minlength=len(rows))
        return MatchBatch(offsets_of(counts), rows.subscription[keep])

    def suspects(self, rows: MatchBatch, several: NDArray[np.bool_]) -> Int64:
        """The matches that `confirmed` looks at one by one, as positions in `rows.subscription`."""
        event = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
        doubt = self.doubt[rows.subscription]
        return np.flatnonzero((doubt == _ALWAYS) | ((doubt == _ARRAYS) & several[event]))

    @cached_property
    def doubt(self) -> NDArray[np.uint8]:
        """[rows]: whether the columns decide, or not for events with arrays, or not at all."""
        table = self.table
        group: dict[str, int] = {}
        top = np.array([group.setdefault(path[0], len(group)) for path, _ in self.vocabulary.columns], np.int32)
        other = np.flatnonzero((np.diff(table.column) != 0) & (np.diff(table.subscription) == 0))
        shared = other[top[table.column[other]] == top[table.column[other + 1]]]  # columns are ascending by path
        doubt = np.zeros(table.n_subscriptions, np.uint8)
        doubt[table.subscription[shared]] = _ARRAYS
        doubt[list(self.residuals)] = _ALWAYS
        return doubt

    @cached_property
    def is_decided(self) -> bool:
        """Whether a row that an event without arrays hits is a match, and its number the position of its
        subscription."""
        return bool((self.doubt < _ALWAYS).all()) and np.array_equal(self.owner, np.arange(len(self.ids)))

    @cached_property
    def _conditions(self) -> Conditions:
        return Conditions(self.vocabulary, self.table, self.residuals)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_conditions"}

    def subscriptions(self, rows: MatchBatch) -> MatchBatch:
        """Turn matches of rows into matches of positions in `ids`, each once per event."""
        owner = self.owner[rows.subscription]
        fresh = np.ones(len(owner), bool)
        fresh[1:] = owner[1:] != owner[:-1]
        begins = rows.offsets[:-1]
        fresh[begins[begins < len(owner)]] = True
        kept_before = np.concatenate(([0], np.cumsum(fresh)))
        return MatchBatch(kept_before[rows.offsets], owner[fresh])


def _joined(parts: Sequence[tuple[Note, Int64]]) -> Note:
    if isinstance(parts[0][0], Texts):
        return Texts.joined([cast("Texts", note).take(kept) for note, kept in parts])
    return np.concatenate([cast("NDArray[Any]", note)[kept] for note, kept in parts])


def _united(vocabularies: Sequence[Vocabulary]) -> Vocabulary:
    cuts: dict[Column, set[bytes]] = {}
    for vocabulary in vocabularies:
        for column, old_cuts in zip(vocabulary.columns, vocabulary.cuts, strict=True):
            cuts.setdefault(column, set()).update(old_cuts)
    return Vocabulary(tuple(sorted(cuts)), tuple(tuple(sorted(cuts[c])) for c in sorted(cuts)))


@dataclass(frozen=True, eq=False)
class _Intervals:
    """Some intervals of a table, and the vocabulary that their codes belong to."""

    vocabulary: Vocabulary
    column: Int32
    low: Float64
    high: Float64

    @classmethod
    def of(cls, segment: Segment, kept: NDArray[np.bool_]) -> _Intervals:
        table = segment.table
        return cls(segment.vocabulary, table.column[kept], table.low[kept], table.high[kept])

    @cached_property
    def _codes(self) -> tuple[Int64, Int64, Int64]:
        """The intervals that are ranges of codes, and the two cuts of each, counted over all columns."""
        is_code = np.array([facet != NUMBER for _, facet in self.vocabulary.columns], bool)
        begin = offsets_of([len(cuts) for cuts in self.vocabulary.cuts])[:-1]
        codes = np.flatnonzero(is_code[self.column] & (self.low <= self.high)) if is_code.any() else np.empty(0, int)
        at = begin[self.column[codes]]
        return codes, at + self.low[codes].astype(np.int64) - 1, at + self.high[codes].astype(np.int64)

    def used(self) -> Vocabulary:
        """The columns and cuts that these intervals need; those of deleted subscriptions are dropped."""
        _, low, high = self._codes
        wanted = np.zeros(sum(map(len, self.vocabulary.cuts)), bool)
        wanted[low] = wanted[high] = True
        named = np.bincount(self.column, minlength=len(self.vocabulary.columns)) > 0
        cuts = iter(wanted.tolist())
        left = [tuple(cut for cut in column_cuts if next(cuts)) for column_cuts in self.vocabulary.cuts]
        columns = [c for c, is_named in enumerate(named.tolist()) if is_named]
        return Vocabulary(tuple(self.vocabulary.columns[c] for c in columns), tuple(left[c] for c in columns))

    def within(self, to: Vocabulary) -> tuple[Int32, Float64, Float64]:
        """Column, low and high of the intervals in a vocabulary that has all their columns and cuts."""
        keys = self.vocabulary.columns
        place = np.array([to.position.get(key, -1) for key in keys], np.int32)
        codes, low_cut, high_cut = self._codes
        moved = np.array(
            [
                to.cut_position[to.position[key]].get(cut, -1) if key in to.position else -1
                for key, cuts in zip(keys, self.vocabulary.cuts, strict=True)
                for cut in cuts
            ],
            np.float64,
        )
        low, high = self.low.copy(), self.high.copy()
        low[codes], high[codes] = moved[low_cut] + 1, moved[high_cut]
        return place[self.column] if len(keys) else self.column, low, high

"""Predict the matching time of an event in several algorithms, learned from events drawn from the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from matchers.algorithms.cells import Cells
from matchers.contract.tables import EventBatch, Float64, MatchBatch, SubscriptionTable, offsets_of
from matchers.papers.comat.kernel import FEATURES, IntervalEnds, features

Clock = Callable[[], float]

ENDS = 256  # lows, and highs, that are kept of a column at most
GROUPS = 16  # of events to measure
SIZE = 8  # events in a group
ROUNDS = 3  # the least time counts


class PredictedIndex(Protocol):
    """An index of which the time is predicted: one that never changes, or one that does."""

    def match(self, events: EventBatch) -> MatchBatch: ...

    def memory_bytes(self) -> int: ...


@dataclass(frozen=True, eq=False)
class PredictedTime:
    ends: IntervalEnds
    weights: Float64  # [FEATURES, M]: seconds of each algorithm for one of a feature

    def of(self, events: EventBatch) -> Float64:
        """[N, M]: seconds of each algorithm."""
        return features_of(self.ends, events) @ self.weights

    def nbytes(self) -> int:
        return self.weights.nbytes + sum(int(a.nbytes) for a in self.ends)


def learned(table: SubscriptionTable, matchers: Sequence[PredictedIndex], clock: Clock) -> PredictedTime:
    """Least squares over groups of events, by their mean features: to a linear function a mean is as good as events."""
    ends = ends_of(table)
    groups = drawn(table)
    mean = np.array([features_of(ends, group).mean(axis=0) for group in groups])
    unit = np.where(mean.max(axis=0) > 0.0, mean.max(axis=0), 1.0)
    weights = np.linalg.lstsq(mean / unit, measured(matchers, groups, clock), rcond=None)[0]
    return PredictedTime(ends, weights / unit[:, None])


def measured(matchers: Sequence[PredictedIndex], groups: Sequence[EventBatch], clock: Clock) -> Float64:
    """[G, M]: seconds of each algorithm for an event of each group. They take turns, so that a slow phase slows all."""
    for matcher in matchers:
        matcher.match(groups[0])  # compiles
    seconds = np.empty((ROUNDS, len(groups), len(matchers)))
    for taken in seconds:
        for g, group in enumerate(groups):
            for m, matcher in enumerate(matchers):
                began = clock()
                matcher.match(group)
                taken[g, m] = (clock() - began) / len(group)
    return np.asarray(seconds.min(axis=0))


def drawn(table: SubscriptionTable, seed: int = 1) -> list[EventBatch]:
    """Events that differ in how many columns they have and in how often their values lie where intervals do.

    Group g has a share (g + 1) / GROUPS of the columns. A value lies on an interval of its column, or anywhere in the
    column's domain; how often which, is another number for each group.
    """
    r = np.random.default_rng(seed)
    order = np.argsort(table.column, kind="stable")
    start = offsets_of(np.bincount(table.column, minlength=table.n_columns))
    domain = Cells.of(table, 1)
    width = np.where(domain.per_unit > 0.0, 1.0 / np.maximum(domain.per_unit, np.finfo(float).tiny), 0.0)
    found = []
    for share in np.arange(1, GROUPS + 1) / GROUPS:
        event, column = np.nonzero((r.random((SIZE, table.n_columns)) < share) & (np.diff(start) > 0))
        at = order[start[column] + (r.random(len(column)) * np.diff(start)[column]).astype(np.int64)]
        begin = domain.begin[column]
        end = begin + width[column]
        low, high = np.clip(table.low[at], begin, end), np.clip(table.high[at], begin, end)
        t = r.random(len(column))
        anywhere = r.random(len(column)) < r.random()
        value = np.where(anywhere, begin + t * (end - begin), (1.0 - t) * low + t * high)
        found.append(EventBatch.from_values(event, column, value, n_events=SIZE, n_columns=table.n_columns))
    return found


def ends_of(table: SubscriptionTable) -> IntervalEnds:
    """Sample every k-th low and high of each column, from the (k / 2)-th on: at most ENDS of each."""
    intervals = np.bincount(table.column, minlength=table.n_columns)
    each = np.maximum(-(-intervals // ENDS), 1)
    known = (intervals + each - each // 2 - 1) // each
    start, first = offsets_of(known), offsets_of(intervals)
    column = np.repeat(np.arange(table.n_columns), known)
    at = first[column] + each[column] // 2 + (np.arange(start[-1]) - start[column]) * each[column]
    low, high = (bound[np.lexsort((bound, table.column))][at] for bound in (table.low, table.high))
    predicates = np.bincount(table.column[table.begins], minlength=table.n_columns)
    return IntervalEnds(start, low, high, each.astype(np.float64), predicates.astype(np.float64))


def features_of(ends: IntervalEnds, events: EventBatch) -> Float64:
    found = np.empty((len(events), FEATURES))
    features(events.offsets, events.column, events.value, ends, found)
    return found

"""Insert subscriptions into COMAT and delete them from it (ISPA 2020, as the paper on PEM describes it).

Each subscription is in both algorithms, so an update is one of each, and its cost that of both: TAMA's and REIN's. The
predictor takes new subscriptions into account too.

What ours does: the predicates of each column are counted along, and with them the hits that an end stands for; the ends
that are kept, and the seconds for one of each feature, are those of the last whole build. Where that was of a table too
small to be measured, hits and misses cost the same. Matches never depend on the prediction. Nothing is measured by an
update; a whole build, when the intervals have doubled or half of them are deleted, learns anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import thread_time

import numpy as np
from numpy.typing import ArrayLike

from matchers.contract.tables import EventBatch, Int64, MatchBatch, SubscriptionTable
from matchers.papers.comat import Comat, assumed, check_threads, weights_of_counts
from matchers.papers.comat.predicted_time import Clock, PredictedTime, learned
from matchers.papers.updates.growing_table import GrowingTable
from matchers.papers.updates.rein import UpdatableRein
from matchers.papers.updates.tama import UpdatableTama
from matchers.papers.updates.updatable import Updatable

Builder = Callable[[SubscriptionTable], Updatable]

TAMA: Builder = partial(UpdatableTama, levels=17)  # PEM, sec. V A


class UpdatableComat:
    """COMAT's two indexes, whose arrays change in place, and the predictor."""

    _comat: Comat
    _intervals: Int64  # [A]
    _measured: bool  # whether the predictor learned from measurements

    def __init__(
        self,
        table: SubscriptionTable,
        *,
        threads: int = 1,
        counting: Builder = TAMA,
        marking: Builder = UpdatableRein,
        fewest: int = 10_000,
        clock: Clock = thread_time,
    ) -> None:
        """Options as for `comat.build`; algorithms that can be updated. Raises MatchingError."""
        check_threads(threads)
        self._threads, self._fewest, self._clock = threads, fewest, clock
        self._table = GrowingTable(table)
        self._algorithms = counting(table), marking(table)
        self._learn()

    def match(self, events: EventBatch) -> MatchBatch:
        return self._comat.match(events)

    def memory_bytes(self) -> int:
        return self._table.memory_bytes() + self._comat.memory_bytes() + self._intervals.nbytes

    def insert(self, table: SubscriptionTable) -> int:
        first = self._table.append(table)
        for algorithm in self._algorithms:
            algorithm.insert(table)
        self._follow(table, 1)
        return first

    def delete(self, subscriptions: ArrayLike) -> None:
        numbers = self._table.delete(subscriptions)
        for algorithm in self._algorithms:
            algorithm.delete(numbers)
        self._follow(self._table.rows_of(numbers), -1)

    def _learn(self) -> None:
        table = self._table.compact()
        self._intervals = np.bincount(table.column, minlength=table.n_columns)
        self._measured = len(table.column) >= self._fewest
        seconds = learned(table, self._algorithms, self._clock) if self._measured else assumed(table)
        self._comat = Comat(self._algorithms, seconds, self._threads)

    def _follow(self, table: SubscriptionTable, sign: int) -> None:
        """Count subscriptions for the predictor: they came, or they went where the sign is -1."""
        if self._table.outgrown:
            self._learn()
            return
        seconds, columns = self._comat.seconds, table.n_columns
        self._intervals += sign * np.bincount(table.column, minlength=columns)
        predicates = seconds.ends.predicates + sign * np.bincount(table.column[table.begins], minlength=columns)
        each = self._intervals / np.maximum(np.diff(seconds.ends.start), 1)
        weights = seconds.weights
        if not self._measured:
            weights = weights_of_counts(predicates.sum())
        ends = seconds.ends._replace(each=each, predicates=predicates)
        self._comat = Comat(self._algorithms, PredictedTime(ends, weights), self._threads)

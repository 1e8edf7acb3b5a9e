"""`comat`: every subscription in two algorithms; each event goes to the one predicted to be faster.

Source: Ding, Qian, Zhu, Cao, Xue, Zhu and Li, "Comat: An Effective Composite Matching Framework for Content-based
Pub/Sub Systems", IEEE ISPA 2020, as the paper on PEM (SEKE 2022, sec. II, IV and V) describes and measures it. Counting
(`tama`) costs what an event hits, marking (`rein`) what it misses. Each subscription is kept by both; for an event the
time that each takes is predicted, and the one with the less matches it.

It takes about what the faster of the two does, and less than either where events differ: one with few columns, or with
values where few intervals lie, is for counting. The price is the memory of both, the measuring when it is built (128
events, three times in each), and the prediction: two searches for a value among the ends of its column, some 1 us for
20 values. Where all events are alike it is the faster one and no more; `pem` splits the subscriptions instead.

What the source leaves open to those who read of it elsewhere, and what ours does:

- *What is predicted from.* Both algorithms cost a sum over an event's values: of hits in `tama`, and in `rein` of
  misses, which are the predicates less the hits; where the column is absent, nothing is compared. So
  an event has four features (kernel.py): 1, its values, the hits and the predicates in columns that it has.
- *By what.* The source's predictor is a neural network. Ours is a linear function of the features for each algorithm,
  by least squares: the costs are linear in them, and there is nothing left for a network to find. Compared with one of
  a hidden layer of 8, both learning from the same measurements (100,000 subscriptions, 10 predicates, 20 columns,
  widths 0.3, 0.5 and 0.7, three times each), on events drawn anew: by either choice they took 1.000 to 1.004 of what
  they take at best, but once 1.052 by the network's; with `tama` alone 1.00, 1.31 and 1.68, with `rein` 1.67, 1.36 and
  1.33.
- *From what it learns.* Events drawn from the table (predicted_time.py), with few columns or all, on the intervals or
  beside them; no events need to be known. The two take turns, so that both are slow where the machine is, and `clock`
  is that of the thread, which does not run while the thread waits for a core. With few intervals (`fewest`) all events
  take next to nothing and a segment is to be built at once, so there nothing is measured, and a hit is taken to cost
  counting what a miss costs marking.
- *Several cores.* The events of a batch are shared out among `threads`; each thread predicts for its own, gives either
  algorithm its part at once and puts the matches back in the order of events.

Matches never depend on the prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import thread_time

import numpy as np

from matchers.algorithms import tama
from matchers.algorithms.pool import over
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Float64, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError
from matchers.papers import rein
from matchers.papers.comat.kernel import IntervalEnds, interleave
from matchers.papers.comat.predicted_time import Clock, PredictedIndex, PredictedTime, ends_of, learned

Builder = Callable[[SubscriptionTable], Matcher]

TAMA: Builder = partial(tama.build, levels=17)  # PEM, sec. V A


@dataclass(frozen=True, eq=False)
class Comat(Matcher):
    algorithms: tuple[PredictedIndex, PredictedIndex]  # counting and marking
    seconds: PredictedTime
    threads: int

    def match(self, events: EventBatch) -> MatchBatch:
        return MatchBatch.joined(over(len(events), self.threads, partial(self._match, events)))

    def fastest(self, events: EventBatch) -> Int64:
        """[N]: which of the algorithms is expected to be the faster one."""
        return np.asarray(self.seconds.of(events).argmin(axis=1), np.int64)

    def memory_bytes(self) -> int:
        return self.seconds.nbytes() + sum(algorithm.memory_bytes() for algorithm in self.algorithms)

    def _match(self, events: EventBatch, begin: int, end: int) -> MatchBatch:
        own = EventBatch(events.offsets[begin : end + 1], events.column, events.value, events.n_columns)
        fastest = self.fastest(own)
        counted, marked = (
            algorithm.match(_chosen(own, np.flatnonzero(fastest == of))) for of, algorithm in enumerate(self.algorithms)
        )
        counts = np.empty(len(own), np.int64)
        out = np.empty(len(counted.subscription) + len(marked.subscription), np.int32)
        interleave(fastest, counted.offsets, counted.subscription, marked.offsets, marked.subscription, counts, out)
        return MatchBatch(offsets_of(counts), out)


def build(
    table: SubscriptionTable,
    *,
    threads: int = 1,
    counting: Builder = TAMA,
    marking: Builder = rein.build,
    fewest: int = 10_000,
    clock: Clock = thread_time,
) -> Comat:
    """`counting` and `marking` build the two algorithms; `clock` measures what they take. Raises MatchingError.

    Nothing is measured where there are less than the `fewest` intervals.
    """
    check_threads(threads)
    algorithms = counting(table), marking(table)
    measurable = len(table.subscription) >= fewest
    return Comat(algorithms, learned(table, algorithms, clock) if measurable else assumed(table), threads)


def assumed(table: SubscriptionTable) -> PredictedTime:
    """The predictor for which a hit costs counting one second, and a miss costs marking one."""
    ends = ends_of(table)
    return PredictedTime(ends, weights_of_counts(ends.predicates.sum()))


def weights_of_counts(predicates: float) -> Float64:
    """The weights with which the hits, and the misses among so many predicates, are the predicted seconds."""
    return np.column_stack((np.array([0.0, 0.0, 1.0, 0.0]), np.array([predicates, 0.0, -1.0, 0.0])))


def check_threads(threads: int) -> None:
    """Raises MatchingError."""
    if threads < 1:
        raise MatchingError(f"threads must be 1 or more, not {threads}")


def _chosen(events: EventBatch, which: Int64) -> EventBatch:
    """Some events of a batch, in its order."""
    if len(which) == len(events):
        return events
    begin = events.offsets[which]
    length = events.offsets[which + 1] - begin
    offsets = offsets_of(length)
    at = np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], length)
    return EventBatch(offsets, events.column[at], events.value[at], events.n_columns)


STORED = (Comat, PredictedTime, IntervalEnds)

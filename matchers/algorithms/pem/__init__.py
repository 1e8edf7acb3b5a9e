"""`pem`: two algorithms side by side, each for the subscriptions on which it is faster.

Source: Zhu, Deng, Qian, Cao and Xue, "PEM: A Parallel Ensemble Matching Framework for Content-based Publish/Subscribe
Systems", SEKE 2022. Counting (`tama`) costs what an event hits, marking (`rein`) what it misses. So subscriptions are
classified by p, the average matching probability of their K predicates: below the split point SP they go to TAMA, from
it on to REIN, and each runs in a thread of its own. After each window of psi = 20 events SP moves within its elastic
range [SP * (1 - alpha), SP * (1 + alpha)], alpha = 0.2, by the share of its time that each took (Eq. 3, algorithm 1).

    p is the mean of the predicates' widths over those of their domains (Eq. 1), or, where `events` are given,
    of the share of these events that hold a value on the predicate (Eq. 2, with their distribution for p_e).

Cost per event: the greater of TAMA's for the subscriptions below SP and REIN's for the others, and O(S / 64).

What the paper leaves open, and what ours does:

- *What SP = 0.5 means where all p are alike.* p is said to be normalised to [0, 1]; ours is by rank: SP is the share of
  the subscriptions that TAMA has. A workload with predicates of one width can be split then, too.
- *How subscriptions change sides.* In the order of p they lie in slices of equal length (`slices`, 16), and SP is
  between two of them. Small indexes are slow ones, so a side has not one for each slice but the fewest for aligned
  runs of 1, 2, 4 .. slices: four at most, of 16. A run is indexed when it first belongs to a side and stays indexed, so
  a way back costs nothing. TAMA's side begins at slice 0, so of two runs of one length side by side only the first is
  ever its own, and REIN's only the second: whatever SP does, log2(slices) / 2 times all subscriptions are built into
  each, twice with 16. That is done at the end of a window, by the caller that ended it, before SP moves: other callers
  go on as before. A side keeps one slice at least, or nobody would know its time.
- *Whose time.* That of the clock, so cores that are shared with others make SP waver. There `clock=time.thread_time`,
  which stands still while a thread waits for a core, says better what a side has to do.
- *How far SP may be carried.* Eq. 3 goes a fifth of the way to the balance in one window, which is right for what
  wavers and slow for what changes. So it rules while the times differ by alpha at most; beyond, SP goes at once to
  where both would take equally long (`split_point.balanced`), reckoned from the time that each slice took and, for
  slices that change sides, from hits (TAMA) or misses (REIN) expected by p. The elastic range is then about there.
- *Events in batches, from several threads.* A window may span calls; a batch is matched in pieces of psi events. One of
  the two threads is the caller's. Times of a piece that another caller's window has overtaken do not count.

Results never depend on SP. Nor does p follow later events: a matcher for another distribution is built from its events.
For few subscriptions the threads cost more than they bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from matchers.algorithms import rein, tama
from matchers.algorithms.cells import Cells
from matchers.algorithms.pem.kernel import gather
from matchers.algorithms.pem.split_point import cut_of, follow
from matchers.algorithms.pool import run as run_all
from matchers.contract.matcher import AdaptiveMatcher, Matcher
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError

Builder = Callable[[SubscriptionTable], Matcher]
Clock = Callable[[], float]

TAMA: Builder = partial(tama.build, levels=17)  # sec. V A

QUIET_WINDOWS = 10  # without an index to build, after which the split point has settled

_NOTHING = EventBatch(np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0, np.float64), 0)


@dataclass(frozen=True, eq=False)
class Run:
    """Contiguous slices, indexed for one side."""

    subscription: Int32  # the subscriptions that the index numbers 0, 1 .., ascending
    index: Matcher


@dataclass(frozen=True, eq=False)
class Side:
    """One algorithm, and its index of each run of slices that has been on its side."""

    build: Builder
    work: Float64  # [K] the expected time of each slice, in a unit of this side
    runs: dict[range, Run] = field(default_factory=dict)
    lock: Any = field(default_factory=Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "runs": dict(self.runs), "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=Lock())


@dataclass(eq=False)
class Balance:
    """The split point, and the measurements of the current window. All under the lock."""

    split: float
    times: Float64  # [K] seconds that each slice took in this window
    seen: int = 0  # events in this window
    quiet: int = 0  # windows since one ended with an index to build
    lock: Any = field(default_factory=Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=Lock())

    def restart(self, split: float) -> None:
        self.split = split
        self.times[:] = 0.0
        self.seen = 0


@dataclass(frozen=True, eq=False)
class Pem(AdaptiveMatcher):
    sides: tuple[Side, Side]  # for low and for high matching probabilities
    table: SubscriptionTable
    order: Int32  # [S] subscriptions ascending by p
    bounds: Int64  # [K + 1]: slice i has the subscriptions order[bounds[i]] .. order[bounds[i + 1]]
    balance: Balance
    alpha: float
    window: int  # psi
    adjust: bool
    clock: Clock

    def match(self, events: EventBatch) -> MatchBatch:
        pieces = [self._match(events.part(at, at + self.window)) for at in range(0, len(events), self.window)]
        return MatchBatch.joined(pieces)

    @property
    def split(self) -> float:
        with self.balance.lock:
            return self.balance.split

    @property
    def learnt(self) -> int:
        """The number of indexes that it has built."""
        return sum(len(side.runs) for side in self.sides)

    @property
    def settled(self) -> bool:
        return not self.adjust or self.n_slices < 2 or self.balance.quiet >= QUIET_WINDOWS

    def memory_bytes(self) -> int:
        """The size of all indexes of both sides: a subscription counts once for each index that has it."""
        runs = [run for side in self.sides for run in list(side.runs.values())]
        return super().memory_bytes() + sum(run.subscription.nbytes + run.index.memory_bytes() for run in runs)

    def _match(self, events: EventBatch) -> MatchBatch:
        cut = self._cut(self.split)
        slices = (range(cut), range(cut, self.n_slices))
        both = [partial(self._ask, side, own, events) for side, own in zip(self.sides, slices, strict=True)]
        (low, low_times), (high, high_times) = run_all(both)
        self._record(cut, len(events), np.concatenate((low_times, high_times)))
        return united(low + high, len(events), len(self.order))

    def _ask(self, side: Side, slices: range, events: EventBatch) -> tuple[list[MatchBatch], Float64]:
        """The matches of each run, and the time of each slice: its share of its run's time, by the work expected."""
        found, times = [], [np.empty(0)]
        began = self.clock()
        for run in aligned(slices):
            indexed = self._indexed(side, run)
            local = indexed.index.match(events)
            found.append(MatchBatch(local.offsets, indexed.subscription[local.subscription]))
            ended = self.clock()
            work = side.work[run.start : run.stop]
            times.append((ended - began) * work / work.sum())
            began = ended
        return found, np.concatenate(times)

    def _indexed(self, side: Side, run: range) -> Run:
        if run not in side.runs:
            with side.lock:
                if run not in side.runs:
                    subscription = np.sort(self.order[self.bounds[run.start] : self.bounds[run.stop]])
                    index = side.build(rows_of(self.table, subscription))
                    index.match(_NOTHING)  # compile before a window measures
                    side.runs[run] = Run(subscription, index)
        return side.runs[run]

    def _record(self, cut: int, n_events: int, times: Float64) -> None:
        """Add the times of a piece; at the end of a window, index the slices that change sides and move SP."""
        balance = self.balance
        with balance.lock:
            if not self.adjust or self.n_slices < 2 or cut != self._cut(balance.split):
                return
            balance.times += times
            balance.seen += n_events
            if balance.seen < self.window:
                return
            split = follow(balance.split, balance.times, self.sides[0].work, self.sides[1].work, self.alpha)
            balance.restart(balance.split)
        learnt = self.learnt
        self._prepare(split)
        with balance.lock:
            balance.restart(split)  # discard what others measured for the old split point
            balance.quiet = balance.quiet + 1 if self.learnt == learnt else 0

    def _prepare(self, split: float) -> None:
        cut = self._cut(split)
        for side, slices in zip(self.sides, (range(cut), range(cut, self.n_slices)), strict=True):
            for run in aligned(slices):
                self._indexed(side, run)

    def _cut(self, split: float) -> int:
        return cut_of(split, self.n_slices) if self.n_slices > 1 else self.n_slices

    @property
    def n_slices(self) -> int:
        return len(self.bounds) - 1


def build(
    table: SubscriptionTable,
    *,
    split: float = 0.5,
    alpha: float = 0.2,
    window: int = 20,
    slices: int = 16,
    adjust: bool = True,
    events: EventBatch | None = None,
    low: Builder = TAMA,
    high: Builder = rein.build,
    clock: Clock = perf_counter,
) -> Pem:
    """`low` and `high` build the matchers of the subscriptions of low and of high probability.

    Without `adjust` the split point stays where it is. Raises MatchingError.
    """
    check_options(split, alpha, window, slices)
    n = table.n_subscriptions
    p = probabilities(table, events)
    order = np.argsort(p, kind="stable").astype(np.int32)
    n_slices = min(slices, n)
    bounds = np.linspace(0, n, n_slices + 1).astype(np.int64)
    hits = p * table.needed
    misses = table.needed - hits
    work = [np.array([(1 + w[order[i:j]]).sum() for i, j in pairwise(bounds)]) for w in (hits, misses)]
    balance = Balance(split, np.zeros(n_slices))
    built = Pem((Side(low, work[0]), Side(high, work[1])), table, order, bounds, balance, alpha, window, adjust, clock)
    built._prepare(split)
    return built


def check_options(split: float, alpha: float, window: int, slices: int = 1) -> None:
    """Raises MatchingError."""
    for name, value, holds, wanted in (
        ("split", split, 0 < split < 1, "between 0 and 1"),
        ("alpha", alpha, 0 < alpha < 1, "between 0 and 1"),
        ("window", window, window >= 1, "1 or more"),
        ("slices", slices, slices >= 1, "1 or more"),
    ):
        if not holds:
            raise MatchingError(f"{name} must be {wanted}, not {value}")


def aligned(slices: range) -> Iterator[range]:
    """The fewest runs of 2^i slices that begin at a multiple of their length: 2 .. 7 is 2 3 and 4 .. 7."""
    at = slices.start
    while at < slices.stop:
        length = 1 << ((slices.stop - at).bit_length() - 1)
        while at % length:
            length >>= 1
        yield range(at, at + length)
        at += length


def probabilities(table: SubscriptionTable, events: EventBatch | None = None, domain: Cells | None = None) -> Float64:
    """p of each subscription by Eq. 1, or by Eq. 2 where events are given; 1 for one without predicates.

    The domain is the table's, unless it is given.

    Intervals of one column are one predicate: its width is that of them all, at most 1 also where the domain has none.
    An open end reaches to that of the domain.
    """
    hit = widths(table, domain or Cells.of(table, 1)) if events is None else shares(table, events)
    total = np.bincount(table.subscription, weights=hit, minlength=table.n_subscriptions)
    return np.where(table.needed > 0, np.minimum(total / np.maximum(table.needed, 1), 1.0), 1.0)


def widths(table: SubscriptionTable, domain: Cells) -> Float64:
    """w of each interval: the part of its column's domain that it takes, all of one without width."""
    begin, per_unit = domain.begin[table.column], domain.per_unit[table.column]
    with np.errstate(invalid="ignore", over="ignore"):
        reach = [np.clip((bound - begin) * per_unit, 0.0, 1.0) for bound in (table.low, table.high)]
    whole = np.where(table.low <= table.high, 1.0, 0.0)
    return np.where(per_unit > 0.0, np.where(whole > 0.0, reach[1] - reach[0], 0.0), whole)


def shares(table: SubscriptionTable, events: EventBatch) -> Float64:
    """[I]: the number of values of an event that lie on each interval, on average."""
    hit = np.zeros(len(table.subscription))
    by_column = np.argsort(table.column, kind="stable")
    by_value = np.lexsort((events.value, events.column))
    columns = np.arange(table.n_columns + 1)
    starts = np.searchsorted(table.column[by_column], columns)
    value_starts = np.searchsorted(events.column[by_value], columns)
    for c in columns[:-1]:
        of = by_column[starts[c] : starts[c + 1]]
        values = events.value[by_value[value_starts[c] : value_starts[c + 1]]]
        below, upto = np.searchsorted(values, table.low[of], "left"), np.searchsorted(values, table.high[of], "right")
        hit[of] = np.maximum(upto - below, 0) / max(len(events), 1)
    return np.minimum(hit, 1.0)


def rows_of(table: SubscriptionTable, subscription: Int32) -> SubscriptionTable:
    """The table of some subscriptions, ascending, numbered anew in that order."""
    begin = table.start[subscription]
    length = table.start[subscription + 1] - begin
    at = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + np.repeat(begin, length)
    return SubscriptionTable(
        np.repeat(np.arange(len(subscription), dtype=np.int32), length),
        table.column[at],
        table.low[at],
        table.high[at],
        len(subscription),
        table.n_columns,
    )


def united(found: list[MatchBatch], n_events: int, n_subscriptions: int) -> MatchBatch:
    """Disjoint sets of subscriptions, found in the same events."""
    if not found:
        return MatchBatch(np.zeros(n_events + 1, np.int64), np.empty(0, np.int32))
    begin = offsets_of(np.array([len(part.subscription) for part in found], np.int64))
    out = np.empty(begin[-1], np.int32)
    counts = np.empty(n_events, np.int64)
    offsets, subscription = np.stack([p.offsets for p in found]), np.concatenate([p.subscription for p in found])
    gather(offsets, subscription, begin, n_subscriptions, out, counts)
    return MatchBatch(offsets_of(counts), out)

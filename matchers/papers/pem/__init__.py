"""`pem`: several algorithms side by side, each for the subscriptions on which it is faster.

Source: Zhu, Deng, Qian, Cao and Xue, "PEM: A Parallel Ensemble Matching Framework for Content-based Publish/Subscribe
Systems", SEKE 2022. Counting (`tama`) costs what an event hits, marking (`rein`) what it misses. So subscriptions are
classified by p, the average matching probability of their K predicates: each goes to algorithm i of the first split
point SP_i > p, or to the last of L, and each algorithm runs in a thread of its own. After each window of psi = 20
events SP_i moves within its elastic range [SP_i * (1 - alpha), SP_i * (1 + alpha)], alpha = 0.2, by the share of their
time that the algorithms before and after it took (Eq. 3, algorithm 1). The paper implements L = 2, TAMA and REIN.

    p is the mean of the predicates' widths over those of their domains (Eq. 1), or, where `events` are given,
    of the share of these events that hold a value on the predicate (Eq. 2, with their distribution for p_e).

Cost per event: the greatest of the algorithms' for their subscriptions, and O(S / 64).

What the paper leaves open, and what ours does:

- *What SP = 0.5 means where all p are alike.* p is said to be normalised to [0, 1]; ours is by rank: SP is the share of
  the subscriptions below it. A workload with predicates of one width can be split then, too. With `ranked=False` the
  split points to begin with are values of p, as those of the paper's figure 8 seem to be.
- *How subscriptions change sides.* In the order of p they lie in slices of equal length (`slices`, 16), and SP_i is
  between two of them. Small indexes are slow ones, so a side has not one for each slice but the fewest for aligned runs
  of 1, 2, 4 .. slices: four at most, of 16, or six between two others. A run is indexed when it first belongs to a side
  and stays indexed, so a way back costs nothing. The first side begins at slice 0, so of two runs of one length side by
  side only the first is ever its own, and the last side's only the second: whatever SP does, log2(slices) / 2 times all
  subscriptions are built into each, twice with 16; into one between them less than log2(slices) times. That is done at
  the end of a window, by the caller that ended it, before SP moves: other callers go on as before. A side keeps one
  slice at least, or its time would be unknown. When the slices have stayed for 5 windows, a side's runs are merged to
  one index, as the paper has it; the next time after 10 windows, then 20, so that wavering builds few. Without `adjust`
  each side is one index, cut exactly at SP_i.
- *Whose time.* Wall time, so cores that are shared with others make SP waver. There take `clock=time.thread_time`,
  which does not run while a thread waits for a core.
- *How far SP may be carried.* Eq. 3 goes a fifth of the way to the balance in one window, which is right for what
  wavers and slow for what changes. So it rules while the times differ by alpha at most; beyond, SP goes at once to
  where all would take equally long (`split_point.balanced`), estimated from the time that each slice took and, for
  slices that change sides, from the work expected by p (`library.py`). The elastic range is then about there.
- *T with L > 2.* The sum of the times on both sides of SP_i, not of all (`split_point.elastic`).
- *Events in batches, from several threads.* A window may span calls; a batch is matched in pieces of psi events. One of
  the threads is the caller's. Times of a piece that another caller's window has overtaken do not count.

Results never depend on SP. Nor does p follow later events: a matcher for another distribution is built from its events.
For few subscriptions the threads cost more than they bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from matchers.algorithms.cells import Cells
from matchers.algorithms.pool import run as run_all
from matchers.contract.matcher import AdaptiveMatcher, Matcher
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError
from matchers.papers.pem.kernel import gather, list_all
from matchers.papers.pem.library import LIBRARY, PAPER, Builder, check_algorithms
from matchers.papers.pem.split_point import Splits, cuts_of, follow

Clock = Callable[[], float]
Found = tuple[Int32, MatchBatch]  # a set of subscriptions, ascending, and its matches, numbered within it

STEADY_WINDOWS = 5  # with the same slices, after which each side gets one index of all of its slices
QUIET_WINDOWS = 10  # without an index to build, after which the split points have settled

_NOTHING = EventBatch(np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0, np.float64), 0)


@dataclass(frozen=True, eq=False)
class Run:
    """Contiguous slices, indexed for one side."""

    subscription: Int32  # the subscriptions that the index numbers 0, 1 .., ascending
    index: Matcher


@dataclass(frozen=True, eq=False)
class SideIndexes:
    """An algorithm, and its index of each run of slices that has been on its side."""

    build: Builder
    work: Float64  # [K] the expected time of each slice, in a unit of this side
    runs: dict[range, Run] = field(default_factory=dict)
    lock: Any = field(default_factory=Lock, repr=False)

    def parts(self, slices: range) -> list[range]:
        """The runs that make its slices: one if they have been merged."""
        return [slices] if slices in self.runs else [*aligned(slices)]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "runs": dict(self.runs), "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=Lock())


@dataclass(eq=False)
class Balance:
    """The split points, and the measurements of the current window. All under the lock."""

    splits: Splits
    times: Float64  # [K] seconds that each slice took in this window
    seen: int = 0  # events in this window
    steady: int = 0  # windows since the slices of a side last changed
    patience: int = STEADY_WINDOWS  # such windows before the next merging
    quiet: int = 0  # windows since one ended with an index to build
    lock: Any = field(default_factory=Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=Lock())

    def restart(self, splits: Splits) -> None:
        self.splits = splits
        self.times[:] = 0.0
        self.seen = 0


@dataclass(frozen=True, eq=False)
class Pem(AdaptiveMatcher):
    sides: tuple[SideIndexes, ...]  # for low to high matching probabilities
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
    def splits(self) -> Splits:
        """SP_i: the shares of all subscriptions that algorithms 1 .. i have."""
        with self.balance.lock:
            return self.balance.splits

    @property
    def learnt(self) -> int:
        """The number of indexes that it has built."""
        return sum(len(side.runs) for side in self.sides)

    @property
    def settled(self) -> bool:
        return not self._adjustable or self.balance.quiet >= QUIET_WINDOWS

    def memory_bytes(self) -> int:
        """The size of all indexes of all sides: a subscription counts once for each index that has it."""
        runs = [run for side in self.sides for run in list(side.runs.values())]
        return super().memory_bytes() + sum(run.subscription.nbytes + run.index.memory_bytes() for run in runs)

    def _match(self, events: EventBatch) -> MatchBatch:
        slices = self._slices(self.splits)
        tasks = [partial(self._ask, side, own, events) for side, own in zip(self.sides, slices, strict=True)]
        answers = run_all(tasks)
        self._record(slices, len(events), np.concatenate([times for _, times in answers]))
        return united([one for found, _ in answers for one in found], len(events), len(self.order))

    def _ask(self, side: SideIndexes, slices: range, events: EventBatch) -> tuple[list[Found], Float64]:
        """The matches of each run, and the time of each slice: its share of its run's time, by the work expected."""
        found, times = [], [np.empty(0)]
        began = self.clock()
        for run in side.parts(slices):
            indexed = self._indexed(side, run)
            found.append((indexed.subscription, indexed.index.match(events)))
            ended = self.clock()
            work = side.work[run.start : run.stop]
            times.append((ended - began) * work / max(float(work.sum()), 1.0))  # 0 without subscriptions
            began = ended
        return found, np.concatenate(times)

    def _indexed(self, side: SideIndexes, run: range) -> Run:
        if run not in side.runs:
            with side.lock:
                if run not in side.runs:
                    subscription = np.sort(self.order[self.bounds[run.start] : self.bounds[run.stop]])
                    index = side.build(rows_of(self.table, subscription))
                    index.match(_NOTHING)  # compile before a window measures
                    side.runs[run] = Run(subscription, index)
        return side.runs[run]

    def _record(self, slices: list[range], n_events: int, times: Float64) -> None:
        """Add the times of a piece; at the end of a window, index the slices that change sides and move SP."""
        balance = self.balance
        with balance.lock:
            if not self._adjustable or slices != self._slices(balance.splits):
                return
            balance.times += times
            balance.seen += n_events
            if balance.seen < self.window:
                return
            splits = follow(balance.splits, balance.times, [side.work for side in self.sides], self.alpha)
            balance.restart(balance.splits)
            balance.steady = balance.steady + 1 if slices == self._slices(splits) else 0
            merged = balance.steady == balance.patience
            if merged:
                balance.patience *= 2
        learnt = self.learnt
        self._prepare(splits, merged)
        with balance.lock:
            balance.restart(splits)  # discard what others measured for the old split points
            balance.quiet = balance.quiet + 1 if self.learnt == learnt else 0

    def _prepare(self, splits: Splits, merged: bool = False) -> None:
        for side, slices in zip(self.sides, self._slices(splits), strict=True):
            for run in [slices] if merged and slices else side.parts(slices):
                self._indexed(side, run)

    def _slices(self, splits: Splits) -> list[range]:
        """The slices of each side."""
        return [range(*ends) for ends in pairwise((0, *cuts_of(splits, self.n_slices), self.n_slices))]

    @property
    def _adjustable(self) -> bool:
        return self.adjust and self.n_slices >= len(self.sides)

    @property
    def n_slices(self) -> int:
        return len(self.bounds) - 1


def build(
    table: SubscriptionTable,
    *,
    algorithms: Sequence[str] = PAPER,
    split: float | Sequence[float] | None = None,
    ranked: bool = True,
    alpha: float = 0.2,
    window: int = 20,
    slices: int = 16,
    adjust: bool = True,
    events: EventBatch | None = None,
    clock: Clock = perf_counter,
) -> Pem:
    """`algorithms`: names of LIBRARY, from low to high matching probability.

    `split`: the split points to begin with, for two algorithms one number, else a list; without, all sides get equally
    many subscriptions. They are shares of the subscriptions, or values of p if not `ranked`. Without `adjust` they stay
    where they are. Raises MatchingError.
    """
    names = check_algorithms(algorithms, LIBRARY)
    splits = check_options(len(names), split, alpha, window, slices)
    n = table.n_subscriptions
    p = probabilities(table, events)
    order = np.argsort(p, kind="stable").astype(np.int32)
    if not ranked:
        splits = shares_below(splits, p[order])
    shares = np.linspace(0.0, 1.0, min(slices, n) + 1) if adjust else np.array([0.0, *splits, 1.0])
    bounds = np.rint(shares * n).astype(np.int64)
    hits = p * table.needed
    sides = []
    for name in names:
        work = LIBRARY[name].work(hits, table.needed - hits)
        until = np.concatenate(([0.0], np.cumsum(work[order])))[bounds]
        sides.append(SideIndexes(LIBRARY[name].build, np.diff(until)))
    balance = Balance(splits, np.zeros(len(bounds) - 1))
    built = Pem(tuple(sides), table, order, bounds, balance, alpha, window, adjust, clock)
    built._prepare(splits)
    return built


def shares_below(splits: Splits, ascending: Float64) -> Splits:
    """The share of the subscriptions, whose p are `ascending` [S], below each split point; SP itself without any."""
    if not len(ascending):
        return splits
    return tuple((np.searchsorted(ascending, splits) / len(ascending)).tolist())


def check_options(
    n_algorithms: int, split: float | Sequence[float] | None, alpha: float, window: int, slices: int | None = None
) -> Splits:
    """The split points. Raises MatchingError."""
    for name, value, holds, wanted in (
        ("alpha", alpha, 0 < alpha < 1, "between 0 and 1"),
        ("window", window, window >= 1, "1 or more"),
        ("slices", slices, slices is None or slices >= n_algorithms, f"{n_algorithms} or more, one for each algorithm"),
    ):
        if not holds:
            raise MatchingError(f"{name} must be {wanted}, not {value}")
    if split is None:
        return tuple(i / n_algorithms for i in range(1, n_algorithms))
    splits = tuple(split) if isinstance(split, Sequence) else (split,)
    numbers = len(splits) == n_algorithms - 1 and all(isinstance(sp, int | float) for sp in splits)
    if not numbers or not all(a < b for a, b in pairwise((0, *splits, 1))):
        ascending = "" if n_algorithms == 2 else f"a list of {n_algorithms - 1} ascending numbers "
        raise MatchingError(f"split must be {ascending}between 0 and 1, not {split}")
    return splits


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


def united(found: list[Found], n_events: int, n_subscriptions: int) -> MatchBatch:
    """Merge the matches that disjoint sets of subscriptions found in the same events."""
    bits = np.full((n_events, (n_subscriptions + 63) // 64), ~np.uint64(0))
    for subscription, matches in found:
        gather(matches.offsets, matches.subscription, subscription, bits)
    out = np.empty(sum(len(matches.subscription) for _, matches in found), np.int32)
    counts = np.empty(n_events, np.int64)
    list_all(bits, n_subscriptions, out, counts)
    return MatchBatch(offsets_of(counts), out)


STORED = (Pem, SideIndexes, Run, Balance)

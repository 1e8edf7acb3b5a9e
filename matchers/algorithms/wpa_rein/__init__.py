"""`wpa_rein`: mark misses attribute by attribute and width by width, and skip the widest predicates.

Source: WPA-REIN (technical report of EEM: Dong, Qian, Shi, Cao, Xue), which puts levels of predicate widths between
attributes and the two bucket lists of REIN (Qian et al., INFOCOM 2014). A predicate misses when the event's value lies
below its low or above its high value; both lie in buckets, of which all beyond the event's own hold misses only.

With false_positives = F = 0 it is exact. With F > 0 it lists about F = FP / (TP + FP) too many, and never too few: the
widest predicates, which rarely decide, are not visited. `precision.py` chooses them, for any F without building
again. With `exact` the unmarked subscriptions are checked, so that F only sets how much of the work is checking.

Symbols: n subscriptions, d attributes, k predicates of a subscription, w their width, b buckets, L levels.

Cost per event: n k (1 - w) marks at F = 0, d L buckets compared, n / 64 words. Marks are independent of each other
and go through a run of memory; scan, which ends a subscription at its first miss, waits for a branch it cannot predict.

Where the table is more general than the paper: several intervals of one (subscription, column) are indexed as their
hull and survivors checked; so are the survivors of events with several values in a column. Subscriptions that constrain
a column which the event lacks are marked at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import cpu_count
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from matchers.algorithms.cells import Cells
from matchers.algorithms.pool import run
from matchers.algorithms.predicates import Predicates
from matchers.algorithms.wpa_rein.allocation import allocate
from matchers.algorithms.wpa_rein.improvement import by_lemma_2, equation_2
from matchers.algorithms.wpa_rein.kernel import Lists, Plans, fill_buckets, list_block, mark_block, mark_dense
from matchers.algorithms.wpa_rein.matching_time import UnitTimes, best_threads, marking_s
from matchers.algorithms.wpa_rein.precision import Precision, calibrate, sample_size
from matchers.contract.matcher import AdaptiveMatcher, RatedMatcher, list_matches
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable, offsets_of
from matchers.errors import MatchingError
from matchers.kernels.bitsets import unmarked
from matchers.kernels.rows import Rows

BLOCK_BYTES = 1 << 18  # of marks, which stay in the second cache until they are listed
BLOCK_BYTES_OF_THREAD = 1 << 20  # more, so that a thread is handed work less often
ENOUGH_EVENTS = 64  # that show how values are distributed; with fewer, events are drawn from the domain

Clock = Callable[[], float]


@dataclass(frozen=True, eq=False)
class WpaRein(RatedMatcher, AdaptiveMatcher):
    """Lists more than matches with false_positives > 0, unless exact; exact otherwise."""

    lists: Lists
    rows: Rows  # the table, to verify the unmarked subscriptions
    false_positives: float
    exact: bool
    buckets: int
    threads: int | Literal["auto"]
    clock: Clock
    calibration: Calibration

    def match(self, events: EventBatch, *, false_positives: ArrayLike | None = None) -> MatchBatch:
        """`false_positives`: one F for the batch, or one for each event; those of `build` without."""
        rates, of_event = _rates(self.false_positives if false_positives is None else false_positives, len(events))
        if rates.any():
            precision = self.calibration.of(self.lists, events)
            kept = np.array([precision.kept(rate) if rate else self.size for rate in rates.tolist()])
        else:
            kept = self.size[np.newaxis]
        work = np.bincount(of_event, minlength=len(rates)) @ kept
        threads = self.threads_for(work / max(len(events), 1))
        parts = allocate(work, threads)
        plans = Plans(kept, (rates > 0) & self.exact, of_event)

        lists = self.lists
        row_bytes = max(8 * lists.dense.shape[1], 1)
        size = min(max((BLOCK_BYTES if threads == 1 else BLOCK_BYTES_OF_THREAD) // row_bytes, 1), max(len(events), 1))
        blocks = np.zeros((threads, size, lists.dense.shape[1]), np.uint64)
        marked = (0, 0)

        def step(first: int, out: Int32, counts: Int64) -> int:
            nonlocal marked
            if first == marked[1]:
                marked = (first, min(first + size, len(events)))
                run(
                    [
                        partial(mark_block, *marked, events.arrays, lists, groups, plans, t == 0, blocks[t])
                        for t, groups in enumerate(parts)
                    ]
                )
            return list_block(first, *marked, events.arrays, lists, self.rows, plans, blocks, out, counts)

        return list_matches(step, len(events), lists.n_subscriptions)

    @property
    def learnt(self) -> int:
        """The number of events in the last calibration, and 1 for the first one, which may have none."""
        return self.calibration.n_events + (self.calibration.precision is not None)

    @property
    def settled(self) -> bool:
        return self.false_positives == 0 or self.calibration.n_events >= sample_size(self.lists)

    def threads_for(self, work: Float64) -> int:
        """The number of threads that mark, if an event looks at work [G] predicates of each group."""
        if self.threads != "auto":
            return self.threads
        times = unit_times(self.clock, self.buckets)
        marking = marking_s(times, work.reshape(-1, self.lists.levels).sum(axis=1), **self.shape)
        n = self.lists.n_subscriptions
        block = max(BLOCK_BYTES_OF_THREAD // max(n // 8, 1), 1)
        return best_threads(marking, n * times.epsilon_s, times.handover_s / block, cpu_count() or 1)

    def profile(self, events: EventBatch) -> dict[str, float]:
        """Return what is skipped at the rate of `build`, and the share of time that the model expects skipping to
        save."""
        rate, n = self.false_positives, self.lists.n_subscriptions
        kept = self.calibration.of(self.lists, events).kept(rate) if rate else self.size
        frequency, looked_at = (
            groups.reshape(-1, self.lists.levels).sum(axis=1, dtype=np.float64) for groups in (self.size, kept)
        )
        skipped = (looked_at == 0) & (frequency > 0)
        y = int((frequency - looked_at).sum())
        times = unit_times(self.clock, self.buckets)
        return {
            "predicates skipped": float(y),
            "attributes skipped": float(np.count_nonzero(skipped)),
            "improvement by Lemma 2": by_lemma_2(times, frequency, skipped, y, n, **self.shape),
            "improvement by Eq. 2": equation_2(times, frequency, skipped, y, n, **self.shape),
        }

    @cached_property
    def size(self) -> Int64:
        """[G] predicates of each group."""
        return np.asarray(np.diff(self.lists.begin))

    @property
    def shape(self) -> dict[str, int]:
        return {"levels": self.lists.levels, "buckets": self.buckets}

    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in (*self.lists, *self.rows) if isinstance(array, np.ndarray))


@dataclass
class Calibration:
    """The cost of skipping: computed when a rate is first needed, and again after twice as many events."""

    seen: list[EventBatch] = field(default_factory=list)
    precision: Precision | None = None
    n_events: int = 0  # that the precision was worked out from
    _lock: Any = field(default_factory=Lock)

    @classmethod
    def on(cls, lists: Lists, sample: EventBatch) -> Calibration:
        """Calibrate once, on a sample."""
        most = sample_size(lists)
        return cls([], calibrate(lists, _sample([sample], most)), most)

    def of(self, lists: Lists, events: EventBatch) -> Precision:
        with self._lock:
            most = sample_size(lists)
            if self.n_events < most and len(events):
                self.seen.append(events)
            n_seen = sum(len(batch) for batch in self.seen)
            if self.precision is None or (n_seen >= ENOUGH_EVENTS and n_seen >= 2 * self.n_events):
                enough = n_seen >= ENOUGH_EVENTS
                self.n_events = min(n_seen, most) if enough else 0
                self.seen = [_sample(self.seen, most)] if enough else self.seen
                self.precision = calibrate(lists, self.seen[0] if enough else _drawn(lists, most))
                if self.n_events == most:
                    self.seen = []
            return self.precision

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())


def build(
    table: SubscriptionTable,
    *,
    levels: int = 5,
    buckets: int = 1000,
    false_positives: float = 0.0,
    exact: bool = False,
    threads: int | Literal["auto"] = 1,
    sample: EventBatch | None = None,
    clock: Clock = time.perf_counter,
) -> WpaRein:
    """`sample`: events to calibrate rates of false positives on, instead of the matched ones.

    `threads`: "auto" for as many as the model of the time finds best; `clock` then measures this machine once.
    """
    for name, value in (("levels", levels), ("buckets", buckets), ("threads", 1 if threads == "auto" else threads)):
        if not isinstance(value, int) or value < 1:
            raise MatchingError(f"{name} must be an integer of at least 1, not {value!r}")
    _rates(false_positives, 0)
    hulls = Predicates.of(table)
    lists = _lists(table, hulls, levels, buckets)
    calibration = Calibration() if sample is None else Calibration.on(lists, sample)
    return WpaRein(lists, hulls.rows(table), false_positives, exact, buckets, threads, clock, calibration)


def _lists(table: SubscriptionTable, hulls: Predicates, levels: int, buckets: int) -> Lists:
    subscription, column, low, high = hulls.subscription, hulls.column, hulls.low, hulls.high
    domain = Cells.of(table, 1)
    width = _widths(domain, column, low, high)
    level = np.minimum((width * levels).astype(np.int64), levels - 1)
    group = column.astype(np.int64) * levels + level
    begin = np.searchsorted(np.sort(group), np.arange(table.n_columns * levels + 1)).astype(np.int64)
    by_low, by_high, by_width = (np.lexsort((key, group)) for key in (low, high, width))

    rank = np.empty(len(group), np.int32)
    rank[by_width] = np.arange(len(group)) - begin[group[by_width]]

    frequency = np.diff(begin[::levels])
    n_buckets = np.minimum(frequency, buckets)  # more than predicates find nothing faster
    bucket_begin = offsets_of(n_buckets)
    with np.errstate(over="ignore"):
        per_unit = domain.per_unit * n_buckets
    per_unit[~np.isfinite(per_unit)] = 0.0

    n_words = (table.n_subscriptions + 63) // 64
    dense_row = np.full(table.n_columns, -1, np.int32)
    is_dense = 4 * frequency >= 8 * n_words
    is_dense &= frequency > 0
    dense_row[is_dense] = np.arange(np.count_nonzero(is_dense))
    dense = np.zeros((int(np.count_nonzero(is_dense)), n_words), np.uint64)
    mark_dense(column, subscription, dense_row, dense)
    lists = Lists(
        n_subscriptions=table.n_subscriptions,
        levels=levels,
        begin=begin,
        low=low[by_low],
        of_low=subscription[by_low],
        rank_low=rank[by_low],
        high=high[by_high],
        of_high=subscription[by_high],
        rank_high=rank[by_high],
        width_low=low[by_width],
        width_high=high[by_width],
        of_width=subscription[by_width],
        bucket_begin=bucket_begin,
        bucket_at=np.zeros((int(bucket_begin[-1]), levels, 2), np.int32),
        cell_begin=domain.begin,
        cell_per_unit=per_unit,
        dense_row=dense_row,
        dense=dense,
    )
    fill_buckets(lists)
    return lists


def _widths(domain: Cells, column: Int32, low: Float64, high: Float64) -> Float64:
    """[P]: the part of the domain that each predicate takes, 0 .. 1. Infinite ends are the domain's."""
    begin, per_unit = domain.begin[column], domain.per_unit[column]
    with np.errstate(all="ignore"):
        end = np.where(per_unit > 0, begin + 1.0 / per_unit, begin)
        width = (np.minimum(high, end) - np.maximum(low, begin)) * per_unit
    width[~np.isfinite(width)] = 0.0
    width[(low == -np.inf) & (high == np.inf)] = 1.0
    return np.clip(width, 0.0, 1.0)


def _rates(false_positives: ArrayLike, n_events: int) -> tuple[Float64, Int64]:
    """The different rates, and which of them each event has."""
    given = np.asarray(false_positives, np.float64)
    if given.ndim and given.shape != (n_events,):
        raise MatchingError(
            f"false_positives must be one rate, or one for each of {n_events} events, not {given.shape}"
        )
    if not ((given >= 0.0) & (given < 1.0)).all():
        raise MatchingError(f"false_positives must lie in [0, 1), not {false_positives!r}")
    if not given.ndim:
        return given.reshape(1), np.zeros(n_events, np.int64)
    rates, plan = np.unique(given, return_inverse=True)
    return rates, plan.astype(np.int64)


def _sample(batches: list[EventBatch], most: int) -> EventBatch:
    """Return at most `most` of their events, evenly spaced."""
    n_columns = max(batch.n_columns for batch in batches)
    column = np.concatenate([batch.column for batch in batches])
    value = np.concatenate([batch.value for batch in batches])
    length = np.concatenate([np.diff(batch.offsets) for batch in batches])
    if len(length) > most:
        chosen = np.zeros(len(length), bool)
        chosen[np.linspace(0, len(length) - 1, most).astype(np.int64)] = True
        of_chosen = np.repeat(chosen, length)
        column, value, length = column[of_chosen], value[of_chosen], length[chosen]
    event = np.repeat(np.arange(len(length)), length)
    return EventBatch.from_values(event, column, value, n_events=len(length), n_columns=n_columns)


def _drawn(lists: Lists, most: int) -> EventBatch:
    """Events with all attributes, uniform on the domain that the predicates use; the same ones each time."""
    n_attributes = len(lists.cell_begin)
    span = np.zeros(n_attributes)
    n_buckets = np.diff(lists.bucket_begin)
    np.divide(n_buckets, lists.cell_per_unit, out=span, where=lists.cell_per_unit > 0)
    drawn = np.random.default_rng(0).random((min(most, 256), n_attributes))
    return EventBatch.from_dense(lists.cell_begin + drawn * span)


_unit_times: dict[tuple[Clock, int], UnitTimes] = {}  # measured once in a process for each clock and b


def unit_times(clock: Clock, buckets: int) -> UnitTimes:
    """The constants of Lemma 2 on this machine: the least of several runs of workloads that do only one thing each."""
    if (clock, buckets) not in _unit_times:
        _unit_times[clock, buckets] = _measured(clock, buckets)
    return _unit_times[clock, buckets]


def _measured(clock: Clock, buckets: int) -> UnitTimes:
    """n predicates [1, 2] on one attribute of the domain 0 .. 3, so that all lows lie in one bucket of four.

        value 1.2 -> all lows compared, none marked: n beta          value 0 -> all marked, none compared: n gamma

    The lows differ by little, so that the subscriptions are in no order. Our lists have no switches of buckets: delta
    is the b-th part of what it costs to visit an attribute.
    """
    n, m = 4096, 256

    def seconds(task: Callable[[], object]) -> float:
        times = []
        for _ in range(6):  # the first may compile
            begin = clock()
            task()
            times.append(clock() - begin)
        return max(min(times), 0.0)

    def marking(matcher: WpaRein, row: list[float]) -> float:
        lists, events = matcher.lists, EventBatch.from_dense([row])
        block, groups = np.zeros((1, lists.dense.shape[1]), np.uint64), np.flatnonzero(matcher.size)
        plans = Plans(matcher.size[np.newaxis], np.zeros(1, bool), np.zeros(1, np.int64))
        return seconds(lambda: mark_block(0, 1, events.arrays, lists, groups, plans, True, block))

    def table(subscription: ArrayLike, column: Int64, low: ArrayLike, high: ArrayLike) -> SubscriptionTable:
        at = np.asarray(subscription)
        return SubscriptionTable.from_intervals(
            subscription, column, low, high, n_subscriptions=len(at), n_columns=int(np.max(column)) + 1
        )

    low = np.r_[1.0 + 1e-9 * np.random.default_rng(0).permutation(n), 0.0]
    high = np.r_[np.full(n, 2.0), 3.0]
    one = build(table(np.arange(n + 1), np.zeros(n + 1, int), low, high), levels=1, buckets=4)
    many = build(table(np.arange(m), np.arange(m), np.zeros(m), np.ones(m)), levels=1, buckets=4)
    nothing = marking(one, [np.nan])
    bits, out = np.full(n * 16 // 64, ~np.uint64(0)), np.empty(1, np.int32)
    return UnitTimes(
        beta_s=max(marking(one, [1.2]) - nothing, 0.0) / n,
        gamma_s=max(marking(one, [0.0]) - nothing, 0.0) / n,
        delta_s=max(marking(many, [0.5] * m) - nothing, 0.0) / (m * buckets),
        epsilon_s=seconds(lambda: unmarked(bits, n * 16, out, 0)) / (n * 16),
        handover_s=seconds(lambda: run([_nothing, _nothing])),
    )


def _nothing() -> None:
    pass


STORED = (WpaRein, Calibration, Precision, Lists, Rows)

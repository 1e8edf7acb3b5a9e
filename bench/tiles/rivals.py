"""Time indexes that a reader of docs/tiles.md would compare with `tiles`, and that are no algorithm here.

    python -m bench.tiles.rivals                 100,000 subscriptions; another number as an argument

A bitmap index and a SIMD scan, `tiles`, `scan` and `hem` match the same events in batches of 1, 64 and 1,024. CPU time,
the least of interleaved rounds; each answer is compared with that of `scan`. Both rivals take tables in which a
subscription has one interval per column and events with all columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.markdown import table_lines
from bench.tiles.rival_kernels import BLOCK_WORDS, SCANNED, fill_bits, match_bits, scan_block
from bench.workloads.synthetic import Workload
from matchers import ALGORITHMS, EventBatch, MatchBatch, Matcher, SubscriptionTable
from matchers.contract.tables import Float64, Int32, Int64, offsets_of

CELLS = 64  # of a column of the bitmap index, as many as a row of `tiles` may have
BATCHES = {1: 32, 64: 128, 1_024: 1_024}  # events at once, and events in a round
ROUNDS = 3


def _dense(events: EventBatch, d: int) -> Float64:
    """[events, d]. Raises BenchError if an event lacks a column or has several values in one."""
    if not np.array_equal(events.column, np.tile(np.arange(d), len(events))):
        raise BenchError("the rivals take events with one value in each column")
    return events.value.reshape(len(events), d)


def _by_event(n_events: int, event: Int32, subscription: Int32) -> MatchBatch:
    """The matches of blocks, arranged by event; within one subscriptions already ascend."""
    order = np.argsort(event, kind="stable")
    return MatchBatch(offsets_of(np.bincount(event, minlength=n_events)), subscription[order])


@dataclass(frozen=True, eq=False)
class SimdScan:
    """Bounds column by column; a column that a subscription does not constrain is -inf .. inf."""

    low: Float64  # [d, n]
    high: Float64  # [d, n]

    @classmethod
    def build(cls, table: SubscriptionTable) -> SimdScan:
        low = np.full((table.n_columns, table.n_subscriptions), -np.inf)
        high = np.full((table.n_columns, table.n_subscriptions), np.inf)
        low[table.column, table.subscription], high[table.column, table.subscription] = table.low, table.high
        return cls(low, high)

    def memory_bytes(self) -> int:
        return self.low.nbytes + self.high.nbytes

    def match(self, events: EventBatch) -> MatchBatch:
        d, n = self.low.shape
        values = _dense(events, d)
        hit = np.empty(SCANNED, np.uint8)
        room = len(values) * SCANNED + 1
        event, found = np.empty(room, np.int32), np.empty(room, np.int32)
        parts: list[tuple[Int32, Int32]] = []
        for begin in range(0, n, SCANNED):
            end = min(begin + SCANNED, n)
            m = scan_block(begin, end, values, self.low, self.high, hit, event, found)
            parts.append((event[:m].copy(), found[:m].copy()))
        return _by_event(len(values), *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class BitmapIndex:
    """A row of n bits per cell and column; cells are cut by the quantiles of the bounds."""

    edges: Float64  # [d, CELLS - 1]
    bits: NDArray[np.uint64]  # [d, CELLS, words]
    start: Int64  # [n + 1]
    column: Int32
    low: Float64
    high: Float64

    @classmethod
    def build(cls, table: SubscriptionTable) -> BitmapIndex:
        d, n = table.n_columns, table.n_subscriptions
        edges = np.zeros((d, CELLS - 1))
        for c in range(d):
            mine = table.column == c
            bounds = np.concatenate((table.low[mine], table.high[mine]))
            if len(bounds):
                edges[c] = np.quantile(bounds, np.arange(1, CELLS) / CELLS)
        first, last = (_cells(edges, table.column, bound) for bound in (table.low, table.high))
        bits = np.full((d, CELLS, -(-n // 64)), ~np.uint64(0))
        bits[:, :, -1] >>= np.uint64(-n % 64)
        fill_bits(table.start, table.column, first, last, bits)
        return cls(edges, bits, table.start, table.column, table.low, table.high)

    def memory_bytes(self) -> int:
        arrays = (self.edges, self.bits, self.start, self.column, self.low, self.high)
        return sum(array.nbytes for array in arrays)

    def match(self, events: EventBatch) -> MatchBatch:
        d, _, words = self.bits.shape
        values = _dense(events, d)
        cells = _cells(self.edges, events.column, events.value).reshape(len(values), d)
        room = len(values) * BLOCK_WORDS * 64 + 1
        event, found = np.empty(room, np.int32), np.empty(room, np.int32)
        slots = (self.start, self.column, (self.low, self.high))
        parts: list[tuple[Int32, Int32]] = []
        for begin in range(0, words, BLOCK_WORDS):
            end = min(begin + BLOCK_WORDS, words)
            m = match_bits(begin, end, cells, values, self.bits, *slots, event, found)
            parts.append((event[:m].copy(), found[:m].copy()))
        return _by_event(len(values), *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _cells(edges: Float64, column: Int32, value: Float64) -> Int64:
    """Return the cell of each value: the number of edges of its column at or below it."""
    cells = np.empty(len(column), np.int64)
    for c in range(len(edges)):
        mine = column == c
        cells[mine] = np.searchsorted(edges[c], value[mine], side="right")
    return cells


Built = SimdScan | BitmapIndex | Matcher
RIVALS: dict[str, Callable[[SubscriptionTable], Built]] = {
    "tiles": ALGORITHMS["tiles"],
    "bitmap index": BitmapIndex.build,
    "SIMD scan": SimdScan.build,
    "hem": ALGORITHMS["hem"],
    "scan": ALGORITHMS["scan"],
}


@dataclass(frozen=True)
class RivalRow:
    name: str
    us: dict[int, float]  # CPU time per event, by the size of a batch
    build_s: float  # CPU time
    memory_bytes: int


def time_rivals(workload: Workload, rounds: int = ROUNDS) -> list[RivalRow]:
    """Raises BenchError if an answer is wrong."""
    small, table, events = workload.small().table(), workload.table(), workload.batch()
    expected = ALGORITHMS["scan"](table).match(events)
    built, build_s = {}, {}
    for name, build in RIVALS.items():
        build(small).match(events)  # compiles
        begin_s = process_time()
        built[name] = build(table)
        build_s[name] = process_time() - begin_s
        found = built[name].match(events)
        if not (
            np.array_equal(found.offsets, expected.offsets)
            and np.array_equal(found.subscription, expected.subscription)
        ):
            raise BenchError(f"{name} finds {len(found.subscription)} matches, not {len(expected.subscription)}")
    us = {name: dict.fromkeys(BATCHES, np.inf) for name in RIVALS}
    for batch, most in BATCHES.items():
        parts = [events.part(i, min(i + batch, len(events))) for i in range(0, min(most, len(events)), batch)]
        for turn in range(rounds + 1):  # the first is not counted
            for name, index in built.items():
                alone = index.alone() if batch == 1 and isinstance(index, Matcher) else None
                begin_s = process_time()
                for part in parts:
                    if alone is not None:
                        alone(part)
                    else:
                        index.match(part)
                spent = (process_time() - begin_s) / sum(map(len, parts)) * 1e6
                us[name][batch] = min(us[name][batch], spent) if turn else np.inf
    return [RivalRow(name, us[name], build_s[name], built[name].memory_bytes()) for name in RIVALS]


def cells(row: RivalRow) -> list[str]:
    """A row of the table."""
    times = (f"{us:,.1f}" for us in row.us.values())
    return [row.name, *times, f"{row.build_s:.2f}", f"{row.memory_bytes / 1e6:.0f}"]


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    headers = ["index", *(f"batches of {batch:,}, µs" for batch in BATCHES), "build s", "MB"]
    rows = time_rivals(Workload(subscriptions=n, events=max(BATCHES)))
    sys.stdout.writelines(table_lines(headers, map(cells, rows)))


if __name__ == "__main__":
    main()

"""`ccm`: PCM on a GPU: a thread for each constraint that has a name of the event.

Source: Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware" (PCM), sec. 3.3 and
4.2, the CUDA Content Matcher. The tables are those of `ocm` (algorithms/name_vectors.py), kept in the GPU's memory; an
event sends its values there and only its matches come back.

It is fast where much must be evaluated: thousands of constraints at once, in the order of memory. The least cost of an
event is the transfer to the device and back, so the events of a batch go in chunks with one launch of each kernel, as
in the paper's measurement of whole systems, each event with counters of its own. Two chunks are under way at a time,
each on a CUDA stream: values of one are sent, and matches of the other come back, while kernels run.

Ours differs: constraints are selected on the device, since all events of a chunk ask all rows (the paper's host builds
`Input` event by event), and matches are written one behind the other, so that what comes back weighs what was found.

Needs a GPU that CUDA runs on, and refuses with the reason where there is none.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from matchers.algorithms.name_vectors import NameVectors, Words, best_bits, bloom_of
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError

EVENTS = 64  # of a chunk at most
COUNTERS_BYTES = 64 << 20  # of a chunk at most, unless one event needs more
FILTERS = 512  # of a table on average, at least: a block has that many threads to keep busy
ROOM = 1 << 16  # matches of a chunk that there is room for at first
WIDEST = 64  # blocks for one line of `Input`
STREAMS = 2


def gpu() -> str | None:
    """The name of the GPU that it runs on, "simulator" where numba plays one, None where there is none."""
    from numba import config, cuda  # 50 ms, paid only if `ccm` is used

    if config.ENABLE_CUDASIM:  # type: ignore[attr-defined]  # numba sets it when it starts
        return "simulator"
    return str(cuda.get_current_device().name.decode()) if cuda.is_available() else None


def has_gpu() -> bool:
    return gpu() not in (None, "simulator")


@dataclass(frozen=True, eq=False)
class Ccm(Matcher):
    tables: NameVectors
    bloom_of: Words  # [A]
    always: Int32  # filters without constraints
    events: int  # of a chunk
    lane: int  # bits of a counter
    threads: int  # of a block
    blocks: int  # of a kernel, in each direction, at most

    def match(self, events: EventBatch) -> MatchBatch:
        """One call at a time has the device."""
        with self._device.lock:
            return self._device.match(events)

    @cached_property
    def _device(self) -> _Device:
        return _Device(self)

    def __getstate__(self) -> dict[str, Any]:
        """Without the device's memory: a copy sends its tables there itself."""
        return {name: value for name, value in vars(self).items() if name != "_device"}

    def memory_bytes(self) -> int:
        """On the device: tables and counters."""
        return self.tables.nbytes() + STREAMS * 4 * len(self.tables.filter_id) * -(-self.events * self.lane // 32)


class _Device:
    """The tables in the GPU's memory, and the chunks under way."""

    def __init__(self, matcher: Ccm) -> None:
        from numba import cuda

        tables = matcher.tables
        self.matcher, self.lock = matcher, Lock()
        of_row = np.repeat(np.arange(len(tables)), np.diff(tables.row_begin))
        of_constraint = np.repeat(of_row, np.diff(tables.constraint_begin))
        place = (tables.filter_begin[of_constraint] + tables.rank).astype(np.int32)
        self.rows = [cuda.to_device(a) for a in (tables.vector[of_row], tables.row_name)]
        self.constraints = [
            cuda.to_device(np.ascontiguousarray(a) if len(a) else np.zeros(1, a.dtype))
            for a in (
                tables.constraint_begin,
                tables.operator,
                tables.low,
                tables.high,
                place,
                tables.bloom,
                tables.interval_low,
                tables.interval_high,
                tables.size,
            )
        ]
        self.longest = int(np.diff(tables.constraint_begin).max(initial=0))
        self.chunks = [_Chunk(self) for _ in range(STREAMS)]

    def match(self, events: EventBatch) -> MatchBatch:
        found: list[tuple[Int32, Int32]] = []
        begun: deque[_Chunk] = deque()
        if self.longest:
            for begin in range(0, len(events), self.matcher.events):
                if len(begun) == STREAMS:
                    found.append(begun.popleft().finish())
                chunk = self.chunks[begin // self.matcher.events % STREAMS]
                chunk.begin(events, begin, min(begin + self.matcher.events, len(events)))
                begun.append(chunk)
            found += [chunk.finish() for chunk in begun]
        return self._arranged(found, len(events))

    def _arranged(self, found: list[tuple[Int32, Int32]], n_events: int) -> MatchBatch:
        from matchers.algorithms.ccm.kernel import arrange

        found.append((np.empty(0, np.int32), np.empty(0, np.int32)))
        event, place = (np.concatenate(parts) for parts in zip(*found, strict=True))
        matcher = self.matcher
        offsets = np.empty(n_events + 1, np.int64)
        out = np.empty(len(event) + n_events * len(matcher.always), np.int32)
        arrange(event, place, matcher.tables.filter_id, matcher.always, offsets, out)
        return MatchBatch(offsets, out)


class _Chunk:
    """Some events on their way through a stream of the device, and the memory that they need."""

    def __init__(self, device: _Device) -> None:
        from numba import cuda

        matcher = device.matcher
        events = matcher.events
        self.device, self.matcher = device, matcher
        self.stream = cuda.stream()
        self.vector, self.names = (cuda.pinned_array(events, np.uint64) for _ in range(2))
        groups = -(-events * matcher.lane // 32)
        self.filters_count = cuda.device_array((groups, len(matcher.tables.filter_id)), np.uint32)
        lines = max(len(matcher.tables.row_name), 1) * events
        self.input = [cuda.device_array(lines, np.int32) for _ in range(4)]  # row, event, its values there from .. to
        self.cursors = cuda.device_array(2, np.int32)
        self.cursors_back = cuda.pinned_array(2, np.int32)
        self._make_room(ROOM)

    def _make_room(self, room: int) -> None:
        from numba import cuda

        self.found = [cuda.device_array(room, np.int32) for _ in range(2)]
        self.found_back = [cuda.pinned_array(room, np.int32) for _ in range(2)]
        self.expected = min(room, ROOM)  # matches copied back with each chunk

    def begin(self, events: EventBatch, begin: int, end: int) -> None:
        """Start matching events begin .. end, without waiting for the device."""
        from matchers.algorithms.ccm.kernel import name

        name(
            begin,
            end,
            events.offsets,
            events.column,
            self.matcher.tables.bits,
            self.matcher.bloom_of,
            self.vector,
            self.names,
        )
        self.origin, self.n = begin, end - begin
        offsets = events.offsets[begin : end + 1]
        values = slice(offsets[0], offsets[-1])
        self.offsets: Int64 = offsets - offsets[0]
        self.column: Int32 = np.append(events.column[values], np.int32(0))  # the device has no empty arrays
        self.value: Float64 = np.append(events.value[values], 0.0)
        self._launch()

    def _launch(self) -> None:
        from numba import cuda

        from matchers.algorithms.ccm.kernel import clear, evaluate, select

        matcher, device, stream = self.matcher, self.device, self.stream
        threads, most = matcher.threads, matcher.blocks
        vector, names, offsets, column, value = (
            cuda.to_device(a, stream=stream) for a in (self.vector, self.names, self.offsets, self.column, self.value)
        )
        filters, rows = len(matcher.tables.filter_id), len(matcher.tables.row_name)
        clear[min(_blocks(filters, threads), most), threads, stream](self.filters_count, self.cursors)
        select[min(_blocks(rows * self.n, threads), most), threads, stream](
            *device.rows, vector, offsets, column, *self.input, self.cursors
        )
        across = min(_blocks(device.longest, threads), WIDEST, most)
        evaluate[(across, min(rows * self.n, most)), threads, stream](
            *self.input,
            *device.constraints,
            value,
            names,
            matcher.lane,
            self.filters_count,
            *self.found,
            self.cursors,
        )
        self.cursors.copy_to_host(self.cursors_back, stream=stream)
        for found, back in zip(self.found, self.found_back, strict=True):
            found[: self.expected].copy_to_host(back[: self.expected], stream=stream)

    def finish(self) -> tuple[Int32, Int32]:
        """(event, place of the filter) of every match, in any order."""
        from matchers.algorithms.ccm.kernel import FOUND

        self.stream.synchronize()
        n = int(self.cursors_back[FOUND])
        if n > len(self.found_back[0]):  # not enough room: once more, with enough
            self._make_room(2 * n)
            self._launch()
            self.stream.synchronize()
        if n > self.expected:
            for found, back in zip(self.found, self.found_back, strict=True):
                found[:n].copy_to_host(back[:n], stream=self.stream)
            self.stream.synchronize()
        event, place = (back[:n] for back in self.found_back)
        return event + np.int32(self.origin), place.copy()


def _blocks(n: int, threads: int) -> int:
    return max(-(-n // threads), 1)


def build(
    table: SubscriptionTable,
    bits: int | None = None,
    events: int | None = None,
    threads: int = 256,
    blocks: int = 4096,
) -> Ccm:
    """`bits` of a NameVector, `events` of a chunk, `threads` of a block, `blocks` of a kernel each way at most.

    The first two follow from the table if left out. Raises MatchingError, also where there is no GPU.
    """
    if gpu() is None:
        raise MatchingError("ccm needs a GPU, and CUDA finds none here; ocm is the same for processor cores")
    if not 1 <= threads <= 1024:
        raise MatchingError(f"threads of a block must lie within 1 .. 1024, not {threads}")
    most = int(table.needed.max(initial=0))
    lane = next(lane for lane in (4, 8, 16, 32) if most < 1 << lane)
    if events is None:
        events = min(max(COUNTERS_BYTES * 8 // (max(table.n_subscriptions, 1) * lane), 1), EVENTS)
    if events < 1:
        raise MatchingError(f"events of a chunk must be 1 or more, not {events}")
    return Ccm(
        NameVectors.of(table, best_bits(table, FILTERS) if bits is None else bits),
        bloom_of(np.arange(table.n_columns, dtype=np.int32)),
        np.flatnonzero(table.needed == 0).astype(np.int32),
        events,
        lane,
        threads,
        blocks,
    )

"""The device side of `ccm`: its tables in the GPU's memory, and chunks of events on their way through a stream.

    host      NV_e and InputBF     ->                                                ->  hits, or Interfaces
    device                             clear -> select -> list_hits or mark_interfaces

Only `ccm` imports this module, and only to match: it imports numba.cuda.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numba import cuda

from matchers.algorithms.ccm.kernel import (
    FOUND,
    arrange,
    clear,
    list_hits,
    mark_interfaces,
    name,
    select,
)
from matchers.algorithms.name_vectors import NameVectors, Words
from matchers.contract.interfaces import Interfaces
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch, offsets_of

ROOM = 1 << 16  # hits of a chunk that there is room for at first
INTERFACES_BYTES = 64 << 20  # of a chunk at most, unless one event needs more
WIDEST = 64  # blocks for one line of `Input`
STREAMS = 2


class Device:
    """The tables in the GPU's memory. One call at a time."""

    def __init__(
        self, tables: NameVectors, bloom_of: Words, always: Int32, events: int, lane: int, threads: int, blocks: int
    ) -> None:
        """The arguments are the fields of `Ccm`."""
        self.tables, self.bloom_of, self.always = tables, bloom_of, always
        self.events, self.lane, self.threads, self.blocks = events, lane, threads, blocks
        self.lock = Lock()
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
        self.hits = [_Hits() for _ in range(STREAMS)]
        self.interfaces: Interfaces | None = None  # those that `marks` are for
        self.marks: list[_Marks] = []

    def match(self, events: EventBatch) -> MatchBatch:
        with self.lock:
            event, place = self._run(events, self.hits, self.events)
        offsets = np.empty(len(events) + 1, np.int64)
        out = np.empty(len(event) + len(events) * len(self.always), np.int32)
        arrange(event, place, self.tables.filter_id, self.always, offsets, out)
        return MatchBatch(offsets, out)

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        always = np.unique(interfaces.of[self.always])
        if not self.longest:
            return MatchBatch(offsets_of(np.full(len(events), len(always))), np.tile(always, len(events)))
        chunk = min(self.events, max(INTERFACES_BYTES // interfaces.n, 1))
        with self.lock:
            if self.interfaces is not interfaces:
                of = cuda.to_device(interfaces.of[self.tables.filter_id])
                self.marks = [_Marks(of, always, (chunk, interfaces.n)) for _ in range(STREAMS)]
                self.interfaces = interfaces
            event, interface = self._run(events, self.marks, chunk)
        return MatchBatch(offsets_of(np.bincount(event, minlength=len(events))), interface)

    def _run(self, events: EventBatch, results: Sequence[_Hits | _Marks], size: int) -> tuple[Int32, Int32]:
        """(event, what was found for it), in the order of chunks, which have `size` events at most."""
        found = [(np.empty(0, np.int32), np.empty(0, np.int32))]
        begun: deque[_Chunk] = deque()
        if self.longest:
            for begin in range(0, len(events), size):
                if len(begun) == STREAMS:
                    found.append(begun.popleft().finish())
                turn = begin // size % STREAMS
                self.chunks[turn].begin(events, begin, min(begin + size, len(events)), results[turn])
                begun.append(self.chunks[turn])
            found += [chunk.finish() for chunk in begun]
        event, what = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return event, what


class _Hits:
    """The result of a chunk in `match`: (event, place of the filter) of its matches, one behind the other."""

    evaluate = list_hits

    def __init__(self) -> None:
        self.interfaces = cuda.device_array((1, 1), np.uint8)  # that are cleared: none
        self._make_room(ROOM)

    def _make_room(self, room: int) -> None:
        self.output = [cuda.device_array(room, np.int32) for _ in range(2)]
        self.back = [cuda.pinned_array(room, np.int32) for _ in range(2)]
        self.expected = min(room, ROOM)  # hits that are copied back with each chunk

    def copy(self, n_events: int, stream: Any) -> None:
        self._copy(0, self.expected, stream)

    def _copy(self, begin: int, end: int, stream: Any) -> None:
        for found, back in zip(self.output, self.back, strict=True):
            found[begin:end].copy_to_host(back[begin:end], stream=stream)

    def has_room(self, n: int) -> bool:
        """Whether there was room for n hits; if not, there is now."""
        if n <= len(self.back[0]):
            return True
        self._make_room(2 * n)
        return False

    def read(self, n_events: int, n: int, stream: Any) -> tuple[Int32, Int32]:
        if n > self.expected:
            self._copy(self.expected, n, stream)
            stream.synchronize()
        event, place = (back[:n].copy() for back in self.back)
        return event, place


class _Marks:
    """The result of a chunk in `forward`: the paper's `Interfaces`, a byte for each, of each event."""

    evaluate = mark_interfaces

    def __init__(self, of: Any, always: Int32, shape: tuple[int, int]) -> None:
        self.interfaces, self.back = cuda.device_array(shape, np.uint8), cuda.pinned_array(shape, np.uint8)
        self.output = [of, self.interfaces]
        self.always = always

    def copy(self, n_events: int, stream: Any) -> None:
        self.interfaces[:n_events].copy_to_host(self.back[:n_events], stream=stream)

    def has_room(self, n: int) -> bool:
        return True

    def read(self, n_events: int, n: int, stream: Any) -> tuple[Int32, Int32]:
        self.back[:n_events, self.always] = 1
        event, interface = (a.astype(np.int32) for a in np.nonzero(self.back[:n_events]))
        return event, interface


class _Chunk:
    """Some events on their way through a stream of the device, and the memory that they need."""

    def __init__(self, device: Device) -> None:
        events = device.events
        self.device = device
        self.stream = cuda.stream()
        self.vector, self.names = (cuda.pinned_array(events, np.uint64) for _ in range(2))
        groups = -(-events * device.lane // 32)
        self.filters_count = cuda.device_array((groups, len(device.tables.filter_id)), np.uint32)
        lines = max(len(device.tables.row_name), 1) * events
        self.input = [cuda.device_array(lines, np.int32) for _ in range(4)]  # row, event, its values there from .. to
        self.cursors = cuda.device_array(2, np.int32)
        self.cursors_back = cuda.pinned_array(2, np.int32)

    def begin(self, events: EventBatch, begin: int, end: int, result: _Hits | _Marks) -> None:
        """Start matching events begin .. end, without waiting for the device."""
        name(
            begin,
            end,
            events.offsets,
            events.column,
            self.device.tables.bits,
            self.device.bloom_of,
            self.vector,
            self.names,
        )
        self.origin, self.n, self.result = begin, end - begin, result
        offsets = events.offsets[begin : end + 1]
        values = slice(offsets[0], offsets[-1])
        self.offsets: Int64 = offsets - offsets[0]
        self.column: Int32 = np.append(events.column[values], np.int32(0))  # the device has no empty arrays
        self.value: Float64 = np.append(events.value[values], 0.0)
        self._launch()

    def _launch(self) -> None:
        device, stream, result = self.device, self.stream, self.result
        threads, most = device.threads, device.blocks
        vector, names, offsets, column, value = (
            cuda.to_device(a, stream=stream) for a in (self.vector, self.names, self.offsets, self.column, self.value)
        )
        filters, rows = len(device.tables.filter_id), len(device.tables.row_name)
        clear[min(_blocks(filters, threads), most), threads, stream](
            self.filters_count, result.interfaces, self.cursors
        )
        select[min(_blocks(rows * self.n, threads), most), threads, stream](
            *device.rows, vector, offsets, column, *self.input, self.cursors
        )
        across = min(_blocks(device.longest, threads), WIDEST, most)
        result.evaluate[(across, min(rows * self.n, most)), threads, stream](
            *self.input,
            *device.constraints,
            value,
            names,
            device.lane,
            self.filters_count,
            self.cursors,
            *result.output,
        )
        self.cursors.copy_to_host(self.cursors_back, stream=stream)
        result.copy(self.n, stream)

    def finish(self) -> tuple[Int32, Int32]:
        """(event, what was found for it)."""
        self.stream.synchronize()
        if not self.result.has_room(int(self.cursors_back[FOUND])):
            self._launch()
            self.stream.synchronize()
        event, what = self.result.read(self.n, int(self.cursors_back[FOUND]), self.stream)
        return event + np.int32(self.origin), what


def _blocks(n: int, threads: int) -> int:
    return max(-(-n // threads), 1)

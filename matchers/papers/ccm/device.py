"""The device side of `ccm`: its tables in the GPU's memory, and chunks of events on their way through a stream.

    host      NV_e, InputBF and values  ->                                                ->  hits, or Interfaces
    device                                  clear -> select -> list_hits or mark_interfaces

Each chunk has its memory from the start, on the device and pinned on the host. Freeing memory of the device waits for
all its streams, and a copy from memory that is not pinned waits for the copy: either would make one stream of two.

Only `ccm` imports this module, and only to match: it imports numba.cuda.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any

import numba
import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

from matchers.algorithms.name_vectors import NameVectors, Words
from matchers.contract.interfaces import Interfaces
from matchers.contract.tables import EventBatch, Int32, Int64, MatchBatch, offsets_of
from matchers.errors import MatchingError
from matchers.papers.ccm.kernel import (
    FOUND,
    arrange,
    clear,
    list_hits,
    mark_interfaces,
    name,
    select,
)

ROOM = 1 << 16  # hits of a chunk that there is room for at first
MOST_HITS = 1 << 22  # of a chunk, unless one event has more; a chunk with more is matched in halves
VALUES = 1 << 16  # of a chunk at most, unless one event has more
INTERFACES_BYTES = 64 << 20  # of a chunk at most, unless one event needs more
WIDEST = 64  # blocks for one line of `Input`
STREAMS = 2
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
STEPS = ("prepare", "copy to the GPU", "clear", "select", "evaluate", "copy back")

_SETTINGS: Any = numba.config  # numba sets them when it is imported
_SETTINGS.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # an event alone needs few blocks; numba would warn of each launch

Found = tuple[Int32, Int32]  # event, what was found for it


class Device:
    """The tables in the GPU's memory. One call at a time."""

    def __init__(
        self, tables: NameVectors, bloom_of: Words, always: Int32, events: int, lane: int, threads: int, blocks: int
    ) -> None:
        """The arguments are the fields of `Ccm`. Raises MatchingError if the GPU lacks memory."""
        self.tables, self.bloom_of, self.always = tables, bloom_of, always
        self.events, self.lane, self.threads, self.blocks = events, lane, threads, blocks
        self.lock = Lock()
        self.longest = int(np.diff(tables.constraint_begin).max(initial=0))
        of_row = np.repeat(np.arange(len(tables)), np.diff(tables.row_begin))
        of_constraint = np.repeat(of_row, np.diff(tables.constraint_begin))
        place = (tables.filter_begin[of_constraint] + tables.rank).astype(np.int32)
        with self._memory():
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
            self.chunks = [_Chunk(self) for _ in range(STREAMS)]
            most = max(MOST_HITS, len(tables.filter_id))
            self.hits = [_Hits(most) for _ in range(STREAMS)]
        self.interfaces: Interfaces | None = None  # those that `marks` are for
        self.marks: list[_Marks] = []

    def match(self, events: EventBatch) -> MatchBatch:
        with self.lock, self._memory():
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
        with self.lock, self._memory():
            if self.interfaces is not interfaces:
                self.interfaces, self.marks = None, []  # their memory is free for the new ones
                of = cuda.to_device(interfaces.of[self.tables.filter_id])
                self.marks = [_Marks(of, always, (chunk, interfaces.n)) for _ in range(STREAMS)]
                self.interfaces = interfaces
            event, interface = self._run(events, self.marks, chunk)
        return MatchBatch(offsets_of(np.bincount(event, minlength=len(events))), interface)

    def profile(self, events: EventBatch) -> dict[str, float]:
        """µs per event of each step of `match`, if the host waits for the device after each (PCM, table 4)."""
        spent_s = dict.fromkeys(STEPS, 0.0)
        chunk, result = self.chunks[0], self.hits[0]
        with self.lock, self._memory():
            for begin, end in _spans(events.offsets, self.events) if self.longest else ():
                prepare: Callable[[], None] = partial(chunk.prepare, events, begin, end, result)
                at_s = perf_counter()
                for name, step in zip(STEPS, (prepare, *chunk.steps()), strict=True):
                    step()
                    chunk.stream.synchronize()
                    now_s = perf_counter()
                    spent_s[name] += now_s - at_s
                    at_s = now_s
        return {f"{name}, µs": spent * 1e6 / max(len(events), 1) for name, spent in spent_s.items()}

    def _run(self, events: EventBatch, results: Sequence[_Hits | _Marks], size: int) -> Found:
        """Match in chunks of at most `size` events. Marks are in the order of events."""
        found = [(np.empty(0, np.int32), np.empty(0, np.int32))]
        waiting = deque(_spans(events.offsets, size) if self.longest else ())
        free = deque(zip(self.chunks, results, strict=True))
        begun: deque[tuple[_Chunk, _Hits | _Marks]] = deque()
        try:
            while waiting or begun:
                if waiting and free:
                    chunk, result = free.popleft()
                    begun.append((chunk, result))
                    chunk.begin(events, *waiting.popleft(), result)
                    continue
                chunk, result = begun.popleft()
                free.append((chunk, result))
                part = chunk.finish()
                if part is None:
                    middle = chunk.origin + chunk.n // 2
                    waiting.extendleft([(middle, chunk.origin + chunk.n), (chunk.origin, middle)])
                else:
                    found.append(part)
        finally:
            for chunk, _ in begun:  # after an error: they read memory of the host that the next call fills
                chunk.stream.synchronize()
        event, what = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return event, what

    @contextmanager
    def _memory(self) -> Iterator[None]:
        """Raises MatchingError where the GPU, or the host for the GPU, lacks memory."""
        try:
            yield
        except CudaAPIError as error:
            if getattr(error, "code", None) != OUT_OF_MEMORY:
                raise
            filters = len(self.tables.filter_id)
            raise MatchingError(
                f"ccm: the memory of the GPU does not suffice for {filters:,} subscriptions and {self.events} events "
                "of a chunk; fewer of either need less (options: {events = 1}), and ocm needs no GPU"
            ) from error


def _spans(offsets: Int64, size: int) -> Iterator[tuple[int, int]]:
    """Chunks (begin, end) of at most `size` events, and of VALUES values unless one event has more."""
    begin, n = 0, len(offsets) - 1
    while begin < n:
        fits = int(np.searchsorted(offsets, offsets[begin] + VALUES, "right")) - 1
        end = min(max(fits, begin + 1), begin + size, n)
        yield begin, end
        begin = end


class _Sent:
    """An array that is sent to the device: pinned on the host, so the copy need not wait."""

    def __init__(self, n: int, dtype: type) -> None:
        self.host, self.device = cuda.pinned_array(n, dtype), cuda.device_array(n, dtype)

    def send(self, n: int, stream: Any) -> None:
        self.device[:n].copy_to_device(self.host[:n], stream=stream)


class _Hits:
    """The result of a chunk in `match`: (event, place of the filter) of its matches, one behind the other."""

    evaluate = list_hits

    def __init__(self, most: int) -> None:
        self.most = most
        self.interfaces = cuda.device_array((1, 1), np.uint8)  # that are cleared: none
        self._make_room(min(ROOM, most))

    def _make_room(self, room: int) -> None:
        output = [cuda.device_array(room, np.int32) for _ in range(2)]
        back = [cuda.pinned_array(room, np.int32) for _ in range(2)]
        self.output, self.back = output, back
        self.expected = min(room, ROOM)  # hits that are copied back with each chunk

    def copy(self, n_events: int, stream: Any) -> None:
        self._copy(0, self.expected, stream)

    def _copy(self, begin: int, end: int, stream: Any) -> None:
        for found, back in zip(self.output, self.back, strict=True):
            found[begin:end].copy_to_host(back[begin:end], stream=stream)

    def has_room(self, n: int) -> bool:
        return n <= len(self.back[0])

    def grow(self, n: int) -> bool:
        """Make room for n hits, if these are not too many."""
        if n > self.most:
            return False
        self._make_room(min(2 * n, self.most))
        return True

    def read(self, n_events: int, n: int, stream: Any) -> Found:
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

    def grow(self, n: int) -> bool:
        return True

    def read(self, n_events: int, n: int, stream: Any) -> Found:
        self.back[:n_events, self.always] = 1
        event, interface = (a.astype(np.int32) for a in np.nonzero(self.back[:n_events]))
        return event, interface


class _Chunk:
    """Some events on their way through a stream of the device, and the memory that they need."""

    def __init__(self, device: Device) -> None:
        events = device.events
        self.device = device
        self.stream = cuda.stream()
        self.vector, self.names = (_Sent(events, np.uint64) for _ in range(2))
        self.offsets = _Sent(events + 1, np.int64)
        self.column, self.value = _Sent(VALUES, np.int32), _Sent(VALUES, np.float64)
        groups = -(-events * device.lane // 32)
        self.filters_count = cuda.device_array((groups, len(device.tables.filter_id)), np.uint32)
        lines = max(len(device.tables.row_name), 1) * events
        self.input = [cuda.device_array(lines, np.int32) for _ in range(4)]  # row, event, its values there from .. to
        self.cursors = cuda.device_array(2, np.int32)
        self.cursors_back = cuda.pinned_array(2, np.int32)

    def begin(self, events: EventBatch, begin: int, end: int, result: _Hits | _Marks) -> None:
        """Start matching events begin .. end, without waiting for the device."""
        self.prepare(events, begin, end, result)
        self._launch()

    def prepare(self, events: EventBatch, begin: int, end: int, result: _Hits | _Marks) -> None:
        """Put what is sent into memory that is pinned."""
        self.origin, self.n, self.result = begin, end - begin, result
        offsets = events.offsets[begin : end + 1]
        self.n_values = int(offsets[-1] - offsets[0])
        if self.n_values > len(self.value.host):
            self.column, self.value = _Sent(self.n_values, np.int32), _Sent(self.n_values, np.float64)
        name(
            begin,
            end,
            events.offsets,
            events.column,
            self.device.tables.bits,
            self.device.bloom_of,
            self.vector.host,
            self.names.host,
        )
        self.offsets.host[: self.n + 1] = offsets - offsets[0]
        self.column.host[: self.n_values] = events.column[offsets[0] : offsets[-1]]
        self.value.host[: self.n_values] = events.value[offsets[0] : offsets[-1]]

    def _launch(self) -> None:
        for step in self.steps():
            step()

    def steps(self) -> tuple[Callable[[], None], ...]:
        """Return the copies and launches of a chunk in their order in the stream; STEPS names `prepare` and these."""
        return self._send, self._clear, self._select, self._evaluate, self._copy_back

    def _send(self) -> None:
        for sent, n in (
            (self.vector, self.n),
            (self.names, self.n),
            (self.offsets, self.n + 1),
            (self.column, self.n_values),
            (self.value, self.n_values),
        ):
            sent.send(max(n, 1), self.stream)

    def _clear(self) -> None:
        device = self.device
        blocks = min(_blocks(len(device.tables.filter_id), device.threads), device.blocks)
        clear[blocks, device.threads, self.stream](self.filters_count, self.result.interfaces, self.cursors)

    def _select(self) -> None:
        device = self.device
        blocks = min(_blocks(len(device.tables.row_name) * self.n, device.threads), device.blocks)
        select[blocks, device.threads, self.stream](
            *device.rows,
            self.vector.device,
            self.offsets.device[: self.n + 1],
            self.column.device,
            *self.input,
            self.cursors,
        )

    def _evaluate(self) -> None:
        device = self.device
        across = min(_blocks(device.longest, device.threads), WIDEST, device.blocks)
        lines = min(len(device.tables.row_name) * self.n, device.blocks)
        self.result.evaluate[(across, lines), device.threads, self.stream](
            *self.input,
            *device.constraints,
            self.value.device,
            self.names.device,
            device.lane,
            self.filters_count,
            self.cursors,
            *self.result.output,
        )

    def _copy_back(self) -> None:
        self.cursors.copy_to_host(self.cursors_back, stream=self.stream)
        self.result.copy(self.n, self.stream)

    def finish(self) -> Found | None:
        """Wait for the chunk and return its hits or marks; None if they need more room than there may be."""
        self.stream.synchronize()
        if not self.result.has_room(int(self.cursors_back[FOUND])):
            if not self.result.grow(int(self.cursors_back[FOUND])):
                return None
            self._launch()
            self.stream.synchronize()
        event, what = self.result.read(self.n, int(self.cursors_back[FOUND]), self.stream)
        return event + np.int32(self.origin), what


def _blocks(n: int, threads: int) -> int:
    return max(-(-n // threads), 1)

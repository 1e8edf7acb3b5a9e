"""`ccm`: PCM on a GPU: a thread for each constraint that has a name of the event.

Source: Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware" (PCM), sec. 3.3 and
4.2, the CUDA Content Matcher. The tables are those of `ocm` (algorithms/name_vectors.py), kept in the GPU's memory; an
event sends its values there, and what comes back is its interfaces (`forward`) or its matches (`match`).

`forward` is the paper's: a thread that satisfies a filter sets the byte of its interface, and the host gets a vector of
bytes for each event, one for each interface. The filters do not leave the device. `match` is not in the paper: it lists
filters one behind the other, so that what comes back weighs what was found.

It is fast where much must be evaluated: thousands of constraints at once, in the order of memory. The least cost of an
event is the transfer to the device and back, so the events of a batch go in chunks with one launch of each kernel, as
in the paper's measurement of whole systems, each event with counters of its own. Two chunks are under way at a time,
each on a CUDA stream: values of one are sent, and results of the other come back, while kernels run.

Ours differs: constraints are selected on the device, since all events of a chunk test all rows (the paper's host builds
`Input` event by event).

Needs a GPU and the compiler of CUDA (matchers/README.md, "A GPU for `ccm`"), and rejects the table with the reason
where there is none. It has run on numba's simulator of a GPU only: its answers are checked there, and tests compile its
kernels for two generations of GPUs. Its speed is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from matchers.algorithms.name_vectors import NameVectors, Words, best_bits, bloom_of
from matchers.contract.interfaces import Interfaces
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Int32, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError

if TYPE_CHECKING:
    from matchers.papers.ccm.device import Device

EVENTS = 64  # of a chunk at most
CHUNK_BYTES = 128 << 20  # of a chunk's counters and lines at most, unless one event needs more
FILTERS = 512  # of a table on average, at least: rows of few constraints leave most threads of a block idle
THREADS = (64, 128, 256)  # of a block: as many as a row has constraints on average
LINE_BYTES = 16  # of a line of `Input`: four numbers of 32 bits
MOST_BLOCKS = 65_535  # in the direction of the lines, by CUDA
MOST_CURSOR = 2**31 - 1  # lines, or hits, of a chunk

_building = Lock()


def gpu() -> str | None:
    """The name of the GPU that it runs on, "simulator" where numba plays one, None where there is none."""
    from numba import config, cuda  # 50 ms, paid only if `ccm` is used

    if config.ENABLE_CUDASIM:  # type: ignore[attr-defined]  # numba sets it when it starts
        return "simulator"
    if not (has_driver() and _has_compiler()):
        return None
    name = cuda.gpus[0].name  # without a context: a process that has one must not fork
    return name.decode() if isinstance(name, bytes) else str(name)  # by numba's binding, or by NVIDIA's


def has_driver() -> bool:
    """Whether there is a GPU with a driver, on which `ccm` runs if CUDA's compiler is there too."""
    from numba.cuda.cudadrv.driver import driver

    return bool(getattr(driver, "is_available", False))  # the simulator's has no such attribute


def _has_compiler() -> bool:
    """Whether numba can compile for a GPU. It also wants the runtime library, to learn the version of CUDA."""
    from numba import config
    from numba.cuda.cudadrv import nvvm

    return nvvm.is_available() and bool(config.FORCE_CUDA_CC or nvvm.get_supported_ccs())  # type: ignore[attr-defined]


def lacking() -> str:
    """Return the reason why CUDA cannot run here, with a remedy."""
    if has_driver():
        return "numba finds no libnvvm or no libcudart for its driver: install CUDA 12 (matchers/README.md)"
    return "CUDA finds none here"


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
        return self._device.match(events)

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        return self._device.forward(events, interfaces)

    def profile(self, events: EventBatch) -> dict[str, float]:
        """µs per event of the steps of matching these in chunks, as in table 4 of PCM."""
        return self._device.profile(events)

    @cached_property
    def _device(self) -> Device:
        from matchers.papers.ccm.device import Device

        with _building:  # two threads may need it at once
            if "_device" not in vars(self):
                fields = self.tables, self.bloom_of, self.always, self.events, self.lane, self.threads, self.blocks
                vars(self)["_device"] = Device(*fields)
        device: Device = vars(self)["_device"]
        return device

    def __getstate__(self) -> dict[str, Any]:
        """The fields without the device's memory: a copy sends its tables there itself."""
        return {name: value for name, value in vars(self).items() if name != "_device"}

    def memory_bytes(self) -> int:
        """On the device: tables, and two chunks with the room that they have at first. `forward` needs more: for each
        subscription its interface, and for each event of a chunk a byte for each interface."""
        from matchers.papers.ccm.device import ROOM, STREAMS, VALUES

        t = self.tables
        rows = t.vector.itemsize * len(t.row_name) + t.row_name.nbytes
        constraints = (t.constraint_begin, t.operator, t.low, t.high, t.rank, t.bloom, t.size)
        several = 2 * 8 * max(len(t.interval_low), 1)
        events = (self.events * (8 + 8) + (self.events + 1) * 8) + VALUES * (4 + 8)
        hits = ROOM * (4 + 4) + 1
        cursors = 2 * 4
        chunk = events + cursors + hits + _chunk_bytes(t, self.events, self.lane)
        return rows + sum(max(a.nbytes, a.itemsize) for a in constraints) + several + STREAMS * chunk


def _chunk_bytes(tables: NameVectors, events: int, lane: int) -> int:
    """Bytes of a chunk that grow with the table: a counter of `lane` bits per filter, a line of `Input` per row."""
    counters = 4 * len(tables.filter_id) * -(-events * lane // 32)
    return counters + LINE_BYTES * max(len(tables.row_name), 1) * events


def build(
    table: SubscriptionTable,
    bits: int | None = None,
    events: int | None = None,
    threads: int | None = None,
    blocks: int = 4096,
) -> Ccm:
    """`bits` of a NameVector, `events` of a chunk, `threads` of a block, `blocks` of a kernel each way at most.

    The first three follow from the table if left out. Raises MatchingError, also where there is no GPU.
    """
    if gpu() is None:
        raise MatchingError(f"ccm needs a GPU, and {lacking()}; ocm is the same algorithm for CPU cores")
    if threads is not None and not 1 <= threads <= 1024:
        raise MatchingError(f"threads of a block must lie within 1 .. 1024, not {threads}")
    if not 1 <= blocks <= MOST_BLOCKS:
        raise MatchingError(f"blocks of a kernel must lie within 1 .. {MOST_BLOCKS}, not {blocks}")
    tables = NameVectors.of(table, best_bits(table, FILTERS) if bits is None else bits)
    most = int(table.needed.max(initial=0))
    lane = next(lane for lane in (4, 8, 16, 32) if most < 1 << lane)
    rows = max(len(tables.row_name), 1)
    most_events = max(MOST_CURSOR // max(rows, table.n_subscriptions), 1)
    if events is None:
        events = min(max(CHUNK_BYTES // max(_chunk_bytes(tables, 32, lane) // 32, 1), 1), EVENTS, most_events)
    if not 1 <= events <= most_events:
        raise MatchingError(f"events of a chunk must lie within 1 .. {most_events:,} for this table, not {events}")
    if threads is None:
        mean = len(tables.operator) / rows
        threads = next((some for some in THREADS if mean <= some), THREADS[-1])
    return Ccm(
        tables,
        bloom_of(np.arange(table.n_columns, dtype=np.int32)),
        np.flatnonzero(table.needed == 0).astype(np.int32),
        events,
        lane,
        threads,
        blocks,
    )


STORED = (Ccm, NameVectors)

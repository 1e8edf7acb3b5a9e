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

Ours differs: constraints are selected on the device, since all events of a chunk ask all rows (the paper's host builds
`Input` event by event).

Needs a GPU that CUDA runs on, and refuses with the reason where there is none. It has run on numba's simulator of a GPU
only: its answers are checked there, its speed is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from matchers.algorithms.name_vectors import NameVectors, Words, best_bits, bloom_of
from matchers.contract.interfaces import Interfaces
from matchers.contract.matcher import Matcher
from matchers.contract.tables import EventBatch, Int32, MatchBatch, SubscriptionTable
from matchers.errors import MatchingError

if TYPE_CHECKING:
    from matchers.algorithms.ccm.device import Device

EVENTS = 64  # of a chunk at most
COUNTERS_BYTES = 64 << 20  # of a chunk at most, unless one event needs more
FILTERS = 512  # of a table on average, at least: a block has that many threads to keep busy


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
        return self._device.match(events)

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        return self._device.forward(events, interfaces)

    @cached_property
    def _device(self) -> Device:
        from matchers.algorithms.ccm.device import Device

        return Device(self.tables, self.bloom_of, self.always, self.events, self.lane, self.threads, self.blocks)

    def __getstate__(self) -> dict[str, Any]:
        """Without the device's memory: a copy sends its tables there itself."""
        return {name: value for name, value in vars(self).items() if name != "_device"}

    def memory_bytes(self) -> int:
        """On the device: tables and counters, of two chunks."""
        return self.tables.nbytes() + 2 * 4 * len(self.tables.filter_id) * -(-self.events * self.lane // 32)


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

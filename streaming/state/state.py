"""The state on the driver: the snapshot in force, its parts as broadcasts, and the offsets reached."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from py4j.protocol import Py4JError

from matchers.index.segment import Segment
from matchers.index.snapshot import Part, Snapshot
from matchers.index.texts import Texts
from streaming.documents.change_order import RecordPosition
from streaming.index import notes, packing
from streaming.index.parts import PartHandle, RemoteFile
from streaming.rows import AcceptedChange, CompiledSegment, Row, SourcePartition, of_changes
from streaming.state.compaction import Compactor
from streaming.state.event_averages import EventAverages
from streaming.worker.matching import Work
from streaming.worker.settings import TaskSettings

MOST_MOVED_SUBSCRIPTIONS = 8_192  # that a batch's changes may move between parts
RETIRED_PARTS = 16  # whose files workers delete: the latest
FALLBACK_ALGORITHM = "scan"  # matches where the index cannot yet; has no index to build, and few kernels

Index = tuple[str, Mapping[str, Any]]  # an algorithm and its options


@dataclass
class State:
    """`state(N + 1) = apply(state(N), changes(N))`. Its version is how many records of the topics of subscriptions it
    takes into account, by their offsets: so it only grows, and is the same again after a restart with the same tenants.

    `broadcast` hands a value to all workers; what it returns has `value` there, and `destroy()` here. `share` does
    the same with a file (`parts.SharedFile`, `parts.RemoteFile`); None where they see our files.
    """

    snapshot: Snapshot
    broadcast: Callable[[Any], Any]
    positions: dict[SourcePartition, int]  # (source, partition) -> offset of the first row not yet taken into account
    compactor: Compactor | None = None
    share: Callable[[Path], Any] | None = None
    pending_index: Future[Index] | None = None  # of all parts once it is there; the snapshot has one until then
    seen: EventAverages = field(default_factory=EventAverages)
    # The offset before which tasks have read all of a partition, where they read themselves: behind the last record
    # there may be offsets that hold none.
    looked_at: Mapping[SourcePartition, int] = field(default_factory=dict)
    waited_ms: float = 0.0  # the oldest event that is left to read, at most; infinite while nobody knows
    _handles: dict[Part, PartHandle] = field(default_factory=dict)
    _retired: tuple[str, ...] = ()  # names of parts, latest last

    @property
    def version(self) -> int:
        return sum(self.subscription_offsets().values())

    @property
    def lacks_index(self) -> bool:
        """Whether FALLBACK_ALGORITHM matches most subscriptions, or all, although another algorithm is to do it."""
        if self.pending_index is not None:
            return True
        longest = max(self.snapshot.parts, key=lambda part: len(part.segment.ids), default=None)
        return longest is not None and longest.algorithm == FALLBACK_ALGORITHM != self.snapshot.algorithm

    def subscription_offsets(self) -> dict[int, int]:
        """The offsets of subscriptions, by partition of changes (`tenants`)."""
        return of_changes(self.positions)

    def work(self, settings: TaskSettings, false_positives: float = 0.0) -> list[Work]:
        """The workers' input for the next batch, shard by shard. A part is sent once, however many batches use it."""
        for part in self.snapshot.parts:
            if part not in self._handles:
                self._handles[part] = self._handle(part)
        handles = tuple(self._handles[part] for part in self.snapshot.parts)
        parts = tuple(zip(handles, self.snapshot.removed, strict=True))
        n = self.snapshot.shards
        whole = Work(
            settings=settings,
            parts=parts,
            positions=dict(self.positions),
            false_positives=false_positives,
            retired=self._retired,
        )
        return [replace(whole, parts=parts[shard::n], shard=shard) for shard in range(n)]

    def reject(self, changes: list[tuple[int, int]]) -> None:
        """Do not apply these changes, given as (partition, offset), now or after a crash. Call before publishing the
        rejections."""
        if changes and self.compactor is not None:
            self.compactor.reject(changes)

    def apply(self, rows: Iterable[Row], positions: Mapping[SourcePartition, int]) -> None:
        """Apply the changes and segments among the rows of a batch, in the order of `batch_order.in_order`.

        Call only between batches.
        """
        added, removed = _net(rows)
        after = {**self.positions, **positions}
        if added is not None or removed:
            frozen = self.compactor.frozen if self.compactor else 0
            version = sum(of_changes(after).values())
            self.snapshot = self.snapshot.update(added or (), removed, version=version, frozen=frozen)
        self.positions = after
        self.step()

    def step(self) -> None:
        """Take results of background work, start the work that is due, and close parts that are no longer used.

        Raises the error of `pending_index`.
        """
        if self.pending_index is not None and self.pending_index.done():
            algorithm, options = self.pending_index.result()
            self.snapshot, self.pending_index = replace(self.snapshot, algorithm=algorithm, options=options), None
        if self.compactor is not None:
            self.snapshot = self.compactor.step(self.snapshot, self.seen.options(), self.waited_ms)
            self.compactor.save_if_due(self.snapshot, self.subscription_offsets())
        for gone in self._handles.keys() - set(self.snapshot.parts):
            handle = self._handles.pop(gone)
            handle.close()
            if isinstance(handle.broadcast, RemoteFile):
                self._retired = (*self._retired, handle.name)[-RETIRED_PARTS:]

    def close(self) -> None:
        """Save the state. In a session that goes on, nothing of it is left on executors or in temporary files."""
        for handle in self._handles.values():
            with suppress(Py4JError, ConnectionError, FileNotFoundError):  # of a session that has ended
                handle.close()
        if self.compactor is not None:
            self.compactor.close(self.snapshot, self.subscription_offsets())

    def _handle(self, part: Part) -> PartHandle:
        path = self.compactor.file(part) if self.compactor else None
        if path is None:
            return PartHandle(uuid.uuid4().hex, broadcast=self.broadcast(packing.as_bytes(part)))
        return PartHandle(path.name, self.share(path) if self.share else None, str(path))


class Registered(NamedTuple):
    """A subscription in force or paused: its subscriber, and the place of its document."""

    subscriber: str
    place: RecordPosition


def registered(snapshot: Snapshot, ids: Iterable[str]) -> dict[str, Registered]:
    """The subscriptions of the ids that have one, by id."""
    wanted = Texts.of(ids)
    if not len(wanted):  # as in nearly every batch
        return {}
    found: dict[str, Registered] = {}
    for part, (which, position) in zip(snapshot.parts, snapshot.locate(wanted), strict=True):
        partition, offset = (notes.numbers(part.segment, name)[position].tolist() for name in ("partition", "offset"))
        places = zip(partition, offset, strict=True)
        subscribers = notes.subscribers(part.segment).at(position)
        found |= zip(wanted.at(which), map(Registered, subscribers, places), strict=True)
    return found


def _net(rows: Iterable[Row]) -> tuple[Segment | None, list[str]]:
    """The last change of each id, as one segment and the ids unsubscribed.

    A segment's subscription without a change was rejected later on.
    """
    segments: list[Segment] = []
    last: dict[str, int | None] = {}  # the segment that holds the last word on an id; None: unsubscribed
    for row in rows:
        if isinstance(row, AcceptedChange):
            last[row.id] = None if row.subscriber is None else row.segment
        elif isinstance(row, CompiledSegment):
            segments.append(packing.from_bytes(row.value, Segment))  # written by our own worker a moment ago
    parts = []
    for number, segment in enumerate(segments):
        stale = [position for position, id in enumerate(segment.ids) if last.get(id, -1) != number]
        if len(stale) < len(segment.ids):
            parts.append((segment, np.array(stale, np.int32)))
    unsubscribed = [id for id, segment_number in last.items() if segment_number is None]
    if not parts:
        return None, unsubscribed
    return (parts[0][0] if len(parts) == 1 and not len(parts[0][1]) else Segment.merge(parts)), unsubscribed

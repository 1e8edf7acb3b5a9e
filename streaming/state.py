"""The driver's side of the state: the snapshot in force, its parts as broadcasts, and how far the topics were read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matchers.segment import Segment
from matchers.snapshot import Part, Snapshot
from streaming.codecs import RegistrySettings
from streaming.matching import CHANGE, EVENTS, SEGMENT, SUBSCRIPTIONS, Position, Work
from streaming.subscriptions import Subscription


@dataclass
class State:
    """`state(N + 1) = apply(state(N), changes(N))`. Its version is how many records of the subscriptions topic it
    takes into account, by their offsets: so it only grows, and is the same again after a restart.

    `broadcast` hands a value to all workers; what it returns has `value` there, and `destroy()` here.
    """

    snapshot: Snapshot[Subscription]
    broadcast: Callable[[Any], Any]
    positions: dict[Position, int]  # (source, partition) -> offset of the first row not yet taken into account
    codec: str = "json"
    registry: RegistrySettings | None = None
    _handles: dict[Part[Subscription], Any] = field(default_factory=dict)

    @property
    def version(self) -> int:
        return sum(offset for (source, _), offset in self.positions.items() if source == SUBSCRIPTIONS)

    def event_offsets(self) -> dict[str, int]:
        return {str(p): offset for (source, p), offset in sorted(self.positions.items()) if source == EVENTS}

    def work(self) -> Work:
        """What the workers need for the next batch. A part is broadcast once, however many batches use it."""
        for part in self.snapshot.parts:
            if part not in self._handles:
                self._handles[part] = self.broadcast(part)
        parts = zip(self.snapshot.parts, self.snapshot.removed, strict=True)
        handles = tuple((_Handle(self._handles[part]), gone) for part, gone in parts)
        return Work(handles, dict(self.positions), self.codec, self.registry)

    def apply(self, changes: Iterable[Mapping[str, Any]], positions: Mapping[Position, int]) -> None:
        """Take the CHANGE and SEGMENT rows of a batch, in order, into account. Call only between batches."""
        self.positions.update(positions)
        added, removed = _net(changes)
        if added is None and not removed:
            return
        self.snapshot = self.snapshot.update(added or (), removed, version=self.version)
        for gone in self._handles.keys() - set(self.snapshot.parts):
            self._handles.pop(gone).destroy()


@dataclass(frozen=True)
class _Handle:
    broadcast: Any

    def __call__(self) -> Part[Subscription]:
        part: Part[Subscription] = self.broadcast.value
        return part


def _net(changes: Iterable[Mapping[str, Any]]) -> tuple[Segment[Subscription] | None, list[Subscription]]:
    """What a sequence of changes comes to: the last word on each id, as one segment and the ids withdrawn."""
    segments: list[Segment[Subscription]] = []
    last: dict[str, int | None] = {}  # the segment that holds the last word on an id; None: withdrawn
    for row in changes:
        if row["kind"] == CHANGE:
            last[row["subscriptions"][0]] = len(segments) if row["subscribers"] else None
        elif row["kind"] == SEGMENT:
            segments.append(pickle.loads(row["value"]))  # written by our own worker a moment ago
    parts = []
    for number, segment in enumerate(segments):
        stale = [position for position, s in enumerate(segment.ids) if last[s.id] != number]
        if len(stale) < len(segment.ids):
            parts.append((segment, np.array(stale, np.int32)))
    withdrawn = [Subscription(id) for id, segment_number in last.items() if segment_number is None]
    if not parts:
        return None, withdrawn
    return (parts[0][0] if len(parts) == 1 and not len(parts[0][1]) else Segment.merge(parts)), withdrawn

"""Match events one at a time, without the fixed costs of a batch.

A `Workspace` holds the arrays of all steps between calls, so an event costs a few calls of kernels and no arrays of its
own. What these cannot decide (`read_one`, `settle_one`) goes the way of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from matchers.contract.held import ArraysHandle
from matchers.contract.tables import EventBatch, Float64, Int32, Int64, MatchBatch
from matchers.index.encoding import Encoder
from matchers.index.fields import Fields
from matchers.index.json_event import parsed
from matchers.index.kernels.single import (
    IN_DOUBT,
    UNREAD,
    Encoding,
    Reading,
    Rows,
    encode_one,
    fill_one,
    read_and_encode_one,
    read_one,
    settle_one,
)
from matchers.index.snapshot import Part, Snapshot
from matchers.index.values import UInt8, Values, read_document, room_for_values
from matchers.language.model import Event

_FIRST_ROOM_VALUES = 256  # of an event


@dataclass(frozen=True, eq=False)
class Single:
    """A snapshot for single events. Several threads may match at the same time, each in a workspace of its own."""

    snapshot: Snapshot
    _free: list[Workspace] = field(default_factory=list)

    def match(self, event: Event | bytes) -> list[str]:
        """The ids that the event satisfies, in no particular order. Raises TypeError, and MatchingError for bytes that
        are no event."""
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = Workspace(self.snapshot)
        try:
            return workspace.match(event)
        finally:
            self._free.append(workspace)


class Workspace:
    """The arrays and handles with which one event at a time is matched."""

    def __init__(self, snapshot: Snapshot) -> None:
        plan = snapshot.plan
        self._reader = _EventReader(plan.fields)
        pairs = zip(snapshot.parts, plan.encoders, snapshot.removed, strict=True)
        self._parts = [_PartAlone(part, encoder, removed, self._reader) for part, encoder, removed in pairs]
        self._only = self._parts[0] if len(self._parts) == 1 and not plan.encoders[0].changes_texts else None

    def match(self, event: Event | bytes) -> list[str]:
        found: list[str] = []
        if self._only is not None and isinstance(event, bytes):
            if self._only.match_bytes(event, found):
                return found
            event = parsed(event)
        self._reader.read(event)
        for part in self._parts:
            part.match(event, found)
        return found


class _EventReader:
    """The values of the event that was read last."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.text: UInt8 = np.empty(0, np.uint8)
        self.n = 0
        self.several = False
        self._several, self._hard = np.zeros(1, np.bool_), np.zeros(1, np.bool_)
        self._memory = fields.memory()
        self._make_room(_FIRST_ROOM_VALUES)

    def _make_room(self, room: int) -> None:
        self.room = room
        self.found = room_for_values(1, room)
        begins, ends = np.zeros(1, np.int64), np.zeros(1, np.int64)
        names = self.fields.names
        self.held = ArraysHandle(Reading(names, self._memory, self.found, begins, ends, self._several, self._hard))

    def read(self, event: Event | bytes) -> None:
        if isinstance(event, bytes):
            self.take(event)
            self.n = read_one(self.text, self.held)
            if self.n != UNREAD:
                self.taken()
                return
            event = parsed(event)
        scalars, self.several = read_document(event, self.fields)
        table = scalars.table()
        self.n = len(table)
        if self.n > self.room:
            self._make_room(2 * self.n)
        self.text = np.frombuffer(b"".join(scalars.texts), np.uint8)
        fill_one(table, self.held)

    def take(self, event: bytes) -> None:
        """Make room for the values of an event that is to be read from `text`."""
        if len(event) >= 2 * self.room:  # a value takes a byte and a separator
            self._make_room(len(event))
        self.text = np.frombuffer(event, np.uint8)

    def taken(self) -> None:
        """Note what a kernel has read of `text`."""
        self.several = bool(self._several[0])

    @property
    def values(self) -> Values:
        return Values.of(self.found, self.n, self.text, np.array([self.several]))


class _PartAlone:
    """A part of the snapshot, for the event that the reader has read."""

    def __init__(self, part: Part, encoder: Encoder, removed: Int32, reader: _EventReader) -> None:
        self._part, self._encoder, self._removed, self._reader = part, encoder, removed, reader
        self._matcher = part.matcher.alone()
        self._rows = ArraysHandle(Rows(part.segment.owner, part.segment.doubt, removed))
        self._most = int(encoder.n_columns.max(initial=0))  # columns of a field
        self._absent = len(encoder.columns.absent)
        self._n_columns = len(encoder.vocabulary.columns)
        self._make_room(_FIRST_ROOM_VALUES)

    def _make_room(self, room: int) -> None:
        self._offsets: Int64 = np.zeros(2, np.int64)
        self._column: Int32 = np.empty(room, np.int32)
        self._value: Float64 = np.empty(room)
        arrays = self._offsets, self._column, self._value
        self._encoding = ArraysHandle(Encoding(self._encoder.columns, self._encoder.vocabulary.coded, *arrays))

    def match(self, event: Event | bytes, found: list[str]) -> None:
        """Append the ids that the event satisfies."""
        self._add(self._matcher(self._encoded()), event, found)

    def match_bytes(self, event: bytes, found: list[str]) -> bool:
        """Append the ids that an event satisfies that the reader has not read yet. Returns whether a kernel could read
        it."""
        reader = self._reader
        reader.take(event)
        if (room := reader.room * self._most + self._absent) > len(self._column):
            self._make_room(room)
        n = read_and_encode_one(reader.text, reader.held, self._encoding)
        if n == UNREAD:
            return False
        reader.taken()
        batch = EventBatch(self._offsets, self._column[:n], self._value[:n], self._n_columns)
        self._add(self._matcher(batch), event, found)
        return True

    def _add(self, rows: Int32, event: Event | bytes, found: list[str]) -> None:
        """Append the ids of the rows that match."""
        if not len(rows):
            return
        positions: Int32 = np.empty(len(rows), np.int32)
        n = settle_one(rows, self._reader.several, self._rows, positions)
        if n == IN_DOUBT:
            matches = MatchBatch(np.array([0, len(rows)]), rows)
            several = np.array([self._reader.several])
            _, positions = self._part.settled(
                matches, several, lambda _: parsed(event) if isinstance(event, bytes) else event, self._removed
            )
            n = len(positions)
        ids = self._part.ids
        found += [ids[position] for position in positions[:n].tolist()]

    def _encoded(self) -> EventBatch:
        reader, encoder = self._reader, self._encoder
        if encoder.changes_texts:
            return encoder.encode(reader.values)
        room = reader.n * self._most + self._absent
        if room > len(self._column):
            self._make_room(2 * room)
        n = encode_one(reader.text, reader.held, self._encoding)
        return EventBatch(self._offsets, self._column[:n], self._value[:n], self._n_columns)

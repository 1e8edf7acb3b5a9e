"""Match events one at a time, without the fixed costs of a batch.

A `Workspace` holds the arrays of all steps between calls, so an event costs a few calls of kernels and no arrays of its
own. What these cannot decide (`read_one`, `settle_one`) goes the way of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numba
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
from matchers.kernels.jit import direct
from matchers.language.model import Event

_FIRST_ROOM = 1_024  # bytes of an event
MOST_KEPT = 1_024  # places of an event that is kept
_TABLE: Any = numba.typeof(np.empty((0, 4)))  # type: ignore[no-untyped-call]  # the type of `Scalars.table`


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
    """The event that was read last, and its values."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.n = 0
        self._several, self._hard = np.zeros(1, np.bool_), np.zeros(1, np.bool_)
        self._memory = fields.memory()
        self._make_room(_FIRST_ROOM)

    def _make_room(self, room: int) -> None:
        """Make room for an event of so many bytes, or for the texts of one."""
        self.room = room
        self.text: UInt8 = np.empty(room, np.uint8)
        self._bytes = self.text.data
        self._make_room_for_values(room // 2)  # a value takes a byte and a separator

    def _make_room_for_values(self, room: int) -> None:
        self.room_for_values = room
        found = self.found = room_for_values(1, room)
        self.held = ArraysHandle(
            Reading(
                self.fields.names,
                self._memory,
                found,
                starts=found.start.reshape(1, -1),
                lengths=found.length.reshape(1, -1),
                text=self.text,
                begins=np.zeros(1, np.int64),
                ends=np.zeros(1, np.int64),
                several=self._several,
                hard=self._hard,
            )
        )
        self._read_one = direct(read_one, 0, self.held)
        self._fill_one = direct(fill_one, _TABLE, self.held)

    def read(self, event: Event | bytes) -> None:
        if isinstance(event, bytes):
            self.n = self._read_one(self.take(event), self.held)
            if self.n != UNREAD:
                return
            event = parsed(event)
        scalars, self._several[0] = read_document(event, self.fields)
        table = scalars.table()
        self.n = len(table)
        self.take(b"".join(scalars.texts))
        if self.n > self.room_for_values:
            self._make_room_for_values(2 * self.n)
        self._fill_one(table, self.held)

    def take(self, text: bytes) -> int:
        """Copy an event, or the texts of one, to `text`; returns its length."""
        n = len(text)
        if n > self.room:
            self._make_room(2 * n)
        self._bytes[:n] = text
        self._length = n
        return n

    @property
    def several(self) -> bool:
        """Whether an array of the event has several elements."""
        return bool(self._several[0])

    @property
    def values(self) -> Values:
        return Values.of(self.found, self.n, self.text[: self._length], np.array([self.several]))


class _PartAlone:
    """A part of the snapshot, for the event that the reader has read."""

    def __init__(self, part: Part, encoder: Encoder, removed: Int32, reader: _EventReader) -> None:
        self._part, self._encoder, self._removed, self._reader = part, encoder, removed, reader
        self._matcher = part.matcher.alone()
        self._is_decided = part.segment.is_decided and not len(removed)
        self._rows = ArraysHandle(Rows(part.segment.owner, part.segment.doubt, removed))
        self._most = int(encoder.n_columns.max(initial=0))  # columns of a field
        self._absent = len(encoder.columns.absent)
        self._n_columns = len(encoder.vocabulary.columns)
        self._seen: Int64 = np.zeros(self._n_columns + 1, np.int64)
        self._fit()

    def _fit(self) -> None:
        """Make room for what the reader has room for."""
        self._for = self._reader.held
        room = self._reader.room_for_values * self._most + self._absent
        self._offsets: Int64 = np.zeros(2, np.int64)
        self._column: Int32 = np.empty(room, np.int32)
        self._value: Float64 = np.empty(room)
        arrays = self._seen, self._offsets, self._column, self._value
        self._encoding = ArraysHandle(Encoding(self._encoder.columns, self._encoder.vocabulary.coded, *arrays))
        self._encode = direct(encode_one, self._for, self._encoding)
        self._read_and_encode = direct(read_and_encode_one, 0, self._for, self._encoding)
        self._batches: dict[int, EventBatch] = {}

    def match(self, event: Event | bytes, found: list[str]) -> None:
        """Append the ids that the event satisfies."""
        self._add(self._matcher(self._encoded()), event, found)

    def match_bytes(self, event: bytes, found: list[str]) -> bool:
        """Append the ids that an event satisfies that the reader has not read yet. Returns whether a kernel could read
        it."""
        reader = self._reader
        length = reader.take(event)
        if self._for is not reader.held:
            self._fit()
        n = self._read_and_encode(length, self._for, self._encoding)
        if n == UNREAD:
            return False
        self._add(self._matcher(self._batch(n)), event, found)
        return True

    def _batch(self, n: int) -> EventBatch:
        """Return the event of the first n places. One of few is kept, because to make it takes a microsecond."""
        batch = self._batches.get(n)
        if batch is None:
            batch = EventBatch(self._offsets, self._column[:n], self._value[:n], self._n_columns)
            if n <= MOST_KEPT:
                self._batches[n] = batch
        return batch

    def _add(self, rows: Int32, event: Event | bytes, found: list[str]) -> None:
        """Append the ids of the rows that match."""
        if not len(rows):
            return
        ids = self._part.ids
        if self._is_decided and not self._reader.several:
            found += [ids[row] for row in rows.tolist()]
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
        found += [ids[position] for position in positions[:n].tolist()]

    def _encoded(self) -> EventBatch:
        reader, encoder = self._reader, self._encoder
        if encoder.changes_texts:
            return encoder.encode(reader.values)
        if self._for is not reader.held:
            self._fit()
        return self._batch(self._encode(self._for, self._encoding))

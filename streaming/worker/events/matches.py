"""Match the events of an Arrow batch against all parts of the state: nothing becomes a Python object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchers.contract.tables import Int32, Int64
from matchers.index.snapshot import FieldPlan, Part
from matchers.index.texts import Bools, Texts
from streaming.codecs import Decode, RegistrySettings, open_codec
from streaming.documents import records
from streaming.index import notes
from streaming.index.notes import NEVER
from streaming.rows import Source, topic_runs
from streaming.source_topics import EventTopic
from streaming.worker.events.reading import read_events

MATCHES_AT_ONCE = 200_000  # in a transaction, or in an Arrow batch, unless they are of one event


class Matched(NamedTuple):
    """M matches with subscriptions that lie in the same two columns."""

    row: Int64  # [M], ascending
    position: Int32 | Int64  # [M], in both columns
    subscribers: Texts
    ids: Texts

    def only(self, which: Bools) -> Matched:
        return self._replace(row=self.row[which], position=self.position[which])


class Matches(NamedTuple):
    """The subscriptions that match each row."""

    dead: Mapping[int, tuple[str, str]]  # row -> reason and detail, of an event that nobody can get
    parts: Sequence[Matched]
    total: Int64  # [rows]: the number of subscriptions
    attributes: Int32  # [rows]: of each event, values in the columns of the longest part
    at_once: Int32  # [rows]: how many events were matched in one call; 0 of an event that no part has met

    @classmethod
    def of(
        cls, dead: Mapping[int, tuple[str, str]], parts: Sequence[Matched], attributes: Int32, at_once: Int32
    ) -> Matches:
        every = np.concatenate([np.empty(0, np.int64), *(part.row for part in parts)])
        return cls(dead, parts, np.bincount(every, minlength=len(attributes)), attributes, at_once)

    @classmethod
    def joined(cls, batches: Sequence[Matches]) -> Matches:
        """The matches of several batches, of which the rows follow each other."""
        begins = np.cumsum([0, *(len(batch.total) for batch in batches)]).tolist()
        dead: dict[int, tuple[str, str]] = {}
        parts: list[Matched] = []
        for batch, begin in zip(batches, begins, strict=False):
            dead |= {row + begin: reason for row, reason in batch.dead.items()}
            parts += (part._replace(row=part.row + begin) for part in batch.parts)
        columns = zip(*((batch.total, batch.attributes, batch.at_once) for batch in batches), strict=True)
        return cls(dead, parts, *map(np.concatenate, columns))

    @classmethod
    def none(cls, rows: int) -> Matches:
        """The matches of rows that are no events: none."""
        return cls.of({}, (), np.zeros(rows, np.int32), np.zeros(rows, np.int32))

    def between(self, begin: int, end: int) -> tuple[Int64, Texts, Texts]:
        """The row, the subscriber and the id of each match of the rows begin .. end, part by part."""
        rows, subscribers, ids = [np.empty(0, np.int64)], [], []
        for part in self.parts_between(begin, end):
            rows.append(part.row)
            subscribers.append(part.subscribers.take(part.position))
            ids.append(part.ids.take(part.position))
        return np.concatenate(rows), Texts.joined(subscribers), Texts.joined(ids)

    def parts_between(self, begin: int, end: int) -> Iterator[Matched]:
        """The matches of the rows begin .. end, part by part."""
        for part in self.parts:
            some = slice(*np.searchsorted(part.row, (begin, end)))
            yield part._replace(row=part.row[some], position=part.position[some])

    def bounded(self, most: int) -> Matches:
        """Declare each row dead that more than `most` subscriptions match; 0: any number may match."""
        if not most or not (self.total > most).any():
            return self
        many = self.total > most
        dead = dict(self.dead)
        for row in np.flatnonzero(many).tolist():
            detail = f"{self.total[row]:,} subscriptions match it; matching.max_per_event is {most:,}"
            dead[row] = records.TOO_MANY_MATCHES, detail
        parts = [part.only(~many[part.row]) for part in self.parts]
        return self._replace(dead=dead, parts=parts, total=np.where(many, 0, self.total))

    def slices(self, most: int) -> Iterator[tuple[int, int]]:
        """The rows, as (first, behind the last), in slices of at most `most` matches, or of one row."""
        ends = np.cumsum(self.total)
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
            yield first, last
            first = last


def decoders(
    topics: Mapping[Source, EventTopic], registry: RegistrySettings | None
) -> dict[Source, tuple[str, Decode]]:
    """The name of each topic, and how its events are decoded."""
    return {source: (name, open_codec(codec, registry)) for source, (name, codec) in topics.items()}


@dataclass(frozen=True)
class EventMatching:
    """Matches events against the parts of the state, or of one shard."""

    parts: Sequence[Part]
    removed: Sequence[Int32]  # positions of each part
    plan: FieldPlan
    topics: Mapping[Source, tuple[str, Decode]]  # as `decoders` makes them
    false_positives: float
    max_event_bytes: int

    def __call__(self, rows: pa.RecordBatch) -> Matches:
        """The matches of events; those of a topic had better follow each other."""
        of_topics = [self._of_topic(rows[begin:end], *self.topics[source]) for source, begin, end in topic_runs(rows)]
        return of_topics[0] if len(of_topics) == 1 else Matches.joined(of_topics)

    def _of_topic(self, rows: pa.RecordBatch, topic: str, decode: Decode) -> Matches:
        length = pc.fill_null(pc.binary_length(rows["value"]), 0)
        oversize = np.flatnonzero(np.asarray(length) > self.max_event_bytes).tolist()
        if oversize:
            fits = pc.less_equal(length, self.max_event_bytes)
            held = rows.set_column(
                rows.schema.get_field_index("value"), "value", pc.if_else(fits, rows["value"], b"{}")
            )
        else:
            held = rows
        reading = read_events(held, self.plan.fields, decode, topic)
        dead = {row: (records.UNDECODABLE_EVENT, reason) for row, reason in reading.undecodable.items()}
        for row in oversize:
            detail = f"{length[row].as_py()} bytes; events.max_bytes is {self.max_event_bytes}"
            dead[row] = records.OVERSIZE_EVENT, detail
        timestamps = np.asarray(rows["timestamp"])
        is_dead = np.zeros(len(rows), bool)
        is_dead[list(dead)] = True
        parts = []
        attributes = np.zeros(len(rows), np.int32)
        longest = max(self.parts, key=lambda part: len(part.segment.ids), default=None)
        for part, gone, encoder in zip(self.parts, self.removed, self.plan.encoders, strict=True):
            encoded = encoder.encode(reading.values)
            if part is longest:
                attributes = np.diff(encoded.offsets).astype(np.int32)
            event, position = part.match(encoded, reading.values.several, reading.document, gone, self.false_positives)
            ends = notes.numbers(part.segment, "expires_at_ms")[position]
            # A timestamp can be as large as NEVER.
            counts = ((timestamps[event] < ends) | (ends == NEVER)) & ~is_dead[event]
            subscribers, ids = notes.subscribers(part.segment), part.segment.ids
            parts.append(Matched(event[counts].astype(np.int64), position[counts], subscribers, ids))
        at_once = np.where(is_dead | (longest is None), 0, len(rows)).astype(np.int32)
        return Matches.of(dead, parts, attributes, at_once)

"""Compile a batch of subscription records into one outcome each and one segment."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from matchers import PatternError
from matchers.contract.tables import Int32, Int64
from matchers.index.members import compiled_by_member
from matchers.index.segment import Note, Segment
from matchers.index.skeletons import Skeletons, filled, is_slot, slot_of
from matchers.index.templates import FEWEST_DOCUMENTS, Template, by_shape
from matchers.index.texts import Texts
from matchers.language.lowering import Conjunction
from matchers.language.parsing import parse
from streaming.documents.subscriptions import (
    KEYS,
    MAX_DOCUMENT_BYTES,
    MAX_ID_LENGTH,
    SUBSCRIBER,
    Rejected,
    Subscription,
    has_long_integer,
    read_change,
    read_envelope,
    text_of,
)
from streaming.index.notes import notes
from streaming.tenants import ANYBODY, OWN, Tenant, Tenants, topic_partition
from streaming.worker.buffers import bytes_of


@dataclass(frozen=True, eq=False)
class ChangeRecords:
    """Records of the topics of subscriptions."""

    keys: Sequence[bytes | None]  # [C]
    values: pa.BinaryArray  # [C] null: a tombstone
    partition: Int32  # [C] of changes (`tenants`)
    offset: Int64  # [C]
    tenants: Tenants = field(default_factory=lambda: ANYBODY)

    def tenant(self, row: int) -> Tenant:
        """The tenant through whose topic a record came."""
        return topic_partition(int(self.partition[row]), self.tenants)[0]

    def notes(self, subscriptions: Sequence[Subscription], rows: Sequence[int]) -> dict[str, Note]:
        """The payload columns of the subscriptions in these rows."""
        at = np.array(rows, np.int64)
        return notes(subscriptions, self.partition[at], self.offset[at])


@dataclass(frozen=True)
class Unsubscribed:
    id: str


@dataclass(frozen=True)
class Paused:
    """A subscription that matches nothing for now: it is in the segment, without any row of the table."""

    id: str
    subscriber: str


Outcome = Subscription | Paused | Unsubscribed | Rejected


@dataclass(frozen=True)
class CompiledChanges:
    outcomes: list[Outcome]  # of each record
    segment: Segment  # the last word on each id; without those unsubscribed; its notes are those of `notes.notes`


def compile_changes(changes: ChangeRecords) -> CompiledChanges:
    collecting = gc.isenabled()
    gc.disable()  # many objects are created and none is garbage, but the collector would scan them many times
    try:
        return _compile(changes)
    finally:
        if collecting:
            gc.enable()


def _compile(changes: ChangeRecords) -> CompiledChanges:
    keys, values = changes.keys, changes.values
    outcomes: list[Any] = [None] * len(keys)
    fitting = pc.if_else(pc.less_equal(pc.binary_length(values), MAX_DOCUMENT_BYTES), values, None)
    parts = [*_frequent(changes, fitting, outcomes), *_by_member(changes, fitting, outcomes)]
    conjunctions: list[tuple[Subscription, list[Conjunction]]] = []
    rows = []
    for row, outcome in enumerate(outcomes):
        if outcome is not None:
            continue
        tenant = changes.tenant(row)
        try:
            change = read_change(keys[row], values[row].as_py(), tenant)
        except Rejected as rejected:
            rejected.id = tenant.qualified(rejected.id) if rejected.id else None
            outcomes[row] = rejected
            continue
        subscription = change.subscription._replace(id=tenant.qualified(change.subscription.id))
        if change.conjunctions is None:
            outcomes[row] = Unsubscribed(subscription.id)
        else:
            outcomes[row] = Paused(subscription.id, subscription.subscriber) if change.paused else subscription
            conjunctions.append((subscription, change.conjunctions))
            rows.append(row)
    segment = Segment.build(
        [(s.id, alternatives) for s, alternatives in conjunctions], changes.notes([s for s, _ in conjunctions], rows)
    )
    parts.append((segment, rows))

    last = {outcome.id: row for row, outcome in enumerate(outcomes) if type(outcome) is not Rejected}
    live: list[tuple[Segment, Int32]] = []
    for segment, rows in parts:
        stale = [i for i, row in enumerate(rows) if last[outcomes[row].id] != row]
        if len(stale) < len(rows):
            live.append((segment, np.array(stale, np.int32)))
    whole = len(live) == 1 and not len(live[0][1])
    return CompiledChanges(outcomes, live[0][0] if whole else Segment.merge(live) if live else nothing())


def nothing() -> Segment:
    return Segment.build((), notes((), np.empty(0, np.int32), np.empty(0, np.int64)))


@dataclass(frozen=True)
class _Form:
    """The common structure of documents of one shape: the places of their parts."""

    id: int | None  # slots
    subscriber: int
    template: Template


def _frequent(changes: ChangeRecords, values: pa.BinaryArray, outcomes: list[Any]) -> list[tuple[Segment, list[int]]]:
    """Segments of the documents whose shape is frequent, with the row of each subscription; fills their outcomes.

    Documents that may be invalid are left to `read_change`, which gives the reason.
    """
    is_bounded = changes.tenants[OWN].is_bounded
    skeletons = Skeletons.of(*bytes_of(values))
    parts = []
    for form, documents in by_shape(skeletons, _form):
        first = skeletons.offsets[documents]
        subscribers = [t.decode() for t in skeletons.texts(first + form.subscriber).encoded()]
        ids = [None] * len(documents) if form.id is None else skeletons.texts(first + form.id).encoded()
        valid = {s for s in set(subscribers) if SUBSCRIBER.fullmatch(s)}
        taken, rows, subscriptions = [], [], []
        for i, (row, written, subscriber) in enumerate(zip(documents.tolist(), ids, subscribers, strict=True)):
            key = changes.keys[row] or written
            id = _text(key)
            if id and len(id) <= MAX_ID_LENGTH and written in (None, key) and subscriber in valid:
                if is_bounded:
                    tenant = changes.tenant(row)
                    if tenant.pattern or not tenant.may_use(id) or not tenant.may_subscribe(subscriber):
                        continue
                    id = tenant.qualified(id)
                taken.append(i)
                rows.append(row)
                outcomes[row] = subscription = Subscription(id, subscriber)
                subscriptions.append(subscription)
        if not taken:
            continue
        kept = Texts.of(s.id for s in subscriptions)
        parts.append((form.template.segment(kept, skeletons, first[taken], changes.notes(subscriptions, rows)), rows))
    return parts


def _by_member(
    changes: ChangeRecords, values: pa.BinaryArray, outcomes: list[Any]
) -> Iterator[tuple[Segment, list[int]]]:
    """A segment of the documents without an outcome whose patterns can be compiled by their members, with the row of
    each subscription; fills their outcomes. All others are left to `read_change`.
    """
    rows: list[int] = []
    subscriptions: list[Subscription] = []
    patterns: list[bytes] = []
    waiting = [row for row, outcome in enumerate(outcomes) if outcome is None]
    for row in waiting if len(waiting) >= FEWEST_DOCUMENTS else ():
        value, tenant = values[row].as_py(), changes.tenant(row)
        if value is None or tenant.pattern or has_long_integer(value):
            continue
        try:
            document = orjson.loads(value)
            subscription, paused, _ = read_envelope(text_of(changes.keys[row]), document, tenant)
            pattern = document["pattern"]
            if paused or not isinstance(pattern, dict):
                continue
            patterns.append(orjson.dumps(pattern))
        except (Rejected, ValueError, TypeError):
            continue
        rows.append(row)
        subscriptions.append(subscription._replace(id=tenant.qualified(subscription.id)))
    compiled = compiled_by_member(patterns)
    kept = [subscriptions[i] for i in compiled.documents.tolist()]
    of = [rows[i] for i in compiled.documents.tolist()]
    for row, subscription in zip(of, kept, strict=True):
        outcomes[row] = subscription
    if kept:
        yield compiled.segment(Texts.of(subscription.id for subscription in kept), changes.notes(kept, of)), of


def _form(shape: bytes) -> _Form | None:
    """The form of a shape; None if some part cannot be compiled by its shape, or nothing is valid."""
    try:
        document = orjson.loads(filled(shape))
        template = Template.of(parse(document["pattern"]))
    except (orjson.JSONDecodeError, PatternError, TypeError, KeyError):
        return None
    names = set(document)
    slots = [document.get(name, "") for name in ("id", "subscriber")]
    if template is None or not names <= set(KEYS) or not all(map(_is_text, slots)):
        return None
    if names & {"expires_at", "paused", "from"} or not slots[1] or not all(is_slot(slot) for slot in slots if slot):
        return None
    return _Form(slot_of(slots[0]) if slots[0] else None, slot_of(slots[1]), template)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _text(key: bytes | None) -> str | None:
    try:
        return key.decode() if key else None
    except UnicodeDecodeError:
        return None

"""Read the subscriptions topic: for each id, the last document that the job accepts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from confluent_kafka import Message

from streaming.documents.change_order import Decisions, LastWords
from streaming.documents.messages import headers_of, place_of
from streaming.documents.records import START
from streaming.documents.subscriptions import Change, Rejected, id_of, read_change
from streaming.kafka.topics import Topics
from streaming.tenants import ANYBODY, OWN, Tenant

if TYPE_CHECKING:
    from config.model import Settings

Read = Callable[[], Iterable[Message | None]]  # a topic, from its first record to its present end

_PARTITION_BITS = 20


class StoredSubscription(NamedTuple):
    """A subscription in the topic: the last record of its id, and its position."""

    id: str
    partition: int
    offset: int
    time_ms: int  # when it was written
    value: bytes | None  # None: unsubscribed
    change: Change
    start: bytes | None = None  # the start of its past events: the header `sluice_start`

    @property
    def document(self) -> dict[str, Any]:
        """The document. It is None after an unsubscription."""
        document: dict[str, Any] = orjson.loads(self.value or b"null")
        return document

    @property
    def line(self) -> bytes:
        """The document on one line: its bytes without line breaks. The id is added if only the key has it."""
        value = b" ".join((self.value or b"").split(b"\n")).replace(b"\r", b" ").strip()
        return value if "id" in self.document else orjson.dumps({"id": self.id, **self.document})


def decided(topics: Topics, settings: Settings, statuses: Read, ids: Collection[str] | None = None) -> Decisions:
    """The last decision on each of these ids, None: on every id; empty if there is no status topic."""
    if settings.subscriptions.status_topic not in topics.partitions():
        return Decisions()
    keys = None if ids is None else {id.encode() for id in ids}
    wanted = (status for status in statuses() if status is not None and (keys is None or status.key() in keys))
    topic = settings.subscriptions.topic
    return Decisions(topics.id(topic), settings.query.name.__eq__, wanted)


def last_written(
    records: Iterable[Message | None], ids: Collection[str], decisions: Decisions, tenant: Tenant = ANYBODY[OWN]
) -> dict[str, StoredSubscription]:
    """The last word on each of these ids that has one."""
    wanted = {id.encode() for id in ids}
    last: LastWords[StoredSubscription] = LastWords(decisions)
    for record in records:
        if record is None or (record.key() and record.key() not in wanted):
            continue
        try:
            word = _word(record, tenant)
        except Rejected:
            continue
        if word.id in ids:
            last.take(word.id.encode(), word.partition, word.offset, word.time_ms, word)
    return {word.id: word for _, _, _, word in last}


def stored_subscriptions(
    read: Read,
    decisions: Decisions,
    prefix: str = "",
    wanted: Callable[[dict[str, Any]], bool] = lambda document: True,
    tenant: Tenant = ANYBODY[OWN],
) -> Iterator[StoredSubscription]:
    """The subscriptions in the topic whose id begins with `prefix` and whose document is `wanted`.

    Reads the topic twice: first for the place of each id's last record, which is all that is kept (about 300 bytes
    each), then for these records. If one is rejected and there is an earlier one, reads the topic once more.
    """
    places = _places(read(), decisions, prefix.encode())
    rejected = set()
    for record in read() if places else ():
        if record is None or (replaces := places.pop(_place(record), None)) is None:
            continue
        if replaces or _is_wanted(record.value() or b"", wanted):
            try:
                word = _word(record, tenant)
            except Rejected as error:
                if replaces and error.id:
                    rejected.add(error.id)
            else:
                if wanted(word.document):
                    yield word
        if not places:
            break
    if rejected:
        for word in last_written(read(), rejected, decisions, tenant).values():
            if word.value is not None and wanted(word.document):
                yield word


def _places(records: Iterable[Message | None], decisions: Decisions, prefix: bytes) -> dict[int, bool]:
    """The place of the last record of each id, rejected or not, and whether an earlier one may be valid."""
    last: LastWords[bool] = LastWords(decisions)
    repeated = set()
    for record in records:
        if record is None or (id := id_of(record.key(), record.value())) is None or not id.startswith(prefix):
            continue
        if id in last:
            repeated.add(id)
        last.take(id, *place_of(record), record.timestamp()[1], record.value() is None)
    return {
        offset << _PARTITION_BITS | partition: id in repeated
        for id, partition, offset, unsubscribed in last
        if not unsubscribed
    }


def _place(record: Message) -> int:
    partition, offset = place_of(record)
    return offset << _PARTITION_BITS | partition


def _word(record: Message, tenant: Tenant) -> StoredSubscription:
    """Parse a record. Raises Rejected."""
    change = read_change(record.key(), record.value(), tenant)
    start = dict(headers_of(record)).get(START)
    place, time_ms = place_of(record), record.timestamp()[1]
    return StoredSubscription(change.subscription.id, *place, time_ms, record.value(), change, start)


def _is_wanted(value: bytes, wanted: Callable[[dict[str, Any]], bool]) -> bool:
    """A cheap filter before the full check: of a million documents, few may be wanted."""
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and wanted(document)

"""Build the job's output records: deliveries, dead letters and statuses, as bytes and headers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from streaming.rows import ConsumerRecord  # which loads pyarrow

Headers = list[tuple[str, bytes | None]]

UNDECODABLE_EVENT = "undecodable_event"
REJECTED_SUBSCRIPTION = "rejected_subscription"
OVERSIZE = "oversize"
MISSING_TOPIC = "missing_topic"
OVER_QUOTA = "over_quota"
POISON_EVENT = "poison_event"  # it ends the process that matches it
TOO_MANY_MATCHES = "too_many_matches"
OVERSIZE_EVENT = "oversize_event"
TOPIC_REJECTED = "topic_rejected"
OF_EVENTS = (UNDECODABLE_EVENT, OVERSIZE_EVENT, POISON_EVENT, TOO_MANY_MATCHES)
OF_DELIVERIES = (OVERSIZE, MISSING_TOPIC, TOPIC_REJECTED, OVER_QUOTA)
REASONS = (
    *OF_EVENTS,
    REJECTED_SUBSCRIPTION,
    *OF_DELIVERIES,
)

REPLAY = "sluice_replay"
APPROXIMATE = "sluice_approximate"
ATTEMPTS = "sluice_attempts"  # on a redriven record: from its dead letter
REDRIVEN = "sluice_redriven"  # on a marker in the dead letters topic: which dead letter was redriven
START = "sluice_start"  # on a record of the subscriptions topic: the offsets at which its past events begin
IDS, _VERSION = "ce_subscriptionids", "ce_matchversion"
OURS = (IDS, _VERSION, REPLAY, APPROXIMATE, ATTEMPTS)  # never taken from an event

_SPECVERSION, _TYPE = ("ce_specversion", b"1.0"), ("ce_type", b"sluice.event")

# A dead letter fits its topic (`layout.topics`), whatever it is made of.
MAX_LETTER_BYTES = 10_000_000
MAX_IDS_BYTES = 100_000
MAX_DETAIL_LENGTH = 10_000
MAX_RECORD_BYTES = 20_000_000  # of a dead letter, and so of a request


BY_KEY = -1  # the partition where librdkafka's partitioner puts the key


class Record(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = BY_KEY

    def size(self) -> int:
        """About the bytes it takes in a log: key, value and headers."""
        return len(self.key or b"") + len(self.value or b"") + size_of(self.headers)


def size_of(headers: Headers) -> int:
    """Return the bytes of names and values, and four for each header."""
    size = 4 * len(headers)
    for name, value in headers:
        size += len(name.encode()) + len(value or b"")
    return size


IDS_OVERHEAD = size_of([(IDS, None)])  # of a delivery's last header beside the ids


NO_TIMESTAMP = -1  # of a record without a time


class Origin(NamedTuple):
    """The origin of a record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class InForceFrom:
    """The point from which the changes of a batch are in force: a version of the state, and an offset of each partition
    of the events; where there are several topics, of each topic's partitions. `read_up_to` has the offset reached in
    each partition of the subscriptions topic; the version is the sum of these, over all tenants.
    """

    version: int
    in_force_from: Mapping[str, int] | Mapping[str, Mapping[str, int]]
    read_up_to: Mapping[str, int]
    query: str = ""  # the name of the job
    topic_id: str = ""  # of the subscriptions topic; another one once that topic is deleted and created again

    def as_data(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "in_force_from": self.in_force_from,
            "query": self.query,
            "topic_id": self.topic_id,
            "read_up_to": self.read_up_to,
        }


def event_headers(
    headers: Sequence[tuple[str, bytes | None]],
    origin: Origin,
    version: int | None = None,
    replay: str | None = None,
    false_positives: float = 0.0,
) -> Headers:
    """The event's own `headers`, the CloudEvents attributes it lacks, and its match: a version of the job's state, or a
    replay; if matching was approximate, also the share of deliveries that may be wrong.

    CloudEvents 1.0, Kafka protocol binding, binary mode. `ce_id` is the same whenever the event is read again.
    """
    id_begins, source = _of_partition(origin.topic, origin.partition)
    made: Headers = [_SPECVERSION, ("ce_id", b"%b%d" % (id_begins, origin.offset)), source, _TYPE]
    second, ms = divmod(origin.timestamp_ms, 1000)
    if origin.timestamp_ms != NO_TIMESTAMP and (date := _second(second)):
        made.append(("ce_time", b"%b.%03dZ" % (date, ms)))
    if headers:
        kept = [(k, v) for k, v in headers if k not in OURS]
        present = {name for name, _ in kept}
        made = kept + [header for header in made if header[0] not in present]
    made.append((_VERSION, b"%d" % version) if version is not None else (REPLAY, (replay or "").encode()))
    if false_positives:
        made.append((APPROXIMATE, str(false_positives).encode()))
    return made


@lru_cache(maxsize=1024)
def _of_partition(topic: str, partition: int) -> tuple[bytes, tuple[str, bytes]]:
    """The prefix of the ids of a topic's events, and their source."""
    return f"{topic}-{partition}-".encode(), ("ce_source", b"kafka:" + topic.encode())


@lru_cache(maxsize=64)
def _second(epoch_s: int) -> bytes:
    """ISO 8601 of a second; empty for a year outside the calendar, since a producer may have claimed any time."""
    try:
        return datetime.fromtimestamp(epoch_s, UTC).isoformat().removesuffix("+00:00").encode()
    except (ValueError, OverflowError, OSError):
        return b""


def dead_letter(topic: str, record: ConsumerRecord, origin: Origin, reason: str, detail: str, **about: str) -> Record:
    """A dead letter: the original key, value and headers, then headers `sluice_...` with the number of original
    headers, the reason, the origin and the number of attempts.

    Parts that are too large are left out, the value first, and a header has their size; the origin still has them.
    """
    key, value, headers = record.key, record.value, [*record.headers]
    facts = {
        "reason": reason,
        "detail": detail[:MAX_DETAIL_LENGTH],
        "origin_topic": origin.topic,
        "origin_partition": str(origin.partition),
        "origin_offset": str(origin.offset),
        "origin_timestamp": str(origin.timestamp_ms),
        "attempts": str(1 + _attempts(headers)),
        **about,
    }
    if len((ids := facts.get("subscriptionids", "")).encode()) > MAX_IDS_BYTES:
        del facts["subscriptionids"]
        facts["subscriptions"] = str(len(orjson.loads(ids)))
    letter = _letter(topic, key, value, headers, facts)
    if letter.size() > MAX_LETTER_BYTES:
        facts["value_bytes"] = str(len(value or b""))
        letter = _letter(topic, key, None, headers, facts)
    if letter.size() > MAX_LETTER_BYTES:
        facts |= {"key_bytes": str(len(key or b"")), "headers_bytes": str(size_of(headers))}
        letter = _letter(topic, None, None, [], facts)
    return letter


def _letter(topic: str, key: bytes | None, value: bytes | None, headers: Headers, facts: Mapping[str, str]) -> Record:
    ours = {"headers": str(len(headers)), **facts}
    return Record(topic, key, value, [*headers, *((f"sluice_{k}", v.encode()) for k, v in ours.items())])


def _attempts(headers: Headers) -> int:
    """Read from its headers how often a record has been a dead letter; 0 if the last redrive wrote no number."""
    digits = next((value for name, value in reversed(headers) if name == ATTEMPTS), None) or b""
    return int(digits) if digits.isdigit() and len(digits) < 10 else 0


def status(
    topic: str,
    id: str | None,
    origin: Origin,
    since: InForceFrom,
    *,
    subscriber: str | None,
    paused: bool = False,
    superseded_by: tuple[int, int] | None = None,
) -> Record:
    """The status of a change that was not rejected, of a deletion if there is no subscriber.

    `superseded_by` is the partition and offset of the change of the same batch that supersedes this one.
    """
    state = "unsubscribed" if subscriber is None else "paused" if paused else "accepted"
    document: dict[str, Any] = {"id": id, "status": state}
    if subscriber:
        document["subscriber"] = subscriber
    document |= since.as_data()
    if superseded_by:
        document["superseded_by"] = _place(*superseded_by)
    return _status(topic, origin, document)


def rejected_status(
    topic: str, id: str | None, origin: Origin, since: InForceFrom, reason: str, in_force: tuple[int, int] | None = None
) -> Record:
    """The status of a change that was rejected.

    `in_force` is the partition and offset of the change whose document stays in force.
    """
    document = {"id": id, "status": "rejected"} | since.as_data()
    document |= {"reason": reason, "in_force": in_force and _place(*in_force)}
    return _status(topic, origin, document)


def _status(topic: str, origin: Origin, document: dict[str, Any]) -> Record:
    """The status topic is compacted and takes no record without a key: a change without an id has an empty key, which
    no id equals."""
    document["change"] = _place(origin.partition, origin.offset)
    return Record(topic, (document["id"] or "").encode(), orjson.dumps(document), [])


def _place(partition: int, offset: int) -> dict[str, int]:
    return {"partition": partition, "offset": offset}


def statuses(
    topic: str, partition: int, changes: Iterable[tuple[str, str, int, bool]], since: InForceFrom
) -> Iterator[Record]:
    """`status` for very many accepted or paused changes: (id, subscriber, offset, whether it is paused)."""
    common = orjson.dumps(since.as_data())[1:-1]
    for id, subscriber, offset, paused in changes:
        value = b'{"id":%b,"status":"%b","subscriber":"%b",%b,"change":{"partition":%d,"offset":%d}}' % (
            orjson.dumps(id),
            b"paused" if paused else b"accepted",
            subscriber.encode(),
            common,
            partition,
            offset,
        )
        yield Record(topic, id.encode(), value, [])

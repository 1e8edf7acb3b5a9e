"""Read the topic of dead letters, and its markers of redriven dead letters.

`records.dead_letter` makes the dead letters. A marker names the position of a redriven dead letter in its partition.
Any other record comes from another program and is shown as a dead letter with the reason "unknown".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import orjson
from confluent_kafka import Message

from streaming.documents.messages import headers_of, place_of
from streaming.documents.records import REASONS, REDRIVEN, Headers, Origin, Record
from streaming.documents.subscriptions import SUBSCRIBER
from streaming.kafka import clients
from streaming.kafka.clients import Cluster

UNKNOWN = "unknown"
_OURS = "sluice_"
_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,19})")
_NUMBER = re.compile(r"-?[0-9]{1,19}")


class DeadLetterPosition(NamedTuple):
    """The position of a record in the dead letters topic."""

    partition: int
    offset: int

    @classmethod
    def of(cls, text: str) -> DeadLetterPosition:
        """Raises ValueError."""
        if not (match := _PLACE.fullmatch(text)):
            raise ValueError(f"{text!r} is not the position of a dead letter; write PARTITION:OFFSET, such as 0:12")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass(frozen=True)
class StoredDeadLetter:
    """A dead letter. `key`, `value` and `headers` are those of the original record."""

    place: DeadLetterPosition
    time_ms: int
    reason: str
    detail: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    origin: Origin | None = None  # None if the reason is "unknown"
    attempts: int = 0
    subscriber: str | None = None
    ids: str | None = None  # ids of subscriptions, as in `ce_subscriptionids`
    matchversion: int | None = None
    approximate: float = 0.0  # share of deliveries that may be wrong
    about: Mapping[str, str] = field(default_factory=dict)  # its other headers
    redriven: bool = False  # whether it was sent again

    @property
    def value_left_out(self) -> bool:
        return "value_bytes" in self.about


@dataclass(frozen=True)
class DeadLetterFilter:
    """A filter of dead letters: all conditions must hold. An empty condition, or None, holds for every dead letter."""

    reasons: frozenset[str] = frozenset()
    subscriber: str | None = None
    origin_topic: str | None = None
    since_ms: int | None = None  # time of the dead letter, inclusive
    until_ms: int | None = None  # exclusive
    places: frozenset[DeadLetterPosition] = frozenset()

    def __call__(self, letter: StoredDeadLetter) -> bool:
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (self.subscriber is None or letter.subscriber == self.subscriber)
            and (self.origin_topic is None or (letter.origin is not None and letter.origin.topic == self.origin_topic))
            and (self.since_ms is None or letter.time_ms >= self.since_ms)
            and (self.until_ms is None or letter.time_ms < self.until_ms)
            and (not self.places or letter.place in self.places)
        )


def read_letters(
    cluster: Cluster, topic: str, wanted: DeadLetterFilter, redriven: Collection[DeadLetterPosition]
) -> Iterator[StoredDeadLetter]:
    """The letters in the order of each partition, up to the present end; some of them are `redriven`. Raises
    JobError."""
    for message in clients.read(cluster, [topic], follow=False, settled=True):
        if message is not None and marked(message) is None and wanted(letter := read_letter(message)):
            yield replace(letter, redriven=True) if letter.place in redriven else letter


def redriven_places(cluster: Cluster, topic: str) -> set[DeadLetterPosition]:
    """The places of the letters that were sent again. Raises JobError."""
    read = clients.read(cluster, [topic], follow=False, settled=True)
    return {place for message in read if message is not None and (place := marked(message)) is not None}


def marker(topic: str, place: DeadLetterPosition) -> Record:
    """A marker, in the letter's partition, where retention removes the letter first."""
    return Record(topic, None, None, [(REDRIVEN, str(place).encode())], place.partition)


def marked(message: Message) -> DeadLetterPosition | None:
    """The place that a marker names; None for other records. A letter of an empty record has more headers than one."""
    headers = headers_of(message)
    if message.key() is not None or message.value() is not None or len(headers) != 1 or headers[0][0] != REDRIVEN:
        return None
    try:
        return DeadLetterPosition.of((headers[0][1] or b"").decode())
    except ValueError:
        return None


def read_letter(message: Message) -> StoredDeadLetter:
    """Parse a record; its reason is "unknown" if `dead_letter` cannot have written it."""
    place, (_, time_ms) = DeadLetterPosition(*place_of(message)), message.timestamp()
    key, value, headers = message.key(), message.value(), headers_of(message)
    try:
        kept, facts = _divided(headers)
        return StoredDeadLetter(
            place,
            time_ms,
            _one_of(REASONS, facts.pop("reason")),
            facts.pop("detail"),
            key,
            value,
            kept,
            Origin(
                facts.pop("origin_topic"),
                _number(facts.pop("origin_partition")),
                _number(facts.pop("origin_offset")),
                _number(facts.pop("origin_timestamp")),
            ),
            _number(facts.pop("attempts")),
            _subscriber(facts.pop("subscriber", None)),
            _ids(facts.pop("subscriptionids", None)),
            None if (version := facts.pop("matchversion", None)) is None else _number(version),
            float(facts.pop("approximate", 0)),
            facts,
        )
    except (KeyError, ValueError) as error:
        what = f"the header {_OURS}{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        return StoredDeadLetter(place, time_ms, UNKNOWN, f"the job did not write it: {what}", key, value, headers)


def _divided(headers: Headers) -> tuple[Headers, dict[str, str]]:
    """The original's headers, and ours by name. Ours come last, so an original cannot pretend to have them."""
    last = dict(headers)
    if (count := last.get(f"{_OURS}headers")) is None:
        raise KeyError("headers")
    first = _number(count.decode())
    if first < 0:
        raise ValueError(f"{_OURS}headers is {first}")
    facts = {name.removeprefix(_OURS): (value or b"").decode() for name, value in headers[first:]}
    del facts["headers"]  # it must be one of ours
    return headers[:first], facts


def _one_of(known: tuple[str, ...], text: str) -> str:
    if text not in known:
        raise ValueError(f"unknown reason {text!r}; known: {', '.join(known)}")
    return text


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is not a number")
    return int(text)


def _subscriber(name: str | None) -> str | None:
    if name is not None and not SUBSCRIBER.fullmatch(name):
        raise ValueError(f"{name[:60]!r} is not the name of a subscriber")
    return name


def _ids(text: str | None) -> str | None:
    if text is not None:
        ids = orjson.loads(text)
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
            raise ValueError("its subscription ids are not a JSON list of strings")
    return text

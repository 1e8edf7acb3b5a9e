"""The subscriptions that their topic has: of each id the last record that the job does not refuse."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import orjson
from confluent_kafka import Message

from streaming.subscriptions import Change, Refused, id_of, read_change

Read = Callable[[], Iterable[Message | None]]  # the topic, from its first record to its present end

_PARTITION_BITS = 20


class Registered(NamedTuple):
    """The last word on an id, and where it lies."""

    id: str
    partition: int
    offset: int
    time_ms: int
    value: bytes | None  # None: withdrawn
    change: Change

    @property
    def document(self) -> dict[str, Any]:
        """Of one that is not withdrawn."""
        found: dict[str, Any] = orjson.loads(self.value or b"null")
        return found

    @property
    def line(self) -> bytes:
        """The document as a line: its bytes, but that it has no line breaks and says its id itself."""
        value = b" ".join((self.value or b"").split(b"\n")).replace(b"\r", b" ").strip()
        return value if "id" in self.document else orjson.dumps({"id": self.id, **self.document})


def last_written(records: Iterable[Message | None], ids: Collection[str]) -> dict[str, Registered]:
    """Of each of these ids that has one."""
    wanted = {id.encode() for id in ids}
    found = {}
    for record in records:
        if record is None or (record.key() and record.key() not in wanted):
            continue
        try:
            word = _word(record)
        except Refused:
            continue
        if word.id in ids:
            found[word.id] = word
    return found


def registered(
    read: Read, prefix: str = "", wanted: Callable[[dict[str, Any]], bool] = lambda document: True
) -> Iterator[Registered]:
    """Those that are there and not withdrawn, whose id begins with `prefix` and whose document is `wanted`.

    The topic is read twice: first for where the last word on each id lies, which is all that is kept of it (about 200
    bytes each), then for those words. Where one is refused and has another before it, it is read once more.
    """
    places = dict(_places(read(), prefix.encode()).values())
    refused = set()
    for record in read() if places else ():
        if record is None or (replaces := places.pop(_place(record), None)) is None:
            continue
        if replaces or _is_wanted(record.value(), wanted):
            try:
                word = _word(record)
            except Refused as error:
                if replaces and error.id:
                    refused.add(error.id)
            else:
                if wanted(word.document):
                    yield word
        if not places:
            break
    if refused:
        for word in last_written(read(), refused).values():
            if word.value is not None and wanted(word.document):
                yield word


def _places(records: Iterable[Message | None], prefix: bytes) -> dict[bytes, tuple[int, bool]]:
    """By id where its last word lies, refused or not, and whether there may be a good one before it."""
    found: dict[bytes, tuple[int, bool]] = {}
    for record in records:
        if record is None or (id := id_of(record.key(), record.value())) is None or not id.startswith(prefix):
            continue
        if record.value() is None:
            found.pop(id, None)
        else:
            found[id] = _place(record), id in found
    return found


def _place(record: Message) -> int:
    offset: int = record.offset()
    return offset << _PARTITION_BITS | record.partition()


def _word(record: Message) -> Registered:
    """Raises Refused."""
    change = read_change(record.key(), record.value())
    at = record.partition(), record.offset(), record.timestamp()[1]
    return Registered(change.subscription.id, *at, record.value(), change)


def _is_wanted(value: bytes, wanted: Callable[[dict[str, Any]], bool]) -> bool:
    """Cheaper than to judge it: of a million, few may be wanted."""
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and wanted(document)

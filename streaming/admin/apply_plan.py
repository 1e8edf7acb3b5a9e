"""Plan the changes that bring the subscriptions topic to the content of a file.

A plan takes all lines, then compares them with the topic, then gives the records of those that are new or changed, and
deletions of what the file lacks, with `prune`. Of an id that several lines have, the last counts. A
document is unchanged if it is the same JSON: the order of its keys and the space between them do not matter. About 900
bytes of memory for each id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import orjson
from confluent_kafka import Message

from streaming.documents.change_order import Decisions, LastWords
from streaming.documents.messages import place_of
from streaming.documents.subscriptions import Rejected, id_of, read_change
from streaming.kafka.clients import Writable
from streaming.tenants import ANYBODY, OWN, Tenant


class ApplyPlan:
    """The plan of an `apply`. With `prune`, ids with this prefix that no line has are unsubscribed."""

    def __init__(self, prune: str | None = None, tenant: Tenant = ANYBODY[OWN]) -> None:
        self._tenant = tenant
        self.taken = 0  # lines
        self.unchanged = 0
        self._prune = None if prune is None else prune.encode()
        self._lines: dict[bytes, tuple[int, bytes]] = {}  # id -> number of its line, its document
        self._changed: dict[bytes, int] = {}  # id -> the partition of the document that it changes
        self._unsubscribed: dict[bytes, int] = {}

    def take(self, number: int, line: bytes) -> None:
        """Take a line of the file. Raises Rejected if the job would reject it."""
        id = read_change(None, line, self._tenant).subscription.id.encode()
        self._lines[id] = number, said(id, line)
        self.taken += 1

    def compare(self, records: Iterable[Message | None], decisions: Decisions) -> None:
        """Compare with the topic, from its first record to its present end."""
        last: LastWords[bytes] = LastWords(decisions)  # the document of each; empty: it is unsubscribed
        for record in records:
            if record is None:
                continue
            value = record.value()
            if (id := id_of(record.key(), value)) is None or not (id in self._lines or self._prunes(id)):
                continue
            meaning = b""
            if value is not None:
                try:
                    meaning = said(id, value)
                    if id not in self._lines or meaning != self._lines[id][1]:
                        read_change(record.key(), value, self._tenant)
                except Rejected:
                    continue
            last.take(id, *place_of(record), record.timestamp()[1], meaning)
        for id, partition, _, meaning in last:
            if id not in self._lines:
                if meaning:
                    self._unsubscribed[id] = partition
            elif meaning == self._lines[id][1]:
                del self._lines[id]
                self.unchanged += 1
            elif meaning:
                self._changed[id] = partition

    def records(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Writable]:
        """The records to write, from the same lines. A change goes to the partition of the document that it
        replaces, so that compaction removes the old one."""
        wanted = {number: id for id, (number, _) in self._lines.items()}
        for number, line in lines:
            if (id := wanted.get(number)) is not None:
                yield id, line, self._changed.get(id, -1)
        for id, partition in self._unsubscribed.items():
            yield id, None, partition

    def changes(self) -> Iterator[tuple[str, str]]:
        """(id, what becomes of it), in the order of the lines; then what is unsubscribed."""
        for id in self._lines:
            yield id.decode(), "changed" if id in self._changed else "new"
        for id in self._unsubscribed:
            yield id.decode(), "unsubscribed"

    def as_data(self) -> dict[str, Any]:
        new = len(self._lines) - len(self._changed)
        repeated = self.taken - len(self._lines) - self.unchanged
        return {
            "new": new,
            "changed": len(self._changed),
            "unchanged": self.unchanged,
            "repeated": repeated,
            "unsubscribed": len(self._unsubscribed),
        }

    def _prunes(self, id: bytes) -> bool:
        return self._prune is not None and id.startswith(self._prune)


def said(id: bytes, value: bytes) -> bytes:
    """Equal for documents of equal meaning. Raises Rejected."""
    name = id.decode(errors="replace")
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Rejected(name, f"not JSON: {error}") from None
    if isinstance(document, dict):
        document = {"id": name, **document}
    return blake2b(orjson.dumps(document, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()

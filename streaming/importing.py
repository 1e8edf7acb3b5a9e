"""Which of many documents must be written so that the subscriptions topic says what they say.

An import takes all lines, then compares them with the topic, then gives the records of those that are new or changed.
Of an id that several lines have, the last counts. A document is unchanged if it is the same JSON: the order of its keys
and the space between them do not matter. About 300 bytes of memory for each id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import orjson
from confluent_kafka import Message

from streaming.clients import Writable
from streaming.subscriptions import Refused, id_of, read_change


class Import:
    def __init__(self) -> None:
        self.taken = 0  # lines
        self.unchanged = 0
        self._lines: dict[bytes, tuple[int, bytes]] = {}  # id -> number of its line, what it says
        self._partitions: dict[bytes, int] = {}  # where the document lies that it changes

    def take(self, number: int, line: bytes) -> None:
        """Raises Refused if the job would."""
        id = read_change(None, line).subscription.id.encode()
        self._lines[id] = number, _said(id, line)
        self.taken += 1

    def compare(self, records: Iterable[Message | None]) -> None:
        """With the topic, from its first record to its present end."""
        same = set()
        for record in records:
            if record is None or (id := id_of(record.key(), record.value())) not in self._lines:
                continue
            if record.value() is None:
                self._partitions.pop(id, None)
                same.discard(id)
                continue
            try:
                if _said(id, record.value()) == self._lines[id][1]:
                    same.add(id)
                else:
                    read_change(record.key(), record.value())
                    same.discard(id)
            except Refused:
                continue
            self._partitions[id] = record.partition()
        for id in same:
            del self._lines[id], self._partitions[id]
        self.unchanged = len(same)

    def records(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Writable]:
        """Those to write, of the same lines. A change goes to the partition of what it changes: the order of two
        documents counts only within one."""
        wanted = {number: id for id, (number, _) in self._lines.items()}
        for number, line in lines:
            if (id := wanted.get(number)) is not None:
                yield id, line, self._partitions.get(id, -1)

    @property
    def changed(self) -> int:
        return len(self._partitions)

    @property
    def new(self) -> int:
        return len(self._lines) - self.changed

    def as_data(self) -> dict[str, Any]:
        repeated = self.taken - len(self._lines) - self.unchanged
        return {"new": self.new, "changed": self.changed, "unchanged": self.unchanged, "repeated": repeated}


def _said(id: bytes, value: bytes) -> bytes:
    """Equal for documents that say the same. Raises Refused."""
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Refused(id.decode(), f"not JSON: {error}") from None
    if isinstance(document, dict):
        document = {"id": id.decode(), **document}
    return blake2b(orjson.dumps(document, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()

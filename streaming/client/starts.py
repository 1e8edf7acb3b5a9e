"""Read the subscriptions topic for documents with a start of past events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson

from streaming.documents.records import START
from streaming.documents.subscriptions import id_of

if TYPE_CHECKING:
    from streaming.admin.deliveries import Delivery
    from streaming.client.deliveries import Deliveries

MOST_AGE_MS = 6 * 86_400_000  # brokers forget after 7 days (offsets.retention.minutes) which replays are finished


class Starts:
    """An iterator over the ids of subscriptions whose documents have `from`, one for each written document.

        with client.starts() as starts:
            for id in starts:
                with client.catch_up(id) as replay:
                    replay.run()
                starts.commit()

    After a crash, uncommitted ids are read again, and `catch_up` continues the same replay. Several processes with the
    same settings share the partitions of the topic.
    """

    def __init__(self, records: Deliveries, skipped: Callable[[str], object]) -> None:
        self._records, self._skipped = records, skipped

    def __enter__(self) -> Starts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Starts:
        return self

    def __next__(self) -> str:
        """Raises StopIteration as `Deliveries` does, and JobError."""
        for record in self._records:
            if names_start(record) and (id := id_of(record.key, record.event)):
                text = id.decode(errors="replace")
                if record.time_ms >= 1_000 * time.time() - MOST_AGE_MS:
                    return text
                self._skipped(text)
        raise StopIteration

    def commit(self) -> None:
        """Commit all ids returned so far: their past events are delivered. Raises like `Deliveries.commit`."""
        self._records.commit()

    def close(self) -> None:
        """Leave the group without committing."""
        self._records.close()


def names_start(record: Delivery) -> bool:
    """Whether a record of the subscriptions topic has `from` in its document and no start in its header. A start in the
    header comes from a command that delivers the past events itself."""
    value = record.event
    if value is None or (b'"from"' not in value and b"\\u" not in value):  # nearly all
        return False
    if any(name == START for name, _ in record.headers):
        return False
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and "from" in document

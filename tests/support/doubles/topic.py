"""Records as a consumer returns them, without a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Message


class Record(Message):
    """The value is a document, or bytes as they are; `headers` are names with texts."""

    def __init__(
        self,
        key: str | bytes | None,
        document: Any,
        partition: int = 0,
        offset: int = 0,
        time_ms: int = 0,
        headers: dict[str, str] | None = None,
        topic: str | None = None,
    ) -> None:
        super().__init__(
            topic=topic,
            partition=partition,
            offset=offset,
            key=key.encode() if isinstance(key, str) else key,
            value=document if isinstance(document, bytes | None) else json.dumps(document).encode(),
            headers=[(name, value.encode()) for name, value in (headers or {}).items()],
            timestamp=(1, time_ms),
        )


class Topic:
    """Records of one partition at their offsets; counts how often it is read."""

    def __init__(self, *written: tuple[str | None, Any]) -> None:
        self.records = [Record(key, document, offset=n, time_ms=n) for n, (key, document) in enumerate(written)]
        self.reads = 0

    def __call__(self) -> Iterator[Record]:
        self.reads += 1
        yield from self.records

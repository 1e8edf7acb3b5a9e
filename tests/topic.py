"""Records as a consumer returns them, without a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class Record:
    """The value is a document, or bytes as they are; `headers` are names with texts."""

    def __init__(
        self,
        key: str | None,
        document: Any,
        partition: int = 0,
        offset: int = 0,
        time_ms: int = 0,
        headers: dict[str, str] | None = None,
    ) -> None:
        self._key = key and key.encode()
        self._value = document if isinstance(document, bytes | None) else json.dumps(document).encode()
        self._partition, self._offset, self._time_ms = partition, offset, time_ms
        self._headers = [(name, value.encode()) for name, value in (headers or {}).items()]

    def key(self) -> Any:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._time_ms

    def headers(self) -> list[tuple[str, bytes]]:
        return self._headers


class Topic:
    """Records of one partition at their offsets; counts how often it is read."""

    def __init__(self, *written: tuple[str | None, Any]) -> None:
        self.records = [Record(key, document, offset=n, time_ms=n) for n, (key, document) in enumerate(written)]
        self.reads = 0

    def __call__(self) -> Iterator[Any]:
        self.reads += 1
        yield from self.records

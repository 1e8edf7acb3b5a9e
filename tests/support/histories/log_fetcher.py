"""A fetcher of rows in memory: what a task or the driver of an epoch reads, without connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from streaming.publishing.contract import TopicPartition
from streaming.reading.contract import NO_END, Decoded, Position
from streaming.reading.fetcher import LogEnd
from streaming.rows import INPUT, Source, SourcePartition


class LogFetcher:
    """As `Fetcher`. The offset of a row is its place in the log of its partition; at most so many come at once. `sleep`
    is called for the time that a poll waits."""

    def __init__(
        self,
        logs: Mapping[SourcePartition, Sequence[Mapping[str, Any]]],
        most: int,
        sleep: Callable[[float], object],
        sources: Mapping[str, Source] = MappingProxyType({}),
        positions: Mapping[TopicPartition, Position] = MappingProxyType({}),
        ends: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self._logs, self._most, self._sleep = logs, most, sleep
        self.assign(sources, positions, ends)

    def assign(
        self,
        sources: Mapping[str, Source],
        positions: Mapping[TopicPartition, Position],
        ends: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self._sources, self.positions, self._ends = sources, dict(positions), ends

    @property
    def log_ends(self) -> dict[TopicPartition, LogEnd]:
        lengths = {(topic, p): len(self._logs[self._sources[topic], p]) for topic, p in self.positions}
        return {at: LogEnd(length, length) for at, length in lengths.items()}

    def is_behind(self) -> bool:
        return any(self._left(at) for at in self.positions)

    def is_done(self) -> bool:
        return all(position.offset >= self._ends.get(at, NO_END) for at, position in self.positions.items())

    def poll(self, timeout_s: float) -> Decoded | None:
        for at in list(self.positions):
            if some := self._left(at)[: self._most]:
                del self.positions[at]  # to the end, so that others have their turn
                self.positions[at] = Position(some[-1]["offset"] + 1)
                return Decoded(pa.RecordBatch.from_pylist(some, INPUT), {at: self.positions[at]})
        self._sleep(timeout_s)
        return None

    def close(self) -> None: ...

    def _left(self, at: TopicPartition) -> list[Mapping[str, Any]]:
        log = self._logs[self._sources[at[0]], at[1]]
        return list(log[self.positions[at].offset : self._ends.get(at, NO_END)])

"""Attempts at a transaction: how often the driver tries, how long it pauses, and what it commits itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from streaming.documents.records import Record
from streaming.driver.composition import Names
from streaming.kafka.sink import Aborted, Offsets
from streaming.log import logger
from streaming.publishing.contract import LEAST_ATTEMPTS
from streaming.rows import SourcePartition

log = logger("sluice.batch")

KEEP_TRYING_S = 30.0  # since the first attempt
LONGEST_PAUSE_S = 1.0  # between two attempts
ABSENT_S = 5.0  # after which tasks ask for missing topics again


class Sink(Protocol):
    def publish(self, records: Iterable[Record], offsets: Offsets) -> tuple[float, float]: ...


def commit(
    sink: Sink, names: Names, make: Callable[[], Iterable[Record]], positions: Mapping[SourcePartition, int]
) -> tuple[int, float, float]:
    """The number of aborts, and the sink's result. `make` composes the records, for each attempt again."""
    offsets = {(names.source(source), p): offset for (source, p), offset in positions.items()}
    deadline = time.monotonic() + KEEP_TRYING_S
    aborts = 0
    while True:
        try:
            return aborts, *sink.publish(make(), offsets)
        except Aborted as aborted:
            if aborts + 1 >= LEAST_ATTEMPTS and time.monotonic() > deadline:
                raise
            # A topic that was deleted a moment ago may still be listed, so the pauses grow.
            aborts += 1
            _pause(aborts)
            log.warning("transaction aborted, trying again", reason=str(aborted))


def _pause(failures: int) -> None:
    """Wait before the next try: not after the first failure, then longer and longer."""
    time.sleep(min(LONGEST_PAUSE_S, 0.05 * (failures - 1)))


@dataclass
class RetryDeadline:
    """A limit on the time without progress. It begins with the first failure, so at least one more try follows. The
    pauses between tries grow from nothing."""

    _until: float = math.inf  # by the monotonic clock
    _failures: int = 0  # since there was progress

    def ends(self, progress: bool) -> bool:
        """Called after each try that failed."""
        if progress:
            self._until, self._failures = math.inf, 0
        self._failures += 1
        if self._until < math.inf:
            return time.monotonic() > self._until
        self._until = time.monotonic() + KEEP_TRYING_S
        return False

    def pause(self) -> None:
        """Called before the next try."""
        _pause(self._failures)


@dataclass
class MissingTopicsCache:
    """Topics that do not exist, for a while: then somebody may have made them."""

    _topics: frozenset[str] = frozenset()
    _since: float = 0.0  # by the monotonic clock

    def add(self, topics: Iterable[str]) -> None:
        self._topics = self.topics() | frozenset(topics)
        self._since = self._since or time.monotonic()

    def topics(self) -> frozenset[str]:
        if self._since and time.monotonic() > self._since + ABSENT_S:
            self._topics, self._since = frozenset(), 0.0
        return self._topics

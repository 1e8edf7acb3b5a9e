"""Attempts at a transaction: how often the driver tries, how long it pauses, and what it commits itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from streaming.documents.records import Record
from streaming.driver.composition import TopicNames
from streaming.errors import Forbidden
from streaming.log import error_fields, logger
from streaming.publishing.contract import LEAST_ATTEMPTS, Aborted
from streaming.publishing.ownership import Owner
from streaming.rows import SourcePartition

log = logger("sluice.batch")

KEEP_TRYING_S = 30.0  # since the first failure
LONGEST_PAUSE_S = 1.0  # between two attempts
MISSING_TOPICS_S = 5.0  # then tasks look for missing topics again


def commit(
    owner: Owner,
    names: TopicNames,
    make: Callable[[], Iterable[Record]],
    positions: Mapping[SourcePartition, int],
    *,
    starting: bool = False,
) -> tuple[int, float, float]:
    """Commit a transaction; returns the number of aborts, and what `Owner.publish` returns. `make` composes the
    records, for each attempt again. Raises Forbidden, or another JobError."""
    offsets = names.by_topic(positions)
    deadline = RetryDeadline(LEAST_ATTEMPTS)
    while True:
        try:
            return deadline.failures, *owner.publish(make(), offsets, starting=starting)
        except Aborted as aborted:
            if aborted.rejected:
                raise Forbidden(f"the broker rejects records of the job: {aborted}") from aborted
            if deadline.ends():
                raise
            # A topic that was deleted a moment ago may still be listed, so the pauses grow.
            deadline.pause()
            log.warning("transaction_retried", **error_fields(aborted))


@dataclass
class RetryDeadline:
    """A limit on attempts without progress: KEEP_TRYING_S from the first failure on, but `least` attempts however long
    they take. The pauses between attempts grow from nothing."""

    least: int = 2
    failures: int = 0  # since there was progress
    _until: float = 0.0  # by the monotonic clock

    def ends(self, progress: bool = False) -> bool:
        """Count an attempt that failed; returns whether it was the last."""
        self.failures = 1 if progress else self.failures + 1
        if self.failures == 1:
            self._until = time.monotonic() + KEEP_TRYING_S
        return self.failures >= self.least and time.monotonic() > self._until

    def pause(self) -> None:
        """Wait before the next attempt."""
        time.sleep(min(LONGEST_PAUSE_S, 0.05 * (self.failures - 1)))


@dataclass
class MissingTopicsCache:
    """Topics that do not exist, for a while: then somebody may have made them."""

    _topics: frozenset[str] = frozenset()
    _since: float = 0.0  # by the monotonic clock

    def add(self, topics: Iterable[str]) -> None:
        self._topics = self.topics() | frozenset(topics)
        self._since = self._since or time.monotonic()

    def topics(self) -> frozenset[str]:
        if self._since and time.monotonic() > self._since + MISSING_TOPICS_S:
            self._topics, self._since = frozenset(), 0.0
        return self._topics

"""Count the events that were deleted before they could be read, by gaps in the offsets.

Ends of transactions, aborted records and compaction leave gaps too. Only offsets before the first one that the topic
still has were deleted; the others among them are counted as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from streaming.errors import JobError
from streaming.kafka.start_offsets import warn_deleted
from streaming.kafka.topics import Topics
from streaming.log import error_fields, logger
from streaming.publishing.contract import Offsets, TopicPartition

log = logger("sluice.job")

ANSWER_S = 5.0  # for the broker: a batch waits
EVERY_S = 10.0  # between two requests: with transactions each batch has gaps
MOST = 1_000  # gaps of a partition that wait for an answer; more are joined


class Gap(NamedTuple):
    begin: int  # the first offset of some that were read together
    missing: int  # how many of them have no record


@dataclass
class DeletedEvents:
    """The gaps of the topics of events, until the broker has answered where their partitions begin.

    `firsts` returns the first offset that is left of each of these partitions. A failed request is repeated later: the
    gaps wait, and the job goes on.
    """

    firsts: Callable[[Iterable[TopicPartition]], Offsets] = lambda partitions: dict.fromkeys(partitions, 0)
    clock: Callable[[], float] = time.monotonic
    _reached: dict[TopicPartition, int] = field(default_factory=dict, init=False)  # next offset
    _gaps: dict[TopicPartition, list[Gap]] = field(default_factory=dict, init=False)
    _due: float = field(default=0.0, init=False)  # the next request, by the clock
    _fails: bool = field(default=False, init=False)  # the last request did

    @classmethod
    def of(cls, topics: Topics) -> DeletedEvents:
        return cls(partial(topics.firsts, timeout_s=ANSWER_S))

    def begin(self, positions: Offsets) -> None:
        """Set the offsets from which on reading begins."""
        self._reached |= positions

    def read(self, records: Mapping[TopicPartition, int], last: Offsets) -> None:
        """Note what was read: the number of records, and the last offset."""
        for at, offset in last.items():
            begin = self._reached.get(at, 0)
            self._reached[at] = offset + 1
            missing = offset + 1 - begin - records[at]
            if missing > 0:
                gaps = self._gaps.setdefault(at, [])
                if len(gaps) >= MOST:
                    begin, before = gaps.pop()
                    missing += before
                gaps.append(Gap(begin, missing))

    def count(self, at_once: bool = False) -> int:
        """Log and return the number of deleted events among the gaps, if a request to the broker is due; else 0."""
        if not self._gaps or (self.clock() < self._due and not at_once):
            return 0
        try:
            firsts = self.firsts(self._gaps.keys())
        except JobError as error:
            if not self._fails:
                log.warning("first_offsets_unavailable", **error_fields(error))
            self._fails = True
            return 0
        finally:
            self._due = self.clock() + EVERY_S
        self._fails = False
        total = 0
        for at, gaps in self._gaps.items():
            first = firsts[at]
            if deleted := sum(max(0, min(first - begin, missing)) for begin, missing in gaps):
                warn_deleted(at, gaps[0].begin, first, deleted)
                total += deleted
        self._gaps = {}
        return total

"""The slots of a query, as the driver handles them: it alone opens them, which fences their earlier users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.progress import noted
from streaming.publishing.connection.requests import CommittedOffset
from streaming.publishing.contract import Offsets, ProducerEpoch, TopicPartition
from streaming.publishing.ownership import Owner, of_task
from streaming.rows import Row, SlotReport
from streaming.source_topics import SourceTopics
from streaming.worker.publication import Publication, Quota


@dataclass
class Slots:
    """The producers with which the tasks of the next batch may publish, one for each slot.

    The order of a start matters (docs/delivery-protocol.md): the owner opens its own producer, `take_over` fences all
    slots ever used and claims the committed offsets; only then `open` lets tasks publish.
    """

    owner: Owner
    partitions: Sequence[TopicPartition]  # of all topics that the job reads, as far as they are known
    sources: SourceTopics
    _producers: list[ProducerEpoch] = field(default_factory=list, init=False)
    _broadcast: Callable[[Any], Any] = field(init=False)
    _unusual: Mapping[str, int] = field(default_factory=dict, init=False)  # as tasks have them
    _sent: Any = field(default=None, init=False)  # the broadcast of that, if there are any
    _job: int = field(default=0, init=False)  # the number of the job at work; between two of them, of none

    def fence_all(self, least: int = 0) -> Mapping[TopicPartition, CommittedOffset]:
        """Fence all slots that were ever used, and at least so many; returns what is committed then."""
        self._producers, committed = self.owner.fence_slots(self.partitions, least)
        return committed

    def take_over(self) -> None:
        """Fence all slots that were ever used, and one, which shows whether the user may; claim the committed offsets.
        Whoever was fenced waits for the claim no longer than TAKEOVER_S, so nothing may take time before. Raises Fenced
        if another process has taken over, or ClaimFailed."""
        self.fence_all(1)
        self.owner.committed(self.partitions)

    def open(self, number: int, broadcast: Callable[[Any], Any]) -> None:
        """Let `number` tasks publish, which see what `broadcast` returns. If they are more than ever, that is noted in
        Kafka first, so that the next process fences the new slots too. Raises Fenced if another job has taken over:
        the slots that were just opened were its own."""
        self._broadcast = broadcast
        if number > self.owner.slots:
            self.owner.slots = number
            self.claim(self.partitions)
            self.fence_all()
            self.claim(self.partitions)

    def claim(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit offsets again. Raises Fenced if another job has taken over."""
        self.owner.claim(partitions)

    def settle(self, own: Iterable[TopicPartition], read: Iterable[TopicPartition]) -> tuple[Offsets, list[Row]]:
        """After a task failed: claim, fence all, claim; returns what is committed, and what the tasks of the last job
        have noted beside it.

        `own` are partitions whose offsets no slot commits. `read` are those of the batch: a slot may have committed
        offsets of one that was added since the start. The first claim fails if another job has taken over, whose slots
        must not be fenced. The second one fails if another has taken over meanwhile.
        """
        self.partitions = sorted({*self.partitions, *read})
        self.claim(own)
        committed = self.fence_all()
        offsets = {at: offset for at, (offset, _) in committed.items()}
        self.owner.moved(offsets)
        self.claim(own)
        sources = self.sources.sources
        notes = (
            ((sources[topic], partition), offset, of_task(text))
            for (topic, partition), (offset, text) in committed.items()
        )
        return offsets, noted((one for one in notes if one[2]), self._job)

    def work(
        self,
        number: int,
        version: int,
        began: float,
        absent: frozenset[str],
        unusual: Mapping[str, int],
        quota: Quota,
        exact: bool,
    ) -> Publication:
        """The publication of a batch by `number` tasks.

        `unusual` may have as many entries as there are topics, so it is sent to the workers only if it is another
        object than for the last batch.
        """
        if unusual is not self._unusual:
            if self._sent is not None:
                self._sent.destroy()
            self._unusual, self._sent = unusual, self._broadcast(unusual) if unusual else None
        self._job += 1
        return Publication(
            job=self._job,
            note=self.owner.note,
            producers=tuple(self._producers[:number]),
            version=version,
            began=began,
            absent=absent,
            unusual=self._sent,
            quota=quota,
            exact=exact,
        )

    def take(self, reports: Iterable[SlotReport]) -> None:
        """Take the producers that tasks left. What the last job has done is known then."""
        self._job += 1
        for report in reports:
            self._producers[report.slot] = ProducerEpoch(report.producer_id, report.epoch)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take note of the offsets that tasks have committed."""
        self.owner.moved(offsets)

"""Pass producers and limits from the driver to the tasks that publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from streaming.publishing.contract import ProducerEpoch
from streaming.rows import Source

Share = tuple[Source, int, int, str]  # source, partition, second of event time, subscriber


class Quota(NamedTuple):
    """A limit on the deliveries to a subscriber for the events of one second."""

    most: int  # 0: no limit
    drop: bool  # what is beyond it; otherwise it becomes dead letters
    left: Mapping[Share, int]  # deliveries, where it would get more

    def allowed(self, wanted: Counter[Share]) -> Counter[Share]:
        """Return how many of these first deliveries of each share it gets."""
        return Counter({share: min(n, self.left.get(share, n)) for share, n in wanted.items()})


UNLIMITED = Quota(0, drop=False, left={})


@dataclass(frozen=True)
class Publication:
    """The producers and limits of one batch, for its tasks to publish. A task's slot is its number in the stage."""

    note: str  # metadata of the offsets
    producers: tuple[ProducerEpoch, ...]  # of the slots
    version: int  # of the state that events are matched against
    job: int  # its number among those of this driver
    began: float  # epoch s: when the driver began with the batch
    # A broadcast of the topics with another number of partitions than usual, as the driver sees them; None if there is
    # no such topic. Tasks do not use their own metadata: the partition of an event's deliveries must not
    # depend on who matches it.
    unusual: Any = None
    exact: bool = False  # timestamps are as Kafka has them, not as Spark read them
    quota: Quota = UNLIMITED
    absent: frozenset[str] = frozenset()  # subscribers' topics that do not exist, and are not to be waited for

    def counts(self, topics: Sequence[str], usual: int) -> Mapping[str, int]:
        """The number of partitions of these delivery topics, if they exist: `usual`, or an exception."""
        unusual = self.unusual.value if self.unusual is not None else {}
        return {topic: unusual.get(topic, usual) for topic in topics}

"""What the driver tells tasks about how to publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from streaming.publishing.contract import ProducerEpoch


class Quota(NamedTuple):
    """A limit on the deliveries to a subscriber for the events of one second."""

    most: int  # 0: no limit
    drop: bool  # what is beyond it; otherwise it becomes dead letters
    left: Mapping[tuple[int, int, str], int]  # (partition, second, subscriber) -> deliveries, where it would get more


UNLIMITED = Quota(0, drop=False, left={})


@dataclass(frozen=True)
class Publication:
    """How the tasks of a batch publish. A task's slot is its number in the stage."""

    bootstrap_servers: str
    options: Mapping[str, str]  # of Kafka's clients, under librdkafka's names
    query: str  # also the group of the offsets
    note: str  # metadata of the offsets
    producers: tuple[ProducerEpoch, ...]  # of the slots
    version: int  # of the state that events are matched against
    events: str  # topic
    dead_letters: str  # topic
    prefix: str  # of subscribers' topics
    shared: str  # the topic of all deliveries; empty: each subscriber has one
    max_bytes: int  # of a delivery
    partitions: int  # of a delivery topic, unless the next says otherwise
    # A broadcast of the number of partitions by topic, as the driver knows them; None if all have the same. Tasks do
    # not go by what they know themselves: the partition of an event's deliveries must not depend on who matches it.
    unusual: Any = None
    exact: bool = False  # timestamps are as Kafka has them, not as Spark read them
    quota: Quota = UNLIMITED
    absent: frozenset[str] = frozenset()  # subscribers' topics that do not exist, and are not to be waited for

    def counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        """The number of partitions of these delivery topics, if they exist."""
        unusual = self.unusual.value if self.unusual is not None else {}
        return {topic: unusual.get(topic, self.partitions) for topic in topics}

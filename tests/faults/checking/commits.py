"""Watch the committed offsets of all topics that the job reads, and measure the gaps between commits."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S

EVERY_S = 0.05
Places = tuple[int, ...]  # by (topic, partition), in the order of `places`, to which others may be added later


@dataclass(frozen=True)
class Seen:
    at_s: float  # monotonic
    offsets: Places


class Commits:
    """`with Commits(...) as commits` asks for the offsets of the group every 50 ms. A broker that is away does not
    answer; nothing is committed then either."""

    def __init__(self, cluster: Cluster, group: str, partitions: Mapping[str, int], events: Collection[str]) -> None:
        self.places = [(topic, p) for topic, n in partitions.items() for p in range(n)]
        self._events = events  # their topics
        self._config = cluster.client(group_id=group, enable_auto_commit=False)
        self._end = threading.Event()
        self.seen = [Seen(time.monotonic(), (0,) * len(self.places))]  # whenever it changed

    def __enter__(self) -> Commits:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def committed(self) -> dict[tuple[str, int], int]:
        return self._by_place(self.seen[-1])

    def added(self, topic: str, partition: int) -> None:
        """There is another partition."""
        self.places.append((topic, partition))

    def events_of(self, one: Seen) -> dict[int, int]:
        """Return the committed offsets of the events, by the number of the partition among all of theirs."""
        offsets = [offset for (topic, _), offset in self._by_place(one).items() if topic in self._events]
        return dict(enumerate(offsets))

    def longest_gap_s(self, begin_s: float, end_s: float) -> float:
        """The longest time between two commits of new events, of those from the last before `begin_s` to `end_s`."""
        times, last = [], -1
        for one in list(self.seen):
            events = self._events_until(one)
            if events > last and one.at_s <= end_s:
                times.append(one.at_s)
                last = events
        before = [at for at in times if at <= begin_s][-1:]
        times = before + [at for at in times if at > begin_s]
        return max((b - a for a, b in pairwise(times)), default=0.0)

    def ends(self, timeout_s: float = TIMEOUT_S) -> dict[tuple[str, int], int]:
        """Return the ends of all topics. A broker that has just come back is asked again, by a consumer that remembers
        nothing of the time when it had no partitions."""
        deadline = time.monotonic() + timeout_s
        while True:
            consumer = Consumer(self._config)
            try:
                return {at: consumer.get_watermark_offsets(TopicPartition(*at), timeout_s)[1] for at in self.places}
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
            finally:
                consumer.close()
            time.sleep(EVERY_S)

    def _by_place(self, one: Seen) -> dict[tuple[str, int], int]:
        """Nothing was committed of a partition before it was there."""
        places = self.places[:]
        return dict.fromkeys(places, 0) | dict(zip(places, one.offsets, strict=False))

    def _events_until(self, one: Seen) -> int:
        return sum(self.events_of(one).values())

    def _watch(self) -> None:
        consumer = Consumer(self._config)
        while not self._end.wait(EVERY_S):
            asked = [TopicPartition(*at) for at in self.places[:]]
            with contextlib.suppress(KafkaException):
                found = tuple(max(0, tp.offset) for tp in consumer.committed(asked, 1.0))
                if found != self.seen[-1].offsets:
                    self.seen.append(Seen(time.monotonic(), found))
        consumer.close()

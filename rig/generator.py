"""A process that writes all subscriptions at once and then, when told to, events and changes at their rates."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import islice

import orjson
from confluent_kafka import Producer

from rig.child import tell
from rig.load import Load
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S

TICK_S = 0.005
TELL_S = 1.0


class Writer:
    """A producer that waits while its queue is full and remembers the records that were not taken."""

    def __init__(self, cluster: Cluster) -> None:
        self._failed: list[str] = []
        self._producer = Producer(
            cluster.client(enable_idempotence=True, linger_ms=TICK_S * 1000, compression_type="lz4")
            | {"queue.buffering.max.messages": 1_000_000, "delivery.report.only.error": True},
            on_delivery=lambda error, _: self._failed.append(error.str()),
        )

    def write(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int = -1, timestamp_ms: int = 0
    ) -> None:
        """Write a record with the present time, unless another is given."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition, timestamp=timestamp_ms)
                return
            except BufferError:
                self._producer.poll(0.1)

    def waiting(self) -> int:
        """The number of records that the broker has not acknowledged."""
        return len(self._producer)

    def partitions(self, topic: str) -> int:
        """The number of partitions now; added ones can be written to from then on."""
        return len(self._producer.list_topics(topic, TIMEOUT_S).topics[topic].partitions)

    def write_all(self, topic: str, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write records of keys and values, and wait until the broker has them."""
        for key, value in records:
            self.write(topic, key, value)
            self.poll()
        self.finish()

    def poll(self) -> None:
        self._producer.poll(0)

    def finish(self) -> None:
        left = self._producer.flush(TIMEOUT_S)
        if left or self._failed:
            sys.exit(f"{left + len(self._failed)} records were not taken: {self._failed[:1] or 'no answer'}")


def run(load: Load, cluster: Cluster, events_topic: str, partitions: int, subscriptions_topic: str) -> None:
    """Write the subscriptions; at the next line of standard input the warm-up, if there is one; at the next the load.

    An event or a change has the time at which it is due as its timestamp, to a tick. So if the generator pauses, those
    that it writes late are late in all latencies."""
    writer = Writer(cluster)
    writer.write_all(subscriptions_topic, load.first())
    tell(subscriptions=load.subscriptions)
    events, changes = enumerate(load.events()), load.changes()
    sent, changed = 0, 0
    for stretch in load.stretches():
        if not sys.stdin.readline():
            return
        began_ms, began, reported_s = time.time() * 1000, time.monotonic(), 0.0
        tell(began_ms=began_ms)
        before, pause = 0.0, 0.0
        for tick in stretch.ticks(TICK_S):
            if (now := time.monotonic() - began) < tick.at_s:
                writer.poll()
                time.sleep(max(0.0, tick.at_s - (time.monotonic() - began)))
                now = time.monotonic() - began
            pause, before = max(pause, now - before), now
            due_ms = int(began_ms + 1000 * tick.at_s)
            for number, event in islice(events, tick.events):
                writer.write(events_topic, None, event, number % partitions, due_ms)
            for id, document in islice(changes, tick.changes):
                writer.write(subscriptions_topic, id, document, timestamp_ms=due_ms)
            sent, changed = sent + tick.events, changed + tick.changes
            if now - reported_s >= TELL_S:
                reported_s = now
                tell(events=sent, changes=changed)
        writer.finish()
        tell(events=sent, changes=changed, longest_pause_ms=round(pause * 1000, 1), **{stretch.name: True})


if __name__ == "__main__":
    task = orjson.loads(sys.argv[1])
    run(Load(**task.pop("load")), Cluster(task.pop("bootstrap_servers"), task.pop("client")), **task)

"""A process that reads what the job wrote, like all its subscribers together, and hands it to the check.

A line of its input asks for a sample, the latencies since the last one. When its input ends, the job has ended: it
reads the rest and reports. The check runs in a process of its own at a low priority, so that reading goes on meanwhile.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from multiprocessing import get_context
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from rig.child import tell
from rig.load import Load
from rig.records import subscriber_of
from streaming.kafka.clients import Cluster
from streaming.kafka.topics import TIMEOUT_S
from streaming.latencies import Latencies
from streaming.process.child import die_with_parent
from tests.soak.checking.check import Check
from tests.soak.checking.records import Chunk, Records

CHUNK = 500_000  # records at most that are collected, so that those of a first start do not pile up
WAITING = 8  # chunks before the check; while there are more, nothing is read
NICE = 10
AT_ONCE = 1_000
IDLE_S = 0.01
# The broker collects records of all topics for 100 ms. With IDLE_S that is what a latency has too much, at most. Each
# answer costs it 4.6 ms with 200 topics, 46 ms of each second; without waiting it would answer at the first record. The
# queue is bounded for a reader that is behind; librdkafka's own bounds are 100,000 records and 64 MB of each partition.
FETCH = {
    "fetch_wait_max_ms": 100,
    "fetch_min_bytes": 10_000_000,
    "queued_min_messages": 10_000,
    "queued_max_messages_kbytes": 4_096,
}

_check: Check  # in the process of the check


def start_check(load: Mapping[str, Any], event_partitions: int, change_partitions: int) -> None:
    global _check
    die_with_parent()
    os.nice(NICE)
    _check = Check(Load(**load), event_partitions, change_partitions)


def check(chunk: Chunk, events_end: Sequence[int] | None, changes_end: Sequence[int] | None) -> dict[str, Any]:
    """Return what was found so far."""
    _check.take(chunk)
    if events_end is not None:
        _check.close(events_end, changes_end)
    return _check.found.as_data()


def committed(group: Consumer, places: list[TopicPartition]) -> list[int]:
    """Return the committed offsets; 0 for a partition without one."""
    found = group.committed(places, TIMEOUT_S)
    for place in found:
        if place.error is not None:
            raise KafkaException(place.error)
    return [max(0, place.offset) for place in found]


@dataclass(frozen=True)
class Window:
    """A window that ends before the offsets committed at that time. The logs ended at `ends`, uncommitted records
    included: a reader that has reached them has all that the job wrote of the window."""

    events_end: Sequence[int]
    changes_end: Sequence[int] | None  # of the last window
    ends: Mapping[tuple[str, int], int]


class Reader:
    """A reader of deliveries. With `prefix`, a topic names its subscriber; without it the key does."""

    def __init__(
        self,
        load: Mapping[str, Any],
        cluster: Cluster,
        group: str,
        events_topic: str,
        subscriptions_topic: str,
        status_topic: str,
        delivery_topics: Sequence[str],
        prefix: str | None,
        window_s: float,
    ) -> None:
        self._cluster, self._prefix, self._window_s = cluster, prefix, window_s
        self._subscriptions_topic, self._status_topic = subscriptions_topic, status_topic
        topics = [subscriptions_topic, status_topic, *delivery_topics]
        there = cluster.topics().required([events_topic, *topics])
        self._sources = [TopicPartition(events_topic, p) for p in range(there[events_topic])]
        self._changes = [TopicPartition(subscriptions_topic, p) for p in range(there[subscriptions_topic])]
        self._reached = {(topic, p): 0 for topic in topics for p in range(there[topic])}
        self._group = Consumer(cluster.client(group_id=group, enable_auto_commit=False))
        self._admin = AdminClient(cluster.client())
        self._records = Records(len(self._sources), len(self._changes), int(time.time() * 1000))
        self._read, self._ms, self._latencies = 0, array("d"), Latencies()
        self._minute = b"", 0.0  # of the last delivery's event, and when it began
        settings = load, len(self._sources), len(self._changes)
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), start_check, settings)
        self._checks: deque[Future[dict[str, Any]]] = deque()

    def run(self) -> None:
        asked: deque[str] = deque()
        input = threading.Thread(target=lambda: asked.extend(iter(sys.stdin.readline, "")), daemon=True)
        input.start()
        window: Window | None = self._window(last=False)  # the first, without an event, tells that all is read
        closed_s = time.monotonic()
        for idle in self._reading():
            self._tell_checked(WAITING)
            if asked:
                asked.popleft()
                self._tell_sample(idle)
            if window and all(self._reached[at] >= end for at, end in window.ends.items()):
                self._hand_over(window)
                if window.changes_end is not None:
                    break
                window, closed_s = None, time.monotonic()
            elif len(self._records) >= CHUNK:
                self._hand_over(None)
            if window is None and (not input.is_alive() or time.monotonic() - closed_s >= self._window_s):
                window = self._window(last=not input.is_alive())
        self._tell_checked(0)
        self._pool.shutdown()
        tell(overall_ms=self._latencies.summary(), done=True)

    def _reading(self) -> Iterator[bool]:
        """Read on and on; says each time whether nothing came."""
        consumer = self._cluster.reader(auto_offset_reset="error", **FETCH)
        try:
            consumer.assign([TopicPartition(*at, 0) for at in self._reached])
            while True:
                messages = consumer.consume(AT_ONCE, IDLE_S)
                now_s = time.time()
                for message in messages:
                    self._take(message, now_s)
                yield not messages
        finally:
            consumer.close()
            self._group.close()

    def _take(self, message: Any, now_s: float) -> None:
        topic, partition, offset, error = message.topic(), message.partition(), message.offset(), message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            self._reached[topic, partition] = offset
            return
        self._reached[topic, partition] = offset + 1
        if topic == self._status_topic:
            self._records.status(message.value(), int(now_s * 1000))
        elif topic == self._subscriptions_topic:
            self._records.change(partition, message.key(), message.value(), message.timestamp()[1])
        else:
            headers = dict(message.headers())
            self._records.delivery(subscriber_of(message, self._prefix), headers, message.value())
            self._read += 1
            self._ms.append(max(0.0, (now_s - self._seconds(headers["ce_time"])) * 1000))

    def _seconds(self, time: bytes) -> float:
        """Since the epoch, of `2026-11-24T03:14:56.123Z`."""
        minute, second = time[:17], time[17:-1]
        if minute != self._minute[0]:
            self._minute = minute, datetime.fromisoformat(f"{minute.decode()}00+00:00").timestamp()
        return self._minute[1] + float(second)

    def _window(self, last: bool) -> Window:
        events_end = committed(self._group, self._sources)
        futures = self._admin.list_offsets(
            {TopicPartition(*at): OffsetSpec.latest() for at in self._reached},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=TIMEOUT_S,
        )
        ends = {(tp.topic, tp.partition): future.result(2 * TIMEOUT_S).offset for tp, future in futures.items()}
        return Window(events_end, committed(self._group, self._changes) if last else None, ends)

    def _hand_over(self, window: Window | None) -> None:
        ends = (window.events_end, window.changes_end) if window else (None, None)
        self._checks.append(self._pool.submit(check, self._records.taken(), *ends))

    def _tell_checked(self, waiting: int) -> None:
        """Report the checks that are done; wait while there are more than `waiting`."""
        while self._checks and (self._checks[0].done() or len(self._checks) > waiting):
            tell(checked=self._checks.popleft().result())

    def _tell_sample(self, idle: bool) -> None:
        ms, self._ms = np.array(self._ms), array("d")
        self._latencies.extend(ms)
        p50, p99 = (round(float(q), 1) for q in np.quantile(ms, (0.5, 0.99))) if len(ms) else (None, None)
        latency_ms = {"p50": p50, "p99": p99, "max": round(float(ms.max()), 1) if len(ms) else None}
        tell(sample={"latency_ms": latency_ms, "deliveries": self._read, "idle": idle, "waiting": len(self._checks)})


if __name__ == "__main__":
    gc.disable()  # nothing is in a cycle, and looking for one takes a fifth of the time
    task = orjson.loads(sys.argv[1])
    Reader(cluster=Cluster(task.pop("bootstrap_servers"), task.pop("client")), **task).run()

"""The histories of tests/property/test_protocol.py with a real broker and the real clients."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from rig.broker import EmbeddedBroker
from streaming.documents.messages import headers_of, topic_of
from streaming.documents.records import Record
from streaming.kafka import sink
from streaming.kafka.clients import Cluster, read
from streaming.kafka.committed import CommittedOffsets
from streaming.kafka.topics import Topic, Topics
from tests.integration.conftest import JARS
from tests.support.histories.living import PARTITIONS
from tests.support.histories.protocol import KINDS, SinkHistory, at_random

TIMEOUT_MS = 1_000  # of a transaction
TIMED_OUT_EVERY_MS = 250  # the broker looks for such that are over
SEEDS = (10, 15, 19)
STEPS = 40


class Real(Topics):
    """A broker, for one history: of the topics that begin with a prefix."""

    forgets = True

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        super().__init__(bootstrap_servers, {})
        self.bootstrap_servers, self._prefix = bootstrap_servers, prefix
        self._cluster = Cluster(bootstrap_servers, {})
        self._sources = [(f"{prefix}{name}", p) for name in ("events", "subs") for p in PARTITIONS]
        self._deleted: list[Record] = []
        self._group: confluent_kafka.Consumer | None = None
        self.producers: list[
            confluent_kafka.Producer
        ] = []  # none ends before the broker does: it may be one that sleeps
        self._readers: list[CommittedOffsets] = []  # of processes that were killed too
        self.on_commit: Callable[[Any], None] = lambda producer: None
        self.late = False
        assert self.create([Topic(f"{prefix}{name}", len(PARTITIONS)) for name in ("events", "subs")]) == {}

    def install(self, patch: pytest.MonkeyPatch, wrapped: Callable[[Any], Any]) -> None:
        patch.setattr(sink, "Producer", lambda config: wrapped(self._producer(config)))
        patch.setattr(sink, "CommittedOffsets", self._reader)

    def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        if self._group is None:
            self._group = confluent_kafka.Consumer(self._cluster.client(group_id=group, enable_auto_commit=False))
        found = self._group.committed([confluent_kafka.TopicPartition(*at) for at in self._sources], 30)
        return {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}

    def read(self) -> list[Record]:
        return self._deleted + self._read([name for name in self.partitions() if name.startswith(self._prefix)])

    def expire(self) -> None:
        time.sleep((TIMEOUT_MS + 2 * TIMED_OUT_EVERY_MS) / 1000)

    def delete(self, topics: Any) -> None:
        self._deleted += self._read(list(topics))
        super().delete(topics)

    def close(self) -> None:
        if self._group is not None:
            self._group.close()
        for reader in self._readers:
            reader.close()

    def _reader(self, *arguments: Any) -> CommittedOffsets:
        self._readers.append(CommittedOffsets(*arguments))
        return self._readers[-1]

    def _producer(self, config: Mapping[str, Any]) -> confluent_kafka.Producer:
        producer = _Producer(dict(config))
        producer.committed = lambda: self.on_commit(producer)
        self.producers.append(producer)
        return producer

    def _read(self, topics: list[str]) -> list[Record]:
        found = [m for m in read(self._cluster, topics, follow=False) if m is not None]
        return [Record(topic_of(m), m.key(), m.value(), headers_of(m)) for m in found]


class _Producer(confluent_kafka.Producer):
    """Says when it has committed."""

    committed: Callable[[], None]

    def commit_transaction(self, timeout: float = -1) -> None:
        super().commit_transaction(timeout)
        self.committed()


@pytest.fixture(scope="module")
def quick() -> Iterator[str]:
    """A broker that soon sees that a transaction has timed out."""
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(TIMED_OUT_EVERY_MS)}
    with EmbeddedBroker(JARS, properties=often) as broker:
        yield broker.bootstrap_servers


def test_each_record_is_there_once_whatever_happens(quick: str, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        prefix = f"h{seed}."
        broker = Real(quick, prefix)
        options = {"transaction.timeout.ms": str(TIMEOUT_MS)}
        directory = tmp_path / str(seed)
        with closing(broker), pytest.MonkeyPatch.context() as patch:
            history = SinkHistory(broker, directory, patch, prefix=prefix, create=seed % 2 == 0, options=options)
            history.write([(id, 0) for id in range(4)], [(0, 1), (1, 2)])
            at_random(history, seed, STEPS)
            history.finish()
        seen += history.seen
    assert not {*KINDS} - {"failed", "late"} - seen.keys(), seen

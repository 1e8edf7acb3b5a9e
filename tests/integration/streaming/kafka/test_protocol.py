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
from kafka import errors

from rig.broker import EmbeddedBroker
from streaming.documents.messages import headers_of, topic_of
from streaming.documents.records import Record
from streaming.kafka.clients import Cluster, read
from streaming.kafka.topics import Topic, Topics
from streaming.publishing.connection.client import Attempt, Client, ConnectionLost
from streaming.publishing.ownership import is_starting
from tests.integration.conftest import JARS
from tests.support.histories.living import PARTITIONS
from tests.support.histories.protocol import KINDS, SinkHistory, at_random
from tests.support.patience import PATIENCE_S

TIMEOUT_MS = 1_000  # of a transaction
TIMED_OUT_EVERY_MS = 250  # the broker looks for such that are over
SEEDS = (10, 15, 19)
STEPS = 40
REQUESTS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "Produce", "TxnOffsetCommit", "EndTxn")


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
        self.point: Callable[[str, bool], int] = lambda name, after: 0
        self.owner: Callable[[], Any] = lambda: None
        self.on_commit: Callable[[Any], None] = lambda owner: None
        self.late = False
        assert self.create([Topic(f"{prefix}{name}", len(PARTITIONS)) for name in ("events", "subs")]) == {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        send = Client.send

        async def told(client: Client, node: int | str, request: Any, attempt: Attempt, name: str = "") -> Any:
            called = name or type(request).__name__.removesuffix("Request")
            if called not in REQUESTS:
                return await send(client, node, request, attempt, name)
            try:
                self.point(called, False)
                response = await send(client, node, request, attempt, name)
                if called == "EndTxn" and request.committed and not response.error_code:
                    self.on_commit(self.owner())
                self.point(called, True)
            except errors.KafkaConnectionError as error:
                raise ConnectionLost(str(error)) from None
            return response

        patch.setattr(Client, "send", told)

    def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        if self._group is None:
            self._group = confluent_kafka.Consumer(self._cluster.client(group_id=group, enable_auto_commit=False))
        found = self._group.committed([confluent_kafka.TopicPartition(*at) for at in self._sources], PATIENCE_S)
        counted = [tp for tp in found if tp.offset >= 0 and not is_starting(tp.metadata or "")]
        return {(tp.topic, tp.partition): tp.offset for tp in counted}

    def read(self) -> list[Record]:
        return self._deleted + self._read([name for name in self.partitions() if name.startswith(self._prefix)])

    def sleep(self, s: float) -> None:
        time.sleep(s)

    def expire(self) -> None:
        time.sleep((TIMEOUT_MS + 2 * TIMED_OUT_EVERY_MS) / 1000)

    def delete(self, topics: Any) -> None:
        self._deleted += self._read(list(topics))
        super().delete(topics)

    def close(self) -> None:
        if self._group is not None:
            self._group.close()

    def _read(self, topics: list[str]) -> list[Record]:
        found = [m for m in read(self._cluster, topics, follow=False) if m is not None]
        return [Record(topic_of(m), m.key(), m.value(), headers_of(m)) for m in found]


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
            for client in history.clients:
                client.close()
        seen += history.seen
    assert not {*KINDS} - {"late"} - seen.keys(), seen

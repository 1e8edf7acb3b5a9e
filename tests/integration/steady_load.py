"""Events at a steady rate, while something happens to the job."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.support.patience import PATIENCE_S

PER_S = 25


@dataclass
class Load:
    """Events, at a steady rate, until the end of the block."""

    kafka: str
    topic: str
    partitions: int = 2
    sent: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.kafka,
                "topic.metadata.refresh.interval.ms": 500,
                "enable.idempotence": True,  # a record that is sent again after a pause of the broker is there once
            }
        )
        while not self._ended.wait(1 / PER_S):
            partition = self.sent % self.partitions
            try:
                producer.produce(self.topic, json.dumps({"n": self.sent}).encode(), partition=partition)
                self.sent += 1
            except KafkaException as error:  # the producer learns of a new partition a while after it was made
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
                producer.poll(0.1)
        assert producer.flush(PATIENCE_S) == 0

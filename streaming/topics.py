"""Look at, create and count topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.errors import BrokerUnreachable

TIMEOUT_S = 30.0
MAX_PER_REQUEST = 1_000


@dataclass(frozen=True)
class Topic:
    """A topic to be made; `config` under Kafka's own names."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


class Topics:
    def __init__(self, bootstrap_servers: str, options: Mapping[str, str]) -> None:
        self._address = bootstrap_servers
        self._config = {"bootstrap.servers": bootstrap_servers, "log_level": 0, **options}
        self._admin = AdminClient(self._config)

    def partitions(self) -> dict[str, int]:
        """How many partitions each topic has. Raises BrokerUnreachable."""
        try:
            metadata = self._admin.list_topics(timeout=10)
        except KafkaException as error:
            raise BrokerUnreachable(f"no broker answers at {self._address}: {error.args[0].str()}") from error
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def create(self, topics: Iterable[Topic]) -> dict[str, str]:
        """Make those that are not there yet; returns the reason for each that could not be made."""
        failed = {}
        wanted = [NewTopic(t.name, t.partitions, t.replication_factor, config=dict(t.config)) for t in topics]
        for begin in range(0, len(wanted), MAX_PER_REQUEST):
            some = wanted[begin : begin + MAX_PER_REQUEST]
            for name, future in self._admin.create_topics(some, operation_timeout=TIMEOUT_S).items():
                try:
                    future.result(TIMEOUT_S)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        failed[name] = error.args[0].str()
        return failed

    def delete(self, topics: Iterable[str]) -> None:
        for future in self._admin.delete_topics(list(topics), operation_timeout=TIMEOUT_S).values():
            future.result(TIMEOUT_S)

    def offsets(self, topic: str) -> Iterator[tuple[int, int, int]]:
        """(partition, first offset, next offset) of a topic that exists."""
        consumer = Consumer({**self._config, "group.id": "unused", "enable.auto.commit": False})
        try:
            for partition in range(self.partitions()[topic]):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
                yield partition, low, high
        finally:
            consumer.close()

"""Ask a cluster for its topics, settings, features and our rights, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from streaming.kafka.clients import Cluster
from streaming.kafka.errors import translate
from streaming.kafka.topics import TIMEOUT_S, Rights, Topic, answer_of, rights_of
from streaming.publishing.connection.client import Client
from streaming.publishing.connection.rights import rejected


class ClusterInfo:
    """The facts of a cluster that the checks need.

    Each call raises JobError if no broker answers; unknown or hidden facts are left out or None.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._topics = cluster.topics()
        self._admin = AdminClient(cluster.client())
        self._client = Client(cluster.bootstrap_servers, cluster.options)  # as tasks connect

    def close(self) -> None:
        self._client.close()

    def partitions(self) -> Mapping[str, int]:
        return self._topics.partitions()

    def brokers(self) -> int:
        return len(self._brokers())

    def rights(self, topics: Sequence[str]) -> Mapping[str, Rights]:
        return self._topics.rights(topics)

    def rights_of_group(self, group: str) -> Rights | None:
        futures = self._admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        try:
            return rights_of(answer_of(futures[group], 2 * TIMEOUT_S).authorized_operations or ())
        except KafkaException as error:
            return Rights() if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED else None

    def may_write_transactions(self, transactional_id: str, group: str) -> bool:
        return rejected(self._client, transactional_id, group) is None

    def transaction_version(self) -> int:
        """The level of the cluster's feature transaction.version, 1 also for less."""
        return self._client.transaction_version()

    def rejected_creation(self, topic: str) -> str:
        """The broker's reason for rejecting a new topic, or ""."""
        futures = self._admin.create_topics([NewTopic(topic, 1)], validate_only=True, request_timeout=TIMEOUT_S)
        try:
            answer_of(futures[topic], 2 * TIMEOUT_S)
        except KafkaException as error:
            return str(error.args[0].str())
        return ""

    def rejected_config(self, topic: Topic) -> str:
        """The broker's reason for rejecting the settings of a topic, or ""."""
        return self._topics.rejected_config(topic)

    def settings(self, topic: str) -> Mapping[str, str] | None:
        return self.settings_of([topic]).get(topic)

    def settings_of(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """The settings by topic; a topic whose settings this user may not see is left out."""
        found = self._configs([ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics])
        return {resource.name: configs for resource, configs in found.items()}

    def most_bytes(self) -> int | None:
        """The broker's limit for a batch of records, which holds for topics without their own."""
        broker = min(self._brokers())
        for configs in self._configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))]).values():
            if "message.max.bytes" in configs:
                return int(configs["message.max.bytes"])
        return None

    def newest_ms(self, topics: Mapping[str, int]) -> int | None:
        """The latest timestamp in these topics."""
        partitions = [TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)]
        times = []
        for future in self._admin.list_offsets(
            {at: OffsetSpec.max_timestamp() for at in partitions}, request_timeout=TIMEOUT_S
        ).values():
            try:
                times.append(answer_of(future, 2 * TIMEOUT_S).timestamp)
            except KafkaException:
                continue
        return max((ms for ms in times if ms >= 0), default=None)

    def _brokers(self) -> list[int]:
        try:
            return list(self._admin.list_topics(timeout=TIMEOUT_S).brokers)
        except KafkaException as error:
            raise translate(error.args[0], "cannot list the brokers") from None

    def _configs(self, resources: Sequence[ConfigResource]) -> Mapping[ConfigResource, Mapping[str, str]]:
        found = {}
        futures = self._admin.describe_configs(list(resources), request_timeout=TIMEOUT_S) if resources else {}
        for resource, future in futures.items():
            try:
                configs: dict[str, Any] = answer_of(future, 2 * TIMEOUT_S)
            except KafkaException:
                continue
            found[resource] = {name: entry.value for name, entry in configs.items() if entry.value is not None}
        return found

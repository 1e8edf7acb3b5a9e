"""A key goes to the partition where librdkafka puts it; here to one of librdkafka's own double of a cluster."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message, Producer

from matchers.index.texts import Texts
from streaming.publishing.encode.partitioner import partition_of, partitions_of
from tests.support.patience import PATIENCE_S

KEYS = ["a", "subscriber-1", "é", "123456789", "\0", *(f"key {i}" for i in range(50))]
PARTITIONS = 4  # of a topic in that double


@pytest.fixture(scope="module")
def placed() -> dict[str, int]:
    """Return the partition to which a producer sends each key."""
    placed: dict[str, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        placed[(message.key() or b"").decode()] = message.partition() or 0

    producer = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1})
    for key in KEYS:
        producer.produce("topic", b"", key.encode(), on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    return placed


@pytest.mark.parametrize("key", KEYS)
def test_a_key_has_the_partition_of_librdkafka(placed: dict[str, int], key: str) -> None:
    assert partition_of(key.encode(), PARTITIONS) == placed[key]


def test_many_keys_have_the_partitions_of_each(placed: dict[str, int]) -> None:
    assert partitions_of(Texts.of(KEYS), PARTITIONS).tolist() == [placed[key] for key in KEYS]
    assert partitions_of(Texts.of([]), PARTITIONS).tolist() == []


@pytest.mark.parametrize("key", [None, b""])
def test_records_without_a_key_are_spread(key: bytes | None) -> None:
    assert {partition_of(key, 3) for _ in range(200)} == {0, 1, 2}


def test_empty_names_are_spread() -> None:
    assert set(partitions_of(Texts.of([""] * 200), 3).tolist()) == {0, 1, 2}

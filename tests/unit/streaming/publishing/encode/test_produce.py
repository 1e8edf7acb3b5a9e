"""The body of a Produce request is what kafka-python makes of the same data."""

from __future__ import annotations

import numpy as np
import pytest
from kafka.protocol.producer import ProduceRequest

from matchers.index.texts import Texts
from streaming.publishing.contract import RecordBatches
from streaming.publishing.encode import produce

pytestmark = pytest.mark.kernels

TOPICS = ["orders", "é" * 3, "x" * 200]
DESTINATIONS = [(0, 3), (2, 0), (0, 1), (1, 2**31 - 1)]  # (topic, partition)
LENGTHS = np.array([61, 200, 126, 127, 20_000])  # of batches; an unsigned varint of one more than 126 has one byte
OF = [0, 1, 1, 2, 3]  # the destination of each batch


def batches() -> RecordBatches:
    end = np.cumsum(LENGTHS)
    data = np.arange(end[-1] + 5, dtype=np.int64).astype(np.uint8)
    return RecordBatches(data, end - LENGTHS + 5, end + 5, np.array(OF), np.ones(5, np.int64))


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("rows", [[0, 1, 3, 4], [2], [0, 3], [4, 1], []], ids=str)
@pytest.mark.parametrize("transactional_id", ["", "job-1", "j" * 127])
def test_a_request_is_what_kafka_python_makes(version: int, rows: list[int], transactional_id: str) -> None:
    topic, partition = (np.array(column) for column in zip(*DESTINATIONS, strict=True))
    destinations = produce.Destinations.of(Texts.of(TOPICS), topic, partition)
    some = batches()
    made = produce.body(transactional_id, 30_000, some, np.array(rows, np.int64), destinations).tobytes()

    topics: dict[int, list[ProduceRequest.TopicProduceData.PartitionProduceData]] = {}
    for row in sorted(rows, key=lambda row: DESTINATIONS[OF[row]][0]):
        place, number = DESTINATIONS[OF[row]]
        content = some.data[some.begin[row] : some.end[row]].tobytes()
        data = ProduceRequest.TopicProduceData.PartitionProduceData(index=number, records=content)
        topics.setdefault(place, []).append(data)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=TOPICS[t], partition_data=of) for t, of in topics.items()],
        version=version,
    )
    assert made == bytes(request.encode())
    read = ProduceRequest.decode(made, version=version)
    assert [(t.name, [p.index for p in t.partition_data]) for t in read.topic_data] == [
        (TOPICS[t], [p.index for p in of]) for t, of in topics.items()
    ]

"""Avro events through the whole job, also while the schema registry does not answer."""

from __future__ import annotations

import json

from confluent_kafka import Producer

from tests.integration.conftest import CommandLine
from tests.integration.running import job, lines, records, subscription
from tests.support.doubles.registry import schema_registry
from tests.support.doubles.schemas import POINT, avro

TRY_AGAIN = 75


def test_avro_events_are_delivered_as_they_came_and_wait_for_a_registry_that_is_away(
    sluice: CommandLine, kafka: str
) -> None:
    topic, to = f"{sluice.name}.events", f"{sluice.name}.to.alice"
    with schema_registry() as registry:
        first = avro(registry, POINT, {"x": 1})
        renamed = json.loads(json.dumps(POINT)) | {"doc": "the second version"}
        second = avro(registry, renamed, {"x": 2})
        sluice.environment |= {"SLUICE_EVENTS__CODEC": "avro", "SLUICE_SCHEMA_REGISTRY__URL": registry.url}
        flags = ("--set", "schema_registry.options.max.retries=0")
        sluice("topics", "create")
        sluice("subscribe", stdin=lines(subscription("s", "alice", x=[{"numeric": [">", 0]}])))
        producer = Producer({"bootstrap.servers": kafka})

        with job(sluice, *flags) as running:
            running.running()
            for value in (first, b"{}"):
                producer.produce(topic, value, key=b"k")
            producer.flush()
            running.until("done with the events", lambda: running.total("event_count") == 2)
            assert [r.value for r in records(kafka, to)] == [first]
            (dead,) = records(kafka, f"{sluice.name}.dead")
            assert dict(dead.headers)["sluice_detail"].startswith(b"the value has 2 bytes")

            registry.answer = 503, b""
            producer.produce(topic, second, key=b"k")
            producer.flush()
            assert running.ended() == TRY_AGAIN
            assert any("is busy: status 503" in line for line in running.other)

        registry.answer = None
        with job(sluice, *flags) as running:
            running.until("done with the event that waited", lambda: running.total("event_count") == 1)
        assert [r.value for r in records(kafka, to)] == [first, second]
        assert len(records(kafka, f"{sluice.name}.dead")) == 1

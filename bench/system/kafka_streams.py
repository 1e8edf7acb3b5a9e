"""Run the application of `bench.baselines.kafka_streams` as the measured system."""

from __future__ import annotations

from collections.abc import Mapping

from bench.system.java_baseline import SOURCES, JavaBaseline, Program
from rig.place import JARS, Place

PROGRAM = Program("Kafka Streams", SOURCES / "kafka_streams" / "StreamsBaseline.java", JARS / "kafka-streams")
GROUP = "kafka-streams"

# The baselines by name, and how often each commits. Readers see a delivery once it is committed. 100 ms is what Kafka
# Streams takes with exactly_once_v2 if nobody says otherwise.
COMMIT_INTERVAL_MS: Mapping[str, int] = {"kafka-streams": 100, "kafka-streams-30ms": 30, "kafka-streams-10ms": 10}


class KafkaStreams(JavaBaseline):
    """`with KafkaStreams(name, place) as system`."""

    def __init__(self, name: str, place: Place) -> None:
        task = {
            "application.id": GROUP,
            "commit.interval.ms": COMMIT_INTERVAL_MS[name],
            "state.dir": place.directory / "state",
        }
        super().__init__(name, place, PROGRAM, GROUP, task)

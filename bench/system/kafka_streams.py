"""Compile and run the application of `bench.baselines.kafka_streams` as the measured system."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from bench.system.baseline import Baseline
from rig import reading
from rig.child import HOME
from rig.place import START_TIMEOUT_S, Place
from streaming.errors import JobError
from streaming.kafka import layout
from streaming.kafka.topics import TIMEOUT_S, Topic, answer_of
from streaming.process.java import java

JARS = HOME / "jars" / "kafka-streams"  # `make rivals` fills it
SOURCE = HOME / "bench" / "baselines" / "kafka_streams" / "StreamsBaseline.java"
GROUP = "kafka-streams"
STOP_TIMEOUT_S = 90.0

# The baselines by name, and how often each commits. Readers see a delivery once it is committed. 100 ms is what Kafka
# Streams takes with exactly_once_v2 if nobody says otherwise.
COMMIT_INTERVAL_MS: Mapping[str, int] = {"kafka-streams": 100, "kafka-streams-30ms": 30, "kafka-streams-10ms": 10}


def compiler() -> str:
    """The javac beside our java. Raises JobError if that is a runtime without one."""
    directory = Path(java()).resolve().parent
    program = directory / "javac"
    if not program.exists():
        raise JobError(
            f"{directory} has no javac, which compiles the baseline for Kafka Streams: install a JDK 17 or newer, or "
            f"set JAVA_HOME to one"
        )
    return str(program)


def require() -> None:
    """Raises JobError unless its jars and a compiler are here."""
    if not any(JARS.glob("kafka-streams-*.jar")):
        raise JobError(f"no Kafka Streams in {JARS}; `make rivals` puts it there")
    compiler()


def compiled(directory: Path) -> Path:
    """Compile the application into this directory. Raises JobError."""
    command = [compiler(), "-Xlint:all,-processing", "-cp", str(JARS / "*"), "-d", str(directory), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise JobError(f"{SOURCE} cannot be compiled:\n{done.stdout}{done.stderr}")
    return directory


class KafkaStreams(Baseline):
    """`with KafkaStreams(name, place) as system`. It runs once its index has all subscriptions of the topic."""

    def __init__(self, name: str, place: Place) -> None:
        scratch, settings = place.directory, place.settings
        deliveries = {"deliveries": settings.deliveries.topic} if place.prefix is None else {"prefix": place.prefix}
        task = {
            "application.id": GROUP,
            "bootstrap.servers": place.cluster.bootstrap_servers,
            "commit.interval.ms": COMMIT_INTERVAL_MS[name],
            "state.dir": scratch / "state",
            "events": settings.events.topic,
            "subscriptions": settings.subscriptions.topic,
            **deliveries,
        }
        command = [
            java(),
            f"-Djava.io.tmpdir={scratch}",
            "-XX:-UsePerfData",  # a file in /tmp, which a killed process leaves there
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *("-cp", f"{scratch / 'classes'}:{JARS}/*", SOURCE.stem),
            *(f"{setting}={value}" for setting, value in task.items()),
        ]
        super().__init__(name, command, place)
        self._admin = AdminClient(place.cluster.client())
        self._end: Mapping[int, int] | None = None  # how far it was when it was told to stop

    def start(self) -> None:
        compiled(self._place.directory / "classes")
        if self._place.prefix is not None:
            self._create_topics(self._place.prefix)
        super().start()
        self.wait_for("running", lambda: "state RUNNING\n" in self.log.read_text(), START_TIMEOUT_S)

    def reached(self) -> Mapping[int, int]:
        """The committed offset by partition of the events topic."""
        return self._committed() if self._end is None else self._end

    def progress(self) -> str:
        return f"{self._name} runs"

    def stop(self) -> None:
        """Stop it in order, so that no open transaction hides deliveries. Raises JobError if it does not end."""
        self._end = self._committed()
        self._started.terminate()
        try:
            self._started.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise JobError(f"{self._name} did not stop within {STOP_TIMEOUT_S:.0f} s:\n{self.last_lines()}") from None

    def _committed(self) -> dict[int, int]:
        """Offsets of open transactions are not among them."""
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP]
        partitions = answer_of(asked, TIMEOUT_S).topic_partitions
        topic = self._place.settings.events.topic
        return {p.partition: max(0, p.offset) for p in partitions if p.topic == topic}

    def _create_topics(self, prefix: str) -> None:
        """Create the topics of all subscribers: Kafka Streams creates none that an extractor names."""
        settings, cluster = self._place.settings, self._place.cluster
        changes = reading.read_changes(cluster, settings.subscriptions.topic)
        config, partitions = layout.delivery_config(settings), settings.deliveries.partitions
        names = (f"{prefix}r{number}" for number in sorted(set(changes.subscriber.tolist())))
        if refused := cluster.topics().create(Topic(name, partitions, config=config) for name in names):
            raise JobError(f"the broker does not create these topics: {refused}")

"""Compile and run an application of `bench.baselines` in Java as the measured system."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
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

SOURCES = HOME / "bench" / "baselines"
SHARED = SOURCES / "by_symbol"  # the index and the matching, of all applications
STOP_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Program:
    """An application in Java. Its arguments are NAME=VALUE; it prints `state RUNNING` once its index has all
    subscriptions of the topic, and ends in order on SIGTERM."""

    title: str
    source: Path
    jars: Path  # `make rivals` fills it

    def require(self) -> None:
        """Raises JobError unless its jars and a compiler are here."""
        if not any(self.jars.glob("*.jar")):
            raise JobError(f"no {self.title} in {self.jars}; `make rivals` puts it there")
        compiler()

    def compile(self, directory: Path) -> None:
        """Compile it into this directory. Raises JobError."""
        sources = map(str, (self.source, *SHARED.glob("*.java")))
        command = [compiler(), "-Xlint:all,-processing", "-cp", str(self.jars / "*"), "-d", str(directory), *sources]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise JobError(f"{self.source} cannot be compiled:\n{done.stdout}{done.stderr}")

    def command(self, classes: Path, scratch: Path, task: Mapping[str, object]) -> list[str]:
        """The command that runs it, with the settings of its task as arguments."""
        return [
            java(),
            f"-Djava.io.tmpdir={scratch}",
            "-XX:-UsePerfData",  # a file in /tmp, which a killed process leaves there
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *("-cp", f"{classes}:{self.jars}/*", self.source.stem),
            *(f"{setting}={value}" for setting, value in task.items()),
        ]


def compiler() -> str:
    """The javac beside our java. Raises JobError if that is a runtime without one."""
    directory = Path(java()).resolve().parent
    program = directory / "javac"
    if not program.exists():
        raise JobError(
            f"{directory} has no javac, which compiles the baselines in Java: install a JDK 17 or newer, or set "
            f"JAVA_HOME to one"
        )
    return str(program)


class JavaBaseline(Baseline):
    """`with JavaBaseline(...) as system`. It commits offsets of the events topic to its consumer `group`. `task` are
    settings that other programs lack."""

    def __init__(self, name: str, place: Place, program: Program, group: str, task: Mapping[str, object]) -> None:
        settings = place.settings
        deliveries = {"deliveries": settings.deliveries.topic} if place.prefix is None else {"prefix": place.prefix}
        common = {
            "bootstrap.servers": place.cluster.bootstrap_servers,
            "events": settings.events.topic,
            "subscriptions": settings.subscriptions.topic,
            **deliveries,
        }
        self._program, self._classes, self._group = program, place.directory / "classes", group
        super().__init__(name, program.command(self._classes, place.directory, {**task, **common}), place)
        self._admin = AdminClient(place.cluster.client())
        self._end: Mapping[int, int] | None = None  # how far it was when it was told to stop

    def start(self) -> None:
        self._program.compile(self._classes)
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
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self._group)])[self._group]
        partitions = answer_of(asked, TIMEOUT_S).topic_partitions
        topic = self._place.settings.events.topic
        return {p.partition: max(0, p.offset) for p in partitions if p.topic == topic}

    def _create_topics(self, prefix: str) -> None:
        """Create the topics of all subscribers, which these applications take to exist."""
        settings, cluster = self._place.settings, self._place.cluster
        changes = reading.read_changes(cluster, settings.subscriptions.topic)
        config, partitions = layout.delivery_config(settings), settings.deliveries.partitions
        names = (f"{prefix}r{number}" for number in sorted(set(changes.subscriber.tolist())))
        if refused := cluster.topics().create(Topic(name, partitions, config=config) for name in names):
            raise JobError(f"the broker does not create these topics: {refused}")

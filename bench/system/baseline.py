"""Run an application of `bench.baselines` as the measured system and watch its checkpoint."""

from __future__ import annotations

import os
import sys
from typing import Any

import orjson

from rig import reading
from rig.check import Answer, check, from_the_start
from rig.child import HOME
from rig.job import LoggedProcess
from rig.place import PARTITIONS, START_TIMEOUT_S, Place
from streaming.driver import session

APPLICATIONS = ("join", "udf", "udf_by_symbol")

# Sluice's settings of Spark make small batches fast for these too, but those that are about its own plan and process.
_OWN = (
    "spark.sql.adaptive.enabled",
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
    "spark.python.daemon.module",
    "spark.task.maxFailures",
    "spark.driver.extraJavaOptions",
)
SPARK = {name: value for name, value in {**session.TUNING, **session.LOCAL}.items() if name not in _OWN}


class Application(LoggedProcess):
    """`with Application(name, place) as system`: what `run.System` promises. It runs once its first batch, of no
    events, is done."""

    patience_s = 60.0

    def __init__(self, name: str, place: Place) -> None:
        self._place = place
        self._checkpoint = place.directory / "checkpoint"
        settings, scratch = place.settings, place.directory
        task = {
            "bootstrap_servers": place.cluster.bootstrap_servers,
            "events": settings.events.topic,
            "subscriptions": settings.subscriptions.topic,
            "deliveries": settings.deliveries.topic,
            "checkpoint": self._checkpoint.as_uri(),
            "spark": {
                **SPARK,
                "spark.master": settings.spark.master,
                "spark.driver.extraClassPath": str(HOME / "jars" / "spark" / "*"),
                "spark.local.dir": str(scratch),
                "spark.driver.defaultJavaOptions": (
                    f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile={session.LOG.as_uri()}"
                ),
                "spark.sql.session.timeZone": "UTC",
            },
        }
        # Spark takes the workers' interpreter from nowhere else.
        environment = ["env", f"PYTHONPATH={HOME}", f"PYSPARK_PYTHON={sys.executable}"]
        command = [*environment, sys.executable, "-m", f"bench.baselines.{name}", orjson.dumps(task).decode()]
        super().__init__(name, command, place.directory / f"{name}.log")

    def start(self) -> None:
        topic = self._place.settings.subscriptions.topic
        self._subscriptions = sum(high for _, _, high in self._place.cluster.topics().offsets(topic))
        super().start()
        self.wait_for("started", lambda: bool(self._batches()), START_TIMEOUT_S)

    def done(self) -> tuple[int, int]:
        return sum(self._reached().values()), self._subscriptions

    def progress(self) -> str:
        return f"{len(self._batches())} batches"

    def midpoint(self) -> None:
        """Nothing to do: a baseline reports no latencies of its own."""

    def stop(self) -> None:
        """Kill it with signal 9. Deliveries of an unfinished batch are not counted."""
        self.kill()

    def checked(self) -> tuple[Answer, dict[str, Any]]:
        settings, cluster = self._place.settings, self._place.cluster
        changes = reading.read_changes(cluster, settings.subscriptions.topic)
        events = reading.read_events(cluster, settings.events.topic, self._reached())
        n = len(changes.id)
        deliveries = reading.read_deliveries_of_others(cluster, settings.deliveries.topic, events, version=n)
        answer = check(changes, from_the_start(changes, PARTITIONS), events, deliveries)
        return answer, {"batches": max(self._batches()), "latency_ms": {}}

    def _reached(self) -> dict[int, int]:
        """The offset after the last finished batch, by partition of the events topic."""
        _, _, sources = (self._checkpoint / "offsets" / str(max(self._batches()))).read_text().split("\n")
        (partitions,) = orjson.loads(sources).values()  # of the one topic
        return {int(partition): offset for partition, offset in partitions.items()}

    def _batches(self) -> list[int]:
        """The numbers of the last finished batches; the first of all is 0."""
        try:
            return [int(name) for name in os.listdir(self._checkpoint / "commits") if name.isdigit()]
        except FileNotFoundError:
            return []

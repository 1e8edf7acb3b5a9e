"""Run an application of `bench.baselines` on Spark alone as the measured system and watch its checkpoint."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import orjson

from bench.system.baseline import Baseline
from rig.child import HOME
from rig.place import START_TIMEOUT_S, Place
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


class Application(Baseline):
    """`with Application(name, place) as system`. It runs once its first batch, of no events, is done."""

    def __init__(self, name: str, place: Place) -> None:
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
        super().__init__(name, command, place)

    def start(self) -> None:
        super().start()
        self.wait_for("started", lambda: bool(self._batches()), START_TIMEOUT_S)

    def progress(self) -> str:
        return f"{len(self._batches())} batches"

    def stop(self) -> None:
        """Kill it with signal 9. Deliveries of an unfinished batch are not counted."""
        self.kill()

    def figures(self) -> dict[str, Any]:
        return {"batches": max(self._batches())}

    def reached(self) -> Mapping[int, int]:
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

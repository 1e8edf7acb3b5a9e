"""Run the job of `bench.baselines.flink` as the measured system."""

from __future__ import annotations

from collections.abc import Mapping

from bench.system.java_baseline import SOURCES, JavaBaseline, Program
from rig.place import JARS, Place

PROGRAM = Program("Flink", SOURCES / "flink" / "FlinkBaseline.java", JARS / "flink")
GROUP = "flink"

# The baselines by name, and the interval between checkpoints, for which Flink has no default. Readers see a delivery
# once the checkpoint after it is complete. A checkpoint takes tens of milliseconds: shorter intervals gain little.
CHECKPOINT_INTERVAL_MS: Mapping[str, int] = {"flink-1s": 1_000, "flink-100ms": 100}


class Flink(JavaBaseline):
    """`with Flink(name, place) as system`."""

    def __init__(self, name: str, place: Place) -> None:
        task = {
            "group.id": GROUP,
            "interval.ms": CHECKPOINT_INTERVAL_MS[name],
            "checkpoints": place.directory / "checkpoints",
        }
        super().__init__(name, place, PROGRAM, GROUP, task)

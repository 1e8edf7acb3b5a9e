"""The throughput of a cluster whose executors have a fraction of a core each, beside what the model says.

    python -m tests.support.programs.scaling --executors 1 2 3 4 --cores 0.1

For each number of executors a job starts, is warmed up, and gets more events than it can do at once. Its executors are
then confined. Printed are JSON lines: events per second, processor time per event in each process, and the model's
events per second (docs/scaling.md). All deliveries are checked at the end. Linux; needs the right to make control
groups, and two cores that nobody else uses.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rig import reading
from rig.check import check
from rig.generator import Writer
from rig.job import JobProcess
from rig.load import Load
from rig.place import Place, place
from rig.processes import Process, below
from tests.support.patience import PATIENCE_S
from tests.support.programs import confined
from tests.support.spark_cluster import SparkCluster

PARTITIONS = 12  # each of 1, 2, 3 and 4 executors gets the same number
WARM = 15_000  # events for each executor
CHANGES = 1_000
GROWING = 3  # epochs until there is a task for each executor


@dataclass
class Batches:
    """The batches that the log reports."""

    events: int = 0
    changes: int = 0
    look: Callable[[], dict[str, float]] = dict
    # Of each batch with events: when it was done, the events so far, and what processes had taken by then.
    ends: list[tuple[float, int, dict[str, float]]] = field(default_factory=list)

    def read(self, job: JobProcess) -> None:
        for line in job.new_lines():
            if line["event"] == "batch_finished":
                self.changes += line["change_count"]
                if line["event_count"]:
                    self.events += line["event_count"]
                    self.ends.append((time.monotonic(), self.events, self.look()))

    def until(self, events: int, changes: int, job: JobProcess) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.events < events or self.changes < changes:
            job.check()
            self.read(job)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.events:,} of {events:,} events in {PATIENCE_S:.0f} s")
            time.sleep(0.02)


@dataclass
class Feed:
    """Events, which go round the partitions, and changes."""

    writer: Writer
    events_topic: str
    subscriptions_topic: str
    load: Load
    sent: int = 0  # events

    def __post_init__(self) -> None:
        self._events, self._changes = self.load.events(), self.load.changes()

    def events(self, number: int) -> None:
        for event in islice(self._events, number):
            self.writer.write(self.events_topic, None, event, self.sent % PARTITIONS)
            self.writer.poll()
            self.sent += 1
        self.writer.finish()

    def changes(self, number: int) -> None:
        self.writer.write_all(self.subscriptions_topic, islice(self._changes, number))


def main(executors: Sequence[int], cores: float, each: int, load: Load) -> bool:
    with (
        TemporaryDirectory(prefix="sluice-scaling-") as name,
        SparkCluster(Path(name) / "spark", max(executors)) as spark,
    ):
        flags = {
            "deliveries.layout": "shared",
            "matching.algorithm": "tiles",
            "spark.master": spark.master,
            **spark.flags,
            "spark.options.spark.scheduler.minRegisteredResourcesRatio": "1",
        }
        with place("scaling", flags, partitions=PARTITIONS) as here:
            settings, cluster = here.settings, here.cluster
            writer = Writer(cluster)
            writer.write_all(settings.subscriptions.topic, load.first())
            feed = Feed(writer, settings.events.topic, settings.subscriptions.topic, load)
            for number in executors:
                row = measured(feed, spark, here, number, cores, each)
                print(json.dumps(row), flush=True)  # noqa: T201
            changes = reading.read_changes(cluster, settings.subscriptions.topic)
            statuses = reading.read_statuses(cluster, settings.subscriptions.status_topic, changes, PARTITIONS)
            events = reading.read_events(cluster, settings.events.topic)
            deliveries = reading.read_deliveries(cluster, here.deliveries(), events, None)
            answer = check(changes, statuses, events, deliveries)
    print(json.dumps({"right": answer.right, **answer.as_data()}), flush=True)  # noqa: T201
    return answer.right


def measured(feed: Feed, spark: SparkCluster, here: Place, number: int, cores: float, each: int) -> dict[str, Any]:
    """Measure a job with that many executors, and that many events for each."""
    batches, before = Batches(), feed.sent
    own = {"spark.options.spark.cores.max": str(number)}
    log = here.directory / f"job{number}.log"
    with ExitStack() as last, JobProcess({**here.flags, **own}, log) as job:
        job.wait_until_running(PATIENCE_S)
        for n in range(2):
            feed.events(number * WARM)
            feed.changes(CHANGES)
            batches.until(feed.sent - before, (1 + n) * CHANGES, job)
        for n, processes in enumerate(of_executors(spark)):
            group = last.enter_context(confined.group(f"sluice-{os.getpid()}-{number}-{n}", cores))
            for process in processes:
                group.take(process.pid)
        batches.look = lambda: took(job, spark, here.broker.pid)
        rounds = len(batches.ends)
        feed.events(number * each)
        batches.until(feed.sent - before, 0, job)
        middle = took(job, spark, here.broker.pid)
        feed.changes(CHANGES)
        batches.until(0, 3 * CHANGES, job)
        of_changes = {
            name: round(1e6 * (s - middle[name]) / CHANGES) for name, s in took(job, spark, here.broker.pid).items()
        }
        (began, first, before_it), *_, (ended, last_one, after_it) = batches.ends[rounds:][GROWING:-1]
        done, took_s, n_batches = last_one - first, ended - began, len(batches.ends[rounds:]) - GROWING - 2
        us = {name: round(1e6 * (s - before_it[name]) / done, 1) for name, s in after_it.items()}
        job.stopped()
    state = sum(file.stat().st_size for file in (here.directory / "checkpoint" / "state").glob("part-*"))
    return {
        "executors": number,
        "cores_each": cores,
        "batches": n_batches,
        "s_per_batch": round(took_s / n_batches, 2),
        "events": done,
        "events_per_s": round(done / took_s),
        "cpu_us_per_event": us,
        "cpu_us_per_change": of_changes,
        "saved_bytes": state,  # of one or two versions
        "model_events_per_s": round(number * cores * 1e6 / us["executors"]),
    }


def of_executors(spark: SparkCluster) -> list[list[Process]]:
    """The processes of each executor: its JVM and what is below it."""
    every = spark.executors()
    jvms = [process for process in every if "CoarseGrainedExecutorBackend" in process.command]
    return [[jvm, *below(jvm.pid)] for jvm in jvms]


def took(job: JobProcess, spark: SparkCluster, broker: int) -> dict[str, float]:
    """Processor seconds so far."""
    return {
        "executors": sum(confined.cpu_s(process.pid) for process in spark.executors()),
        "driver": sum(map(confined.cpu_s, (job.pid, *(process.pid for process in below(job.pid))))),
        "broker": confined.cpu_s(broker),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--cores", type=float, default=0.1, help="of each executor")
    parser.add_argument("--events", type=int, default=1_800_000, help="for each executor: a minute")
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--matches", type=float, default=1.0, help="deliveries of an event")
    given = parser.parse_args()
    wanted = Load(subscriptions=given.subscriptions, matches=given.matches)
    raise SystemExit(0 if main(given.executors, given.cores, given.events, wanted) else 1)

"""Stand by for the job that runs: prepare all that needs no state, and wait until that job has ended.

A start spends most of its time on a JVM, on code that Python and Java load, and on workers. A process that stands by
has all that. Once the other job has ended, it claims the query as any start does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streaming.driver import assembly, sources
from streaming.driver.batches import reason
from streaming.driver.isolation import WorkersLost
from streaming.driver.starting import warm_up
from streaming.errors import ProcessLost, SparkFailed
from streaming.kafka.event_topics import deleted_if_matched, resolved
from streaming.kafka.start_offsets import with_a_batch
from streaming.precompile import dry_run, kernels
from streaming.process.lock import Lock
from streaming.worker.settings import TaskSettings

if TYPE_CHECKING:
    from config.model import Settings

KEEP_WARM_S = 20.0  # Spark ends Python workers that were idle for a minute


def prepare(settings: Settings, spark: SparkSession, scratch: Path, lock: Lock) -> bool:
    """Load the kernels, here and in the workers, and let Spark plan the query once; returns whether the workers have
    them. Once the lock is held, the rest is left to the start, which does only what it needs. Raises JobError."""
    empty = assembly.checked_empty_state(settings, kernels.is_ready)
    indexed = dry_run.indexed(empty.algorithm, empty.options)
    dry_run.match(indexed, TaskSettings())
    if lock.held:
        return False
    topics = assembly.topics(settings)
    settings = resolved(settings, topics.partitions)
    with deleted_if_matched(settings):
        names = assembly.names(settings, topics)
        bounds = assembly.all_bounds(names, topics)
    work = assembly.task_settings(settings, names.sources)
    with _workers():
        warm_up.workers(spark, indexed, work, reading=assembly.is_direct(settings))
    if lock.held:
        return True
    ends = with_a_batch({at: high for at, (_, high) in bounds.items()}, bounds)
    stream = sources.event_and_change_stream(spark, sources.kafka_options(settings), names.sources.names, ends, None)
    writer = (
        stream.writeStream.foreachBatch(lambda batch, number: None)
        .option("checkpointLocation", (scratch / "standby").as_uri())
        .trigger(availableNow=True)
    )
    try:
        writer.start().awaitTermination()
    except StreamingQueryException as error:  # a full disk, a broker that is away: no reason to end the job that runs
        raise SparkFailed(f"Spark stopped the query of the standby: {reason(error)}") from error
    return True


def wait(spark: SparkSession, lock: Lock, stop: threading.Event) -> bool:
    """Wait until the job that runs has ended, and keep the workers meanwhile; return whether the lock is held now, or
    False if told to stop. Raises JobError."""
    while not lock.wait(stop, KEEP_WARM_S) and not stop.is_set():
        with _workers():
            warm_up.keep(spark)
    return lock.held


@contextmanager
def _workers() -> Iterator[None]:
    """Raises JobError if workers are lost: this process then makes way for another one."""
    try:
        yield
    except WorkersLost as error:
        raise ProcessLost(f"Python workers of the standby were lost: {error}") from error

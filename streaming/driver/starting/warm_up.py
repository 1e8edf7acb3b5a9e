"""Warm up the workers, and before a change of the index driver and workers, with made-up rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from matchers.index.templates import FEWEST_DOCUMENTS
from streaming.driver.isolation import WorkersLost, failure, workers_hung
from streaming.driver.limits.time_limit import TaggedJobs, TimeLimit
from streaming.driver.runs.batch_run import OUTPUT
from streaming.precompile import dry_run
from streaming.precompile.dry_run import FEW_EVENTS, NOWHERE
from streaming.publishing.contract import ProducerEpoch
from streaming.rows import EVENTS, SUBSCRIPTIONS
from streaming.state.state import State
from streaming.worker import epoch
from streaming.worker.matching import Work
from streaming.worker.publication import Publication
from streaming.worker.settings import TaskSettings
from streaming.worker.warm_up import WarmUp

NO_PRODUCER = ProducerEpoch(-1, -1)
KEPT_WITHIN_S = 60.0
WARM_WITHIN_S = 600.0  # workers may compile kernels, on a processor that is not the driver's


def workers(spark: SparkSession, state: State, settings: TaskSettings, *, reading: bool = False) -> None:
    """Start the workers, load the state and the kernels there, and connect them with the brokers, so that the first
    events need not wait. `reading`: tasks will read events themselves. Raises WorkersLost."""
    as_json = settings.as_json()  # as the records are; the codec of the events only gets loaded by them
    works: list[Work] = []
    for load in state.work(settings):
        match = replace(load, settings=as_json)
        works += load, match, match
    # None of the records is new, so none is published.
    connect = replace(
        match,
        publication=Publication(note="", producers=(NO_PRODUCER,) * _tasks(spark), version=0, job=0, began=0.0),
        positions=dict.fromkeys([(source, NOWHERE) for source in (EVENTS, SUBSCRIPTIONS)], 1),
    )
    records = dry_run.rows(2 * FEWEST_DOCUMENTS, FEW_EVENTS).to_batches()
    _run(spark, WarmUp([*works, connect], records, reads=reading), "warm-up of the workers")


def state(spark: SparkSession, state: State, settings: TaskSettings, *, reading: bool = False) -> None:
    """Load the state in workers that are warm otherwise. Raises WorkersLost."""
    records = dry_run.rows(0, 1).to_batches()
    _run(spark, WarmUp([*state.work(settings)], records, reads=reading), "loading of the state")


def _run(spark: SparkSession, warm_up: WarmUp, description: str) -> None:
    """Run it in each worker, in the kind of Spark job that batches have: it loads code of the JVM too."""
    spark.sparkContext.setJobDescription(description)
    n = _tasks(spark)
    with _reported(spark, WARM_WITHIN_S):
        if warm_up.reads:
            spark.sparkContext.parallelize(range(n), n).mapPartitions(warm_up).collect()
        else:
            spark.range(0, n, 1, n).mapInArrow(warm_up, OUTPUT).toArrow()


@contextmanager
def _reported(spark: SparkSession, limit_s: float) -> Iterator[None]:
    """Cancel the Spark job of this block after `limit_s`. Raises WorkersLost if workers were killed, or hung."""
    with TimeLimit(TaggedJobs(spark.sparkContext), 0.0, first_s=limit_s).watched() as cancelled:
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            if cancelled.is_set():
                raise workers_hung() from error
            raise failure(error) from error


def _tasks(spark: SparkSession) -> int:
    """Return enough tasks that each worker gets one, even if some start late."""
    return 2 * spark.sparkContext.defaultParallelism


def keep(spark: SparkSession) -> None:
    """Use a worker, so that Spark keeps the idle ones. Raises WorkersLost."""
    spark.sparkContext.setJobDescription("standby")
    with _reported(spark, KEPT_WITHIN_S):
        spark.createDataFrame(dry_run.rows(0, FEW_EVENTS)).coalesce(1).mapInArrow(epoch.warm, OUTPUT).toArrow()


def index(spark: SparkSession, algorithm: str, options: Mapping[str, Any]) -> None:
    """Load the compiled kernels of an algorithm here and in the workers, which go on with batches meanwhile.

    One task at a time, so that all cores but one are left to a batch. Each gets the worker that has been idle longest.
    A worker that is lost meanwhile is replaced by the next batch. Raises what `dry_run.indexed` raises, and errors of
    the tasks.
    """
    made = dry_run.indexed(algorithm, options)
    dry_run.match(made, TaskSettings())
    rows = spark.createDataFrame(dry_run.rows(0, FEW_EVENTS)).coalesce(1)
    (work,) = made.work(TaskSettings())
    spark.sparkContext.setJobDescription(f"warm-up of {algorithm}")
    for _ in range(2 * spark.sparkContext.defaultParallelism):
        with suppress(WorkersLost), _reported(spark, WARM_WITHIN_S):
            rows.mapInArrow(work, OUTPUT).toArrow()

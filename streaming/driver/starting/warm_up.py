"""Warm up the workers, and before a change of the index driver and workers, with made-up rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from matchers.index.templates import FEWEST_DOCUMENTS
from streaming.driver.isolation import workers_lost
from streaming.driver.runs.batch_run import OUTPUT
from streaming.precompile import dry_run
from streaming.precompile.dry_run import FEW_EVENTS, NOWHERE
from streaming.publishing.contract import ProducerEpoch
from streaming.rows import EVENTS, SUBSCRIPTIONS
from streaming.state.state import State
from streaming.worker import epoch
from streaming.worker.publication import Publication
from streaming.worker.settings import TaskSettings

NO_PRODUCER = ProducerEpoch(-1, -1)


def workers(spark: SparkSession, state: State, settings: TaskSettings, *, reading: bool = False) -> None:
    """Start the workers, load the state and the kernels there, and connect them with the brokers, so that the first
    events need not wait. `reading`: tasks will read events themselves."""
    spark.sparkContext.setJobDescription("warm-up of the workers")
    n = 2 * spark.sparkContext.defaultParallelism
    # Made of an Arrow table: of Python rows it would take workers of another kind, 3 s for nothing.
    rows = spark.createDataFrame(dry_run.rows(2 * FEWEST_DOCUMENTS * n, FEW_EVENTS * n)).repartition(n)
    as_json = settings.as_json()  # as the rows are; the codec of the events only gets loaded by them
    for load in state.work(settings):
        match = replace(load, settings=as_json)
        for work in (load, match, match):
            result: pa.Table = rows.mapInArrow(work, OUTPUT).toArrow()
            assert result.num_rows
    # None of the rows is new, so none is published.
    connect = replace(
        match,
        publication=Publication(note="", producers=(NO_PRODUCER,) * n, version=0, job=0, began=0.0),
        positions=dict.fromkeys([(source, NOWHERE) for source in (EVENTS, SUBSCRIPTIONS)], 1),
    )
    rows.mapInArrow(connect, OUTPUT).toArrow()
    if reading:
        rows.mapInArrow(epoch.warm, OUTPUT).toArrow()


def state(spark: SparkSession, state: State, settings: TaskSettings) -> None:
    """Load the state in workers that are warm otherwise."""
    spark.sparkContext.setJobDescription("loading of the state")
    n = 2 * spark.sparkContext.defaultParallelism
    rows = spark.createDataFrame(dry_run.rows(0, n)).repartition(n)
    for load in state.work(settings):
        rows.mapInArrow(load, OUTPUT).toArrow()


def keep(spark: SparkSession) -> None:
    """Use a worker, so that Spark keeps the idle ones."""
    spark.sparkContext.setJobDescription("standby")
    spark.createDataFrame(dry_run.rows(0, FEW_EVENTS)).coalesce(1).mapInArrow(epoch.warm, OUTPUT).toArrow()


def index(spark: SparkSession, algorithm: str, options: Mapping[str, Any]) -> None:
    """Load the compiled kernels of an algorithm here and in the workers, which go on with batches meanwhile.

    One task at a time, so that all cores but one are left to a batch. Each gets the worker that has been idle longest.
    Raises what `dry_run.indexed` raises, and PySpark's errors unless they tell of killed workers.
    """
    made = dry_run.indexed(algorithm, options)
    dry_run.match(made, TaskSettings())
    rows = spark.createDataFrame(dry_run.rows(0, FEW_EVENTS)).coalesce(1)
    (work,) = made.work(TaskSettings())
    spark.sparkContext.setJobDescription(f"warm-up of {algorithm}")
    for _ in range(2 * spark.sparkContext.defaultParallelism):
        try:
            rows.mapInArrow(work, OUTPUT).toArrow()
        except PySparkException as error:
            if not workers_lost(str(error)):
                raise

"""Archive the classes of Spark's JVM before the first job runs, so that it and all later ones start faster."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from streaming.driver import session
from streaming.driver.starting import warm_up
from streaming.state.state import FALLBACK_ALGORITHM
from streaming.worker.executor import on_cluster

if TYPE_CHECKING:
    from config.model import Settings


def is_due(settings: Settings, jars: Path) -> bool:
    """Whether a job with these settings would use an archive, and there is none. Raises JobError without Java."""
    is_local = not on_cluster(settings.spark.master)
    return is_local and any(jars.glob("*.jar")) and session.class_archive(jars).is_writable()


def write(settings: Settings, jars: Path) -> None:
    """Run a query that loads most of what a job loads, and archive the classes at the end of the JVM. Raises
    JobError."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-", ignore_cleanup_errors=True) as scratch,
        session.own(settings, jars, Path(scratch)) as spark,
    ):
        warm_up.index(spark, FALLBACK_ALGORITHM, {})
        topics = {"kafka.bootstrap.servers": "localhost:9", "subscribe": "none"}  # nobody connects to a plan
        kafka = spark.readStream.format("kafka").options(**topics).load()
        assert kafka.isStreaming

        def use(batch: DataFrame, number: int) -> None:
            batch.collect()

        query = (
            spark.readStream.format("rate")
            .load()
            .writeStream.foreachBatch(use)
            .option("checkpointLocation", (Path(scratch) / "query").as_uri())
            .trigger(processingTime="20 milliseconds")
            .start()
        )
        query.processAllAvailable()
        query.stop()
    session.keep_class_archive(jars)

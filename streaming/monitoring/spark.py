"""Read from the driver's JVM: the progress of Spark's query, the executors, the memory."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.monitoring.view import Executor, SparkProgress


def progress(query: StreamingQuery, spark: SparkSession, *, reads: bool) -> SparkProgress:
    """Spark's progress report. `reads`: Spark itself reads what it plans. Raises py4j's errors if the JVM has ended."""
    jvm: Any = spark._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    committed = runtime.totalMemory()
    live = sum(pool.getCollectionUsage().getUsed() for pool in _collected(jvm))
    used = committed - runtime.freeMemory()
    heap = {"used": used, "live": live, "committed": committed, "max": runtime.maxMemory()}
    last = query.lastProgress if reads else None
    ends = {
        (topic, int(partition)): int(offset)
        for source in (last.sources if last is not None else ())
        for topic, partitions in _offsets(source.endOffset).items()
        for partition, offset in partitions.items()
    }
    return SparkProgress(ends, heap, _executors(spark))


def _executors(spark: SparkSession) -> tuple[Executor, ...]:
    """The executors that have cores; the driver has some with a local master only. Spark counts without its UI too.

    Spark writes them as JSON, because each field alone would take a call of the JVM.
    """
    listed = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    found = json.loads(_mapper(spark._jvm).writeValueAsString(listed))
    return tuple(
        Executor(
            id=one["id"],
            host=one["hostPort"].rpartition(":")[0],
            cores=one["totalCores"],
            running=one["activeTasks"],
            done=one["completedTasks"],
            failed=one["failedTasks"],
        )
        for one in found
        if one["totalCores"]
    )


@lru_cache(maxsize=1)
def _collected(jvm: Any) -> list[Any]:
    """The parts of the heap of this JVM that are collected; each counts the bytes that its last collection has left.
    The old generation is two thirds of a heap, so it is full while `used` is still far from the maximum."""
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return [pool for pool in pools if pool.getType().name() == "HEAP" and pool.getCollectionUsage() is not None]


@lru_cache(maxsize=1)
def _mapper(jvm: Any) -> Any:
    """Jackson's writer of JSON in this JVM. A new one would inspect all classes again, for a hundredth of a core."""
    jackson = jvm.com.fasterxml.jackson
    mapper = jackson.databind.ObjectMapper()
    mapper.registerModule(getattr(getattr(jackson.module.scala, "DefaultScalaModule$"), "MODULE$"))
    return mapper


def _offsets(value: Any) -> dict[str, dict[str, int]]:
    offsets: dict[str, dict[str, int]] = (json.loads(value) if isinstance(value, str) else value) or {}
    return offsets

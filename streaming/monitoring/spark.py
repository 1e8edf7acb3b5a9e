"""Read the progress of Spark's query and the memory of the driver's JVM."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming.monitoring.view import Progress


def progress(query: StreamingQuery, spark: SparkSession) -> Progress:
    """Spark's progress report. Raises py4j's errors if the JVM has ended."""
    jvm: Any = spark._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    committed = runtime.totalMemory()
    heap = {"used": committed - runtime.freeMemory(), "committed": committed, "max": runtime.maxMemory()}
    last = query.lastProgress
    if last is None:
        return Progress(heap_bytes=heap)
    ends = {
        (topic, int(partition)): int(offset)
        for source in last.sources
        for topic, partitions in _offsets(source.endOffset).items()
        for partition, offset in partitions.items()
    }
    return Progress(
        _finite(last.inputRowsPerSecond),
        _finite(last.processedRowsPerSecond),
        {phase: ms / 1000 for phase, ms in last.durationMs.items()},
        ends,
        heap,
    )


def _offsets(value: Any) -> dict[str, dict[str, int]]:
    offsets: dict[str, dict[str, int]] = (json.loads(value) if isinstance(value, str) else value) or {}
    return offsets


def _finite(rate: float | None) -> float:
    return rate if rate is not None and rate == rate and abs(rate) != float("inf") else 0.0

"""Warm up kernels and workers with dummy rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from matchers.index.snapshot import Snapshot
from streaming.driver.batch_order import in_order
from streaming.driver.pipeline import OUTPUT
from streaming.index import parts
from streaming.publishing import warm_up as publishing
from streaming.publishing.contract import Producer
from streaming.rows import EVENTS, INPUT, PACKED, SUBSCRIPTIONS, Source, unpacked
from streaming.state.state import State
from streaming.worker.compiling import WORTHWHILE
from streaming.worker.publication import Publication

SOME = 64  # events: algorithms may have other kernels for few
NOWHERE = 1 << 20  # a partition that no topic has
NO_PRODUCER = Producer(-1, -1)


@dataclass(frozen=True)
class _Kept:
    """A broadcast that goes nowhere."""

    value: Any

    def destroy(self) -> None:
        pass


def kernels(state: State) -> None:
    """Do the workers' work in this process, so that its kernels are compiled and cached."""
    here = replace(state, broadcast=_Kept, share=None, worker_memory_mb=0, _handles={})
    rows = _rows(1)
    for shard in here.work():
        for work in (shard, replace(shard, codec="json")):
            assert sum(batch.num_rows for batch in work(rows.to_batches()))
    publishing.compile()
    parts.forget()


def cache(algorithm: str) -> None:
    """Compile the kernels of a job with this algorithm into the cache: for an image, which keeps it."""
    state = State(Snapshot(0, algorithm), _Kept, {})
    (work,) = state.work()
    state.apply(in_order(unpacked(pa.Table.from_batches(work(_rows(1).to_batches()), PACKED))), {})
    kernels(state)


def workers(spark: SparkSession, state: State, publication: Publication) -> None:
    """Start the workers, load the state and the kernels there, and connect them with the brokers, so that the first
    events need not wait."""
    n = 2 * spark.sparkContext.defaultParallelism
    # Made of an Arrow table: of Python rows it would take workers of another kind, 3 s for nothing.
    rows = spark.createDataFrame(_rows(n)).repartition(n)
    for shard in state.work():
        match = replace(shard, codec="json")  # the row is JSON; the codec of the events only gets loaded by it
        for work in (shard, match, match):
            result: pa.Table = rows.mapInArrow(work, OUTPUT).toArrow()
            assert result.num_rows
    # None of the rows is new, so none is published.
    connect = replace(
        match,
        publication=replace(publication, producers=(NO_PRODUCER,) * n),
        positions=dict.fromkeys([(source, NOWHERE) for source in Source], 1),
    )
    rows.mapInArrow(connect, OUTPUT).toArrow()


def _rows(n: int) -> pa.Table:
    """Events and changes, enough for n tasks."""
    row = {"partition": NOWHERE, "offset": 0, "timestamp": 0}
    document = b'{"subscriber": "nobody", "pattern": {"text": ["a"], "number": [{"numeric": [">", 1]}]}}'
    changes = [row | {"source": SUBSCRIPTIONS, "key": b"%d" % i, "value": document} for i in range(2 * WORTHWHILE * n)]
    events = [row | {"source": EVENTS, "value": b"{}"}] * (SOME * n)
    return pa.Table.from_pylist(changes + events, schema=INPUT)

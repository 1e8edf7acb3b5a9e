"""The matching stage without Spark and without a broker: input rows, their results, and lists as sinks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from matchers.contract.tables import Int32, Int64
from matchers.index.snapshot import Snapshot
from streaming.documents.records import Record
from streaming.driver.batch_order import in_order
from streaming.driver.composition import Names
from streaming.driver.pipeline import Pipeline, united
from streaming.kafka.sink import Aborted, Offsets
from streaming.rows import EVENTS, INPUT, PACKED, SUBSCRIPTIONS, Delivery, Progress, Row, SourcePartition, unpacked
from streaming.state.state import State
from streaming.worker.compiling import Changes

NAMES = Names("events", "subs", "status", "dead", lambda s: f"to.{s}", lambda s, key: key, 1_000, lambda p, n: p % n)


class Value:
    """A broadcast, as Spark would make it."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.destroyed = False

    def destroy(self) -> None:
        self.destroyed = True


def state(positions: dict[SourcePartition, int] | None = None) -> State:
    return State(Snapshot(), Value, positions or {(EVENTS, 0): 0})


def event(offset: int, value: Any, timestamp: int = 1_000, partition: int = 0, **more: Any) -> dict[str, Any]:
    raw = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    at = {"source": EVENTS, "partition": partition, "offset": offset, "timestamp": timestamp}
    return at | {"key": None, "value": raw, "headers": None} | more


def change(offset: int, id: str, document: Any, partition: int = 0) -> dict[str, Any]:
    raw = None if document is None else json.dumps({"id": id, **document}).encode()
    return event(offset, raw, partition=partition) | {"source": SUBSCRIPTIONS, "key": id.encode()}


def changes(records: Sequence[tuple[bytes | None, bytes | None]]) -> Changes:
    """(key, value), from the first offset of partition 0 on."""
    values = pa.array([value for _, value in records], pa.binary())
    return Changes([key for key, _ in records], values, *places(len(records)))


def places(n: int) -> tuple[Int32, Int64]:
    """Partitions and offsets of the first records of a topic."""
    return np.zeros(n, np.int32), np.arange(n, dtype=np.int64)


def work(state: State, *batches: list[dict[str, Any]]) -> list[Row]:
    given = [pa.RecordBatch.from_pylist(rows, schema=INPUT) for rows in batches]
    packed = [batch for shard in state.work() for batch in shard(given)]
    return united(unpacked(pa.Table.from_batches(packed, PACKED)))


def apply(state: State, *batches: list[dict[str, Any]]) -> None:
    rows = in_order(work(state, *batches))
    state.apply(rows, {(r.source, r.partition): r.offset + 1 for r in rows if isinstance(r, Progress)})


def delivered(state: State, *rows: dict[str, Any]) -> dict[int, dict[str, list[str]]]:
    return {
        r.record.offset: {s: json.loads(ids) for s, ids in zip(r.subscribers, r.subscriptions, strict=True)}
        for r in work(state, list(rows))
        if isinstance(r, Delivery)
    }


ALICE = {"subscriber": "alice", "pattern": {"x": [1]}}
BOB = {"subscriber": "bob", "pattern": {"x": [{"exists": True}]}}


class ListSink:
    def __init__(self, aborts: int = 0) -> None:
        self.transactions: list[tuple[list[Record], Offsets]] = []
        self.aborts = aborts

    def publish(self, records: Any, offsets: Offsets) -> tuple[float, float]:
        if self.aborts:
            self.aborts -= 1
            raise Aborted("a topic was deleted")
        self.transactions.append((list(records), offsets))
        return 0.0, 0.0


class SomeTopics:
    def __init__(self, absent: set[str]) -> None:
        self.absent = absent
        self.refreshed = 0

    def missing(self, topics: Any) -> set[str]:
        return set(topics) & self.absent

    def partitions(self, topic: str) -> int:
        return 1

    def unusual(self) -> dict[str, int]:
        return {}

    def refresh(self) -> None:
        self.refreshed += 1


def pipeline(sink: ListSink, absent: set[str] | None = None, max_bytes: int = 1_000) -> Pipeline:
    return Pipeline(state(), sink, SomeTopics(absent or set()), replace(NAMES, max_delivery_bytes=max_bytes))


def step(p: Pipeline, *rows: dict[str, Any]) -> list[Record]:
    out = work(p.state, list(rows))
    p.take(out)
    return p.sink.transactions[-1][0]  # type: ignore[attr-defined]


class Later(Executor):
    """Begins nothing before it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.ended:
            raise RuntimeError("nothing more is taken")
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def work(self) -> None:
        while self.waiting:
            future, call = self.waiting.pop(0)
            future.set_result(call())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.ended = True
        for future, _ in self.waiting:
            future.cancel()


class AtOnce(Executor):
    """Does it when it is told of it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future

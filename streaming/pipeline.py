"""One batch of the state machine.

deliveries(N) = match(state(N), events(N)), and state(N + 1) = apply(state(N), changes(N)).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import or_
from typing import Protocol

import numpy as np
import orjson
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from matchers.tables import Int64
from streaming import composing, fan_out, matching, records
from streaming.composing import Composition, Names, Outputs, Row, wanted
from streaming.errors import SparkFailed, of_worker
from streaming.isolating import Isolation, Lost, lost, ranges
from streaming.loading import Slice
from streaming.matching import CHANGE, DEAD, DELIVER, EVENTS, MANY, PROGRESS, REFUSED, SEGMENT, SUBSCRIPTIONS, Position
from streaming.precision import Precision
from streaming.quotas import DeliveryQuota, SubscriptionQuota
from streaming.records import Record
from streaming.reporting import Nobody, Observer, Published, Report
from streaming.sink import Aborted, Offsets
from streaming.state import State

log = logging.getLogger("sluice.batch")

OUTPUT = from_arrow_schema(matching.PACKED)  # made once: Spark would parse a text anew for every batch
MAX_ATTEMPTS = 5  # at one transaction
ANSWERED_AT_ONCE = 10_000  # changes, in a transaction of the first start
DELIVERED_AT_ONCE = 200_000  # matches, in a transaction, unless they are of one event
LARGE = 8 << 10  # bytes of a row, on average: then a batch is looked at before it is matched


class Sink(Protocol):
    def publish(self, records: Iterable[Record], offsets: Offsets) -> tuple[float, float]: ...


@dataclass
class Pipeline:
    """Called by Spark with one batch after the other, each again until it returned once (`foreachBatch`).

    A batch that was committed before a crash comes again after it: the workers drop its rows, which lie below
    `state.positions`, and nothing is left to do.
    """

    state: State
    sink: Sink
    outputs: Outputs
    names: Names
    subscription_quota: SubscriptionQuota = field(default_factory=lambda: SubscriptionQuota(0))
    delivery_quota: DeliveryQuota = field(default_factory=lambda: DeliveryQuota(0))
    precision: Precision = field(default_factory=lambda: Precision(0, ()))
    tasks: int = 1  # of a shard and batch, at most: more than there are cores would only cost
    max_matches: int = 0  # of an event; 0: any number
    # Whether the next batch may be too large to be matched at once. We may have been started because the last one was.
    careful: bool = True
    observer: Observer = field(default_factory=Nobody)

    def __call__(self, batch: DataFrame, number: int) -> None:
        report = Report(number, self.precision.false_positives)
        isolation = Isolation(partial(self._matched, report), partial(self._places, report), _only, self._aside)
        try:
            for rows in isolation.pieces(batch, self.careful):
                matched = time.time()
                for published in self.take(rows):
                    report.add(published, matched)
                self.observer.progressed()
        except Lost as reason:
            raise SparkFailed(f"no worker does anything: {reason}") from reason
        if report.rows:
            self.careful = report.bytes > LARGE * report.rows
            self.precision.seen(report.waited_ms)
            snapshot = self.state.snapshot
            report.state = {"version": self.state.version, "subscriptions": len(snapshot), "parts": len(snapshot.parts)}
            log.info("batch", extra={"fields": report.fields()})
            self.observer.batch(report)

    def take(self, rows: Sequence[Row]) -> list[Published]:
        """Publish what the workers made of a batch, and take its changes into account. Much that is to be delivered
        becomes several transactions, each with the events up to some offset."""
        positions = {(r["source"], r["partition"]): r["offset"] + 1 for r in rows if r["kind"] == PROGRESS}
        if not positions:
            return []
        decided = self.subscription_quota.checked([self._bounded(row) for row in rows], self.state.snapshot)
        refused = [(r["partition"], r["offset"]) for r, d in zip(rows, decided, strict=True) if _is_refused(r, d)]
        self.state.refuse(refused)
        done = []
        for some, reached in _slices(decided, positions):
            published = self._publish(some, reached)
            self.delivery_quota.count(wanted(some, self.state.snapshot.parts))
            self.state.apply([r for r in some if r["kind"] in (CHANGE, SEGMENT)], reached)
            done.append(published._replace(applied=time.time()))
        return done

    def adopt(self, slices: Iterable[Slice], positions: Mapping[Position, int]) -> None:
        """Tell the owners of the subscriptions that are there at the first start what became of these, and commit where
        reading begins. A crash before the end repeats it: statuses may come twice then, each the same."""
        self.state.positions.update(positions)
        composition = self._composition(positions)
        for one in slices:
            subscribers = list(one.segment.notes["subscriber"])
            self._make_topics(set(subscribers))
            changes = zip(one.segment.ids, subscribers, one.offset.tolist(), one.paused.tolist(), strict=True)
            found = list(records.statuses(self.names.statuses, one.partition, changes, composition.standing))
            for row in _others(one):
                found += composition.answer(row)
            for begin in range(0, len(found), ANSWERED_AT_ONCE):
                some = found[begin : begin + ANSWERED_AT_ONCE]
                self._commit(lambda _, some=some: some, {})
        self._commit(lambda _: [], positions)

    def _matched(self, report: Report, batch: DataFrame) -> list[Row]:
        """Raises Lost, JobError, or what is wrong with us."""
        with report.stage("prepare"):
            works = self.state.work(report.false_positives)
        with report.stage("match"):
            source = batch.coalesce(self.tasks)
            shards = (source.mapInArrow(work, OUTPUT) for work in works)
            try:
                rows = matching.unpacked(reduce(DataFrame.unionByName, shards).toArrow())
            except (PySparkException, Py4JJavaError) as error:
                found = of_worker(str(error)) or lost(str(error)) or error
                report.counts["workers_lost"] += isinstance(found, Lost)
                raise found from error
        return united(rows) if len(works) > 1 else rows

    def _places(self, report: Report, batch: DataFrame) -> Int64:
        """As `Isolation` wants them: without a worker."""
        size = reduce(lambda a, b: a + b, (f.coalesce(f.length(name), f.lit(0)) for name in ("key", "value")))
        with report.stage("measure"):
            table = batch.select("source", "partition", "offset", size.cast("long").alias("bytes")).toArrow()
        places = np.column_stack([table[name].to_numpy().astype(np.int64) for name in table.column_names])
        places = places[[offset >= self.state.positions.get((s, p), 0) for s, p, offset, _ in places.tolist()]]
        return places[np.lexsort(places.T[::-1])]

    def _aside(self, batch: DataFrame, reason: str) -> list[Row]:
        detail = f"no worker survives it ({reason})"
        found: list[Row] = []
        for row in batch.toArrow().to_pylist():
            at = {name: row[name] for name in ("source", "partition", "offset", "timestamp")}
            if row["source"] == EVENTS:
                found.append(row | {"kind": DEAD, "letter": records.POISON_EVENT, "reason": detail})
            else:
                ids = [row["key"].decode(errors="replace")] if row["key"] else []
                found.append(row | {"kind": REFUSED, "reason": detail, "subscriptions": ids})
            found.append(at | {"kind": PROGRESS, "count": 1, "bytes": 0})
        return found

    def _bounded(self, row: Row) -> Row:
        if not self.max_matches or row["kind"] not in (DELIVER, MANY) or row["count"] <= self.max_matches:
            return row
        reason = f"{row['count']:,} subscriptions match it; matching.max_per_event is {self.max_matches:,}"
        return {**row, "kind": DEAD, "letter": records.TOO_MANY_MATCHES, "reason": reason}

    def _publish(self, rows: Sequence[Row], positions: Mapping[Position, int]) -> Published:
        began = time.time()
        self._make_topics({s for r in rows if r["kind"] == CHANGE for s in r["subscribers"]})
        composition = self._composition(positions)
        aborted, sent, committed = self._commit(partial(composition.records, rows), positions)
        made = (composition.delivered, composition.over_quota, composition.dead_letters)
        return Published(rows, *made, aborted, began, sent, committed, committed)

    def _make_topics(self, subscribers: set[str]) -> None:
        self.outputs.missing({self.names.delivery_topic(s) for s in subscribers})

    def _commit(
        self, make: Callable[[Mapping[str, str]], Iterable[Record]], positions: Mapping[Position, int]
    ) -> tuple[int, float, float]:
        """How often it was aborted, and what the sink returns. The records are made anew for each attempt: what may be
        delivered can have changed. `make` is given the topics that the broker refused records for."""
        offsets = {(self.names.source(source), p): offset for (source, p), offset in positions.items()}
        refused: dict[str, str] = {}
        for aborts in range(MAX_ATTEMPTS - 1):
            try:
                return aborts, *self.sink.publish(make(refused), offsets)
            except Aborted as aborted:
                log.warning("transaction aborted, trying again", extra={"fields": {"reason": str(aborted)}})
                refused |= aborted.refused
                self.outputs.refresh()
        return MAX_ATTEMPTS - 1, *self.sink.publish(make(refused), offsets)

    def _composition(self, positions: Mapping[Position, int]) -> Composition:
        state = self.state
        return Composition(
            *(self.names, self.outputs, self.delivery_quota, state.version),
            composing.standing({**state.positions, **positions}),
            *(state.snapshot.parts, self.precision.false_positives),
        )


def united(rows: Sequence[Row]) -> list[Row]:
    """The rows of several shards, with one row for each event that matched, in the order of events."""
    found: dict[Position, Row] = {}
    others = []
    for row in rows:
        if row["kind"] not in (DELIVER, MANY):
            others.append(row)
            continue
        at = (row["partition"], row["offset"])
        if at in found:
            ids = dict(zip(found[at]["subscribers"], found[at]["subscriptions"], strict=True))
            for subscriber, more in zip(row["subscribers"], row["subscriptions"], strict=True):
                known = orjson.loads(ids.get(subscriber, "[]"))
                ids[subscriber] = orjson.dumps(sorted(known + orjson.loads(more))).decode()
            many = (row["matches"] or b"") + (found[at]["matches"] or b"")
            kind = {"kind": MANY, "matches": many} if many else {}
            both = {"subscribers": list(ids), "subscriptions": list(ids.values())}
            row = {**row, **kind, **both, "count": row["count"] + found[at]["count"]}
        found[at] = row
    return [found[at] for at in sorted(found)] + others


def _only(batch: DataFrame, places: Int64) -> DataFrame:
    among = (
        (f.col("source") == source) & (f.col("partition") == partition) & f.col("offset").between(first, last)
        for source, partition, first, last in ranges(places)
    )
    return batch.filter(reduce(or_, among, f.lit(False)))


def _slices(
    rows: Sequence[Row], positions: Mapping[Position, int]
) -> Iterator[tuple[Sequence[Row], Mapping[Position, int]]]:
    """The rows of one transaction after the other, and what each reaches; all but events are of the last."""
    if sum(map(_matches, rows)) <= DELIVERED_AT_ONCE:
        yield rows, positions
        return
    events = sorted(
        (r for r in rows if r["kind"] in (DELIVER, MANY, DEAD)), key=lambda r: (r["partition"], r["offset"])
    )
    some: list[Row] = []
    n = 0
    for row in events:
        if some and n + _matches(row) > DELIVERED_AT_ONCE:
            reached = {at: to for at, to in positions.items() if at[0] == EVENTS and at[1] < row["partition"]}
            yield some, reached | {(EVENTS, row["partition"]): row["offset"]}
            some, n = [], 0
        some.append(row)
        n += _matches(row)
    yield some + [r for r in rows if r["kind"] not in (DELIVER, MANY, DEAD)], positions


def _matches(row: Row) -> int:
    """About as many as it is for."""
    if row["kind"] not in (DELIVER, MANY):
        return 0
    return len(row["subscribers"]) + fan_out.size(row["matches"] or b"")


def _is_refused(before: Row, after: Row) -> bool:
    return bool(before["kind"] == CHANGE != after["kind"])


def _others(one: Slice) -> Iterator[Row]:
    """What is not in the segment of a slice, as CHANGE and REFUSED rows."""
    at = {"source": SUBSCRIPTIONS, "partition": one.partition, "timestamp": 0, "reason": None}
    for id, offset in zip(one.withdrawn, one.withdrawn_offset.tolist(), strict=True):
        yield at | {"kind": CHANGE, "offset": offset, "subscriptions": [id], "subscribers": []}
    for row in one.refused:
        yield at | row | {"kind": REFUSED, "subscriptions": [row["id"]] if row["id"] else []}

"""One batch of the state machine.

deliveries(N) = match(state(N), events(N)), and state(N + 1) = apply(state(N), changes(N)).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Protocol

import orjson
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from streaming import matching, records
from streaming.loading import Slice
from streaming.matching import (
    CHANGE,
    DEAD,
    DELIVER,
    EVENTS,
    PAUSED,
    PROGRESS,
    REFUSED,
    SEGMENT,
    SUBSCRIPTIONS,
    Position,
    of_source,
)
from streaming.metrics import TOTAL, by_stage
from streaming.precision import Precision
from streaming.quotas import DeliveryQuota, SubscriptionQuota
from streaming.records import Origin, Record
from streaming.sink import Aborted, Offsets
from streaming.state import State

log = logging.getLogger("sluice.batch")

OUTPUT = from_arrow_schema(matching.PACKED)  # made once: Spark would parse a text anew for every batch
MAX_ATTEMPTS = 5  # at one transaction
ANSWERED_AT_ONCE = 10_000  # changes, in a transaction of the first start

Row = Mapping[str, Any]


class Sink(Protocol):
    def publish(self, records: Sequence[Record], offsets: Offsets) -> tuple[float, float]: ...


class Outputs(Protocol):
    """The topics of subscribers. `missing` makes those that it may; what it returns does not exist. `refresh` is
    called when that may have changed."""

    def missing(self, topics: Iterable[str]) -> set[str]: ...

    def refresh(self) -> None: ...


@dataclass(frozen=True)
class Names:
    """Where things are read from and written to."""

    events: str
    subscriptions: str
    statuses: str
    dead_letters: str
    delivery_topic: Callable[[str], str]  # of a subscriber
    delivery_key: Callable[[str, bytes | None], bytes | None]  # of a subscriber and the event's own key
    max_delivery_bytes: int

    def source(self, source: int) -> str:
        return self.events if source == EVENTS else self.subscriptions


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

    def __call__(self, batch: DataFrame, number: int) -> None:
        start = time.time()
        used = self.precision.false_positives
        works = self.state.work(used)
        prepared = time.time()
        source = batch.coalesce(self.tasks)
        shards = (source.mapInArrow(work, OUTPUT) for work in works)
        rows = matching.unpacked(reduce(DataFrame.unionByName, shards).toArrow())
        if len(works) > 1:
            rows = united(rows)
        matched = time.time()
        done = self.take(rows)
        if done is not None:
            rows, published, committed = done
            times = {"start": start, "match": matched, "publish": published, "commit": committed}
            events = [r["timestamp"] for r in rows if r["kind"] == PROGRESS and r["source"] == EVENTS]
            self.precision.seen(start * 1000 - min(events) if events else 0.0)
            spent = {
                "prepare_ms": prepared - start,
                "apply_ms": time.time() - committed,
                "batch_ms": time.time() - start,
            }
            self._report(number, rows, used, times, {name: round(s * 1000, 1) for name, s in spent.items()})

    def take(self, rows: Sequence[Row]) -> tuple[list[Row], float, float] | None:
        """Publish what the workers made of a batch, and take its changes into account. Returns the rows as they were
        decided on, and when sending and committing ended; None if there was nothing new."""
        positions = {(r["source"], r["partition"]): r["offset"] + 1 for r in rows if r["kind"] == PROGRESS}
        if not positions:
            return None
        decided = self.subscription_quota.checked(rows, self.state.snapshot)
        self.state.refuse([(r["partition"], r["offset"]) for r, d in zip(rows, decided, strict=True) if d is not r])
        times = self._publish(decided, positions)
        self.delivery_quota.count(_wanted(decided))
        self.state.apply([r for r in decided if r["kind"] in (CHANGE, SEGMENT)], positions)
        return decided, *times

    def adopt(self, slices: Iterable[Slice], positions: Mapping[Position, int]) -> None:
        """Tell the owners of the subscriptions that are there at the first start what became of these, and commit where
        reading begins. A crash before the end repeats it: statuses may come twice then, each the same."""
        self.state.positions.update(positions)
        standing = self._standing(positions)
        for one in slices:
            subscribers = list(one.segment.notes["subscriber"])
            self._make_topics(set(subscribers))
            changes = zip(one.segment.ids, subscribers, one.offset.tolist(), one.paused.tolist(), strict=True)
            found = list(records.statuses(self.names.statuses, one.partition, changes, standing))
            for row in _others(one):
                self._answer(row, standing, found)
            for begin in range(0, len(found), ANSWERED_AT_ONCE):
                self._commit(partial(found.__getitem__, slice(begin, begin + ANSWERED_AT_ONCE)), {})
        self._commit(list, positions)

    def _publish(self, rows: Sequence[Row], positions: Mapping[Position, int]) -> tuple[float, float]:
        self._make_topics({s for r in rows if r["kind"] == CHANGE for s in r["subscribers"]})
        return self._commit(partial(self._records, rows, positions), positions)

    def _make_topics(self, subscribers: set[str]) -> None:
        self.outputs.missing({self.names.delivery_topic(s) for s in subscribers})

    def _commit(self, make: Callable[[], Sequence[Record]], positions: Mapping[Position, int]) -> tuple[float, float]:
        """The records are made anew for each attempt: what may be delivered can have changed."""
        offsets = {(self.names.source(source), p): offset for (source, p), offset in positions.items()}
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return self.sink.publish(make(), offsets)
            except Aborted as aborted:
                log.warning("transaction aborted, trying again", extra={"fields": {"reason": str(aborted)}})
                self.outputs.refresh()
        return self.sink.publish(make(), offsets)

    def _records(self, rows: Sequence[Row], positions: Mapping[Position, int]) -> list[Record]:
        names, version = self.names, self.state.version
        wanted = {names.delivery_topic(s) for r in rows if r["kind"] == DELIVER for s in r["subscribers"]}
        missing = self.outputs.missing(wanted)
        found: list[Record] = []
        standing = self._standing(positions)
        allowed = iter(self.delivery_quota.allowed(_wanted(rows)))
        for row in rows:
            if row["kind"] == DELIVER:
                self._deliver(row, version, missing, allowed, found)
            elif row["kind"] == DEAD:
                origin = self._origin(row)
                found.append(
                    records.dead_letter(names.dead_letters, row, origin, records.UNDECODABLE_EVENT, row["reason"])
                )
            elif row["kind"] in (CHANGE, REFUSED):
                self._answer(row, standing, found)
        return found

    def _deliver(self, row: Row, version: int, missing: set[str], allowed: Iterator[bool], found: list[Record]) -> None:
        names, origin = self.names, self._origin(row)
        headers = records.event_headers(row, origin, version, false_positives=self.precision.false_positives)
        common = len(row["value"] or b"") + records.size_of(headers)
        for subscriber, ids in zip(row["subscribers"], row["subscriptions"], strict=True):
            topic = names.delivery_topic(subscriber)
            record = records.delivery(topic, names.delivery_key(subscriber, row["key"]), row["value"], headers, ids)
            size = common + len(record.key or b"") + records.size_of(record.headers[-1:])
            if not next(allowed):
                reason = records.OVER_QUOTA
                detail = f"more than {self.delivery_quota.most:,} deliveries of a second (quotas.deliveries_per_second)"
                if self.delivery_quota.drop:
                    continue
            elif topic in missing:
                reason, detail = records.MISSING_TOPIC, f"topic {topic} of subscriber {subscriber} does not exist"
            elif size > names.max_delivery_bytes:
                reason = records.OVERSIZE
                detail = f"{size} bytes with headers; deliveries.max_bytes is {names.max_delivery_bytes}"
            else:
                found.append(record)
                continue
            about = {"subscriber": subscriber, "subscriptionids": ids, "matchversion": str(version)}
            found.append(records.dead_letter(names.dead_letters, row, origin, reason, detail, **about))

    def _standing(self, positions: Mapping[Position, int]) -> records.Standing:
        """Of the changes of a batch: the version that has them, and the events from which on they count."""
        after = {**self.state.positions, **positions}
        version = sum(of_source(after, SUBSCRIPTIONS).values())
        return records.Standing(version, {str(p): offset for p, offset in of_source(after, EVENTS).items()})

    def _answer(self, row: Row, standing: records.Standing, found: list[Record]) -> None:
        """A status for every change; a dead letter too for one that was refused."""
        names, origin = self.names, self._origin(row)
        id = next(iter(row["subscriptions"]), None)
        if row["kind"] == REFUSED:
            reason = row["reason"]
            found.append(records.status(names.statuses, id, origin, standing, refused=reason))
            found.append(records.dead_letter(names.dead_letters, row, origin, records.REFUSED_SUBSCRIPTION, reason))
            return
        subscriber = next(iter(row["subscribers"]), None)
        status = records.status(
            *(names.statuses, id, origin, standing),
            subscriber=subscriber,
            withdrawn=subscriber is None,
            paused=row["reason"] == PAUSED,
        )
        found.append(status)

    def _origin(self, row: Row) -> Origin:
        return Origin(self.names.source(row["source"]), row["partition"], row["offset"], row["timestamp"])

    def _report(
        self, number: int, rows: Sequence[Row], used: float, times: Mapping[str, float], spent: Mapping[str, float]
    ) -> None:
        count = {kind: sum(r["kind"] == kind for r in rows) for kind in (CHANGE, REFUSED, DEAD)}
        delivered = [r for r in rows if r["kind"] == DELIVER]
        latencies = by_stage((r["timestamp"] for r in delivered), times)
        fields = {
            "batch": number,
            "events": sum(r["rows"] for r in rows if r["kind"] == PROGRESS and r["source"] == EVENTS),
            "matched": len(delivered),
            "deliveries": sum(len(r["subscribers"]) for r in delivered),
            "undecodable": count[DEAD],
            "changes": count[CHANGE],
            "refused": count[REFUSED],
            "over_quota": self.delivery_quota.over,
            "false_positives": used,
            "version": self.state.version,
            "subscriptions": len(self.state.snapshot),
            "parts": len(self.state.snapshot.parts),
            **spent,
            "latency_ms": latencies[TOTAL].summary(),
            "latencies": {stage: found.to_json() for stage, found in latencies.items()},
        }
        log.info("batch", extra={"fields": fields})


def united(rows: Sequence[Row]) -> list[Row]:
    """The rows of several shards, with one DELIVER row for each event, in the order of events."""
    found: dict[Position, Row] = {}
    others = []
    for row in rows:
        if row["kind"] != DELIVER:
            others.append(row)
            continue
        at = (row["partition"], row["offset"])
        if at in found:
            ids = dict(zip(found[at]["subscribers"], found[at]["subscriptions"], strict=True))
            for subscriber, more in zip(row["subscribers"], row["subscriptions"], strict=True):
                known = orjson.loads(ids.get(subscriber, "[]"))
                ids[subscriber] = orjson.dumps(sorted(known + orjson.loads(more))).decode()
            row = {**row, "subscribers": list(ids), "subscriptions": list(ids.values())}
        found[at] = row
    return [found[at] for at in sorted(found)] + others


def _wanted(rows: Iterable[Row]) -> Iterator[tuple[str, int]]:
    """Deliveries, as (subscriber, the event's time)."""
    return ((s, row["timestamp"]) for row in rows if row["kind"] == DELIVER for s in row["subscribers"])


def _others(one: Slice) -> Iterator[Row]:
    """What is not in the segment of a slice, as CHANGE and REFUSED rows."""
    at = {"source": SUBSCRIPTIONS, "partition": one.partition, "timestamp": 0, "reason": None}
    for id, offset in zip(one.withdrawn, one.withdrawn_offset.tolist(), strict=True):
        yield at | {"kind": CHANGE, "offset": offset, "subscriptions": [id], "subscribers": []}
    for row in one.refused:
        yield at | row | {"kind": REFUSED, "subscriptions": [row["id"]] if row["id"] else []}

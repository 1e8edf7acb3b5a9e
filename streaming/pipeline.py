"""One batch of the state machine.

deliveries(N) = match(state(N), events(N)), and state(N + 1) = apply(state(N), changes(N)).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from streaming import matching, records
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
)
from streaming.metrics import TOTAL, Latencies, by_stage
from streaming.records import Origin, Record
from streaming.sink import Aborted, Offsets
from streaming.state import State

log = logging.getLogger("sluice.batch")

OUTPUT = from_arrow_schema(matching.OUTPUT)  # made once: Spark would parse a text anew for every batch
MAX_ATTEMPTS = 5  # at one transaction

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

    def __call__(self, batch: DataFrame, number: int) -> None:
        start = time.time()
        rows = batch.mapInArrow(self.state.work(), OUTPUT).toArrow().to_pylist()
        matched = time.time()
        positions = {(r["source"], r["partition"]): r["offset"] + 1 for r in rows if r["kind"] == PROGRESS}
        if not positions:
            return
        published, committed = self._publish(rows, positions)
        changes = [r for r in rows if r["kind"] in (CHANGE, SEGMENT)]
        self.state.apply(changes, positions)
        self._report(number, rows, {"start": start, "match": matched, "publish": published, "commit": committed})

    def adopt(self, rows: Sequence[Row], positions: Mapping[Position, int]) -> None:
        """Take the subscriptions that are there at the first start, and say so to their owners, before any event."""
        self._publish(rows, positions)
        self.state.apply([r for r in rows if r["kind"] in (CHANGE, SEGMENT)], positions)

    def _publish(self, rows: Sequence[Row], positions: Mapping[Position, int]) -> tuple[float, float]:
        offsets = {(self.names.source(source), p): offset for (source, p), offset in positions.items()}
        accepted = {s for r in rows if r["kind"] == CHANGE for s in r["subscribers"]}
        self.outputs.missing({self.names.delivery_topic(s) for s in accepted})
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return self.sink.publish(self._records(rows, positions), offsets)
            except Aborted as aborted:
                log.warning("transaction aborted, trying again", extra={"fields": {"reason": str(aborted)}})
                self.outputs.refresh()
        return self.sink.publish(self._records(rows, positions), offsets)

    def _records(self, rows: Sequence[Row], positions: Mapping[Position, int]) -> list[Record]:
        names, version = self.names, self.state.version
        wanted = {names.delivery_topic(s) for r in rows if r["kind"] == DELIVER for s in r["subscribers"]}
        missing = self.outputs.missing(wanted)
        found: list[Record] = []
        for row in rows:
            if row["kind"] == DELIVER:
                self._deliver(row, version, missing, found)
            elif row["kind"] == DEAD:
                origin = self._origin(row)
                found.append(
                    records.dead_letter(names.dead_letters, row, origin, records.UNDECODABLE_EVENT, row["reason"])
                )
            elif row["kind"] in (CHANGE, REFUSED):
                self._answer(row, positions, found)
        return found

    def _deliver(self, row: Row, version: int, missing: set[str], found: list[Record]) -> None:
        names, origin = self.names, self._origin(row)
        headers = records.event_headers(row, origin, version)
        for subscriber, ids in zip(row["subscribers"], row["subscriptions"], strict=True):
            topic = names.delivery_topic(subscriber)
            record = records.delivery(topic, names.delivery_key(subscriber, row["key"]), row["value"], headers, ids)
            if topic in missing:
                reason, detail = records.MISSING_TOPIC, f"topic {topic} of subscriber {subscriber} does not exist"
            elif record.size() > names.max_delivery_bytes:
                reason = records.OVERSIZE
                detail = f"{record.size()} bytes with headers; deliveries.max_bytes is {names.max_delivery_bytes}"
            else:
                found.append(record)
                continue
            about = {"subscriber": subscriber, "subscriptionids": ids}
            found.append(records.dead_letter(names.dead_letters, row, origin, reason, detail, **about))

    def _answer(self, row: Row, positions: Mapping[Position, int], found: list[Record]) -> None:
        """A status for every change; a dead letter too for one that was refused."""
        names, origin = self.names, self._origin(row)
        after = {**self.state.positions, **positions}
        version = sum(offset for (source, _), offset in after.items() if source == SUBSCRIPTIONS)
        in_force_from = {str(p): offset for (source, p), offset in sorted(after.items()) if source == EVENTS}
        id = next(iter(row["subscriptions"]), None)
        if row["kind"] == REFUSED:
            reason = row["reason"]
            found.append(records.status(names.statuses, id, origin, version, in_force_from, refused=reason))
            found.append(records.dead_letter(names.dead_letters, row, origin, records.REFUSED_SUBSCRIPTION, reason))
            return
        subscriber = next(iter(row["subscribers"]), None)
        found.append(
            records.status(
                names.statuses,
                id,
                origin,
                version,
                in_force_from,
                subscriber=subscriber,
                withdrawn=subscriber is None,
                paused=row["reason"] == PAUSED,
            )
        )

    def _origin(self, row: Row) -> Origin:
        return Origin(self.names.source(row["source"]), row["partition"], row["offset"], row["timestamp"])

    def _report(self, number: int, rows: Sequence[Row], times: Mapping[str, float]) -> None:
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
            "version": self.state.version,
            "subscriptions": len(self.state.snapshot),
            "batch_ms": round((times["commit"] - times["start"]) * 1000, 1),
            "latency_ms": latencies[TOTAL].summary(),
            "latencies": {stage: found.to_json() for stage, found in latencies.items()},
        }
        log.info("batch", extra={"fields": fields})


def merge(into: dict[str, Latencies], latencies: Mapping[str, Mapping[str, object]]) -> None:
    """Add the `latencies` of a batch's log line to those of others."""
    for stage, found in latencies.items():
        into.setdefault(stage, Latencies()).update(Latencies.from_json(found))

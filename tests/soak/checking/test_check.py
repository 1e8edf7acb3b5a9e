"""The check finds each kind of mistake in any window of an otherwise correct history, and does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import orjson
import pytest

from rig.load import Load
from tests.soak.checking.check import Check, Found
from tests.soak.checking.records import Records

TOY = Load(subscriptions=60, symbols=5, subscribers=4, matches=3.0)
PARTITIONS = 2  # of both topics
EVENTS, CHANGES = 20, 6  # in a batch
BEGAN_MS = 1_800_000_000_000  # a change is written each millisecond, and a batch of them answered 40 ms after the last


@dataclass
class Delivery:
    subscriber: bytes
    partition: int
    offset: int
    version: int
    ids: list[str]
    value: bytes

    def put(self, records: Records) -> None:
        headers = {
            "ce_id": b"the-events-%d-%d" % (self.partition, self.offset),
            "ce_matchversion": b"%d" % self.version,
            "ce_subscriptionids": orjson.dumps(self.ids),
        }
        records.delivery(int(self.subscriber[1:]), headers, self.value)


@dataclass
class Status:
    partition: int
    offset: int
    status: str
    version: int
    in_force_from: dict[str, int]

    def put(self, records: Records) -> None:
        change = {"partition": self.partition, "offset": self.offset}
        rest = {"status": self.status, "version": self.version, "in_force_from": self.in_force_from}
        records.status(orjson.dumps({"change": change, **rest}), BEGAN_MS + self.version + 40)


@dataclass
class Change:
    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int

    def put(self, records: Records) -> None:
        records.change(self.partition, self.key, self.value, self.timestamp_ms)


@dataclass
class Step:
    """Records that appear at once, and the offsets of events committed with them."""

    records: list[Any]
    committed: tuple[int, ...]


@dataclass
class Job:
    """Does what a job does, in the simplest way: an event of each batch after the other, then the batch's changes."""

    state: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    changes: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def steps(self, batches: int) -> Iterator[Step]:
        yield Step(self.changed([*TOY.first()]), (0,) * PARTITIONS)
        events, changes = enumerate(TOY.events()), TOY.changes()
        for _ in range(batches):
            own = [*islice(events, EVENTS)]
            version = sum(self.changes)
            for q in range(PARTITIONS):
                delivered = [d for n, value in own if n % PARTITIONS == q for d in self.matched(q, value, version)]
                yield Step(delivered, tuple(self.events))
            yield Step(self.changed([*islice(changes, CHANGES)]), tuple(self.events))

    def matched(self, partition: int, value: bytes, version: int) -> list[Delivery]:
        event, to = orjson.loads(value), dict[str, list[str]]()
        for id, document in self.state.items():
            pattern = document["pattern"]
            ranges = {name: pattern[name][0]["numeric"] for name in ("price", "volume")}
            if event["symbol"] in pattern["symbol"] and all(r[1] <= event[n] < r[3] for n, r in ranges.items()):
                to.setdefault(document["subscriber"], []).append(id)
        offset, self.events[partition] = self.events[partition], self.events[partition] + 1
        return [Delivery(subscriber.encode(), partition, offset, version, ids, value) for subscriber, ids in to.items()]

    def changed(self, changes: list[tuple[bytes, bytes | None]]) -> list[Any]:
        changed: list[Change] = []
        statuses: list[Status] = []
        in_force_from = {str(q): offset for q, offset in enumerate(self.events)}
        for key, value in changes:
            partition = key[-1] % PARTITIONS
            changed.append(Change(partition, key, value, BEGAN_MS + sum(self.changes)))
            status = "unsubscribed" if value is None else "accepted"
            statuses.append(Status(partition, self.changes[partition], status, 0, in_force_from))
            self.changes[partition] += 1
            if value is None:
                self.state.pop(key.decode())
            else:
                self.state[key.decode()] = orjson.loads(value)
        for one in statuses:
            one.version = sum(self.changes)
        return [*changed, *statuses]


@pytest.fixture
def history() -> list[Step]:
    return list(Job().steps(30))


def checked(history: list[Step], seed: int = 1) -> Found:
    return closed(history, seed)[0].found


def closed(history: list[Step], seed: int = 1) -> tuple[Check, list[int]]:
    """The check at the end, and what it held after each window. A window ends with some step, and the reader is further
    by then."""
    r, check, records = Random(seed), Check(TOY, PARTITIONS, PARTITIONS), Records(PARTITIONS, PARTITIONS, BEGAN_MS)
    read, held = 0, []
    changes = [sum(isinstance(x, Change) and x.partition == p for s in history for x in s.records) for p in (0, 1)]
    for number, step in enumerate(history):
        if r.random() < 0.8 and number < len(history) - 1:
            continue
        ahead = min(len(history), number + 1 + r.randrange(4))
        for other in history[read:ahead]:
            for record in other.records:
                record.put(records)
        read = max(read, ahead)
        check.take(records.taken())
        assert len(records) == 0
        check.close(step.committed, changes if number == len(history) - 1 else None)
        held.append(size(check))
    return check, held


def size(thing: object) -> int:
    """Bytes of all arrays in it."""
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    parts = thing if isinstance(thing, list) else vars(thing).values() if hasattr(thing, "__dict__") else ()
    return sum(map(size, parts))


@pytest.mark.parametrize("seed", range(5))
def test_a_history_without_mistakes_is_right_wherever_windows_end(history: list[Step], seed: int) -> None:
    found = checked(history, seed)
    assert found.right, found
    assert found.windows > 5
    assert found.events == 30 * EVENTS
    assert found.changes == 60 + 30 * CHANGES
    deliveries = sum(isinstance(one, Delivery) for step in history for one in step.records)
    assert found.answer.expected == found.answer.delivered == deliveries > 500
    assert (sum(found.in_force.counts.values()), found.in_force.max_ms) == (30 * CHANGES, 40 + CHANGES)


def of(history: list[Step], kind: type, n: int) -> tuple[list[Any], int]:
    """Record number n of a kind: the list that has it, and its place there."""
    places = [(step.records, i) for step in history for i, one in enumerate(step.records) if isinstance(one, kind)]
    return places[n]


def _drop(history: list[Step], kind: type) -> None:
    records, i = of(history, kind, 300 if kind is Delivery else 100)
    del records[i]


def _double(history: list[Step], kind: type, later: int) -> None:
    records, i = of(history, kind, 300 if kind is Delivery else 100)
    at = next(n for n, step in enumerate(history) if step.records is records)
    history[at + later].records.append(records[i])


def _swap(history: list[Step]) -> None:
    """Two deliveries of one partition to one subscriber."""
    records, i = of(history, Delivery, 300)
    j = next(j for j in range(len(records)) if j != i and records[j].subscriber == records[i].subscriber)
    records[i], records[j] = records[j], records[i]


def _late(history: list[Step]) -> None:
    """Move a delivery behind the batches that follow."""
    records, i = of(history, Delivery, 300)
    at = next(n for n, step in enumerate(history) if step.records is records)
    history[at + 12].records.append(records.pop(i))


def _change(history: list[Step], kind: type, **fields: Any) -> None:
    records, i = of(history, kind, 300 if kind is Delivery else 100)
    for name, value in fields.items():
        setattr(records[i], name, value(getattr(records[i], name)))


def _invent(history: list[Step]) -> None:
    """To a subscriber who does not get the event."""
    records, _ = of(history, Delivery, 300)
    got = {(d.offset, d.subscriber) for d in records}
    others = ((i, s) for i, d in enumerate(records) for s in (b"r0", b"r1", b"r2", b"r3") if (d.offset, s) not in got)
    i, other = next(others)
    records.insert(i, replace(records[i], subscriber=other))


def _ignore_a_change(history: list[Step]) -> None:
    """Drop a change, as a job that continues with the earlier subscriptions."""
    records, i = of(history, Status, 100)
    in_force_from = {q: offset + 3 for q, offset in records[i].in_force_from.items()}
    for one in records:
        if isinstance(one, Status):
            one.in_force_from = in_force_from


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("mistake", "counted"),
    [
        (lambda h: _drop(h, Delivery), "missing"),
        (lambda h: _double(h, Delivery, 0), "twice"),
        (lambda h: _double(h, Delivery, 40), "unexpected"),  # its window is closed
        (lambda h: _double(h, Delivery, 40), "out_of_order"),
        (_swap, "out_of_order"),
        (_late, "out_of_order"),
        (_late, "missing"),
        (_invent, "unexpected"),
        (lambda h: _change(h, Delivery, subscriber=lambda _: b"r99"), "unexpected"),
        (lambda h: _change(h, Delivery, offset=lambda o: o + 4_000), "unexpected"),
        (lambda h: _change(h, Delivery, ids=lambda ids: [*ids, "s1"]), "wrong_ids"),
        (lambda h: _change(h, Delivery, version=lambda v: v - 1), "wrong_version"),
        (lambda h: _change(h, Delivery, version=lambda v: v + CHANGES), "wrong_version"),
        (lambda h: _change(h, Delivery, value=lambda v: v + b" "), "wrong_bytes"),
        (_ignore_a_change, "wrong_version"),
        (lambda h: _drop(h, Status), "wrong_statuses"),
        (lambda h: _double(h, Status, 0), "wrong_statuses"),
        (lambda h: _double(h, Status, 40), "wrong_statuses"),
        (lambda h: _change(h, Status, status=lambda _: "rejected"), "wrong_statuses"),
        (lambda h: _change(h, Status, version=lambda v: v + 1), "wrong_statuses"),
        (lambda h: _change(h, Status, in_force_from=lambda f: {**f, "1": f["1"] - 1}), "wrong_statuses"),
        (lambda h: _change(h, Status, in_force_from=lambda f: {**f, "1": f["1"] - 90}), "wrong_statuses"),
    ],
)
def test_each_mistake_is_found_and_counted_as_what_it_is(
    history: list[Step], mistake: Callable[[list[Step]], object], counted: str, seed: int
) -> None:
    mistake(history)
    found = checked(history, seed)
    assert not found.right
    assert found.as_data()[counted], found
    assert found.details


def test_what_is_missing_is_named(history: list[Step]) -> None:
    records, i = of(history, Delivery, 300)
    gone = records.pop(i)
    (_, *details) = checked(history).details
    assert details == [f"missing: to {gone.subscriber.decode()}, event {gone.partition}-{gone.offset}"]


def test_a_change_in_flight_counts_from_where_its_status_says(history: list[Step]) -> None:
    """A job that commits events of the next batch before the changes of this one: their status says so."""
    job = Job()
    steps = [*job.steps(1)]
    events, changes = enumerate(islice(TOY.events(), EVENTS, None), EVENTS), islice(TOY.changes(), CHANGES, None)
    for _ in range(20):
        own, version = [*islice(events, EVENTS)], sum(job.changes)
        delivered = [[d for n, value in own if n % 2 == q for d in job.matched(q, value, version)] for q in (0, 1)]
        half = [d for d in delivered[0] if d.offset % 10 < 5]
        steps.append(Step(half, (job.events[0] - 5, job.events[1] - 10)))
        steps.append(Step([d for d in delivered[0] if d.offset % 10 >= 5] + delivered[1], tuple(job.events)))
        steps.append(Step(job.changed([*islice(changes, CHANGES)]), tuple(job.events)))
    for seed in range(5):
        found = checked(steps, seed)
        assert found.right, found


def test_memory_does_not_grow_with_time() -> None:
    _, held = closed(list(Job().steps(300)))
    assert len(held) > 100
    assert max(held[len(held) // 2 :]) <= 1.1 * max(held[: len(held) // 2])

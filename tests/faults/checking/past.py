"""Check that starts in the past and replays have delivered each past event once, in the order of its partition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rig.check import Int64
from rig.records import TENANT, DeliveryRecord, StatusRecord
from tests.faults.checking.reading import Reading
from tests.faults.load.past import Began

SYMBOL, CHECKSUM = 0, 3  # columns of an event


class Span(NamedTuple):
    """The offsets of a partition that a command delivers: from `begin` to before `end`, and by now all before
    `least`."""

    begin: int
    end: int
    least: int


def wrong_past(reading: Reading, subscriptions: Sequence[Began]) -> Iterator[str]:
    """Yield what is wrong with the past events of `subscriptions`, which are as they were before `reading` advanced."""
    known = {began.subscriber for began in subscriptions}
    for subscriber, name in reading.past:
        if subscriber not in known:
            yield f"{name} has delivered past events to r{subscriber}, who has not asked for any"
    events = [np.array(part, np.int64).reshape(-1, 4) for part in reading.events]
    strange = [set[int]() for _ in events]  # offsets of events that the job and a replay may take or not
    for at in reading.strange:
        if (number := reading.event_partitions.number(at.topic, at.partition)) < len(events):
            strange[number].add(at.offset)
    for began in subscriptions:
        statuses = list(_statuses(reading, began))
        if len(statuses) > 1:
            yield f"s{began.id} was written {len(statuses)} times"
        if statuses:
            begins = statuses[0].begins(len(events))
            spans = list(_of_start(reading, began, begins))
            yield from _wrong(reading, began, spans, events, strange)
        elif began.is_delivered:
            yield f"s{began.id} has no status"
        spans = list(_of_replay(reading, began, [len(rows) for rows in events], strange))
        yield from _wrong(reading, began, spans, events, strange, began.replay)


def _statuses(reading: Reading, began: Began) -> Iterator[StatusRecord]:
    id = began.id + reading.tenants[began.topic].number * TENANT
    changes = {
        (p, offset)
        for p, part in enumerate(reading.changes)
        for offset in np.flatnonzero(np.array(part).reshape(-1, 7)[:, 0] == id).tolist()
    }
    return (status for status in reading.statuses if (status.partition, status.offset) in changes)


def _of_start(reading: Reading, began: Began, in_force_from: Sequence[int]) -> Iterator[Span]:
    for place, end in zip(reading.event_partitions.places, in_force_from, strict=True):
        begin = 0 if began.start is None else began.start.get(place, 0)
        yield Span(begin, end, end if began.is_delivered else begin)


def _of_replay(
    reading: Reading, began: Began, ends: Sequence[int], strange: Sequence[Collection[int]]
) -> Iterator[Span]:
    """A range of times ends at the first later timestamp, so a strange one may end it."""
    for place, end, offsets in zip(reading.event_partitions.places, ends, strange, strict=True):
        least = 0 if began.replayed is None else began.replayed.get(place, 0)
        yield Span(0, end, min([least, *offsets]))


def _wrong(
    reading: Reading,
    began: Began,
    spans: Sequence[Span],
    events: Sequence[Int64],
    strange: Sequence[Collection[int]],
    replay: str | None = None,
) -> Iterator[str]:
    """Compare what one command has delivered: the replay of this name, or else the start."""
    delivered = [
        delivery
        for (subscriber, name), deliveries in reading.past.items()
        if subscriber == began.subscriber and (name == began.replay) == (replay is not None)
        for delivery in deliveries
    ]
    id = began.id + reading.tenants[began.topic].number * TENANT
    for number, (span, rows) in enumerate(zip(spans, events, strict=True)):
        offsets = span.begin + np.flatnonzero(rows[span.begin : span.end, SYMBOL] == began.symbol)
        wanted = [offset for offset in offsets.tolist() if offset not in strange[number]]
        own = [d for d in delivered if d.partition == number and d.offset not in strange[number]]
        if reason := _reason(own, wanted, span.least, rows, id):
            yield f"s{began.id}, {replay or 'start'}, partition {number}: {reason}"


def _reason(own: Sequence[DeliveryRecord], wanted: Sequence[int], least: int, rows: Int64, id: int) -> str:
    found = [d.offset for d in own]
    for n, offset in enumerate(found):
        if offset != (expected := wanted[n] if n < len(wanted) else None):
            return f"delivery {n} is of event {offset}, not of {expected}"
    if missing := [offset for offset in wanted[len(found) :] if offset < least]:
        return f"{len(missing)} events are missing, the first is {missing[0]}"
    if other := [d.offset for d in own if d.checksum != rows[d.offset, CHECKSUM] or d.ids != (id,)]:
        return f"{len(other)} events have other bytes or subscriptions, the first is {other[0]}"
    return ""

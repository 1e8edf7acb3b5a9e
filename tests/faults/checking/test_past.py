"""The check finds each mistake of a start in the past and of a replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from zlib import crc32

import pytest

from config import load as load_settings
from rig.load import Load
from rig.records import DeliveryRecord, RecordOrigin, StatusRecord, change_of, event_of
from streaming.kafka.clients import Cluster
from tests.faults.checking.past import wrong_past
from tests.faults.checking.reading import Reading
from tests.faults.load.past import Began

LOAD = Load(subscriptions=2, subscribers=1, symbols=2)
EVENTS, PARTITIONS = 40, 2
STARTS = {("events", 0): 3, ("events", 1): 0}
BEGAN = Began(7, "subscriptions", 1, STARTS, True, {("events", 0): 18, ("events", 1): 20})
START, REPLAY = (BEGAN.subscriber, f"s{BEGAN.id}-4711"), (BEGAN.subscriber, BEGAN.replay)
Mistake = Callable[[Reading], object]


def history() -> Reading:
    """A subscription with a start that is in force from offset 12 of both partitions, and a replay of everything."""
    reading = Reading(Cluster("", {}), load_settings(), PARTITIONS)
    reading.changes[1].extend(change_of(b"s%d" % BEGAN.id, None))
    reading.statuses.append(StatusRecord(1, 0, "accepted", 1, {"0": 12, "1": 12}))
    for number, value in enumerate(islice(LOAD.events(), EVENTS)):
        partition, offset = number % PARTITIONS, number // PARTITIONS
        row = event_of(None, value)
        reading.events[partition].extend(row)
        if row[0] != BEGAN.symbol:
            continue
        delivery = DeliveryRecord(partition, offset, BEGAN.subscriber, -1, crc32(value), (BEGAN.id,))
        reading.past.setdefault(REPLAY, []).append(delivery)
        if STARTS["events", partition] <= offset < 12:
            reading.past.setdefault(START, []).append(delivery)
    return reading


def wrong(reading: Reading, began: Began = BEGAN) -> list[str]:
    return list(wrong_past(reading, [began]))


def test_past_events_that_were_delivered_once_are_right() -> None:
    reading = history()
    assert len(reading.past[START]) > 5
    assert wrong(reading) == []


@pytest.mark.parametrize("command", [START, REPLAY], ids=["start", "replay"])
@pytest.mark.parametrize(
    "mistake",
    [
        lambda own: own.pop(0),
        lambda own: own.insert(3, own[3]),
        lambda own: own.append(own[0]),
        lambda own: own.__setitem__(slice(None), own[::-1]),
        lambda own: own.__setitem__(2, own[2]._replace(checksum=1)),
        lambda own: own.__setitem__(2, own[2]._replace(ids=(1,))),
        lambda own: own.append(own[-1]._replace(offset=19)),
    ],
    ids=["missing", "twice", "again at the end", "out of order", "bytes", "ids", "beyond the end"],
)
def test_each_mistake_is_seen(command: tuple[int, str], mistake: Mistake) -> None:
    reading = history()
    mistake(reading.past[command])  # type: ignore[arg-type]
    [text, *_] = wrong(reading)
    assert ("start" in text) == (command == START)


def test_past_events_of_somebody_who_has_not_asked_are_seen() -> None:
    reading = history()
    reading.past[3, BEGAN.replay] = reading.past[REPLAY][:1]
    assert wrong(reading) == [f"{BEGAN.replay} has delivered past events to r3, who has not asked for any"]


def test_a_command_that_has_not_ended_may_lack_the_last_events_only() -> None:
    reading = history()
    for command in (START, REPLAY):
        del reading.past[command][-3:]
    assert wrong(reading)
    under_way = replace(BEGAN, is_delivered=False, replayed=None)
    assert wrong(reading, under_way) == []
    del reading.past[START][0]
    assert wrong(reading, under_way)


def test_an_event_with_a_strange_timestamp_may_be_delivered_and_may_end_a_replay() -> None:
    reading = history()
    first = reading.past[START][0]
    reading.strange[RecordOrigin("events", first.partition, first.offset)] = (None, None)
    assert wrong(reading) == []
    for command in (START, REPLAY):
        reading.past[command] = [d for d in reading.past[command] if d[:2] != first[:2]]
    reading.past[REPLAY] = [d for d in reading.past[REPLAY] if d.partition != first.partition or d.offset < 8]
    assert wrong(reading) == []


def test_a_document_that_was_written_twice_or_has_no_status_is_seen() -> None:
    reading = history()
    reading.changes[1].extend(change_of(b"s%d" % BEGAN.id, None))
    reading.statuses.append(StatusRecord(1, 1, "accepted", 2, {"0": 12, "1": 12}))
    assert wrong(reading) == [f"s{BEGAN.id} was written 2 times"]
    reading.statuses.clear()
    assert f"s{BEGAN.id} has no status" in wrong(reading)

"""The check finds each kind of mistake in an otherwise correct history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any
from zlib import crc32

import orjson
import pytest

from config import load as load_settings
from rig.load import Load
from rig.records import DeliveryRecord, RecordOrigin, StatusRecord, change_of, event_of
from streaming.kafka.clients import Cluster
from tests.faults.checking.check import Found, Gone, check
from tests.faults.checking.commits import Commits, Seen
from tests.faults.checking.reading import Dead, Reading
from tests.faults.load.transactions import FILLER, FILLER_EVENT, Outcomes

TOY = Load(subscriptions=60, symbols=5, subscribers=4, matches=3.0)
PARTITIONS, EVENTS = 2, 100
EVENT, CHANGE = RecordOrigin("events", 1, 7), RecordOrigin("subscriptions", 0, 30)  # where there is rubbish
RUBBISH = (b"key", b"{")
ENDS = {("events", 0): 50, ("events", 1): 51, ("subscriptions", 0): 31, ("subscriptions", 1): 30}


def history() -> Reading:
    """Write all subscriptions at once, then all events, and deliver each match. Both topics have rubbish."""
    reading = Reading(Cluster("", {}), load_settings(), PARTITIONS)
    for number, (key, value) in enumerate(TOY.first()):
        partition = number % PARTITIONS
        reading.changes[partition].extend(change_of(key, value))
        reading.statuses.append(StatusRecord(partition, number // PARTITIONS, "accepted", 60, {"0": 0, "1": 0}))
    reading.changes[0].extend(change_of(*RUBBISH))
    reading.statuses.append(StatusRecord(0, CHANGE.offset, "rejected", -1, {}))
    first = [orjson.loads(value) for _, value in TOY.first()]
    for number, value in enumerate(islice(TOY.events(), EVENTS)):
        partition = number % PARTITIONS
        if (partition, len(reading.events[1])) == (1, 4 * EVENT.offset):
            reading.events[1].extend(event_of(*RUBBISH))
        offset = len(reading.events[partition]) // 4
        reading.events[partition].extend(event_of(None, value))
        to: dict[int, list[int]] = {}
        for document in first:
            if _matches(document["pattern"], orjson.loads(value)):
                to.setdefault(int(document["subscriber"][1:]), []).append(int(document["id"][1:]))
        for subscriber, ids in to.items():
            one = DeliveryRecord(partition, offset, subscriber, 60 + offset % 2, crc32(value), tuple(ids))
            reading.deliveries.setdefault(subscriber, []).append(one)
    reading.rubbish = {EVENT: RUBBISH, CHANGE: RUBBISH}
    reading.dead = [Dead(at, "why", *RUBBISH) for at in (EVENT, CHANGE)]
    return reading


def _matches(pattern: dict[str, Any], event: dict[str, Any]) -> bool:
    ranges = {name: pattern[name][0]["numeric"] for name in ("price", "volume")}
    return event["symbol"] in pattern["symbol"] and all(r[1] <= event[n] < r[3] for n, r in ranges.items())


@dataclass
class Message:
    """A record of the events topic as a consumer has it."""

    _offset: int
    _key: bytes | None
    _value: bytes
    _partition: int = 0

    def topic(self) -> str:
        return "events"

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def __getattr__(self, name: str) -> Any:
        return lambda: getattr(self, f"_{name}")


def with_transactions() -> tuple[Reading, DeliveryRecord, Outcomes]:
    """Behind all that: events 0 and 2 of transactions, of which the second has a delivery, between gaps and one that
    others supersede. Event 1 was aborted."""
    reading = history()
    due = next(d for d in own(reading) if d.partition == 0)
    value = list(islice(TOY.events(), EVENTS))[PARTITIONS * due.offset]
    for message in (Message(51, b"t0", b'{"symbol":"S0","price":-1,"volume":-1}'), Message(53, FILLER, FILLER_EVENT)):
        reading._keep(message, reading.events[0], event_of)
    reading._keep(Message(56, b"t2", value), reading.events[0], event_of)
    for subscriber, mine in reading.deliveries.items():
        mine += [d._replace(offset=56) for d in mine if (d.partition, d.offset) == (0, due.offset)]
        assert subscriber == 1 or own(reading)[-1].offset == 56
    return reading, own(reading)[-1], Outcomes(frozenset({0, 2}), frozenset({1}))


def checked(reading: Reading, gone: tuple[Gone, ...] = ()) -> Found:
    return check(reading, ENDS, gone, TOY)


def checked_with(reading: Reading, transactions: Outcomes) -> Found:
    return check(reading, ENDS | {("events", 0): 57}, (), TOY, (), transactions)


def own(reading: Reading) -> list[DeliveryRecord]:
    return reading.deliveries[1]


def test_a_history_without_mistakes_is_right() -> None:
    found = checked(history())
    assert found.right, found
    assert found.answer.expected == found.answer.delivered > 50


def test_gaps_among_events_and_events_of_transactions_are_no_mistakes() -> None:
    reading, _, transactions = with_transactions()
    found = checked_with(reading, transactions)
    assert found.right, found
    assert len(reading.events[0]) == 4 * 57


def test_an_event_of_a_transaction_that_is_delivered_wrongly_or_not_is_seen() -> None:
    reading, last, transactions = with_transactions()
    own(reading).remove(last)
    assert checked_with(reading, transactions).answer.missing == 1
    own(reading).append(last._replace(offset=54))  # an offset of an aborted transaction
    found = checked_with(reading, transactions)
    assert (found.answer.missing, found.answer.unexpected) == (1, 1)


@pytest.mark.parametrize(
    ("committed", "aborted"),
    [({0, 1, 2}, set()), ({0}, {2}), ({0, 2}, {0})],
    ids=["one that was committed is missing", "one that was aborted is there", "both"],
)
def test_a_transaction_of_which_the_topic_has_something_else_is_seen(committed: set[int], aborted: set[int]) -> None:
    reading, _, _ = with_transactions()
    assert checked_with(reading, Outcomes(frozenset(committed), frozenset(aborted))).wrong_events == 1


def test_a_gap_among_changes_is_a_mistake() -> None:
    reading = history()
    with pytest.raises(AssertionError, match="is gone"):
        reading._keep(Message(40, b"s1", b"{}"), reading.changes[0], change_of)


def _swap(reading: Reading) -> None:
    mine = [i for i, d in enumerate(own(reading)) if d.partition == 0]
    own(reading)[mine[0]], own(reading)[mine[1]] = own(reading)[mine[1]], own(reading)[mine[0]]


def _invent(reading: Reading) -> None:
    mine = {d[:2] for d in own(reading)}
    own(reading).append(own(reading)[-1]._replace(partition=0, offset=max(o for o in range(50) if (0, o) not in mine)))


def _double_event(reading: Reading) -> None:
    reading.events[0][4 * 20 : 4 * 21] = reading.events[0][4 * 19 : 4 * 20]
    reading.deliveries = {
        s: [d for d in ds if (d.partition, d.offset) != (0, 20)] for s, ds in reading.deliveries.items()
    }
    copies = {
        s: [d._replace(offset=20) for d in ds if (d.partition, d.offset) == (0, 19)]
        for s, ds in reading.deliveries.items()
    }
    reading.deliveries = {s: sorted(ds + copies[s], key=lambda d: d[:2]) for s, ds in reading.deliveries.items()}


@pytest.mark.parametrize(
    ("mistake", "counted"),
    [
        (lambda r: own(r).pop(), "missing"),
        (lambda r: own(r).insert(3, own(r)[3]), "twice"),
        (_swap, "out_of_order"),
        (_invent, "unexpected"),
        (lambda r: own(r).append(own(r)[-1]._replace(offset=4_000)), "unexpected"),
        (lambda r: own(r).__setitem__(5, own(r)[5]._replace(ids=(99,))), "wrong_ids"),
        (lambda r: own(r).__setitem__(5, own(r)[5]._replace(version=59)), "wrong_version"),
        (lambda r: own(r).__setitem__(5, own(r)[5]._replace(version=62)), "wrong_version"),
        (lambda r: own(r).__setitem__(5, own(r)[5]._replace(checksum=1)), "wrong_bytes"),
        (lambda r: r.statuses.pop(9), "wrong_statuses"),
        (lambda r: r.statuses.append(r.statuses[9]), "wrong_statuses"),
        (lambda r: r.statuses.append(r.statuses[-1]), "wrong_statuses"),
        (lambda r: r.statuses.__setitem__(-1, r.statuses[-1]._replace(status="accepted")), "wrong_statuses"),
        (lambda r: r.dead.pop(), "wrong_dead_letters"),
        (lambda r: r.dead.append(r.dead[0]), "wrong_dead_letters"),
        (lambda r: r.dead.__setitem__(0, r.dead[0]._replace(value=b"other")), "wrong_dead_letters"),
        (lambda r: r.dead.append(r.dead[0]._replace(origin=RecordOrigin("events", 0, 1))), "wrong_dead_letters"),
        (_double_event, "wrong_events"),
    ],
)
def test_each_mistake_is_seen_and_counted_as_what_it_is(mistake: Callable[[Reading], object], counted: str) -> None:
    reading = history()
    mistake(reading)
    found = checked(reading)
    assert not found.right
    assert found.as_data()[counted], found


def test_what_is_gone_with_a_topic_is_counted_apart_and_only_within_its_bounds() -> None:
    reading = history()
    lost = own(reading).pop()
    begin = {lost.partition: lost.offset, 1 - lost.partition: 50}
    gone = Gone(1, begin, {0: 50, 1: 51})
    found = checked(reading, (gone,))
    assert (found.right, found.deleted_with_topic, found.answer.missing) == (True, 1, 0)
    for other in (Gone(2, begin, gone.end), Gone(1, {**begin, lost.partition: lost.offset + 1}, gone.end)):
        assert checked(reading, (other,)).answer.missing == 1


def _aside(reading: Reading, at: RecordOrigin) -> Dead:
    """Set a record with this timestamp aside, as a job may do."""
    dead = Dead(at, "timestamp", *reading.strange[at])
    reading.dead.append(dead)
    for subscriber, mine in reading.deliveries.items():
        reading.deliveries[subscriber] = [d for d in mine if d[:2] != (at.partition, at.offset)]
    return dead


def test_an_event_with_a_strange_timestamp_is_delivered_or_becomes_a_dead_letter_once() -> None:
    at = RecordOrigin("events", *own(history())[2][:2])
    strange = {at: (b"key", b"value")}

    def made() -> Reading:
        reading = history()
        reading.strange = dict(strange)
        return reading

    assert checked(made()).right
    aside = made()
    dead = _aside(aside, at)
    assert checked(aside).right
    aside.dead.append(dead)
    assert checked(aside).wrong_dead_letters == 1
    dropped = made()
    _aside(dropped, at)
    dropped.dead.pop()
    assert checked(dropped).answer.missing >= 1
    both = made()
    both.dead.append(dead)
    assert checked(both).answer.unexpected >= 1


def test_a_change_with_a_strange_timestamp_is_taken_or_rejected() -> None:
    at = RecordOrigin("subscriptions", 1, 29)
    reading = history()
    reading.strange = {at: (b"key", b"value")}
    assert checked(reading).right
    reading.dead.append(Dead(at, "timestamp", b"key", b"value"))
    assert checked(reading).answer.wrong_statuses == 1  # it is set aside, and not rejected


def grown() -> tuple[Reading, dict[tuple[str, int], int]]:
    """Return `history` with a partition added to each topic: it has the unsubscribing of the subscription of the last
    delivery, and the events from number 100 on."""
    reading = history()
    reading.added()
    id = own(reading)[-1].ids[0]
    reading.changes[2].extend(change_of(b"s%d" % id, None))
    reading.statuses.append(StatusRecord(2, 0, "unsubscribed", 62, {"0": 50, "1": 51, "2": 0}))
    for number, value in enumerate(islice(TOY.events(), EVENTS, 2 * EVENTS), EVENTS):
        offset = len(reading.events[number % 3]) // 4
        reading.events[number % 3].extend(event_of(None, value))
        to: dict[int, list[int]] = {}
        for document in (orjson.loads(value) for _, value in TOY.first()):
            if document["id"] != f"s{id}" and _matches(document["pattern"], orjson.loads(value)):
                to.setdefault(int(document["subscriber"][1:]), []).append(int(document["id"][1:]))
        for subscriber, ids in to.items():
            one = DeliveryRecord(number % 3, offset, subscriber, 62, crc32(value), tuple(ids))
            reading.deliveries[subscriber].append(one)
    ends = ENDS | {("subscriptions", 2): 1}
    return reading, ends | {("events", p): len(part) // 4 for p, part in enumerate(reading.events)}


def test_partitions_that_are_added_are_checked_from_then_on() -> None:
    reading, ends = grown()
    spread = ((0, 2), (EVENTS, 3))
    found = check(reading, ends, (), TOY, spread)
    assert found.right, found
    assert found.answer.expected > 100
    assert check(reading, ends, (), TOY, ((0, 2), (EVENTS + 1, 3))).wrong_events
    last = next(i for i, d in enumerate(own(reading)) if d.partition == 2)
    own(reading).pop(last)
    assert check(reading, ends, (), TOY, spread).answer.missing == 1


@pytest.mark.parametrize("partition", [0, 2])
def test_of_two_changes_of_an_id_in_different_partitions_the_later_version_counts(partition: int) -> None:
    """Wherever it lies: a deletion in a partition before or behind that of the subscription."""
    reading, ends = grown()
    if partition == 0:  # the deletion takes the place of the first change, which is taken after all others
        reading.changes[0], reading.changes[2] = reading.changes[2], reading.changes[0]
        moved = {0: 2, 2: 0}
        reading.statuses = [s._replace(partition=moved.get(s.partition, s.partition)) for s in reading.statuses]
        reading.rubbish = {at._replace(partition=2) if at == CHANGE else at: v for at, v in reading.rubbish.items()}
        reading.dead = [
            d._replace(origin=d.origin._replace(partition=2)) if d.origin == CHANGE else d for d in reading.dead
        ]
        ends[("subscriptions", 0)], ends[("subscriptions", 2)] = ends[("subscriptions", 2)], ends[("subscriptions", 0)]
    assert check(reading, ends, (), TOY, ((0, 2), (EVENTS, 3))).right


def test_what_was_committed_of_a_partition_before_it_was_there_is_nothing() -> None:
    commits = Commits(Cluster("", {}), "g", {"events": 1, "subscriptions": 1}, ["events"])
    commits.seen = [Seen(1.0, (5, 3))]
    commits.added("events", 1)
    assert commits.committed() == {("events", 0): 5, ("subscriptions", 0): 3, ("events", 1): 0}
    commits.seen.append(Seen(2.0, (5, 3, 4)))
    assert commits.events_of(commits.seen[-1]) == {0: 5, 1: 4}
    assert commits.longest_gap_s(0.0, 3.0) == 1.0


def test_an_outage_is_the_longest_time_between_two_commits_of_events() -> None:
    commits = Commits(Cluster("", {}), "g", {"events": 1, "subscriptions": 1}, ["events"])
    commits.seen = [Seen(at, (events, changes)) for at, events, changes in SEEN]
    assert commits.longest_gap_s(3.5, 30.0) == 7.0
    assert commits.longest_gap_s(10.5, 11.5) == 1.0
    assert commits.longest_gap_s(13.0, 14.0) == 0.0


# When, and how far events and changes were committed.
SEEN = [(0.0, 0, 0), (1.0, 5, 0), (3.0, 7, 0), (5.0, 7, 3), (10.0, 9, 3), (11.0, 12, 3)]

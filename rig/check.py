"""Compute the expected deliveries and compare the actual ones with them.

Nothing here knows how the job matches. A change counts for the events at or past `in_force_from` of its status, until
the next change of its id does. Which is the next, the versions of the statuses say: where partitions are added, the
changes of an id can lie in several. So each subscription document is a box in (symbol, price, volume) with an interval
of offsets in each partition of the events topic, and an event that lies in both is a delivery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Numbers = NDArray[np.signedinteger[Any]]

NEVER = np.iinfo(np.int64).max
CANDIDATES = 4_000_000  # (subscription, event) pairs looked at together: about 300 MB


@dataclass(frozen=True, eq=False)
class Changes:
    """The subscriptions topic. Partition p is start[p] .. start[p + 1], in the order of its offsets, from 0."""

    start: Int64  # [P + 1]
    id: Int32  # [C] its number; -1 of a record that is no change, which must be rejected
    subscriber: Int32  # [C] its number; -1 of a deletion, and of what is no change
    symbol: Int32  # [C]
    low: Int32  # [C, 2] of price and volume
    high: Int32  # [C, 2] past the last
    timestamp: Int64  # [C] ms

    @classmethod
    def of(cls, parts: Sequence[Numbers]) -> Changes:
        """The changes of rows by partition: those of `records.change_of`, perhaps with a timestamp behind."""
        rows = np.concatenate(parts)
        id, subscriber, symbol = map(_int32, rows.T[:3])
        timestamp = rows[:, 7].astype(np.int64) if rows.shape[1] > 7 else np.zeros(len(rows), np.int64)
        return cls(_start(parts), id, subscriber, symbol, _int32(rows[:, (3, 5)]), _int32(rows[:, (4, 6)]), timestamp)


@dataclass(frozen=True, eq=False)
class Statuses:
    """The job's statuses of changes."""

    change: Int64  # [T] its index in Changes; -1 of what is none
    accepted: NDArray[np.bool_]  # [T] as what it is, a subscription or a deletion
    version: Int64  # [T] -1 of a rejection
    in_force_from: Int64  # [T, Q] by partition of the events topic; NEVER of a rejection


@dataclass(frozen=True, eq=False)
class Events:
    """The events topic. Partition q is start[q] .. start[q + 1], in the order of its offsets, from 0."""

    start: Int64  # [Q + 1]
    symbol: Int32  # [N] -1 of a record that is no event
    numbers: Int32  # [N, 2] price and volume
    checksum: NDArray[np.uint32]  # [N] of its bytes

    @classmethod
    def of(cls, parts: Sequence[Numbers]) -> Events:
        """The events of rows by partition, those of `records.event_of`."""
        rows = np.concatenate(parts)
        return cls(_start(parts), _int32(rows[:, 0]), _int32(rows[:, 1:3]), rows[:, 3].astype(np.uint32))


@dataclass(frozen=True, eq=False)
class Deliveries:
    """The committed deliveries. Delivery d lists id[start[d] : start[d + 1]]."""

    event: Int64  # [D] its index in Events; -1 of what is none
    subscriber: Int32  # [D]
    version: Int64  # [D]
    checksum: NDArray[np.uint32]  # [D] of its bytes
    start: Int64  # [D + 1]
    id: Int32  # [I]


@dataclass(frozen=True)
class Answer:
    """The result of a check, counted in deliveries: pairs of an event and a subscriber. All but the first two must be
    0."""

    expected: int
    delivered: int
    missing: int  # expected, and not there
    unexpected: int  # there, and not expected
    twice: int  # copies after the first
    wrong_ids: int
    wrong_version: int
    wrong_bytes: int
    wrong_statuses: int  # changes without one, with several, or with one that contradicts others

    @property
    def right(self) -> bool:
        return not any(count for name, count in asdict(self).items() if name not in ("expected", "delivered"))

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ComparedDeliveries:
    """The answer, and the deliveries that it counts as missing and as unexpected."""

    answer: Answer
    missing: Int64  # [answer.missing, 2] event and subscriber
    unexpected: Int64  # [answer.unexpected] the index of each in Deliveries


@dataclass(frozen=True, eq=False)
class Expected:
    """Delivery d is key[d] = event * `subscribers` + subscriber, ascending, and lists id[start[d] : start[d + 1]]."""

    subscribers: int
    key: Int64  # [E]
    start: Int64  # [E + 1]
    id: Int32  # [I] ascending within a delivery


def check(changes: Changes, statuses: Statuses, events: Events, deliveries: Deliveries) -> Answer:
    """Count the deliveries that are wrong, in each way."""
    return compare(changes, statuses, events, deliveries).answer


def compare(changes: Changes, statuses: Statuses, events: Events, deliveries: Deliveries) -> ComparedDeliveries:
    """Compare the deliveries with those that the changes, by their statuses, make of the events."""
    answered = answers(changes, statuses, events)
    wanted = expected(changes, statuses, answered, events)
    return _compared(wanted, _versions(statuses, answered, events), events, deliveries, answered.wrong)


def from_the_start(changes: Changes, partitions: int) -> Statuses:
    """The statuses that a system without statuses would have written if it read all changes before the first event."""
    n = len(changes.id)
    version, everywhere = np.full(n, n), np.zeros((n, partitions), np.int64)
    return Statuses(np.arange(n), np.ones(n, np.bool_), version, everywhere)


@dataclass(frozen=True, eq=False)
class Answers:
    status: Int64  # [C] of each change, -1 for none
    wrong: int  # changes answered wrongly
    highest: Int64  # [B] by version, ascending: that and the records behind its last that are no changes


def answers(changes: Changes, statuses: Statuses, events: Events) -> Answers:
    """Group the statuses of one version into a batch and check them.

    They must agree on where the batch begins, no later batch begins before it, and the version must be the number of
    records up to its own, which must be the first of each partition. A rejection has no version: records that are no
    changes may belong to a batch if they follow its last change directly.
    """
    n, partitions = len(changes.id), len(changes.start) - 1
    real = statuses.change >= 0
    times = np.bincount(statuses.change[real], minlength=n)
    wrong = times != 1
    status = np.full(n, -1)
    status[statuses.change[real]] = np.flatnonzero(real)
    wrong |= ~statuses.accepted[status] if len(statuses.accepted) else True
    versions, batch = np.unique(statuses.version, return_inverse=True)
    rejected = versions < 0
    first = np.full((len(versions), len(events.start) - 1), NEVER)
    np.minimum.at(first, batch, statuses.in_force_from)
    consistent = first[batch] == statuses.in_force_from
    first[rejected] = 0
    consistent &= (first == np.maximum.accumulate(first))[batch] | (statuses.version < 0)[:, None]
    lowest = np.zeros((len(versions), partitions), np.int64)  # the offset after the last change of each batch
    between = np.zeros((len(versions), partitions), np.int64)  # how many that are no changes come behind that
    for p in range(partitions):
        positions = np.flatnonzero(changes.id[changes.start[p] : changes.start[p + 1]] >= 0)
        of_batch = batch[status[changes.start[p] + positions]] if len(batch) else positions[:0]
        wrong[changes.start[p] + positions[1:]] |= np.diff(of_batch) < 0
        np.maximum.at(lowest[:, p], of_batch[: len(positions)], positions[: len(of_batch)] + 1)
        lowest[:, p] = np.maximum.accumulate(lowest[:, p])
        following = np.append(positions, changes.start[p + 1] - changes.start[p])  # the next change, else the end
        between[:, p] = following[np.searchsorted(positions, lowest[:, p])] - lowest[:, p]
    low, highest = lowest.sum(axis=1), (lowest + between).sum(axis=1)
    if len(batch):
        there = changes.id >= 0
        wrong[there] |= ~consistent.all(axis=1)[status[there]]
        wrong[there] |= (((versions < low) | (highest < versions)) & ~rejected)[batch[status[there]]]
    return Answers(status, int(wrong.sum() + (~real).sum()), highest[~rejected])


def expected(changes: Changes, statuses: Statuses, answered: Answers, events: Events) -> Expected:
    status = answered.status
    begin = statuses.in_force_from[status]  # [C, Q]
    begin[status < 0] = NEVER
    end = np.full_like(begin, NEVER)
    version = np.where(status < 0, -1, statuses.version[status]) if len(statuses.version) else status
    order = np.lexsort((np.arange(len(status)), version, changes.id))
    same = np.flatnonzero(changes.id[order][1:] == changes.id[order][:-1])
    end[order[same]] = begin[order[same + 1]]

    sizes = np.diff(events.start)
    partition = np.repeat(np.arange(len(sizes)), sizes)
    offset = np.arange(len(events.symbol)) - events.start[partition]

    expected = []
    for change, event in _candidates(changes, events):
        volume = events.numbers[event, 1]
        held = (changes.low[change, 1] <= volume) & (volume < changes.high[change, 1])
        change, event = change[held], event[held]
        p, o = partition[event], offset[event]
        held = (begin[change, p] <= o) & (o < end[change, p])
        expected.append((event[held], change[held]))
    event, change = (np.concatenate(a) for a in zip(*expected, strict=True))
    subscribers = int(changes.subscriber.max(initial=0)) + 1
    key = event * subscribers + changes.subscriber[change]
    order = np.lexsort((changes.id[change], key))
    keys, first = np.unique(key[order], return_index=True)
    return Expected(subscribers, keys, np.append(first, len(key)), changes.id[change][order])


def _candidates(changes: Changes, events: Events) -> Iterator[tuple[Int64, Int64]]:
    """Pairs of a subscription and an event that agree in symbol and price, at most CANDIDATES at a time."""
    domain = 1 + max(int(changes.high.max(initial=0)), int(events.numbers.max(initial=0)))
    place = events.symbol.astype(np.int64) * domain + events.numbers[:, 0]
    order = np.argsort(place)
    place = place[order]
    subscriptions = np.flatnonzero(changes.subscriber >= 0)
    base = changes.symbol[subscriptions].astype(np.int64) * domain
    begin = np.searchsorted(place, base + changes.low[subscriptions, 0])
    count = np.maximum(np.searchsorted(place, base + changes.high[subscriptions, 0]) - begin, 0)
    before = np.append(0, np.cumsum(count))
    at = 0
    while at < len(subscriptions):
        to = max(at + 1, int(np.searchsorted(before, before[at] + CANDIDATES, side="right")) - 1)
        within = np.arange(before[to] - before[at]) - np.repeat(before[at:to] - before[at], count[at:to])
        yield np.repeat(subscriptions[at:to], count[at:to]), order[np.repeat(begin[at:to], count[at:to]) + within]
        at = to
    yield subscriptions[:0], order[:0]  # something, even of nothing


def _versions(statuses: Statuses, answered: Answers, events: Events) -> Int64:
    """[N, 2] the version in force for each event, that of the last batch that begins at or before it; and the highest
    version that records which are no changes may have made of it."""
    versions, first = np.unique(statuses.version, return_index=True)
    versions, first = versions[versions >= 0], first[versions >= 0]
    pairs = np.column_stack([versions, answered.highest])
    versions_seen = np.zeros((len(events.symbol), 2), np.int64)
    for q in range(len(events.start) - 1):
        begins = np.maximum.accumulate(statuses.in_force_from[first, q])
        size = events.start[q + 1] - events.start[q]
        batch = np.searchsorted(begins, np.arange(size), side="right")
        versions_seen[events.start[q] : events.start[q + 1]] = np.vstack([[[0, 0]], pairs])[batch]
    return versions_seen


def _compared(
    due: Expected, versions: Int64, events: Events, deliveries: Deliveries, wrong_statuses: int
) -> ComparedDeliveries:
    """Compare the deliveries. An unexpected one counts only as unexpected; each copy is compared."""
    known = (deliveries.event >= 0) & (deliveries.subscriber < due.subscribers)
    key = np.where(known, deliveries.event * due.subscribers + deliveries.subscriber, -1)
    place = np.searchsorted(due.key, key)
    right = known & (np.append(due.key, -1)[place] == key)
    chosen, place = np.flatnonzero(right), place[right]  # [X] deliveries, and what they should be
    event = deliveries.event[chosen]
    delivered = np.zeros(len(due.key), np.bool_)
    delivered[place] = True
    missing = due.key[~delivered]

    owner = np.repeat(np.arange(len(deliveries.event)), np.diff(deliveries.start))
    ids = deliveries.id[np.lexsort((deliveries.id, owner))]
    length = np.diff(deliveries.start)[chosen]
    wrong_ids = length != np.diff(due.start)[place]
    of_same_length = np.flatnonzero(~wrong_ids)
    length = length[of_same_length]
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    listed = ids[np.repeat(deliveries.start[chosen[of_same_length]], length) + within]
    wanted = due.id[np.repeat(due.start[place[of_same_length]], length) + within]
    wrong_ids[np.repeat(of_same_length, length)[listed != wanted]] = True

    answer = Answer(
        expected=len(due.key),
        delivered=len(deliveries.event),
        missing=len(missing),
        unexpected=int((~right).sum()),
        twice=len(chosen) - (len(due.key) - len(missing)),
        wrong_ids=int(wrong_ids.sum()),
        wrong_version=int(
            (deliveries.version[chosen] != np.clip(deliveries.version[chosen], *versions[event].T)).sum()
        ),
        wrong_bytes=int((deliveries.checksum[chosen] != events.checksum[event]).sum()),
        wrong_statuses=wrong_statuses,
    )
    return ComparedDeliveries(answer, np.column_stack(np.divmod(missing, due.subscribers)), np.flatnonzero(~right))


def _start(parts: Sequence[Numbers]) -> Int64:
    return np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)


def _int32(numbers: Numbers) -> Int32:
    return np.ascontiguousarray(numbers, np.int32)

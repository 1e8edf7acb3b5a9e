"""Check everything that the job committed: `rig.check`, and more."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice, pairwise
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from rig import check as living
from rig.check import Answer, Events, Int64
from rig.load import Load
from rig.records import DeliveryRecord, RecordOrigin
from tests.faults.checking.past import wrong_past
from tests.faults.checking.reading import Dead, Reading
from tests.faults.load.past import Began
from tests.faults.load.transactions import Outcomes

SHOWN = 10
Ends = Mapping[tuple[str, int], int]
Spread = Sequence[tuple[int, int]]  # from which event on there are how many partitions, of all topics together
NO_TRANSACTIONS = Outcomes(frozenset(), frozenset())


@dataclass(frozen=True)
class Gone:
    """A topic was deleted while a batch may have been in flight: one of events from `begin` to before `end`, by
    partition. What that wrote to the topic may be gone with it."""

    subscriber: int
    begin: Mapping[int, int]
    end: Mapping[int, int]

    def holds(self, subscriber: int, partition: int, offset: int) -> bool:
        begin, end = self.begin.get(partition, 0), self.end.get(partition, 0)
        return subscriber == self.subscriber and begin <= offset < end


@dataclass(frozen=True)
class Found:
    answer: Answer  # `missing` without those that are gone with a topic
    deleted_with_topic: int
    out_of_order: int  # deliveries behind one of a later event of the same partition, to the same subscriber
    wrong_dead_letters: int  # rubbish without one, with several or with other bytes, and all that are of nothing
    wrong_events: int  # events of the topic that are not those that were written, in their order
    details: list[str] = field(default_factory=list)
    past: int = 0  # deliveries of replays and of starts in the past
    wrong_past: int = 0  # partitions of those that are not delivered as they must

    @property
    def right(self) -> bool:
        return self.answer.right and not (
            self.out_of_order or self.wrong_dead_letters or self.wrong_events or self.wrong_past
        )

    def as_data(self) -> dict[str, Any]:
        """JSON."""
        own = {name: value for name, value in asdict(self).items() if name not in ("answer", "details")}
        return {**self.answer.as_data(), **own, "right": self.right, "details": self.details}


def check(
    reading: Reading,
    ends: Ends,
    gone: Sequence[Gone],
    load: Load,
    spread: Spread = (),
    transactions: Outcomes = NO_TRANSACTIONS,
    began: Sequence[Began] = (),
) -> Found:
    """Check the events and changes before `ends`, all of which the job has committed, and the past events of the
    subscriptions that `began` before `reading` advanced. Records with strange timestamps
    are either processed like others or set aside like rubbish."""
    aside = reading.strange.keys() & {letter.origin for letter in reading.dead}
    changes, events = reading.as_changes(ends, aside), reading.as_events(ends, aside)
    statuses = reading.as_statuses(changes)
    listed, deliveries = reading.as_deliveries(events)
    compared = living.compare(changes, statuses, events, deliveries)
    missing = list(missing_of(compared.missing, events))
    lost = [one for one in missing if not any(g.holds(*one) for g in gone)]
    disorder = [d for own in reading.deliveries.values() for d in out_of_order(own)]
    every = reading.rubbish | {at: reading.strange[at] for at in aside}
    rubbish = {at: bytes for at, bytes in every.items() if at.offset < ends[at.topic, at.partition]}
    known = every.keys() - rubbish.keys()
    dead = wrong_dead_letters(rubbish, [d for d in reading.dead if d.origin not in known])
    wrong_events = [
        *_wrong_events(
            reading.as_events(ends),
            [(reading.event_partitions.number(*at[:2]), at.offset) for at in reading.transactional],
            load,
            spread,
        ),
        *wrong_transactions(list(reading.transactional.values()), transactions),
    ]
    past = list(wrong_past(reading, began))
    details = [
        *(f"missing: to r{s}, event {p}-{o}" for s, p, o in lost),
        *(f"unexpected: {listed[i]}" for i in compared.unexpected.tolist()),
        *(f"twice: {d}" for d in twice(listed)),
        *(f"out of order: {d}" for d in disorder),
        *(f"dead letters: {text}" for text in dead),
        *(f"written: {text}" for text in wrong_events),
        *(f"past: {text}" for text in past),
    ]
    return Found(
        Answer(**(asdict(compared.answer) | {"missing": len(lost)})),
        len(missing) - len(lost),
        len(disorder),
        len(dead),
        len(wrong_events),
        [text for kind in _by_kind(details) for text in kind[:SHOWN]],
        sum(map(len, reading.past.values())),
        len(past),
    )


def out_of_order(deliveries: Iterable[DeliveryRecord]) -> Iterator[DeliveryRecord]:
    """Yield the deliveries of a subscriber that are out of order in the log; a copy next to the first is in order."""
    last: dict[int, int] = {}
    for d in deliveries:
        if d.offset < last.get(d.partition, 0):
            yield d
        last[d.partition] = max(d.offset, last.get(d.partition, 0))


def twice(deliveries: Iterable[DeliveryRecord]) -> list[DeliveryRecord]:
    seen: set[tuple[int, int, int]] = set()
    again: list[DeliveryRecord] = []
    for d in deliveries:
        if d[:3] in seen:
            again.append(d)
        seen.add(d[:3])
    return again


def wrong_dead_letters(
    rubbish: Mapping[RecordOrigin, tuple[bytes | None, bytes | None]], dead: Sequence[Dead]
) -> list[str]:
    """Each must be there once, by origin, with its key and value, and nothing else."""
    times = Counter(letter.origin for letter in dead)
    found = [f"{at} is there {times[at]} times" for at in rubbish if times[at] != 1]
    for letter in dead:
        if letter.origin not in rubbish:
            found.append(f"{letter.origin} is none, but: {letter.reason}")
        elif rubbish[letter.origin] != (letter.key, letter.value):
            found.append(f"{letter.origin} has other bytes")
    return found


def missing_of(missing: Int64, events: Events) -> Iterator[tuple[int, int, int]]:
    """Yield subscriber, partition and offset of each missing delivery (`ComparedDeliveries.missing`)."""
    for event, subscriber in missing.tolist():
        partition = int(np.searchsorted(events.start, event, side="right")) - 1
        yield subscriber, partition, event - int(events.start[partition])


def wrong_transactions(numbers: Sequence[int], transactions: Outcomes) -> Iterator[str]:
    """Compare the events of transactions: committed ones are there once, aborted ones are not. A delivery of an aborted
    event has no event."""
    times = Counter(numbers)
    for number in sorted(times.keys() | transactions.committed):
        if times[number] != 1:
            yield f"event {number} of the transactions is there {times[number]} times"
        if number in transactions.aborted:
            yield f"event {number} of the transactions was aborted, and is there"


def _wrong_events(
    events: Events, transactional: Iterable[tuple[int, int]], load: Load, spread: Spread
) -> Iterator[str]:
    """Event n of the load is the next of partition n % partitions, of those that there were when it was written. The
    events of transactions are given by partition and offset."""
    partitions = len(events.start) - 1
    of_load = events.symbol >= 0
    start = events.start.tolist()
    for partition, offset in transactional:
        if start[partition] + offset < start[partition + 1]:
            of_load[start[partition] + offset] = False
    own = [events.checksum[a:b][of_load[a:b]] for a, b in pairwise(start)]
    most = max(len(part) for part in own)
    last = max((first for first, _ in spread), default=0)
    written = _written(load).first(last + most * partitions)
    numbers = np.arange(len(written))
    to = numbers % (spread[0][1] if spread else partitions)
    for first, n in spread[1:]:
        to[first:] = numbers[first:] % n
    for p, part in enumerate(own):
        if wrong := np.flatnonzero(part != written[to == p][: len(part)]).tolist():
            yield f"partition {p} has {len(wrong)} other events than were written, the first is its {wrong[0]}th"


class _Written:
    """The checksums of the events of a load, each computed once: a run checks all of them after each fault."""

    def __init__(self, load: Load) -> None:
        self._events = load.events()
        self._checksums = array("I")

    def first(self, n: int) -> NDArray[np.uint32]:
        """[n]"""
        self._checksums.extend(map(crc32, islice(self._events, max(n - len(self._checksums), 0))))
        return np.array(self._checksums[:n], np.uint32)


_written = cache(_Written)


def _by_kind(details: Iterable[str]) -> list[list[str]]:
    kinds: dict[str, list[str]] = {}
    for text in details:
        kinds.setdefault(text.partition(":")[0], []).append(text)
    return list(kinds.values())

"""Search a snapshot for subscriptions and subscribers, by parts of their texts.

The texts of a part lie one behind the other, so a search is one over its bytes: some ten milliseconds per million.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import Int32, Int64
from matchers.index.snapshot import Part, Snapshot
from matchers.index.texts import Texts
from streaming.index import notes
from streaming.index.notes import NEVER

CHUNK_BYTES = 1 << 20  # that are searched while no other thread runs
MOST_LOOKED_AT = 100_000  # texts that contain what is sought


class FoundSubscription(NamedTuple):
    """A subscription in force, paused or expired, and the position of its document."""

    id: str
    subscriber: str
    is_paused: bool
    expires_at_ms: int | None
    partition: int
    offset: int

    def status(self, now_ms: int) -> str:
        if self.is_paused:
            return "paused"
        return "in force" if self.expires_at_ms is None or now_ms < self.expires_at_ms else "expired"


class FoundSubscriptions(NamedTuple):
    found: list[FoundSubscription]
    has_more: bool  # the search ended before it had seen all


class FoundSubscribers(NamedTuple):
    found: list[tuple[str, int]]  # a name, and the number of its subscriptions
    has_more: bool


def subscriptions(snapshot: Snapshot, part_of_id: str, subscriber: str, most: int) -> FoundSubscriptions:
    """Return at most `most` subscriptions: the one with exactly this id, then those whose id contains it. With a
    `subscriber`, only hers are returned."""
    exact = subscription(snapshot, part_of_id)
    found = [exact] if exact is not None and subscriber in ("", exact.subscriber) else []
    looked_at = 0
    for part, removed in _parts(snapshot):
        for position in _positions(part, part_of_id, subscriber):
            looked_at += 1
            if looked_at > MOST_LOOKED_AT or len(found) > most:
                return FoundSubscriptions(found[:most], True)
            if position is not None and not _is_in(removed, position) and part.segment.ids[position] != part_of_id:
                found.append(_described(part, position))
    return FoundSubscriptions(found[:most], len(found) > most)


def subscription(snapshot: Snapshot, id: str) -> FoundSubscription | None:
    """The subscription with this id."""
    place = snapshot.place(id)
    return None if place is None else _described(*place)


def subscribers(snapshot: Snapshot, part_of_name: str, most: int) -> FoundSubscribers:
    """Return at most `most` subscribers whose name contains a string, the one of exactly this name first, each with the
    number of its subscriptions."""
    names = dict.fromkeys([part_of_name] if part_of_name else [])
    has_more = False
    for part, _ in _parts(snapshot):
        distinct = _distinct(notes.subscribers(part.segment))
        some: list[int] = []
        for looked_at, position in enumerate(_containing(distinct, part_of_name)):
            if looked_at == MOST_LOOKED_AT or len(some) > most + len(names):
                has_more = True
                break
            if position is not None:
                some.append(position)
        names |= dict.fromkeys(distinct[position] for position in some)
    counted: list[tuple[str, int]] = []
    for name in names:  # some may have had removed subscriptions only
        if n := count(snapshot, name):
            counted.append((name, n))
        if len(counted) > most:
            break
    return FoundSubscribers(counted[:most], has_more or len(counted) > most)


def count(snapshot: Snapshot, subscriber: str) -> int:
    """The number of a subscriber's subscriptions."""
    return sum(
        int((~_are_in(removed, _equal(notes.subscribers(part.segment), subscriber))).sum())
        for part, removed in _parts(snapshot)
    )


def _parts(snapshot: Snapshot) -> Iterator[tuple[Part, Int32]]:
    """The parts, each with its removed positions."""
    return zip(snapshot.parts, snapshot.removed, strict=True)


def _described(part: Part, position: int) -> FoundSubscription:
    segment = part.segment
    expires_at_ms, partition, offset = (
        int(notes.numbers(segment, name)[position]) for name in ("expires_at_ms", "partition", "offset")
    )
    first, last = np.searchsorted(segment.owner, (position, position + 1))
    return FoundSubscription(
        id=segment.ids[position],
        subscriber=notes.subscribers(segment)[position],
        is_paused=bool(first == last),  # it is in the segment, without any row of the table
        expires_at_ms=None if expires_at_ms == NEVER else expires_at_ms,
        partition=partition,
        offset=offset,
    )


def _positions(part: Part, part_of_id: str, subscriber: str) -> Iterator[int | None]:
    if not subscriber:
        return _containing(part.segment.ids, part_of_id)
    hers = _equal(notes.subscribers(part.segment), subscriber)
    found = _containing(part.segment.ids.take(hers), part_of_id)
    return (None if at is None else int(hers[at]) for at in found)


def _containing(texts: Texts, wanted: str) -> Iterator[int | None]:
    """The positions of the texts that contain another one, ascending; None, for the caller to count, where it begins in
    one text and ends in the next."""
    sought = _bytes(wanted)
    if not sought:
        yield from range(len(texts))
        return
    begin, end = (int(border) for border in texts.start[[0, -1]])
    while begin < end:
        piece, behind = texts.text[begin : min(begin + CHUNK_BYTES + len(sought) - 1, end)].tobytes(), begin
        at = piece.find(sought)
        while at >= 0:
            position = int(np.searchsorted(texts.start, begin + at, side="right")) - 1
            behind = int(texts.start[position + 1])
            yield position if begin + at + len(sought) <= behind else None
            at = piece.find(sought, behind - begin)
        begin = max(begin + CHUNK_BYTES, behind)


def _equal(texts: Texts, wanted: str) -> Int64:
    """The positions of the texts that equal another one, ascending."""
    sought = _bytes(wanted)
    positions: Int64 = np.flatnonzero(np.diff(texts.start) == len(sought))
    for i in reversed(range(len(sought))):  # names differ in their ends, mostly
        positions = positions[texts.text[texts.start[positions] + i] == sought[i]]
    return positions


def _distinct(texts: Texts) -> Texts:
    fresh = Texts(texts.text, texts.start)  # so that the table is not kept
    return texts.take(np.flatnonzero(fresh.last))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_in(removed: Int32, position: int) -> bool:
    return bool(_are_in(removed, np.array([position]))[0])


def _are_in(removed: Int32, positions: Int64) -> NDArray[np.bool_]:
    if not len(removed):
        return np.zeros(len(positions), np.bool_)
    found: NDArray[np.bool_] = removed[np.minimum(np.searchsorted(removed, positions), len(removed) - 1)] == positions
    return found

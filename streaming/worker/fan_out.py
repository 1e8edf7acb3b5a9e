"""Make the deliveries of an event that very many subscriptions match, a slice at a time.

A worker does not list whom such an event is for: with a million subscriptions that would be a million texts twice.
It says where the subscriptions are in the parts of the state, 4 bytes each, and the driver, which has the same parts
mapped, makes the lists of a few thousand subscribers after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import orjson

from matchers.contract.tables import Int32, Int64
from matchers.index.snapshot import Part
from matchers.index.texts import Texts
from streaming.index import notes

FAN_OUT_FROM = 4_096  # matches of one event
SLICE = 10_000  # subscribers

Matches = Sequence[tuple[int, Int32]]  # number of a part -> positions in its segment


def packed(matches: Iterable[tuple[int, Int32]]) -> bytes:
    """Pack as int32: a part, a count, that many positions; then the next part. Packed bytes may be concatenated."""
    return b"".join(
        np.concatenate([np.array([number, len(position)], np.int32), position]).astype(np.int32).tobytes()
        for number, position in matches
    )


def unpacked(matches: bytes) -> Matches:
    numbers = np.frombuffer(matches, np.int32)
    lists, at = [], 0
    while at < len(numbers):
        part, n = numbers[at : at + 2].tolist()
        lists.append((part, numbers[at + 2 : at + 2 + n]))
        at += 2 + n
    return lists


def size(matches: bytes) -> int:
    """The number of subscriptions."""
    return sum(len(position) for _, position in unpacked(matches))


def deliveries(parts: Sequence[Part], matches: bytes, more: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(subscriber, ids as a JSON list), each subscriber once. `more` holds other deliveries of the same event."""
    matched = [(parts[number].segment, position) for number, position in unpacked(matches)]
    subscribers = Texts.joined([notes.subscribers(segment).take(position) for segment, position in matched])
    group, names = _grouped(subscribers)
    order = np.argsort(group, kind="stable")
    begin = np.searchsorted(group[order], np.arange(len(names) + 1))
    ids = Texts.joined([segment.ids.take(position) for segment, position in matched])
    left = dict(more)
    for first in range(0, len(names), SLICE):
        last = min(first + SLICE, len(names))
        matched_ids = ids.at(order[begin[first] : begin[last]])
        ends = (begin[first : last + 1] - begin[first]).tolist()
        for i, name in enumerate(names.at(np.arange(first, last))):
            listed = matched_ids[ends[i] : ends[i + 1]]
            if name in left:
                listed += orjson.loads(left.pop(name))
            yield name, orjson.dumps(sorted(listed)).decode()
    yield from left.items()


def _grouped(texts: Texts) -> tuple[Int64, Texts]:
    """The index of each text among the distinct ones, and the distinct ones."""
    distinct = texts.take(np.flatnonzero(texts.last))
    return distinct.find(texts).astype(np.int64), distinct

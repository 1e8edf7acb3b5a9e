"""Sort the changes of a batch into the order in which they count (change_order)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streaming.documents.change_order import RecordPosition
from streaming.rows import AcceptedChange, CompiledSegment, RejectedChange, Row


class Last(NamedTuple):
    """The last change of an id within a batch."""

    place: RecordPosition
    unsubscribed: bool


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Order the rows of a batch so that the change that counts is the last of each id.

    Each change gets its `segment`, the number of the segment that follows it.
    """
    number = 0
    numbered: list[Row] = []
    last: dict[str, dict[int, AcceptedChange | RejectedChange]] = {}  # by id and partition; a change, if there is one
    for row in rows:
        if isinstance(row, AcceptedChange):
            row = row._replace(segment=number)
        elif isinstance(row, CompiledSegment):
            number += 1
        numbered.append(row)
        if isinstance(row, AcceptedChange | RejectedChange) and row.id:
            words = last.setdefault(row.id, {})
            before = words.get(row.record.partition)
            if not isinstance(before, AcceptedChange) or isinstance(row, AcceptedChange):
                words[row.record.partition] = row
    contested = {id: words for id, words in last.items() if len(words) > 1}
    if not contested:
        return numbered
    of = {(id, p): (word.record.timestamp_ms, p) for id, words in contested.items() for p, word in words.items()}
    others: list[Row] = []
    moved: list[tuple[tuple[int, int], Row]] = []
    for row in numbered:
        at = (
            of.get((row.id, row.record.partition))
            if isinstance(row, AcceptedChange | RejectedChange) and row.id
            else None
        )
        if at is None:
            others.append(row)
        else:
            moved.append((at, row))
    return others + [row for _, row in sorted(moved, key=lambda pair: pair[0])]


def last_changes(rows: Iterable[Row]) -> dict[str, Last]:
    """The last change of each id, by id; the rows are in their order."""
    return {
        row.id: Last((row.record.partition, row.record.offset), row.subscriber is None)
        for row in rows
        if isinstance(row, AcceptedChange)
    }

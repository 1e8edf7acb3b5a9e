"""Carry what the tasks of several shards have matched to the tasks that publish it.

An event has one delivery for a subscriber, and its shards may each have matched some of the subscriber's subscriptions.
So Spark brings the rows of all shards together, sorted by `ORDER`: for each record one row of the first shard, with the
record itself, and behind it those of the shards that match it.

    shard  partition  offset  value      subscribers       ids
    0      0          17      {"x": 1}   [alice, bob]      [a, b]
    2      0          17                 [alice]           [c]
    0      0          18      {"x": 2}   []                []
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchers.contract.tables import Int64, offsets_of
from matchers.index.texts import Texts
from streaming.rows import INPUT, events_and_changes
from streaming.worker.buffers import bytes_of
from streaming.worker.events.matches import MATCHES_AT_ONCE, Matched, Matches

ORDER = ("source", "partition", "offset", "shard")

_TEXTS = pa.list_(pa.binary())
SHIPPED = pa.schema(
    [
        *INPUT,
        ("shard", pa.int32()),
        ("letter", pa.string()),  # why nobody can get the event: the reason and the detail
        ("detail", pa.string()),
        ("subscribers", _TEXTS),  # of the matches
        ("ids", _TEXTS),
        ("attributes", pa.int32()),  # `Matches`
        ("at_once", pa.int32()),
    ]
)
_OF_RECORD = ("key", "value", "headers")


def shipped(rows: pa.RecordBatch, matches: Matches, shard: int) -> Iterator[pa.RecordBatch]:
    """The rows of a shard (SHIPPED)."""
    for begin, end in matches.slices(MATCHES_AT_ONCE):
        some = _shipped(rows[begin:end], matches, begin, shard)
        yield some if shard == 0 else some.filter(pc.greater(pc.list_value_length(some["ids"]), 0))


def _shipped(rows: pa.RecordBatch, matches: Matches, begin: int, shard: int) -> pa.RecordBatch:
    n = len(rows)
    row, subscribers, ids = matches.between(begin, begin + n)
    order = np.argsort(row, kind="stable")
    starts = offsets_of(matches.total[begin : begin + n])
    dead = [matches.dead.get(i, (None, None)) for i in range(begin, begin + n)]
    columns = {name: rows[name] for name in INPUT.names}
    if shard:
        columns |= {name: pa.nulls(n, INPUT.field(name).type) for name in _OF_RECORD}
    columns |= {
        "shard": pa.array(np.full(n, shard, np.int32)),
        "letter": pa.array([letter for letter, _ in dead], pa.string()),
        "detail": pa.array([detail for _, detail in dead], pa.string()),
        "subscribers": _lists(subscribers.take(order), starts),
        "ids": _lists(ids.take(order), starts),
        "attributes": pa.array(matches.attributes[begin : begin + n]),
        "at_once": pa.array(matches.at_once[begin : begin + n]),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SHIPPED.names], schema=SHIPPED)


def united(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Matches]]:
    """Events or changes (INPUT) and what matches them, again and again, from the sorted rows of all shards."""
    held = SHIPPED.empty_table()
    for batch in batches:
        rows = pa.concat_tables([held, pa.Table.from_batches([batch])]).combine_chunks()
        begins = np.flatnonzero(np.asarray(rows["shard"]) == 0)
        cut = int(begins[-1]) if len(begins) else 0  # more rows of the last record may follow
        held = rows[cut:]
        yield from _of_kinds(rows[:cut])
    yield from _of_kinds(held)


def _of_kinds(rows: pa.Table) -> Iterator[tuple[pa.RecordBatch, Matches]]:
    for batch in rows.to_batches():
        for records, matches in map(_united, events_and_changes(batch)):
            if len(records):
                yield records, matches


def _united(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Matches]:
    rows = _of_the_first(rows)
    is_first = np.asarray(rows["shard"]) == 0
    of = np.cumsum(is_first) - 1
    counts = np.asarray(pc.list_value_length(rows["ids"]))
    subscribers, ids = _texts(rows["subscribers"]), _texts(rows["ids"])
    matched = Matched(np.repeat(of, counts), np.arange(len(ids)), subscribers, ids)
    first = rows.filter(pa.array(is_first))
    letters = zip(first["letter"].to_pylist(), first["detail"].to_pylist(), strict=True)
    dead = {row: (letter, detail) for row, (letter, detail) in enumerate(letters) if letter is not None}
    attributes, at_once = np.asarray(first["attributes"]), np.asarray(first["at_once"])
    return first.select(INPUT.names), Matches.of(dead, [matched], attributes, at_once)


def _of_the_first(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out the matches of records that the first shard has not read: the broker deleted them meanwhile."""
    first = np.flatnonzero(np.asarray(rows["shard"]) == 0)
    before = np.searchsorted(first, np.arange(len(rows)), side="right") - 1
    places = np.column_stack([np.asarray(rows[name]).astype(np.int64) for name in ORDER[:-1]])
    is_there = before >= 0
    is_there[is_there] = (places[is_there] == places[first[before[is_there]]]).all(axis=1)
    return rows if is_there.all() else rows.filter(pa.array(is_there))


def _lists(texts: Texts, starts: Int64) -> pa.ListArray:
    buffers = [None, pa.py_buffer(texts.start.astype(np.int32)), pa.py_buffer(texts.text)]
    flat = pa.Array.from_buffers(pa.binary(), len(texts), buffers)
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), flat)


def _texts(lists: pa.ListArray) -> Texts:
    texts = lists.flatten()
    if not len(texts):
        return Texts.of(())
    text, begin, end = bytes_of(texts)
    return Texts(text, np.append(begin, end[-1:]))

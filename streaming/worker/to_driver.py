"""Make the rows that take matched events to the driver, where it has to decide about their deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import orjson
import pyarrow as pa

from matchers.contract.tables import Int32
from matchers.index.snapshot import Part
from streaming.index import notes
from streaming.rows import OUTPUT, Kind
from streaming.worker import fan_out
from streaming.worker.matches import Matches


def rows_of(rows: pa.RecordBatch, matches: Matches, parts: Sequence[Part], shard: int, shards: int) -> pa.RecordBatch:
    """DELIVERY and DEAD_LETTER rows, made of the input's columns. No row becomes a Python object."""
    matched, total = matches.parts, matches.total
    many = np.flatnonzero(total >= fan_out.FAN_OUT_FROM).tolist()
    many_matches = [_where(matched, event, shard, shards) for event in many]
    events, subscribers, ids = [np.empty(0, np.int32)], list[str](), list[str]()
    for part, (event, position) in zip(parts, matched, strict=True):
        if many:
            few = total[event] < fan_out.FAN_OUT_FROM
            event, position = event[few], position[few]
        events.append(event)
        subscribers += notes.subscribers(part.segment).at(position)
        ids += part.segment.ids.at(position)
    letters = sorted(matches.dead)
    delivered, to, lists = _grouped(np.concatenate(events), subscribers, ids)
    rest = [None] * (len(delivered) + len(many))
    n = len(letters) + len(rest)
    added = {
        "kind": pa.array(np.repeat([Kind.DEAD_LETTER, Kind.DELIVERY], [len(letters), len(rest)]), pa.int32()),
        "reason": pa.array([matches.dead[e][1] for e in letters] + rest, pa.string()),
        "letter": pa.array([matches.dead[e][0] for e in letters] + rest, pa.string()),
        "subscribers": _after(len(letters), to, len(many)),
        "subscriptions": _after(len(letters), lists, len(many)),
        "count": pa.array([None] * len(letters) + total[delivered + many].tolist(), pa.int64()),
        "matches": pa.array([None] * (len(letters) + len(delivered)) + many_matches, pa.binary()),
    }
    left = rows.take(pa.array(letters + delivered + many, pa.int64()))
    return pa.RecordBatch.from_arrays(
        [added.get(f.name, left[f.name] if f.name in left.schema.names else pa.nulls(n, f.type)) for f in OUTPUT],
        schema=OUTPUT,
    )


def _where(matched: Sequence[tuple[Int32, Int32]], event: int, shard: int, shards: int) -> bytes:
    """The matches of one event, for `fan_out`. Parts are numbered as in the whole state."""
    places = []
    for part, (of, position) in enumerate(matched):
        first, last = np.searchsorted(of, (event, event + 1))
        if first < last:
            places.append((shard + part * shards, position[first:last]))
    return fan_out.packed(places)


def _grouped(
    event: Int32, subscribers: Sequence[str], ids: Sequence[str]
) -> tuple[list[int], list[list[str]], list[list[str]]]:
    """Group matches by event: the events that have any, ascending; their subscribers; and the ids for each (JSON)."""
    delivered: list[int] = []
    to: list[list[str]] = []
    lists: list[list[str]] = []
    order = np.argsort(event, kind="stable").tolist()
    begins = np.flatnonzero(np.diff(event[order], prepend=-1)).tolist()
    for begin, end in pairwise([*begins, len(order)]):
        by_subscriber: dict[str, list[str]] = {}
        for i in order[begin:end]:
            by_subscriber.setdefault(subscribers[i], []).append(ids[i])
        delivered.append(int(event[order[begin]]))
        to.append(list(by_subscriber))
        lists.append([orjson.dumps(sorted(of_subscriber)).decode() for of_subscriber in by_subscriber.values()])
    return delivered, to, lists


def _after(nothing: int, lists: Sequence[Sequence[str]], empty: int) -> pa.ListArray:
    """The lists as a column, after `nothing` nulls and before `empty` empty lists."""
    ends = np.cumsum([0] * (nothing + 1) + [len(texts) for texts in lists] + [0] * empty, dtype=np.int32)
    flat = pa.array([text for texts in lists for text in texts], pa.string())
    mask = pa.array(np.arange(len(ends) - 1) < nothing)
    return pa.ListArray.from_arrays(pa.array(ends), flat, mask=mask)

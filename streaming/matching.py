"""What a worker does: rows of both topics in, what became of them out.

Runs inside Spark's Python workers (`mapInArrow`). It knows nothing of Kafka but the columns of a record, so tests call
it with Arrow batches of their own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from matchers.segment import Segment
from matchers.snapshot import Part
from matchers.tables import Int32
from streaming.codecs import Decode, RegistrySettings, Undecodable, open_codec
from streaming.subscriptions import Refused, Subscription, read_change

EVENTS, SUBSCRIPTIONS = 0, 1  # `source`: which topic a row came from

# `kind`: what an output row says
DELIVER = 0  # an event that matched: `subscribers` get it, each for its `subscriptions` (ids as a JSON list)
DEAD = 1  # a row of the events topic that is no event: `reason`
CHANGE = 2  # a change that was accepted: `subscriptions` = [id], `subscribers` = [subscriber], or [] for a withdrawal
REFUSED = 3  # a change that was refused: `reason`, `subscriptions` = [id] where it is known
SEGMENT = 4  # the compiled subscriptions of the CHANGE rows since the last SEGMENT row: `value`
PROGRESS = 5  # `rows` rows of (source, partition) were seen, the last at `offset`

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
INPUT = pa.schema(
    [
        ("source", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),  # ms since the epoch
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
OUTPUT = pa.schema(
    [
        ("kind", pa.int32()),
        *INPUT,
        ("reason", pa.string()),
        ("subscribers", pa.list_(pa.string())),
        ("subscriptions", pa.list_(pa.string())),
        ("rows", pa.int64()),
    ]
)

Position = tuple[int, int]  # (source, partition)


@dataclass(frozen=True)
class Work:
    """What the workers need for one batch. `parts` are handles, opened once per worker process and kept there."""

    parts: tuple[tuple[Callable[[], Part[Subscription]], Int32], ...]
    positions: Mapping[Position, int]  # rows below these were committed already and are dropped
    codec: str = "json"  # how events are written
    registry: RegistrySettings | None = None  # for the codecs whose schemas are in one

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [(handle(), removed) for handle, removed in self.parts]
        decode = open_codec(self.codec, self.registry)
        for batch in batches:
            rows = [row for row in batch.to_pylist() if row["offset"] >= self.positions.get(_position(row), 0)]
            out = [
                *_match([row for row in rows if row["source"] == EVENTS], parts, decode),
                *_compile([row for row in rows if row["source"] == SUBSCRIPTIONS]),
                *_progress(rows),
            ]
            yield pa.RecordBatch.from_pylist(out, schema=OUTPUT)


def _match(
    rows: Sequence[dict[str, Any]], parts: Sequence[tuple[Part[Subscription], Int32]], decode: Decode
) -> Iterator[dict[str, Any]]:
    events, decoded = [], []
    for row in rows:
        try:
            events.append(decode(row["value"], {h["key"]: h["value"] or b"" for h in row["headers"] or ()}))
            decoded.append(row)
        except Undecodable as error:
            yield row | {"kind": DEAD, "reason": str(error)}
    deliveries: list[dict[str, list[str]]] = [{} for _ in events]  # ids by subscriber, of each event
    for part, removed in parts:
        ids = part.segment.ids
        for event, position in zip(*(a.tolist() for a in part.match(events, removed)), strict=True):
            subscription = ids[position]
            if subscription.in_force(decoded[event]["timestamp"]):
                deliveries[event].setdefault(subscription.subscriber, []).append(subscription.id)
    for row, matched in zip(decoded, deliveries, strict=True):
        if matched:
            yield row | {
                "kind": DELIVER,
                "subscribers": list(matched),
                "subscriptions": [orjson.dumps(sorted(ids)).decode() for ids in matched.values()],
            }


def _compile(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    latest = {}
    for row in rows:
        try:
            change = read_change(row["key"], row["value"])
        except Refused as error:
            yield row | {"kind": REFUSED, "reason": str(error), "subscriptions": [error.id] if error.id else []}
            continue
        subscription = change.subscription
        latest.pop(subscription, None)  # so that the newer one's subscriber counts, not only its pattern
        if change.conjunctions is not None:
            latest[subscription] = change.conjunctions
        yield row | {
            "kind": CHANGE,
            "subscriptions": [subscription.id],
            "subscribers": [subscription.subscriber] if change.conjunctions is not None else [],
        }
    if rows:
        segment = pickle.dumps(Segment.build(latest.items()), pickle.HIGHEST_PROTOCOL)
        yield {"kind": SEGMENT, "source": SUBSCRIPTIONS, "value": segment}


def _progress(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    last: dict[Position, int] = {}
    count: dict[Position, int] = {}
    for row in rows:
        last[_position(row)] = row["offset"]
        count[_position(row)] = count.get(_position(row), 0) + 1
    for (source, partition), offset in last.items():
        at = {"source": source, "partition": partition, "offset": offset}
        yield {"kind": PROGRESS, **at, "rows": count[source, partition]}


def _position(row: dict[str, Any]) -> Position:
    return row["source"], row["partition"]

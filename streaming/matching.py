"""What a worker does: rows of both topics in, what became of them out.

Runs inside Spark's Python workers (`mapInArrow`). It knows nothing of Kafka but the columns of a record, so tests call
it with Arrow batches of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from matchers.snapshot import Part, Reading
from matchers.tables import Int32
from streaming import packing
from streaming.codecs import Decode, RegistrySettings, open_codec
from streaming.compiling import Paused, Withdrawn, compile_changes
from streaming.parts import Handle, opened
from streaming.reading import read_events
from streaming.subscriptions import Refused

EVENTS, SUBSCRIPTIONS = 0, 1  # `source`: which topic a row came from

# `kind`: what an output row says
DELIVER = 0  # an event that matched: `subscribers` get it, each for its `subscriptions` (ids as a JSON list)
DEAD = 1  # a row of the events topic that is no event: `reason`
CHANGE = 2  # a change that was accepted: `subscriptions` = [id], `subscribers` = [subscriber], or [] for a withdrawal;
# `reason` = PAUSED for one that is to match nothing
REFUSED = 3  # a change that was refused: `reason`, `subscriptions` = [id] where it is known
SEGMENT = 4  # the compiled subscriptions of the CHANGE rows since the last SEGMENT row: `value`
PROGRESS = 5  # `rows` rows of (source, partition) were seen, the last at `offset`, the oldest of `timestamp`

PAUSED = "paused"

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
    """What the workers need for one batch, or for one shard of it. The first shard does what is not matching."""

    parts: tuple[tuple[Handle, Int32], ...]  # with the removed positions of each
    positions: Mapping[Position, int]  # rows below these were committed already and are dropped
    codec: str = "json"  # how events are written
    registry: RegistrySettings | None = None  # for the codecs whose schemas are in one
    false_positives: float = 0.0  # `Part.match`
    shard: int = 0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts, reading = opened(tuple(handle for handle, _ in self.parts), self.shard)
        removed = [gone for _, gone in self.parts]
        decode = open_codec(self.codec, self.registry)
        for batch in batches:
            batch = batch.filter(self._fresh(batch))
            is_event = pc.equal(batch["source"], EVENTS)
            events, changes = batch.filter(is_event), batch.filter(pc.invert(is_event))
            found = self._match(events, parts, removed, reading, decode)
            if self.shard:
                yield found.filter(pc.equal(found["kind"], DELIVER))
                continue
            yield found
            yield pa.RecordBatch.from_pylist([*_compile(changes), *_progress(batch)], schema=OUTPUT)

    def _fresh(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows were not committed before."""
        at = zip(batch["source"].to_pylist(), batch["partition"].to_pylist(), strict=True)
        begin = np.array([self.positions.get(position, 0) for position in at], np.int64)
        return pa.array(np.asarray(batch["offset"]) >= begin)

    def _match(
        self, rows: pa.RecordBatch, parts: Sequence[Part], removed: Sequence[Int32], asked: Reading, decode: Decode
    ) -> pa.RecordBatch:
        """DEAD and DELIVER rows, made of the input's columns: no row becomes a Python object."""
        reading = read_events(rows, asked.fields, decode)
        timestamps = np.asarray(rows["timestamp"])
        spoiled = np.zeros(len(rows), bool)
        spoiled[list(reading.undecodable)] = True
        deliveries: dict[int, dict[str, list[str]]] = {}  # ids by subscriber, of each event
        for part, gone, encoder in zip(parts, removed, asked.encoders, strict=True):
            segment = part.segment
            event, position = part.match(reading.values, encoder, reading.document, gone, self.false_positives)
            counts = (timestamps[event] < segment.notes["expires_at_ms"][position]) & ~spoiled[event]
            event, position = event[counts], position[counts]
            subscribers = segment.notes["subscriber"].at(position)
            for e, subscriber, id in zip(event.tolist(), subscribers, segment.ids.at(position), strict=True):
                deliveries.setdefault(e, {}).setdefault(subscriber, []).append(id)
        dead, delivered = sorted(reading.undecodable), sorted(deliveries)
        matched = [deliveries[event] for event in delivered]
        nothing = [None] * len(dead)
        added = {
            "kind": [DEAD] * len(dead) + [DELIVER] * len(delivered),
            "reason": [reading.undecodable[event] for event in dead] + [None] * len(delivered),
            "subscribers": nothing + [list(m) for m in matched],
            "subscriptions": nothing + [[orjson.dumps(sorted(ids)).decode() for ids in m.values()] for m in matched],
            "rows": nothing + [None] * len(delivered),
        }
        left = rows.take(pa.array(dead + delivered, pa.int64()))
        columns = [pa.array(added[f.name], f.type) if f.name in added else left[f.name] for f in OUTPUT]
        return pa.RecordBatch.from_arrays(columns, schema=OUTPUT)


def _compile(changes: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    if not len(changes):
        return
    compiled = compile_changes(changes["key"].to_pylist(), changes["value"])
    for row, outcome in zip(changes.to_pylist(), compiled.outcomes, strict=True):
        if isinstance(outcome, Refused):
            yield row | {"kind": REFUSED, "reason": str(outcome), "subscriptions": [outcome.id] if outcome.id else []}
        else:
            subscribers = [] if isinstance(outcome, Withdrawn) else [outcome.subscriber]
            reason = PAUSED if isinstance(outcome, Paused) else None
            yield row | {"kind": CHANGE, "subscriptions": [outcome.id], "subscribers": subscribers, "reason": reason}
    yield {"kind": SEGMENT, "source": SUBSCRIPTIONS, "value": packing.as_bytes(compiled.segment)}


def _progress(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    last: dict[Position, int] = {}
    oldest: dict[Position, int] = {}
    count: dict[Position, int] = {}
    for source, partition, offset, timestamp in zip(
        *(rows[name].to_pylist() for name in ("source", "partition", "offset", "timestamp")), strict=True
    ):
        last[source, partition] = offset
        oldest[source, partition] = min(timestamp, oldest.get((source, partition), timestamp))
        count[source, partition] = count.get((source, partition), 0) + 1
    for (source, partition), offset in last.items():
        at = {"source": source, "partition": partition, "offset": offset, "timestamp": oldest[source, partition]}
        yield {"kind": PROGRESS, **at, "rows": count[source, partition]}

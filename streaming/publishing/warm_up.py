"""Run each kernel of this package once, so that all are compiled and cached before the first batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from matchers.index.texts import Texts
from streaming.documents.records import Record
from streaming.publishing.contract import ProducerEpoch
from streaming.publishing.encode import produce
from streaming.publishing.encode.columns import event_columns
from streaming.publishing.encode.grouping import group
from streaming.publishing.encode.headers import event_headers
from streaming.publishing.encode.interner import Interner
from streaming.publishing.encode.record_batches import Format, encode, events_keys, of_records, sizes, subscribers_keys
from streaming.rows import INPUT

_ROW = {"source": 0, "partition": 0, "offset": 0, "timestamp": 0, "value": b"", "headers": [("name", None)]}


def compile() -> None:
    events = event_columns(pa.RecordBatch.from_pylist([_ROW, _ROW], schema=INPUT))
    interner = Interner()
    names = Texts.of(map(str, range(200)))  # so many that the table grows
    numbers = interner.numbers(names)
    ids = Texts.of(['"', "b", "a"])
    deliveries = group(np.array([1, 0, 0]), numbers[[0, 1, 1]], ids, 2)
    headers = event_headers(events, deliveries.event, "events", version=1)
    form = Format(ProducerEpoch(0, 0), np.zeros(1, np.int64), np.full(1, 1_000_000), 0)
    everywhere, chosen = np.zeros(len(deliveries.event), np.int64), np.arange(len(deliveries.event))
    for keys in (events_keys(events, deliveries), subscribers_keys(interner.names, deliveries)):
        sizes(events, headers, deliveries, keys)
        batches = encode(events, headers, deliveries, keys, everywhere, chosen, form)
    of_records([Record("", None, None, [])], [0], form)
    destinations = produce.Destinations.of(Texts.of(["topic"]), np.zeros(1, np.int64), np.zeros(1, np.int64))
    produce.body("", 0, batches, np.zeros(1, np.int64), destinations)

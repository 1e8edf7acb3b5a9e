"""Match the events of an Arrow batch against all parts of the state: nothing becomes a Python object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchers.contract.tables import Int32, Int64
from matchers.index.snapshot import FieldPlan, Part
from streaming.codecs import Decode
from streaming.documents import records
from streaming.index import notes
from streaming.index.notes import NEVER
from streaming.worker.reading import read_events


class Matches(NamedTuple):
    """Which subscriptions match which rows."""

    dead: Mapping[int, tuple[str, str]]  # row -> reason and detail, of an event that nobody can get
    parts: Sequence[tuple[Int32, Int32]]  # of each part: rows, ascending, and positions in its segment
    total: Int64  # [rows]: the number of subscriptions


@dataclass(frozen=True)
class Matching:
    """What events are matched against: the parts of the state, or of one shard, and how events are read."""

    parts: Sequence[Part]
    removed: Sequence[Int32]  # positions of each part
    plan: FieldPlan
    decode: Decode
    false_positives: float
    max_event_bytes: int

    def __call__(self, rows: pa.RecordBatch) -> Matches:
        length = pc.fill_null(pc.binary_length(rows["value"]), 0)
        oversize = np.flatnonzero(np.asarray(length) > self.max_event_bytes).tolist()
        if oversize:
            fits = pc.less_equal(length, self.max_event_bytes)
            held = rows.set_column(
                rows.schema.get_field_index("value"), "value", pc.if_else(fits, rows["value"], b"{}")
            )
        else:
            held = rows
        reading = read_events(held, self.plan.fields, self.decode)
        dead = {row: (records.UNDECODABLE_EVENT, reason) for row, reason in reading.undecodable.items()}
        for row in oversize:
            detail = f"{length[row].as_py()} bytes; events.max_bytes is {self.max_event_bytes}"
            dead[row] = records.OVERSIZE_EVENT, detail
        timestamps = np.asarray(rows["timestamp"])
        spoiled = np.zeros(len(rows), bool)
        spoiled[list(dead)] = True
        matched, total = [], np.zeros(len(rows), np.int64)
        for part, gone, encoder in zip(self.parts, self.removed, self.plan.encoders, strict=True):
            event, position = part.match(reading.values, encoder, reading.document, gone, self.false_positives)
            ends = notes.numbers(part.segment, "expires_at_ms")[position]
            # A timestamp can be as large as NEVER.
            counts = ((timestamps[event] < ends) | (ends == NEVER)) & ~spoiled[event]
            matched.append((event[counts], position[counts]))
            total += np.bincount(event[counts], minlength=len(rows))
        return Matches(dead, matched, total)

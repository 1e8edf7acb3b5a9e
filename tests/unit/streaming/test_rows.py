"""The driver's objects, made from the columns that workers send."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.latencies import by_stage
from streaming.rows import (
    EVENTS,
    OUTPUT,
    PACKED,
    PAUSED,
    SUBSCRIPTIONS,
    AcceptedChange,
    CommitTimes,
    CompiledSegment,
    ConsumerRecord,
    DeadLetter,
    DeliveryCounts,
    MisreadTimes,
    Published,
    ReadProgress,
    RejectedChange,
    Row,
    RowKind,
    unpacked,
)

HEADERS = [("a", b"1"), ("a", None), ("é", b"")]
RECORD = ConsumerRecord(3, 17, 1_000, b"k", b"v", HEADERS)
BARE = ConsumerRecord(0, 0, -1)
AT = {"partition": 3, "offset": 17, "timestamp": 1_000, "key": b"k", "value": b"v"}
AT |= {"headers": [{"key": name, "value": value} for name, value in HEADERS]}
PUBLISHED = Published(
    deliveries=2,
    errors=Counter({"Produce NOT_LEADER_FOR_PARTITION": 1}),
    latencies=by_stage([1_000, 2_000], 3.0, (3.5, 4.0, 4.5)),
    transactions=[CommitTimes(3.5, 4.0, 4.5)],
    trace_contexts=[{"traceparent": "00-1-2-01"}],
)
COUNTS = np.array([2, 1 << 40])
NOTHING = {"partition": 0, "offset": 0, "timestamp": -1}

# (as a worker sends it, as the driver has it)
ROWS: list[tuple[dict[str, Any], Row]] = [
    ({"kind": RowKind.CHANGE, **AT, "subscriptions": ["s"], "subscribers": ["x"]}, AcceptedChange(RECORD, "s", "x")),
    ({"kind": RowKind.CHANGE, **NOTHING, "subscriptions": ["s"], "subscribers": []}, AcceptedChange(BARE, "s", None)),
    (
        {"kind": RowKind.CHANGE, **AT, "subscriptions": ["s"], "subscribers": ["x"], "reason": PAUSED},
        AcceptedChange(RECORD, "s", "x", paused=True),
    ),
    ({"kind": RowKind.REJECTION, **AT, "subscriptions": ["s"], "reason": "why"}, RejectedChange(RECORD, "s", "why")),
    ({"kind": RowKind.REJECTION, **AT, "subscriptions": [], "reason": "why"}, RejectedChange(RECORD, None, "why")),
    ({"kind": RowKind.SEGMENT, "source": SUBSCRIPTIONS, "value": b"segment"}, CompiledSegment(b"segment")),
    (
        {"kind": RowKind.PROGRESS, "source": EVENTS, "partition": 1, "offset": 9, "count": 2, "bytes": 5},
        ReadProgress(EVENTS, 1, 9, records=2, size_bytes=5, timestamp_ms=None),
    ),
    ({"kind": RowKind.MISREAD}, MisreadTimes()),
    ({"kind": RowKind.PUBLISHED, "value": PUBLISHED.to_json()}, PUBLISHED),
    (
        {
            "kind": RowKind.DELIVERY_COUNTS,
            "source": EVENTS,
            "partition": 1,
            "timestamp": 7,
            "subscribers": ["x", "é"],
            "counts": COUNTS.tobytes(),
        },
        DeliveryCounts(EVENTS, 1, 7, ["x", "é"], COUNTS),
    ),
]


def sent(*batches: list[dict[str, Any]]) -> pa.Table:
    values = []
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, OUTPUT) as stream:
            stream.write_batch(pa.RecordBatch.from_pylist(batch, schema=OUTPUT))
        values.append(sink.getvalue().to_pybytes())
    return pa.table({"rows": values}, schema=PACKED)


@pytest.mark.parametrize(("row", "expected"), ROWS, ids=[f"{row['kind'].name}-{i}" for i, (row, _) in enumerate(ROWS)])
def test_each_kind_of_row_is_an_object_of_its_class(row: dict[str, Any], expected: Row) -> None:
    (made,) = unpacked(sent([row]))
    assert type(made) is type(expected)
    assert _plain(made) == _plain(expected)


@given(st.lists(st.lists(st.sampled_from(ROWS), max_size=8), max_size=3))
def test_rows_of_all_kinds_come_in_the_order_in_which_they_were_sent(
    batches: list[list[tuple[dict[str, Any], Row]]],
) -> None:
    made = unpacked(sent(*([row for row, _ in batch] for batch in batches)))
    expected = [row for batch in batches for _, row in batch]
    assert [type(row) for row in made] == [type(row) for row in expected]
    assert [_plain(row) for row in made] == [_plain(row) for row in expected]


def _plain(row: Row) -> dict[str, Any]:
    """Return its fields, with the headers as a tuple."""
    if isinstance(row, Published):
        return asdict(row)
    fields = row._asdict()
    if isinstance(row, DeliveryCounts):
        return fields | {"counts": row.counts.tolist()}
    if isinstance(row, CompiledSegment | ReadProgress | MisreadTimes):
        return fields
    assert isinstance(row, DeadLetter | AcceptedChange | RejectedChange)
    return fields | {"record": row.record._replace(headers=tuple(row.record.headers))}

"""Fields beside the value: all rows at once give what one row after the other gives, and patterns meet them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers.index.fields import Fields
from matchers.index.values import Values, read_documents
from streaming.codecs import decode_event
from streaming.rows import EVENTS, INPUT
from streaming.worker.events import record_fields
from streaming.worker.events.reading import read_events
from streaming.worker.events.record_fields import TEXT
from tests.support.doubles.stage import apply as applied
from tests.support.doubles.stage import change, delivered, event, state

PATHS = [("$key",), ("$headers", "a"), ("$headers", "é"), ("$headers",), ("$timestamp",)]
PATHS += [("$topic",), ("$partition",), ("$key", "x"), ("x",), ("$other",)]

texts = st.none() | st.sampled_from([b"", b"k", "é".encode(), b"\xff", b"\xed\xa0\x80", b"a\x00"])
headers = st.none() | st.lists(st.tuples(st.sampled_from(["a", "é", "c"]), texts), max_size=4)
records = st.tuples(st.integers(0, 3), st.sampled_from([-1, 0, 1_700_000_000_000, -(2**63), 2**62]), texts, headers)


def batch(rows: list[Any], values: Sequence[bytes] = ()) -> pa.RecordBatch:
    names = ("source", "partition", "offset", "timestamp", "key", "value", "headers")
    columns = [
        [EVENTS] * len(rows),
        [partition for partition, *_ in rows],
        range(len(rows)),
        [timestamp for _, timestamp, *_ in rows],
        [key for _, _, key, _ in rows],
        [*values] or [b"{}"] * len(rows),
        [None if own is None else [{"key": k, "value": v} for k, v in own] for *_, own in rows],
    ]
    arrays = [pa.array(column, INPUT.field(name).type) for name, column in zip(names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def held(values: Values, row: int) -> list[Any]:
    span = range(values.offsets[row], values.offsets[row + 1])
    text = [
        values.text[values.start[v] : values.start[v] + values.length[v]].tobytes() if values.kind[v] == TEXT else b""
        for v in span
    ]
    columns = (values.path, values.kind, values.number)
    return sorted(zip(*(column[list(span)].tolist() for column in columns), text, strict=True))


@given(
    st.lists(records, min_size=1, max_size=6),
    st.lists(st.sampled_from(PATHS), min_size=1, unique=True),
    st.integers(0, 2),
)
def test_all_rows_at_once_have_what_each_has(rows: list[Any], paths: list[tuple[str, ...]], skipped: int) -> None:
    given_rows = batch([*rows[:1] * skipped, *rows])[skipped:]  # a slice has offsets of its own
    fields = Fields.of(paths)
    together = record_fields.values(given_rows, fields, "events")
    for row in range(len(rows)):
        alone = read_documents([record_fields.document(given_rows, row, "events")], fields)
        assert held(together, row) == held(alone, 0)
        assert together.several[row] == alone.several[0]


def test_the_fields_of_a_record_hide_those_of_its_value() -> None:
    values = [b'{"x": 1, "$key": "own", "$timestamp": 5}', b'{"$key": ["own", "other"]}', b"{not json"]
    rows = batch([(0, -1, b"k", None), (1, 7, None, None), (2, 7, b"k", None)], values)
    fields = Fields.of([("x",), ("$key",), ("$timestamp",)])
    reading = read_events(rows, fields, decode_event, "events")
    assert held(reading.values, 0) == [(0, 5, 0.0, b"k"), (2, 4, 1.0, b"")]
    assert held(reading.values, 1) == [(0, 1, 0.0, b""), (1, 4, 7.0, b"")]
    assert reading.document(0) == {"x": 1, "$key": "k", "$headers": {}, "$topic": "events", "$partition": 0}
    assert [*reading.undecodable] == [2]
    assert reading.document(2) == {}
    assert record_fields.are_beside(fields).tolist() == [True, True, False]
    unnamed = read_events(rows, Fields.of([("x",)]), decode_event, "events")
    assert unnamed.document(0)["$key"] == "own"


@pytest.mark.parametrize(
    ("pattern", "offsets"),
    [
        ({"$key": ["k"]}, [0, 2]),
        ({"$key": [None]}, [1]),
        ({"$key": [{"prefix": "k"}], "x": [1]}, [0]),
        ({"$headers": {"type": ["order"]}}, [0, 1]),
        ({"$headers": {"type": [{"contains-all": ["order", "late"]}]}}, [1]),
        ({"$headers": {"type": [{"exists": False}]}}, [2]),
        ({"$timestamp": [{"time": {"milliseconds": [">=", "1970-01-01T00:00:01Z"]}}]}, [0, 1, 2]),
        ({"$topic": ["events"], "$partition": [0]}, [0, 1, 2]),
        ({"$topic": ["others"]}, []),
        ({"$headers": {"type": {"x": [{"exists": False}]}}}, [0, 1, 2]),
        ({"$not": {"$key": ["k"]}}, [1]),
        ({"$key": [{"compare-field": ["=", "name"]}]}, [2]),
    ],
)
def test_a_pattern_names_them_like_other_fields(pattern: dict[str, Any], offsets: list[int]) -> None:
    one = state()
    applied(one, [change(0, "s", {"subscriber": "alice", "pattern": pattern})])
    of_type = [{"key": "type", "value": b"order"}]
    rows = [
        {**event(0, {"x": 1}, headers=of_type), "key": b"k"},
        {**event(1, {"x": 2}, headers=[*of_type, {"key": "type", "value": b"late"}]), "key": None},
        {**event(2, {"x": 2, "name": "k"}), "key": b"k"},
    ]
    assert sorted(delivered(one, *rows)) == offsets

"""Limits, codecs and warm-up of record batches; tests/property/test_record_batches.py reads what is in them."""

from __future__ import annotations

import importlib
import pkgutil
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchers.contract.tables import Int32, Int64
from matchers.index.texts import Texts
from streaming import publishing
from streaming.documents.records import Record
from streaming.publishing import warm_up
from streaming.publishing.contract import ProducerEpoch, RecordBatches
from streaming.publishing.encode import produce
from streaming.publishing.encode.columns import event_columns
from streaming.publishing.encode.grouping import group
from streaming.publishing.encode.headers import event_headers
from streaming.publishing.encode.record_batches import Format, encode, events_keys, of_records, sizes, subscribers_keys
from streaming.rows import INPUT

pytestmark = pytest.mark.kernels

HEAD = 61
INDEPENDENT_BLOCKS = 0x20  # flag in the fifth byte of a frame of lz4


def form(compression: str = "none", most: int = 1_000_000) -> Format:
    return Format(ProducerEpoch(1, 0), np.zeros(1, np.int64), np.full(1, most), 0, compression)


def of_deliveries(n: int, form: Format, value: bytes = b"") -> RecordBatches:
    """Record batches of n deliveries with one destination."""
    row = {"source": 0, "partition": 0, "offset": 0, "timestamp": 0, "value": value}
    events = event_columns(pa.RecordBatch.from_pylist([row], schema=INPUT))
    deliveries = group(np.zeros(n, np.int64), np.arange(n), Texts.of(["id"] * n), 1)
    headers = event_headers(events, deliveries.event, "events", version=1)
    keys = events_keys(events, deliveries)
    return encode(events, headers, deliveries, keys, np.zeros(n, np.int64), np.arange(n), form)


def of_letters(n: int, form: Format, value: bytes = b"") -> RecordBatches:
    return of_records([Record("dead", None, value, [])] * n, [0] * n, form)


WAYS = {"deliveries": of_deliveries, "records": of_letters}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n", [2, 65, 200])  # the 65th and later offsets have two bytes
def test_a_batch_may_have_just_so_many_bytes(way: str, n: int) -> None:
    size = len(WAYS[way](n, form()).data)
    assert WAYS[way](n, form(most=size)).records.tolist() == [n]
    assert WAYS[way](n, form(most=size - 1)).records.tolist() == [n - 1, 1]


@pytest.mark.parametrize("way", WAYS)
def test_a_record_that_is_too_large_is_a_batch_of_its_own(way: str) -> None:
    assert WAYS[way](3, form(most=1)).records.tolist() == [1, 1, 1]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_no_batch(way: str) -> None:
    for compression in ("none", "lz4"):
        batches = WAYS[way](0, form(compression))
        assert [len(column) for column in batches] == [0] * 5


def codec(batches: RecordBatches) -> int:
    """Return the codec of the first batch."""
    return int(batches.data[22] & 7)


@pytest.mark.parametrize("way", WAYS)
def test_lz4_links_no_blocks(way: str) -> None:
    batches = WAYS[way](2, form("lz4"), bytes(200_000))
    assert codec(batches) == 3
    assert batches.data[HEAD + 4] & INDEPENDENT_BLOCKS
    assert len(batches.data) < 5_000


@pytest.mark.parametrize("compression", ["gzip", "lz4", "zstd"])
def test_a_batch_that_would_grow_is_not_compressed(compression: str) -> None:
    noise = Random(1).randbytes(1_000)
    assert codec(of_letters(1, form(compression), noise)) == 0
    assert codec(of_letters(2, form(compression), noise)) != 0


def test_a_warm_worker_compiles_nothing_more() -> None:
    warm_up.compile()
    before = compiled()
    row = {"source": 0, "partition": 1, "offset": 2, "timestamp": 3, "key": None, "headers": [("a", b"b")]}
    whole = pa.RecordBatch.from_pylist([row, row | {"key": b"k", "headers": None}, row], schema=INPUT)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, INPUT) as stream:
        stream.write_batch(whole)
    (read,) = pa.ipc.open_stream(sink.getvalue())
    for rows in (whole, whole.slice(1), whole.slice(3), read):
        events = event_columns(rows)
        n = len(events.offset)
        indexes: tuple[Int32 | Int64, ...] = (np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int64))
        for index in indexes:
            deliveries = group(index, np.arange(n), Texts.of("abc"[:n]), n)
        for version, replay in ((1, None), (None, "replay")):
            headers = event_headers(events, deliveries.event, "events", version, replay)
        names = Texts.of("abc"[:n])
        for keys in (events_keys(events, deliveries), subscribers_keys(names, deliveries)):
            sizes(events, headers, deliveries, keys)
            for compression, most in (("none", 1), ("zstd", 1_000_000), ("zstd", 1)):  # in one batch, or in several
                chosen, several = np.flatnonzero(np.ones(n)), form(compression, most)
                batches = encode(events, headers, deliveries, keys, np.zeros(n, np.int32), chosen, several)
                of_letters(n, several)
        destinations = produce.Destinations.of(Texts.of(["topic"]), np.zeros(1, np.int32), np.zeros(1, np.int64))
        produce.body("slot", 1, batches, np.arange(len(batches.begin)), destinations)
    assert compiled() == before


def compiled() -> dict[str, Any]:
    """The signatures for which each kernel of the room is compiled."""
    names = [m.name for m in pkgutil.walk_packages(publishing.__path__, f"{publishing.__name__}.")]
    modules = [importlib.import_module(name) for name in names]
    kernels = {(f.__module__, f.__name__): f for m in modules for f in vars(m).values() if hasattr(f, "signatures")}
    return {
        ".".join(name): list(kernel.signatures)
        for name, kernel in kernels.items()
        if name[0].startswith(publishing.__name__)
    }

"""Tasks of several shards ship what they match, and it comes together as one task would have matched it."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchers.index.texts import Texts
from streaming.rows import INPUT, SUBSCRIPTIONS
from streaming.worker import shards
from streaming.worker.events.matches import Matched, Matches
from tests.support.doubles.stage import ALICE, BOB, ListSink, change, event, headers_of, pipeline, step

pytestmark = pytest.mark.kernels

Record = tuple[bytes | None, tuple[str, str] | None, tuple[int, int], list[tuple[str, str]]]
Whole = dict[tuple[int, int, int], Record]


def matches(pairs: list[list[tuple[str, str]]], dead: dict[int, tuple[str, str]]) -> Matches:
    """(subscriber, id) of each row, in two parts; row n has n attributes and was matched with n + 10."""
    flat = [(row, *pair) for row, of_row in enumerate(pairs) for pair in of_row]
    parts = []
    for some in (flat[::2], flat[1::2]):
        rows = np.array([row for row, _, _ in some], np.int64)
        columns = Texts.of(name for _, name, _ in some), Texts.of(id for _, _, id in some)
        parts.append(Matched(rows, np.arange(len(some)), *columns))
    n = np.arange(len(pairs), dtype=np.int32)
    return Matches.of(dead, parts, n, 10 + n)


def content(batches: Any) -> Whole:
    """Return of each record its value, why it is dead, its attributes with their number, and its matches."""
    found: Whole = {}
    for rows, matched in batches:
        assert rows.schema == INPUT
        row, subscribers, ids = matched.between(0, len(rows))
        assert np.array_equal(np.bincount(row, minlength=len(rows)), matched.total)
        for i, record in enumerate(rows.to_pylist()):
            of_row = sorted((s, id) for r, s, id in zip(row, subscribers, ids, strict=True) if r == i)
            at = record["source"], record["partition"], record["offset"]
            assert at not in found
            seen = int(matched.attributes[i]), int(matched.at_once[i])
            found[at] = record["value"], matched.dead.get(i), seen, of_row
    return found


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_all_shards_come_together(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r = Random(seed)
    monkeypatch.setattr(shards, "MATCHES_AT_ONCE", r.choice([1, 3, 200_000]))
    n_shards, n = r.randint(2, 4), r.randint(0, 12)
    events = [event(offset, b"%d" % offset, partition=offset % 2) for offset in range(n)]
    events.sort(key=lambda row: (row["partition"], row["offset"]))
    changes = [change(offset, "a", {"é": offset}) for offset in range(r.randint(0, 2))]
    dead = {row: ("undecodable_event", f"not JSON {row}") for row in range(n) if r.random() < 0.2}
    expected: Whole = {}
    for row, record in enumerate(events):
        expected[0, record["partition"], record["offset"]] = record["value"], dead.get(row), (row, row + 10), []
    for record in changes:
        expected[SUBSCRIPTIONS, 0, record["offset"]] = record["value"], None, (0, 0), []

    rows: list[pa.RecordBatch] = []
    for shard in range(n_shards):
        pairs: list[list[tuple[str, str]]] = []
        for row, record in enumerate(events):
            few = [] if row in dead else [(r.choice(["alice", "bób"]), f"{shard}-{i}") for i in range(r.randint(0, 3))]
            expected[0, record["partition"], record["offset"]][-1].extend(few)
            pairs.append(few)
        batch = pa.RecordBatch.from_pylist(events, schema=INPUT)
        rows += shards.shipped(batch, matches(pairs, dead), shard)
        if shard == 0 and changes:
            batch = pa.RecordBatch.from_pylist(changes, schema=INPUT)
            rows += shards.shipped(batch, Matches.none(len(changes)), shard)
    table = pa.Table.from_batches(rows, shards.SHIPPED).sort_by([(name, "ascending") for name in shards.ORDER])
    found = content(shards.united(table.to_batches(max_chunksize=r.randint(1, 5))))
    assert found == {at: (*more, sorted(of_row)) for at, (*more, of_row) in expected.items()}


@pytest.mark.parametrize("gone", [[0], [1], [0, 1, 2]])
def test_matches_of_a_record_that_was_deleted_before_the_first_shard_read_it_are_left_out(gone: list[int]) -> None:
    given = [[("alice", f"a{n}")] for n in range(3)]
    batch = pa.RecordBatch.from_pylist([event(n, {"x": n}) for n in range(3)], schema=INPUT)
    read = batch.filter(pa.array([n not in gone for n in range(3)]))
    there = [of for n, of in enumerate(given) if n not in gone]
    rows = [*shards.shipped(read, matches(there, {}), 0), *shards.shipped(batch, matches(given, {}), 1)]
    table = pa.Table.from_batches(rows, shards.SHIPPED).sort_by([(name, "ascending") for name in shards.ORDER])
    found = content(shards.united(table.to_batches()))
    assert all(len(records) for records, _ in shards.united(table.to_batches()))
    assert {offset: of_record[-1] for (_, _, offset), of_record in found.items()} == {
        n: sorted([*of, *of]) for n, of in enumerate(given) if n not in gone
    }


def test_only_the_first_shard_ships_records() -> None:
    batch = pa.RecordBatch.from_pylist([event(0, {"x": 1}), event(1, {"x": 2})], schema=INPUT)
    given = matches([[("alice", "a")], []], {})
    (first,), (second,) = shards.shipped(batch, given, 0), shards.shipped(batch, given, 1)
    assert first["value"].to_pylist() == [b'{"x": 1}', b'{"x": 2}']
    assert (second["value"].to_pylist(), second["offset"].to_pylist()) == ([None], [0])


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_shards_together_deliver_what_one_would(shards: int) -> None:
    p = pipeline(ListSink())
    p.state.snapshot = replace(p.state.snapshot, shards=shards, most=2)
    for i in range(12):
        step(p, change(i, f"s{i}", ALICE if i % 3 else BOB))
    found = step(p, event(0, {"x": 1}), event(1, b"no event"), event(2, {"x": 1}))
    assert sorted(r.topic for r in found) == ["dead", "to.alice", "to.alice", "to.bob", "to.bob"]
    ids = {r.topic: json.loads(headers_of(r)["ce_subscriptionids"]) for r in found if r.topic != "dead"}
    assert ids == {
        "to.alice": sorted(f"s{i}" for i in range(12) if i % 3),
        "to.bob": sorted(f"s{i}" for i in range(0, 12, 3)),
    }
    offsets = [dict(r.headers)["ce_id"] for r in found if r.topic == "to.bob"]
    assert offsets == [b"events-0-0", b"events-0-2"]

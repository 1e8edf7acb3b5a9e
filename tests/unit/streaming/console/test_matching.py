"""A scan for the console lists what the snapshot's own indexes list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from matchers.errors import MatchingError
from matchers.index.snapshot import Snapshot
from streaming.console import matching
from streaming.console.matching import EventScan
from streaming.worker.compiling import compile_changes
from tests.support.doubles.stage import changes
from tests.support.generators.strategies import workloads

NOW_MS = 1_700_000_000_000


def snapshot_of(documents: dict[str, dict[str, Any]], algorithm: str = "scan") -> Snapshot:
    records = [
        (id.encode(), json.dumps({"subscriber": f"of-{id}", **document}).encode()) for id, document in documents.items()
    ]
    return Snapshot(algorithm=algorithm).update(compile_changes(changes(records)).segment)


@given(workloads())
def test_it_agrees_with_the_snapshot(workload: tuple[dict[str, Any], list[Any]]) -> None:
    patterns, events = workload
    snapshot = snapshot_of({id: {"pattern": pattern} for id, pattern in patterns.items()})
    scan = EventScan(len(patterns))
    for event, matched in zip(events, snapshot.match(events), strict=True):
        found = scan(snapshot, event, NOW_MS)
        assert (found.total, found.unverified) == (len(matched), 0)
        assert sorted(id for id, _ in found.shown) == sorted(matched)


def test_what_is_paused_expired_or_unsubscribed_does_not_match() -> None:
    pattern = {"pattern": {"x": [1]}}
    snapshot = snapshot_of(
        {
            "a": pattern,
            "paused": {**pattern, "paused": True},
            "expired": {**pattern, "expires_at": "2020-01-01T00:00:00Z"},
            "later": {**pattern, "expires_at": "2100-01-01T00:00:00Z"},
            "gone": pattern,
        }
    ).update(remove=["gone"])
    assert EventScan(10)(snapshot, {"x": 1}, NOW_MS) == (2, [("a", "of-a"), ("later", "of-later")], 0)
    assert EventScan(10)(snapshot, {"x": 2}, NOW_MS) == (0, [], 0)
    assert EventScan(10)(Snapshot(), {"x": 1}, NOW_MS) == (0, [], 0)


def test_one_scan_serves_states_that_change() -> None:
    scan = EventScan(10)
    for n in (1, 3, 2):
        snapshot = snapshot_of({f"s{i}": {"pattern": {f"f{i}": [1]}} for i in range(n)})
        assert scan(snapshot, {f"f{i}": 1 for i in range(4)}, NOW_MS).total == n


def test_all_are_counted_and_some_are_shown() -> None:
    snapshot = snapshot_of({f"s{i}": {"pattern": {}} for i in range(9)})
    found = EventScan(4)(snapshot, {}, NOW_MS)
    assert (found.total, len(found.shown)) == (9, 4)


@pytest.mark.parametrize(("most", "total", "left_out"), [(100, 5, 0), (3, 3, 2), (0, 0, 5)])
def test_the_event_itself_is_compared_with_so_many_and_no_more(
    most: int, total: int, left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "MOST_VERIFIED", most)
    documents: dict[str, dict[str, Any]] = {f"r{i}": {"pattern": {"x": [{"regex": "a.c"}]}} for i in range(5)}
    documents["columns"] = {"pattern": {"x": ["abc"]}}
    found = EventScan(10)(snapshot_of(documents), {"x": "abc"}, NOW_MS)
    assert (found.total, found.unverified) == (total + 1, left_out)
    assert ("columns", "of-columns") in found.shown


@pytest.mark.parametrize("event", [{"a": "\ud800"}])
def test_an_event_that_cannot_be_matched_is_rejected(event: dict[str, Any]) -> None:
    with pytest.raises(MatchingError):
        EventScan(10)(snapshot_of({"s": {"pattern": {"a": ["x"]}}}), event, NOW_MS)

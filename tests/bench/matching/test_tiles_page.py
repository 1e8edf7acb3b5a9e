"""The programs behind the figures of docs/tiles.md run, and find what they should."""

from __future__ import annotations

import ast
from dataclasses import replace
from math import isfinite
from pathlib import Path

import numpy as np
import pytest

from bench.errors import BenchError
from bench.tiles import threads, timing
from bench.tiles.constants import SWEPT, Constant, sweep, with_constant
from bench.tiles.model_error import COUNTERS, POINTS, cells, compare_model
from bench.tiles.rivals import BATCHES, RIVALS, time_rivals
from bench.tiles.traffic import traffic
from bench.workloads.synthetic import Workload
from matchers import EventBatch, MatchBatch
from matchers.algorithms import tiles

HOME = Path(__file__).resolve().parents[3]
TILES = HOME / "matchers" / "algorithms" / "tiles"
NUMBERED = {"TILES", "PASSED", "ROWS", "CANDIDATES", "VERIFIED", "MATCHED", "NO_ROOM", "TOO_MANY"}
NOT_NUMBERS = {"COUNTERS", "STORED", "NEVER_DENSE", "IF_COUNTED"}
SMALL = Workload(subscriptions=300, attributes=5, predicates=(2, 3), events=20)


def constants(file: Path) -> set[str]:
    return {
        part.id
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and part.id.isupper()
    }


def test_the_page_has_every_constant() -> None:
    page = (HOME / "docs" / "tiles.md").read_text()
    found = set().union(*map(constants, TILES.rglob("*.py"))) - NUMBERED - NOT_NUMBERS
    assert [name for name in sorted(found) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("constant", [c for c in SWEPT if c.file is not None], ids=lambda c: c.name)
def test_a_swept_constant_is_there_and_gets_its_other_value(constant: Constant) -> None:
    assert constant.file is not None
    source = (TILES / constant.file).read_text()
    for value in constant.values:
        assert f"\n{constant.name} = {value}\n" in with_constant(source, constant.name, value)
        assert f"\n{constant.name} = {value}\n" not in source
    with pytest.raises(BenchError, match="defines no constant NOWHERE"):
        with_constant(source, "NOWHERE", "1")


def test_a_sweep_compares_each_value_with_the_present_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    rows = list(sweep([c for c in SWEPT if c.name == "MUCH"], share=0.001, rounds=1))
    assert [row.value for row in rows] == [None, "20", "2000"]
    assert all(row.ratios["alone"] > 0 for row in rows)
    assert rows[0].ratios["alone"] >= 1


def test_an_index_that_matches_as_many_others_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in (1, 8):
        matches, time_round = timing.rounds(SMALL, batch, {})
        assert matches > len(SMALL.batch())
        assert time_round() > 0
    match = tiles.Tiles.match

    def others(index: tiles.Tiles, events: EventBatch) -> MatchBatch:
        found = match(index, events)
        return MatchBatch(found.offsets, (found.subscription + 1) % SMALL.subscriptions)

    monkeypatch.setattr(tiles.Tiles, "match", others)
    with pytest.raises(BenchError, match="tiles finds other subscriptions than scan"):
        timing.rounds(SMALL, 8, {})


@pytest.mark.parametrize("name", POINTS)
def test_the_model_stands_beside_the_counters(name: str) -> None:
    for row in compare_model(name, 600, 64):
        assert len(cells(row)) == 3 + 3 * len(COUNTERS)
        assert all(isfinite(row.modelled[counter]) for counter in COUNTERS)
        assert row.way == "tiles" or not row.counted["rows read"] + row.modelled["rows read"]


def test_the_model_is_right_where_columns_are_independent_and_wrong_where_they_are_not() -> None:
    (independent,) = compare_model("values by zipf:1", 2_000, 512)
    assert abs(independent.error("tiles passed")) < 0.2
    chosen, by_tiles = compare_model("correlated", 10_000, 512)
    assert (chosen.way, by_tiles.way) == ("dense", "tiles")
    assert by_tiles.error("candidates") < -0.5


def test_traffic_from_memory_is_a_part_of_all() -> None:
    parts = traffic(tiles.build(SMALL.table()), SMALL.batch())
    assert all(0 <= far <= near for near, far in parts.values())
    assert parts["rows"][1] > 0


def test_rivals_find_the_same_matches() -> None:
    rows = time_rivals(SMALL, rounds=1)
    assert [row.name for row in rows] == list(RIVALS)
    assert all(row.us.keys() == BATCHES.keys() and min(row.us.values()) > 0 for row in rows)


def test_rivals_reject_events_without_a_column() -> None:
    with pytest.raises(BenchError, match="one value in each column"):
        time_rivals(replace(SMALL, event_size=3), rounds=1)


def test_threads_find_the_same_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = threads.time_threads(SMALL, most=3, rounds=1)
    assert [row.threads for row in rows] == [1, 2]
    assert all(tuple(row.us) == threads.BATCHES and min(row.us.values()) > 0 for row in rows)
    monkeypatch.setattr(
        tiles.Tiles, "match", lambda self, _: MatchBatch(np.array([0, 1]), np.array([self.threads], np.int32))
    )
    with pytest.raises(BenchError, match="2 threads find other subscriptions than one"):
        threads.time_threads(SMALL, most=2, rounds=1)

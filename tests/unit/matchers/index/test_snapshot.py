"""Versions of a set of subscriptions: updates, compaction in the background, and the swap."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from matchers.index.segment import Segment
from matchers.index.snapshot import Part, Snapshot
from matchers.index.texts import Texts
from matchers.language import naive
from matchers.language.lowering import lower
from matchers.language.parsing import parse
from streaming.documents.subscriptions import Subscription
from streaming.index.notes import notes
from tests.support.doubles.stage import places
from tests.support.generators.strategies import events_near, patterns

pytestmark = pytest.mark.kernels

Patterns = dict[str, Any]


def segment(patterns: Patterns) -> Segment:
    lowered = [(id, lower(parse(pattern))) for id, pattern in patterns.items()]
    return Segment.build(lowered, notes([Subscription(id, f"of-{id}") for id in patterns], *places(len(patterns))))


def updated(snapshot: Snapshot, add: Patterns, remove: Any = (), frozen: int = 0) -> Snapshot:
    return snapshot.update(segment(add), remove, frozen=frozen)


def joined(snapshot: Snapshot, first: int, last: int) -> Part:
    live = [(part.segment, gone) for part, gone in zip(snapshot.parts, snapshot.removed, strict=True)][first:last]
    return Part.of(Segment.merge(live), snapshot.algorithm, snapshot.options)


def check(snapshot: Snapshot, patterns: Patterns, events: list[Any]) -> None:
    expected = naive.match({id: parse(pattern) for id, pattern in patterns.items()}, events)
    assert [sorted(ids) for ids in snapshot.match(events)] == [sorted(ids) for ids in expected]
    assert len(snapshot) == len(patterns)
    owners = {}
    for part, removed in zip(snapshot.parts, snapshot.removed, strict=True):
        assert removed.tolist() == sorted(set(removed.tolist()))
        there = np.setdiff1d(np.arange(len(part.segment.ids)), removed)
        subscribers = part.segment.notes["subscriber"]
        assert isinstance(subscribers, Texts)
        for id, owner in zip(part.segment.ids.at(there), subscribers.at(there), strict=True):
            assert id not in owners, "it is there twice"
            owners[id] = owner
    assert owners == {id: f"of-{id}" for id in patterns}
    for id in ("s0", "s1", "s2"):
        assert (id in snapshot) is (id in patterns)


@pytest.mark.parametrize("most", [0, 1, 3, 8, 100])
def test_an_update_never_moves_more_than_it_may(most: int) -> None:
    r = Random(2)
    snapshot = Snapshot(most=most)
    current: Patterns = {}
    for _ in range(60):
        add = {f"s{r.randrange(40)}": {"x": [r.randrange(3)]} for _ in range(r.choice([0, 1, 1, 2, 5]))}
        remove = {f"s{r.randrange(40)}" for _ in range(r.choice([0, 1, 3]))}
        before = {*snapshot.parts}
        snapshot = updated(snapshot, add, remove)
        current = {id: p for id, p in current.items() if id not in remove} | add
        new = [part for part in snapshot.parts if part not in before]
        assert len(new) <= 1
        assert all(len(part.segment.ids) <= max(most, len(add)) for part in new)
    check(snapshot, current, [{"x": x} for x in range(4)])


def test_without_a_bound_nothing_is_ever_due() -> None:
    r = Random(3)
    snapshot = Snapshot()
    for _ in range(60):
        snapshot = updated(snapshot, {f"s{r.randrange(90)}": {"x": [1]}}, {f"s{r.randrange(90)}"})
        assert not snapshot.parts[snapshot.due()]
        assert len(snapshot.parts) <= 5


@pytest.mark.parametrize("shards", [2, 3])
def test_as_many_long_parts_as_shards_are_never_joined_with_each_other_and_grow_alike(shards: int) -> None:
    snapshot = Snapshot(shards=shards)
    for n in range(300):
        snapshot = updated(snapshot, {f"s{n}": {"x": [n % 5]}})
    sizes = [len(part.segment.ids) for part in snapshot.parts]
    assert min(sizes[:shards]) > 300 / shards / 6
    assert sum(sizes[shards:]) <= min(sizes[:shards])
    check(snapshot, {f"s{n}": {"x": [n % 5]} for n in range(300)}, [{"x": x} for x in range(6)])


def test_held_parts_stay_even_if_all_of_them_is_removed() -> None:
    first = updated(Snapshot(), {"a": {}, "b": {}})
    held = updated(updated(first, {"c": {}}, frozen=1), {}, ["a", "b"], frozen=1)
    assert held.parts[0] is first.parts[0]
    assert held.removed[0].tolist() == [0, 1]
    assert held.match([{}]) == [["c"]]
    assert updated(held, {"d": {}}).parts[0] is not first.parts[0]


def test_a_part_that_was_removed_whole_while_it_was_joined_is_swapped_for_nothing() -> None:
    before = updated(updated(Snapshot(most=0), {"a": {}, "b": {}}), {"c": {}})
    new = joined(before, 0, 2)
    after = updated(updated(before, {"d": {}}, frozen=2), {}, ["a", "b", "c"], frozen=2)
    swapped = after.swapped(before.parts, before.removed, new)
    assert swapped.match([{}]) == [["d"]]
    assert (len(swapped.parts), swapped.version) == (1, after.version)
    assert after.match([{}]) == [["d"]]
    assert updated(before, {}, ["a", "b", "c"], frozen=2).swapped(before.parts, before.removed, new).parts == ()


few = st.integers(0, 6)
ids = st.sampled_from([f"s{n}" for n in range(12)])


class Round(NamedTuple):
    """Changes, each of what to add and what to remove; the parts to unite; and changes while they are being united."""

    before: list[tuple[Patterns, set[str]]]
    parts: tuple[int, int] | None  # the first and how many more; None for those that are due
    during: list[tuple[Patterns, set[str]]]


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[Round], list[dict[str, Any]]]:
    """Draw how many subscriptions a part may have before it is due, rounds, and events."""
    some = draw(st.lists(patterns(), min_size=1, max_size=8))
    change = st.tuples(st.dictionaries(ids, st.sampled_from(some), max_size=4), st.sets(ids, max_size=4))
    one = st.builds(
        Round,
        st.lists(change, min_size=1, max_size=4),
        st.none() | st.tuples(few, few),
        st.lists(change, max_size=4),
    )
    rounds = draw(st.lists(one, max_size=3))
    return draw(st.sampled_from([0, 2, 6])), rounds, draw(st.lists(events_near(some), min_size=1, max_size=4))


@hypothesis_settings(max_examples=60)
@given(history=histories())
def test_what_is_swapped_in_after_any_updates_answers_as_a_fresh_build(
    history: tuple[int, list[Round], list[dict[str, Any]]],
) -> None:
    most, rounds, events = history
    snapshot = Snapshot(most=most)
    current: Patterns = {}
    versions: list[tuple[Snapshot, Patterns]] = []

    def change(changes: list[tuple[Patterns, set[str]]], frozen: int) -> None:
        nonlocal snapshot, current
        for add, remove in changes:
            snapshot = updated(snapshot, add, remove, frozen)
            current = {id: p for id, p in current.items() if id not in remove} | add
            versions.append((snapshot, current))

    for before, parts, during in rounds:
        change(before, 0)
        if not snapshot.parts:
            continue
        due = snapshot.due()
        if parts is None and snapshot.parts[due]:
            first, last = due.start, due.stop
        else:
            n, (begin, more) = len(snapshot.parts), parts or (0, 0)
            first = begin % n
            last = first + 1 + more % (n - first)
        old, removed, new = snapshot.parts[first:last], snapshot.removed[first:last], joined(snapshot, first, last)
        change(during, last)
        snapshot = snapshot.swapped(old, removed, new)
        versions.append((snapshot, current))
    for version, patterns_then in versions:
        check(version, patterns_then, events)


@pytest.mark.parametrize("most", [None, 16])
def test_texts_and_fields_that_nobody_needs_any_more_are_forgotten(most: int | None) -> None:
    snapshot = Snapshot(most=most)
    for n in range(1_000):
        pattern = {f"f{n % 7}-{n // 100}": [f"text {n}", {"prefix": f"{n}"}], "x": [f"{n}"]}
        snapshot = updated(snapshot, {f"s{n % 20}": pattern})
        due = snapshot.due()
        if n % 50 == 49 and snapshot.parts[due]:
            new = joined(snapshot, due.start, due.stop)
            snapshot = snapshot.swapped(snapshot.parts[due], snapshot.removed[due], new)
    assert len(snapshot) == 20
    vocabularies = [part.segment.vocabulary for part in snapshot.parts]
    assert sum(len(cuts) for vocabulary in vocabularies for cuts in vocabulary.cuts) <= 20 * 6 * 4
    assert sum(len(vocabulary.columns) for vocabulary in vocabularies) <= 100
    assert sum(len(part.segment.ids) for part in snapshot.parts) <= 80
    new = joined(snapshot, 0, len(snapshot.parts))
    assert {path[0] for path, _ in new.segment.vocabulary.columns} == {"x", *(f"f{n}-9" for n in range(7))}
    assert sum(map(len, new.segment.vocabulary.cuts)) <= 20 * 6
    alone = Snapshot().of([(new, np.empty(0, np.int32))], 1)
    assert alone.match([{"x": "999"}, {"x": "979"}, {"x": "999", "f5-9": "text 999"}]) == [[], [], ["s19"]]


def test_a_snapshot_tells_the_algorithm_of_its_longest_part() -> None:
    few, many = ({f"{i}": {"a": [i], "b": [i]} for i in range(n)} for n in (1, 9))
    assert Snapshot().about == "auto"
    assert updated(Snapshot(algorithm="tiles"), few).about == "tiles"
    both = updated(updated(Snapshot(), many), {"z": {"a": [0]}})
    assert len(both.parts) == 2
    assert both.about == "scan for 9 subscriptions of 2 of 2 attributes each, too few to measure"


def test_ids_are_found_where_they_are_and_not_where_they_were() -> None:
    snapshot = updated(updated(Snapshot(most=0), {"a": {}, "b": {}, "c": {}}), {"b": {}}, ["c"])
    found = snapshot.locate(Texts.of(["c", "b", "a", "b", "nobody"]))
    assert [(which.tolist(), position.tolist()) for which, position in found] == [([2], [0]), ([1, 3], [0, 0])]

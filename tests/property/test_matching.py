"""Every algorithm agrees with the definition, whatever the subscriptions and events."""

from __future__ import annotations

import json
from math import inf
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers import ALGORITHMS, EventBatch, Index, Interfaces, SubscriptionTable
from matchers.algorithms.tiles import sparse
from matchers.language import naive
from matchers.language.parsing import parse
from matchers.library import FEW_EVENTS
from tests.support.generators.algorithms import EXACTLY
from tests.support.generators.strategies import batches, events_near, patterns, tables, workloads

pytestmark = pytest.mark.kernels

Subscriptions = dict[str, Any]
Events = list[dict[str, Any]]


def listed(result: Any) -> list[list[int]]:
    return [result.of(e).tolist() for e in range(len(result))]


def compare_all_ways(index: Index, subscriptions: Subscriptions, events: Events, name: str = "auto") -> None:
    """Events alone and in a batch, as documents and, where JSON can write them, as bytes.

    Fails with the patterns and the event on which they differ.
    """
    assert len(events) <= FEW_EVENTS  # these are matched one by one
    by_definition = [sorted(ids) for ids in naive.match({id: parse(p) for id, p in subscriptions.items()}, events)]
    for form in (events, list(map(written, events))):
        for found in (index.match(form), [sorted(ids) for ids in index.snapshot.match(form)]):
            for event, ids, expected in zip(events, found, by_definition, strict=True):
                wrong = {id: subscriptions[id] for id in set(ids) ^ set(expected)}
                side = "missing" if wrong.keys() <= set(expected) else "too much"
                assert not wrong, f"{name}, {event!r}: {wrong!r} {side}"
                assert ids == expected, name


def written(event: dict[str, Any]) -> Any:
    """Return the event's JSON, or the event itself if JSON cannot express it, such as a number beyond all doubles."""
    try:
        text = json.dumps(event, allow_nan=False, ensure_ascii=False).encode()
        orjson.loads(text)
    except ValueError:
        return event
    return text


# Algorithms with options that make their parts small, so that small tables have several of each.
SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, EXACTLY[name]) for name in ALGORITHMS},
    "ada_rein, whole attributes": ("ada_rein", {"whole": True, "exact": True}),
    "comat, two threads": ("comat", {"threads": 2}),
    "be_tree, small": ("be_tree", {"max_cap": 1}),
    "h_tree, small": ("h_tree", {"c": 3, "bucket": 1}),
    "h_tree, one delta": ("h_tree", {"c": 2, "l": 2, "delta": 0.5, "bucket": 1}),
    "hem, small": ("hem", {"c": 5, "g": 3, "block": 64}),
    "hem, one group": ("hem", {"c": 5, "g": 1, "block": 64}),
    "hem, without sets": ("hem", {"c": 3, "g": 0, "block": 64}),
    "awb_tree, three classes": ("awb_tree", {"width_classes": 3}),
    "awb_tree, all forward": ("awb_tree", {"width_classes": 3, "split": 1.0}),
    "awb_tree, all backward": ("awb_tree", {"width_classes": 3, "split": 0.0}),
    "pem, three algorithms": ("pem", {"algorithms": ("opindex", "hem", "rein"), "slices": 4, "window": 1}),
    "pem, three cut at p": ("pem", {"algorithms": ("tama", "hem", "rein"), "ranked": False, "adjust": False}),
    "rein, bits": ("rein", {"blocks": False}),
    "ada_rein, bits": ("ada_rein", {"blocks": False, "exact": True}),
    "tiles, small": ("tiles", {"tile": 2, "fewest": 1}),
    "tiles, two threads": ("tiles", {"tile": 3, "fewest": 1, "threads": 2}),
}


# Drawing a workload takes longer than matching it, so all algorithms answer to the same one.


@given(table=tables(), batch=batches())
def test_every_algorithm_does_what_the_table_promises(table: dict[str, Any], batch: dict[str, Any]) -> None:
    built = SubscriptionTable.from_intervals(**table)
    events = EventBatch.from_values(**batch)
    rows = list(zip(table["subscription"], table["column"], table["low"], table["high"], strict=True))
    entries = list(zip(batch["event"], batch["column"], batch["value"], strict=True))
    expected = [
        [
            s
            for s in range(table["n_subscriptions"])
            if all(
                any(
                    low <= v <= high
                    for e2, c2, v in entries
                    if (e2, c2) == (e, c)
                    for s3, c3, low, high in rows
                    if (s3, c3) == (s, c)
                )
                for c in {c for s2, c, _, _ in rows if s2 == s}
            )
        ]
        for e in range(batch["n_events"])
    ]
    for name, (algorithm, options) in SMALL.items():
        assert listed(ALGORITHMS[algorithm](built, **options).match(events)) == expected, name


@given(table=tables(), batch=batches())
def test_tiles_match_by_columns_alone_what_the_table_promises(table: dict[str, Any], batch: dict[str, Any]) -> None:
    built, events = SubscriptionTable.from_intervals(**table), EventBatch.from_values(**batch)
    with patch.multiple(sparse, FEW_OF_COLUMNS=inf, SPARSE_OF_COLUMNS=1e6):
        matcher = ALGORITHMS["tiles"](built)
        assert listed(matcher.match(events)) == listed(ALGORITHMS["naive"](built).match(events))


@given(table=tables(), batch=batches(), interfaces=st.lists(st.integers(0, 3), min_size=9, max_size=9))
def test_every_algorithm_forwards_to_the_interfaces_of_what_matches(
    table: dict[str, Any], batch: dict[str, Any], interfaces: list[int]
) -> None:
    built, events = SubscriptionTable.from_intervals(**table), EventBatch.from_values(**batch)
    interface, n_interfaces = interfaces[: built.n_subscriptions], max(interfaces) + 1
    matched = listed(ALGORITHMS["naive"](built).match(events))
    expected = [sorted({interface[s] for s in subscriptions}) for subscriptions in matched]
    for name, (algorithm, options) in SMALL.items():
        found = ALGORITHMS[algorithm](built, **options).forward(events, Interfaces.from_ids(interface, n_interfaces))
        assert listed(found) == expected, name


@given(workload=workloads())
def test_every_algorithm_agrees_with_the_definition(workload: tuple[Subscriptions, Events]) -> None:
    subscriptions, events = workload
    for name, (algorithm, options) in SMALL.items():
        index = Index.build(subscriptions, algorithm=algorithm, **options)
        compare_all_ways(index, subscriptions, events, name)


@pytest.mark.parametrize("name", [name for name, algorithm in ALGORITHMS.items() if algorithm.approximate])
@given(table=tables(), batch=batches())
def test_an_approximate_algorithm_misses_no_match(name: str, table: dict[str, Any], batch: dict[str, Any]) -> None:
    built, events = SubscriptionTable.from_intervals(**table), EventBatch.from_values(**batch)
    expected = listed(ALGORITHMS["naive"](built).match(events))
    for found, matched in zip(listed(ALGORITHMS[name](built).match(events)), expected, strict=True):
        assert set(found) >= set(matched)
        assert found == sorted(set(found))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Events]:
    """Updates, each a pattern by id, or None where the subscription is unsubscribed; and events."""
    ids = st.sampled_from([f"s{i}" for i in range(12)])
    updates = draw(st.lists(st.dictionaries(ids, st.none() | patterns(), min_size=1, max_size=6), max_size=6))
    added = [pattern for update in updates for pattern in update.values() if pattern is not None]
    return updates, draw(st.lists(events_near(added), max_size=6))


@given(history=histories())
def test_every_version_matches_its_own_subscriptions_for_ever(history: tuple[list[dict[str, Any]], Events]) -> None:
    updates, events = history
    index = Index.build({})
    current: dict[str, Any] = {}
    versions = [(index, dict(current))]
    for update in updates:
        remove = {id for id, pattern in update.items() if pattern is None and id in current}
        add = {id: pattern for id, pattern in update.items() if pattern is not None}
        index = index.update(add=add, remove=remove)
        current = {id: p for id, p in current.items() if id not in remove} | add
        versions.append((index, dict(current)))
    for number, (version, subscriptions) in enumerate(versions):
        assert version.version == number + 1
        assert len(version.snapshot) == len(subscriptions)
        compare_all_ways(version, subscriptions, events)


@given(workload=workloads())
def test_an_explanation_holds_exactly_when_the_subscription_matches(workload: tuple[Subscriptions, Events]) -> None:
    subscriptions, events = workload
    index = Index.build(subscriptions)
    for event, matched in zip(events, index.match(events), strict=True):
        for id in subscriptions:
            lines = index.explain(event, id)
            assert all(line.held for line in lines) is (id in matched)
            assert all(map(str, lines))

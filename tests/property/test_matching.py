"""Every algorithm agrees with the definition, whatever the subscriptions and events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers import ALGORITHMS, EventBatch, Index, SubscriptionTable, naive
from matchers.language import parse
from tests.strategies import batches, event_lists, patterns, subscription_sets, tables

pytestmark = pytest.mark.kernels


def listed(result: Any) -> list[list[int]]:
    return [result.of(e).tolist() for e in range(len(result))]


def by_definition(subscriptions: dict[str, Any], events: list[dict[str, Any]]) -> list[list[str]]:
    parsed = {id: parse(pattern) for id, pattern in subscriptions.items()}
    return [sorted(ids) for ids in naive.match(parsed, events)]


@pytest.mark.parametrize("name", ALGORITHMS)
@given(table=tables(), batch=batches())
def test_every_algorithm_does_what_the_table_promises(name: str, table: dict[str, Any], batch: dict[str, Any]) -> None:
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
    assert listed(ALGORITHMS[name](built).match(events)) == expected


@pytest.mark.parametrize("name", ALGORITHMS)
@given(subscriptions=subscription_sets, events=event_lists)
def test_every_algorithm_agrees_with_the_definition(
    name: str, subscriptions: dict[str, Any], events: list[dict[str, Any]]
) -> None:
    assert Index.build(subscriptions, algorithm=name).match(events) == by_definition(subscriptions, events)


changes = st.lists(
    st.tuples(st.sampled_from([f"s{i}" for i in range(12)]), st.none() | patterns), min_size=1, max_size=6
)


@given(batches_of_changes=st.lists(changes, max_size=6), events=event_lists)
def test_every_version_matches_its_own_subscriptions_for_ever(
    batches_of_changes: list[list[tuple[str, Any]]], events: list[dict[str, Any]]
) -> None:
    index, current = Index.build({}), {}
    versions = [(index, dict(current))]
    for batch in batches_of_changes:
        remove = {id for id, pattern in batch if pattern is None and id in current}
        add = {id: pattern for id, pattern in batch if pattern is not None}
        index = index.update(add=add, remove=remove)
        current = {id: p for id, p in current.items() if id not in remove} | add
        versions.append((index, dict(current)))
    for number, (version, subscriptions) in enumerate(versions):
        assert version.version == number + 1
        assert len(version.snapshot) == len(subscriptions)
        assert version.match(events) == by_definition(subscriptions, events)


@given(subscriptions=subscription_sets, events=event_lists)
def test_an_explanation_holds_exactly_when_the_subscription_matches(
    subscriptions: dict[str, Any], events: list[dict[str, Any]]
) -> None:
    index = Index.build(subscriptions)
    for event, matched in zip(events, index.match(events), strict=True):
        for id in subscriptions:
            assert all(line.held for line in index.explain(event, id)) is (id in matched)

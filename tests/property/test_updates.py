"""An index that changes in place matches like a fresh build of what it then holds, whatever came and went."""

from __future__ import annotations

from itertools import compress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchers import ALGORITHMS, EventBatch, SubscriptionTable
from matchers.papers.updates import UPDATABLE, growing_table
from matchers.papers.updates.updatable import Updatable
from tests.support.generators.strategies import batches, tables

pytestmark = pytest.mark.kernels

# Algorithms that can be updated, with options that make their parts small.
SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in UPDATABLE},
    "hem, small": ("hem", {"c": 5, "g": 3, "block": 64}),
    "hem, one group": ("hem", {"c": 5, "g": 1, "block": 64}),
    "be_tree, small": ("be_tree", {"max_cap": 2}),
    "be_tree, one": ("be_tree", {"max_cap": 1, "alpha": 0.9}),
    "be_tree, rare": ("be_tree", {"max_cap": 4, "min_size": 3}),
    "h_tree, small": ("h_tree", {"c": 3, "bucket": 1}),
    "h_tree, one delta": ("h_tree", {"c": 2, "l": 2, "delta": 0.5, "bucket": 2}),
    "comat, two threads": ("comat", {"threads": 2}),
    "rein, one bucket": ("rein", {"buckets": 1}),
    "rein, many buckets": ("rein", {"buckets": 7}),
    "tama, one level": ("tama", {"levels": 0}),
    "pem, small windows": ("pem", {"window": 1, "split": 0.3}),
    "pem, three algorithms": ("pem", {"algorithms": ("tama", "hem", "rein"), "window": 1}),
    "pem, four algorithms": ("pem", {"algorithms": ("tama", "opindex", "hem", "rein"), "window": 1}),
    "pem, by p": ("pem", {"ranked": False, "window": 1}),
}

Table = dict[str, Any]
Step = Table | int  # a table to insert, or one in how many of the subscriptions to delete


@st.composite
def histories(draw: st.DrawFn) -> tuple[Table, list[Step]]:
    first = draw(tables(st.integers(0, 2)))  # few, so that values fall between intervals of one column
    more = tables(st.just(first["n_columns"]))
    return first, draw(st.lists(more | st.integers(1, 4), max_size=6))


def rows_of(table: Table) -> list[list[tuple[int, float, float]]]:
    """The intervals of each subscription."""
    rows: list[list[tuple[int, float, float]]] = [[] for _ in range(table["n_subscriptions"])]
    for s, *interval in zip(table["subscription"], table["column"], table["low"], table["high"], strict=True):
        rows[s].append((interval[0], interval[1], interval[2]))
    return rows


def by_definition(subscriptions: dict[int, list[tuple[int, float, float]]], columns: int, batch: Table) -> Any:
    flat = [(i, *interval) for i, intervals in enumerate(subscriptions.values()) for interval in intervals]
    arrays = ([row[k] for row in flat] for k in range(4))
    table = SubscriptionTable.from_intervals(*arrays, n_subscriptions=len(subscriptions), n_columns=columns)
    numbers = list(subscriptions)
    result = ALGORITHMS["naive"](table).match(EventBatch.from_values(**batch))
    return [[numbers[i] for i in result.of(e)] for e in range(len(result))]


def matched(index: Updatable, batch: Table) -> list[list[int]]:
    result = index.match(EventBatch.from_values(**batch))
    return [result.of(e).tolist() for e in range(len(result))]


# To draw a history, and to match it by the definition, takes longer than an index does: so all live through one.


@pytest.mark.parametrize("fewest", [0, 256], ids=["built anew", "in place"])
@given(history=histories(), batch=batches())
def test_an_updated_index_matches_like_a_fresh_one(
    fewest: int, history: tuple[Table, list[Step]], batch: Table
) -> None:
    first, steps = history
    live = dict(enumerate(rows_of(first)))
    given_numbers = len(live)
    built = SubscriptionTable.from_intervals(**first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_table, "FEWEST_INTERVALS", fewest)
        indexes = {name: UPDATABLE[algorithm](built, **options) for name, (algorithm, options) in SMALL.items()}
        check(indexes, batch, by_definition(live, first["n_columns"], batch))
        for step in steps:
            if isinstance(step, int):
                gone = list(compress(live, (i % step == 0 for i in range(len(live)))))
                for index in indexes.values():
                    index.delete(gone)
                live = {number: rows for number, rows in live.items() if number not in gone}
            else:
                more = SubscriptionTable.from_intervals(**step)
                assert {name: index.insert(more) for name, index in indexes.items()} == dict.fromkeys(
                    indexes, given_numbers
                )
                live |= dict(enumerate(rows_of(step), given_numbers))
                given_numbers += step["n_subscriptions"]
            check(indexes, batch, by_definition(live, first["n_columns"], batch))
        assert all(index.memory_bytes() > 0 for index in indexes.values())


def check(indexes: dict[str, Updatable], batch: Table, expected: list[list[int]]) -> None:
    for name, index in indexes.items():
        assert (name, matched(index, batch)) == (name, expected)

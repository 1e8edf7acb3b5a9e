"""The promises of tables and batches, and the input that they reject."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, Interfaces, SubscriptionTable, TableError
from matchers.index.encoding import Encoder
from matchers.index.fields import Fields
from matchers.index.segment import Segment
from matchers.index.stored import taken_apart
from matchers.index.values import read_documents
from matchers.kernels import jit
from matchers.language.lowering import lower
from matchers.language.parsing import parse
from tests.support.generators.algorithms import EXACTLY

pytestmark = pytest.mark.kernels
inf, nan = float("inf"), float("nan")


def table(*rows: tuple[int, int, float, float], s: int = 3, a: int = 2) -> SubscriptionTable:
    subscription, column, low, high = ([row[i] for row in rows] for i in range(4))
    return SubscriptionTable.from_intervals(subscription, column, low, high, n_subscriptions=s, n_columns=a)


def rows(built: SubscriptionTable) -> list[tuple[float, ...]]:
    arrays = (built.subscription, built.column, built.low, built.high)
    return list(zip(*(a.tolist() for a in arrays), strict=True))


def from_values(*arrays: Any) -> EventBatch:
    return EventBatch.from_values(*arrays, n_events=1, n_columns=2)


def test_intervals_are_sorted_and_joined() -> None:
    built = table((1, 1, 0, 5), (0, 0, 3, 4), (0, 0, 1, 2), (0, 0, 2, 3), (0, 0, 9, 9))
    assert rows(built) == [(0, 0, 1, 4), (0, 0, 9, 9), (1, 1, 0, 5)]
    assert built.start.tolist() == [0, 2, 3, 3]
    assert built.needed.tolist() == [1, 1, 0]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_intervals_in_any_order_make_the_same_table(order: tuple[int, ...]) -> None:
    """Intervals that already ascend skip the sort."""
    ascending = [(0, 0, 1, 2), (0, 1, 5, 3), (1, 0, -inf, 4), (2, 1, 7, inf)]
    built = table(*(ascending[i] for i in order))
    assert rows(built) == [(0, 0, 1, 2), (0, 1, inf, -inf), (1, 0, -inf, 4), (2, 1, 7, inf)]


def test_a_table_has_arrays_of_its_own() -> None:
    given = [np.array([0, 1], np.int32), np.array([0, 0], np.int32), np.array([5.0, 1.0]), np.array([3.0, 2.0])]
    SubscriptionTable.from_intervals(*given, n_subscriptions=2, n_columns=1)
    assert [array.tolist() for array in given] == [[0, 1], [0, 0], [5, 1], [3, 2]]


def test_an_interval_within_another_does_not_shorten_it() -> None:
    assert rows(table((0, 0, 0, 9), (0, 0, 1, 2), (0, 0, 5, 8))) == [(0, 0, 0, 9)]


def test_an_empty_interval_stays_only_where_there_is_no_other() -> None:
    assert rows(table((0, 0, 5, 3), (0, 1, 5, 3), (0, 1, 7, 8))) == [(0, 0, inf, -inf), (0, 1, 7, 8)]


def test_events_are_of_the_same_types_however_they_were_made() -> None:
    """Kernels are compiled for each type of array, and one that is read-only has its own."""
    segment = Segment.build([("s", lower(parse({"x": [1]})))])
    fields = Fields.of([("x",)])
    read = Encoder(segment.vocabulary, fields).encode(read_documents([{"x": 1}], fields))
    dense = EventBatch.from_dense([[1.0]])
    for made in (dense, EventBatch.from_values([0], [0], [1.0], n_events=1, n_columns=1), dense.part(0, 1)):
        for array, other in zip(made.arrays, read.arrays, strict=True):
            assert (array.dtype, array.flags.writeable) == (other.dtype, other.flags.writeable)


def test_arrays_cannot_be_changed_behind_an_index() -> None:
    with pytest.raises(ValueError, match="read-only"):
        table((0, 0, 1, 2)).low[0] = 5


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (((0, 0, nan, 1),), "interval 0 has a bound that is NaN"),
        (((3, 0, 0, 1),), "subscription must lie within 0 .. 2, not 3 .. 3"),
        (((0, 2, 0, 1),), "column must lie within 0 .. 1, not 2 .. 2"),
        (((-1, 0, 0, 1),), "subscription must lie within"),
        (((0.5, 0, 0, 1),), "subscription must hold integers, not float64"),
        ((([0, 1], 0, 0, 1), (0, 0, 0, 1)), "subscription must hold integers: "),
        (((0, 0, "a", 1),), "low must hold numbers: could not convert string to float"),
        (((0, 0, 0, [1, 2]), (0, 0, 0, 1)), "high must hold numbers: "),
        (((0, 0, 10**400, 1),), "low must hold numbers: "),
    ],
)
def test_what_a_table_rejects(arguments: Any, reason: str) -> None:
    with pytest.raises(TableError, match=reason):
        table(*arguments)


ONE: list[Any] = [np.array([0, 1]), np.zeros(1, np.int32), np.zeros(1), 1]  # an event


@pytest.mark.parametrize(
    ("build", "arguments", "reason"),
    [
        (EventBatch.from_dense, ([1.0, 2.0],), r"\[events, columns\], not of 1 dimension"),
        (EventBatch.from_dense, ([[1.0], [1.0, 2.0]],), "values must hold numbers: "),
        (EventBatch.from_dense, ([["a"]],), "values must hold numbers: could not convert string to float"),
        (from_values, ([0], [0, 1], [1.0]), "arrays of one length"),
        (from_values, ([0], [0], ["a"]), "value must hold numbers: could not convert string to float"),
        (from_values, ([0], [[0], [0, 1]], [1.0]), "column must hold integers: "),
        (EventBatch, (*ONE[:1], np.zeros(1, np.int64), *ONE[2:]), "column must be an array of int32, not of int64"),
        (EventBatch, (*ONE[:2], np.zeros(4)[::2], 1), "value must be contiguous"),
        (EventBatch, ([0, 1], *ONE[1:]), "offsets must be an array of int64, not a list"),
        (EventBatch, (*ONE[:2], 0.5, 1), "value must be an array of float64, not a float"),
        (EventBatch, (*ONE[:2], np.zeros((1, 1)), 1), "value must have one dimension, not 2"),
    ],
)
def test_what_batches_reject(build: Callable[..., EventBatch], arguments: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(TableError, match=reason):
        build(*arguments)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_index_travels_to_another_process(name: str) -> None:
    matcher = ALGORITHMS[name](table((0, 0, 1, 2), (1, 1, 5, 6)), **EXACTLY[name])
    events = EventBatch.from_dense([[1.5, nan], [nan, 7.0], [2.0, 5.0]])
    expected = matcher.match(events)  # so that what it learned travels too
    found = pickle.loads(pickle.dumps(matcher)).match(events)
    assert (
        [found.of(e).tolist() for e in range(3)]
        == [expected.of(e).tolist() for e in range(3)]
        == [[0, 2], [2], [0, 1, 2]]
    )


def test_nan_has_no_place_on_a_column() -> None:
    segment = Segment.build([("s", lower(parse({"x": [{"numeric": [">", 0]}]})))])
    fields = Fields.of([("x",)])
    batch = Encoder(segment.vocabulary, fields).encode(read_documents([{"x": nan}, {"x": [nan, 5]}], fields))
    assert batch.offsets.tolist() == [0, 0, 1]
    assert batch.value.tolist() == [5]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_dense_events_of_a_table_made_in_bulk(name: str) -> None:
    rng = np.random.default_rng(5)
    n, d, per = 500, 6, 3
    column = np.argsort(rng.random((n, d)), axis=1)[:, :per]
    low = rng.random((n, per)) * 0.5
    subscription = np.repeat(np.arange(n), per)
    built = SubscriptionTable.from_intervals(
        subscription, column.ravel(), low.ravel(), low.ravel() + 0.5, n_subscriptions=n, n_columns=d
    )
    values = rng.random((20, d))
    values[rng.random(values.shape) < 0.1] = nan
    found = ALGORITHMS[name](built, **EXACTLY[name]).match(EventBatch.from_dense(values))
    at = values[:, column]
    expected = np.all((at >= low) & (at <= low + 0.5), axis=2)
    assert [found.of(e).tolist() for e in range(len(found))] == [np.flatnonzero(row).tolist() for row in expected]
    assert found.offsets.dtype == np.int64
    assert found.subscription.dtype == np.int32


@pytest.mark.large
@pytest.mark.parametrize("name", ALGORITHMS)
def test_more_matches_than_any_buffer_holds_at_once(name: str) -> None:
    n, events = 20_000, 12
    built = SubscriptionTable.from_intervals([], [], [], [], n_subscriptions=n if name != "naive" else 50, n_columns=0)
    found = ALGORITHMS[name](built, **EXACTLY[name]).match(EventBatch.from_dense(np.empty((events, 0))))
    assert found.offsets.tolist() == [e * built.n_subscriptions for e in range(events + 1)]
    assert (found.of(events - 1) == np.arange(built.n_subscriptions)).all()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_index_tells_its_size(name: str) -> None:
    assert ALGORITHMS[name](table((0, 0, 1, 2))).memory_bytes() >= 24


def test_kernels_run_without_the_gil_and_are_kept_on_disk() -> None:
    @jit.kernel
    def identity(x: int) -> int:
        return x

    options = getattr(identity, "targetoptions", {"nogil": True})  # a plain function where compilation is off
    assert options["nogil"]


def test_what_only_builds_need_is_not_stored_with_a_table() -> None:
    built = table((0, 0, 0.0, 1.0), (1, 0, 5.0, 6.0))
    assert built.begins.tolist() == [True, True]
    layouts, _, _ = taken_apart(built)
    (names,) = [names for _, *names in layouts]
    assert "begins" not in names
    assert "low" in names


@pytest.mark.parametrize("of", [[4_294_967_297], [0.9], [-1], [2]])
def test_interfaces_are_checked_before_they_are_cast(of: list[Any]) -> None:
    with pytest.raises(TableError, match="interface must"):
        Interfaces.from_ids(of, 2)


def test_a_match_without_an_interface_is_an_error() -> None:
    matches = ALGORITHMS["scan"](table((0, 0, 0.0, 1.0), (2, 0, 0.0, 1.0))).match(EventBatch.from_dense([[0.5, 0.0]]))
    assert Interfaces.from_ids([1, 0, 0], 2).behind(matches).of(0).tolist() == [0, 1]
    with pytest.raises(TableError, match="2 subscriptions have an interface, and number 2 has none"):
        Interfaces.from_ids([1, 0], 2).behind(matches)

"""Workloads have the requested properties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.errors import BenchError
from bench.workloads import attributes
from bench.workloads.distributions import Distribution
from bench.workloads.prepared import Scenario
from bench.workloads.repeated import Repeated
from bench.workloads.synthetic import ROWS, Workload
from bench.workloads.watch_lists import WatchLists
from matchers import ALGORITHMS, SubscriptionTable

SMALL = Workload(subscriptions=500, attributes=12, predicates=(4, 4), events=60)
ARRAYS = ("subscription", "column", "low", "high")


def zipf(exponent: float) -> Distribution:
    return Distribution("zipf", exponent)


@pytest.mark.parametrize(
    "workload",
    [
        SMALL,
        replace(SMALL, predicates=(0, 12)),
        replace(SMALL, predicates=(12, 12), attribute_distribution=zipf(5)),
        replace(SMALL, attributes=900, predicates=(30, 30), attribute_distribution=zipf(1.5)),
        replace(SMALL, width=0.0, width_spread=1.0),
        replace(SMALL, values=zipf(1.2)),
        replace(SMALL, width=0.0, width_spread=0.9, codes=7, equal=0.3),
        replace(SMALL, subscriptions=ROWS + 1, attributes=2, predicates=(1, 2)),
    ],
)
def test_a_table_is_what_from_intervals_would_make_of_it(workload: Workload) -> None:
    table = workload.table()
    made = SubscriptionTable.from_intervals(
        *(getattr(table, name) for name in ARRAYS),
        n_subscriptions=workload.subscriptions,
        n_columns=workload.attributes,
    )
    for name in ARRAYS:
        theirs, ours = getattr(made, name), getattr(table, name)
        assert np.array_equal(ours, theirs)
        assert (ours.dtype, ours.flags.writeable) == (theirs.dtype, theirs.flags.writeable)
    assert table.low.min() >= 0
    assert table.high.max() <= 1


def test_each_subscription_has_as_many_attributes_as_asked_for() -> None:
    assert (SMALL.table().needed == 4).all()
    sizes = replace(SMALL, predicates=(1, 10)).table().needed
    assert np.unique(sizes).tolist() == list(range(1, 11))


def test_the_same_seed_gives_the_same_and_another_seed_another() -> None:
    assert np.array_equal(SMALL.table().low, SMALL.table().low)
    assert np.array_equal(SMALL.batch().value, SMALL.batch().value)
    other = replace(SMALL, seed=2)
    assert not np.array_equal(SMALL.table().low, other.table().low)
    assert not np.array_equal(SMALL.batch().value, other.batch().value)


def test_events_do_not_depend_on_the_subscriptions() -> None:
    assert np.array_equal(SMALL.batch().value, replace(SMALL, subscriptions=7, width=0.9).batch().value)


def test_predicates_are_as_wide_as_asked_for() -> None:
    table = SMALL.table()
    assert np.allclose(table.high - table.low, 0.3)
    table = replace(SMALL, width=0.2, width_spread=0.5).table()
    widths = table.high - table.low
    assert 0.2 <= widths.min() < 0.22
    assert 0.68 < widths.max() <= 0.7


def test_some_predicates_want_one_value() -> None:
    table = replace(SMALL, equal=0.25).table()
    assert set(np.round(table.high - table.low, 9).tolist()) == {0.0, 0.3}
    assert (table.low == table.high).mean() == pytest.approx(0.25, abs=0.03)


def test_codes_are_all_the_values_there_are() -> None:
    coded = replace(SMALL, width=0.0, codes=8)
    for values in (coded.table().low, coded.batch().value):
        assert sorted(set(values.tolist())) == [code / 8 for code in range(8)]


def test_without_more_said_low_ends_and_values_are_uniform() -> None:
    large = replace(SMALL, subscriptions=20_000, events=2_000)
    low, value = large.table().low, large.batch().value
    for q in (0.1, 0.5, 0.9):
        assert abs(np.quantile(low, q) - q * 0.7) < 0.01
        assert abs(np.quantile(value, q) - q) < 0.02
    assert np.allclose(np.bincount(large.table().column) / 20_000, 4 / 12, atol=0.02)


def test_an_event_has_all_attributes_or_as_many_as_asked_for() -> None:
    assert SMALL.batch().column.tolist() == [*range(12)] * 60
    events = replace(SMALL, event_size=5).batch()
    assert np.diff(events.offsets).tolist() == [5] * 60
    assert all(len(set(events.column[b : b + 5])) == 5 for b in events.offsets[:-1])


def test_all_attributes_are_drawn_at_once_however_skewed() -> None:
    """The weights of most are lost in the sum of all, and each was sought for as long as there were others."""
    start = attributes.line(np.arange(1.0, 3_001.0, dtype=np.float64) ** -5.0)
    rows = attributes.drawn(np.random.default_rng(1), np.array([0, 3_000, 3_002, 6_002]), start)
    assert rows[:3_000].tolist() == rows[3_002:].tolist() == list(range(3_000))
    assert rows[3_000] < rows[3_001]


def test_weights_decide_which_attributes_are_drawn() -> None:
    skewed = replace(SMALL, subscriptions=20_000, predicates=(1, 1), attribute_distribution=zipf(1.0))
    weights = 1 / np.arange(1, 13)
    drawn = np.bincount(skewed.table().column, minlength=12) / 20_000
    assert np.allclose(drawn, weights / weights.sum(), atol=0.02)


def test_those_drawn_before_leave_their_weight_to_the_others() -> None:
    skewed = replace(SMALL, subscriptions=40_000, attributes=3, predicates=(2, 2), attribute_distribution=zipf(1.0))
    w = np.array([6, 3, 2]) / 11
    without = [w[a] * w[b] / (1 - w[a]) + w[b] * w[a] / (1 - w[b]) for a, b in ((1, 2), (0, 2), (0, 1))]
    drawn = np.bincount(skewed.table().column, minlength=3) / 40_000
    assert np.allclose(drawn, 1 - np.array(without), atol=0.02)


@pytest.mark.parametrize(
    ("text", "mean", "deviation"),
    [("uniform", 0.5, 0.289), ("normal", 0.5, 0.141), ("normal:0.01", 0.5, 0.1), ("pareto:2", 0.4, 0.155)],
)
def test_values_have_the_mean_and_the_deviation_of_their_distribution(text: str, mean: float, deviation: float) -> None:
    values = Distribution.parse(text).values(np.random.default_rng(0), 50_000)
    assert values.min() >= 0
    assert values.max() <= 1
    assert values.mean() == pytest.approx(mean, abs=0.01)
    assert values.std() == pytest.approx(deviation, abs=0.01)


def test_most_values_of_a_zipf_distribution_are_small() -> None:
    values = Distribution.parse("zipf:1").values(np.random.default_rng(0), 50_000)
    assert (values < 0.001).mean() == pytest.approx(1 / 7.485, abs=0.01)


def test_hotspots_share_the_values_out() -> None:
    values = Distribution.parse("hotspots:3").values(np.random.default_rng(0), 30_000)
    spot = (values * 3).astype(int)
    assert np.allclose(values, (spot + 0.5) / 3, atol=0.001)
    assert np.bincount(spot).tolist() == pytest.approx([10_000] * 3, rel=0.05)


def test_with_a_dataset_predicates_lie_around_its_values(tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text("0 100, 7\n10 200, 7\n5 100, 7\n")  # scaled: 0, 1, 0.5 and 0, 1, 0 and 0, 0, 0
    workload = replace(SMALL, attributes=3, predicates=(3, 3), width=0.2, events=7, dataset=file)
    table, events = workload.table(), workload.batch()
    assert {round(low, 9) for low in table.low[table.column == 0].tolist()} == {0.0, 0.4, 0.8}
    assert {round(low, 9) for low in table.low[table.column == 1].tolist()} == {0.0, 0.8}
    rows = events.value.reshape(7, 3).tolist()
    assert {tuple(row) for row in rows} == {(0, 0, 0), (1, 1, 0), (0.5, 0, 0)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subscriptions": 0}, "subscriptions cannot be 0"),
        ({"events": 0}, "events cannot be 0"),
        ({"predicates": (3, 13)}, "predicates cannot be 3-13; it must be within 0 .. 12"),
        ({"event_size": 13}, "event size cannot be 13"),
        ({"width": 1.1}, "width cannot be 1.1"),
        ({"codes": 0}, "codes cannot be 0; it must be 1 or more"),
        ({"equal": 1.5}, "equal cannot be 1.5"),
        ({"width_spread": 0.8}, r"width spread cannot be 0.8; it must be within 0 .. 0.7"),
    ],
)
def test_what_cannot_be_is_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=message):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unifrom", "did you mean 'uniform'"),
        ("uniform:1", "takes no parameter"),
        ("zipf", "zipf:1.5"),
        ("zipf:x", "not a number"),
        ("zipf:-1", "above 0"),
        ("hotspots:1.5", "a whole number"),
        ("pareto:1", "above 1"),
    ],
)
def test_unknown_distributions_are_rejected(text: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        Distribution.parse(text)


def test_attributes_have_no_normal_distribution() -> None:
    with pytest.raises(BenchError, match="attributes cannot be distributed as normal"):
        replace(SMALL, attribute_distribution=Distribution("normal", 0.02)).table()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("1 2\n3\n", "as many numbers"),
        ("1 x\n", "as many numbers"),
        ("", "holds no rows"),
        ("1 nan\n", "not finite"),
        ("1 2\n3 4\n", "2 columns, fewer than the 12"),
    ],
)
def test_data_that_cannot_be_used_is_rejected_with_its_file(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "data.txt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BenchError, match=message) as rejected:
        replace(SMALL, dataset=file).batch()
    assert str(file) in str(rejected.value)


@pytest.mark.parametrize(
    "scenario",
    [
        WatchLists(subscriptions=50, length=20, symbols=1_000, hits=True, events=30),
        WatchLists(subscriptions=50, length=20, symbols=20, hits=False, events=30),
        Repeated(45, replace(SMALL, subscriptions=20)),
        Repeated(5, replace(SMALL, subscriptions=20)),
    ],
)
def test_tables_of_lists_and_of_repeated_subscriptions_are_what_from_intervals_makes(scenario: Scenario) -> None:
    table = scenario.prepared().table
    made = SubscriptionTable.from_intervals(
        *(getattr(table, name) for name in ARRAYS), n_subscriptions=table.n_subscriptions, n_columns=table.n_columns
    )
    for name in ARRAYS:
        assert np.array_equal(getattr(made, name), getattr(table, name))
        assert getattr(made, name).dtype == getattr(table, name).dtype
    assert scenario.small().prepared().table.n_subscriptions <= table.n_subscriptions


@pytest.mark.parametrize("hits", [True, False])
def test_events_of_watch_lists_all_hit_or_all_miss(hits: bool) -> None:
    prepared = WatchLists(subscriptions=50, length=20, symbols=1_000, hits=hits, events=300).prepared()
    matches = ALGORITHMS["scan"](prepared.table).match(prepared.encoded(0, len(prepared)))
    assert ((np.diff(matches.offsets) > 0) == hits).all()
    assert prepared.table.needed.tolist() == [1] * 50
    assert np.bincount(prepared.table.subscription).tolist() == [20] * 50


def test_repeated_subscriptions_take_turns() -> None:
    table = Repeated(45, replace(SMALL, subscriptions=20)).prepared().table
    rows = [(table.column[table.subscription == s], table.low[table.subscription == s]) for s in range(45)]
    for s in range(20, 45):
        assert all(np.array_equal(a, b) for a, b in zip(rows[s], rows[s - 20], strict=True))
    assert not np.array_equal(rows[0][1], rows[1][1])

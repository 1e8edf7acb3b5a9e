"""The split point of PEM: Eq. 1 to 3, and its reaction to the times of both sides."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, MatchBatch, Matcher, MatchingError, SubscriptionTable
from matchers.papers import pem
from matchers.papers.pem.library import LIBRARY, Builder, LibraryAlgorithm
from matchers.papers.pem.split_point import apart, balanced, cuts_of, elastic, follow

pytestmark = pytest.mark.kernels
inf = float("inf")
PSI = 20


def table(n: int = 640, columns: int = 4, seed: int = 7) -> SubscriptionTable:
    """Subscriptions of two predicates, from narrow to wide."""
    rng = np.random.default_rng(seed)
    column = np.argsort(rng.random((n, columns)), axis=1)[:, :2]
    low = rng.random((n, 2)) * 0.5
    high = low + np.linspace(0, 0.5, n)[:, None]
    return SubscriptionTable.from_intervals(
        np.repeat(np.arange(n), 2), column.ravel(), low.ravel(), high.ravel(), n_subscriptions=n, n_columns=columns
    )


def events(n: int = PSI, columns: int = 4, seed: int = 8) -> EventBatch:
    return EventBatch.from_dense(np.random.default_rng(seed).random((n, columns)))


@pytest.mark.parametrize(
    ("sp", "t_1", "t_2", "expected"),
    [
        (0.5, 3.0, 3.0, 0.5),  # range 0.4 .. 0.6: 0.6 - 3 * 0.2 / 6
        (0.5, 1.0, 3.0, 0.55),  # 0.6 - 1 * 0.2 / 4
        (0.5, 3.0, 1.0, 0.45),  # 0.6 - 3 * 0.2 / 4
        (0.5, 0.0, 1.0, 0.6),  # the range's upper end
        (0.5, 1.0, 0.0, 0.4),  # and its lower one
        (0.25, 2.0, 3.0, 0.26),  # range 0.2 .. 0.3: 0.3 - 2 * 0.1 / 5
    ],
)
def test_equation_3(sp: float, t_1: float, t_2: float, expected: float) -> None:
    assert elastic(sp, t_1, t_2, alpha=0.2) == pytest.approx(expected)


def test_equation_1_is_the_mean_width_of_the_predicates() -> None:
    built = SubscriptionTable.from_intervals(
        #       0: 2 and 5 of 10    1: an open end, 3 of 10    2: 1 + 3 of 10   3: never   4: the domain has no width
        [0, 0, 1, 2, 2, 3, 4, 6, 6],
        [0, 1, 0, 1, 1, 1, 2, 0, 1],
        [3, 0, 7, 2, 6, inf, 5, 0, 0],
        [5, 5, inf, 3, 9, -inf, 5, 10, 10],
        n_subscriptions=7,
        n_columns=3,
    )
    assert pem.probabilities(built).tolist() == pytest.approx([0.35, 0.3, 0.4, 0, 1, 1, 1])  # 5 has no predicate


def test_equation_2_is_the_share_of_events_on_the_predicates() -> None:
    built = SubscriptionTable.from_intervals(
        [0, 0, 1, 2], [0, 1, 0, 1], [0, 5, 9, inf], [4, 8, 9, -inf], n_subscriptions=4, n_columns=2
    )
    seen = EventBatch.from_dense([[0.0, 5.0], [4.0, np.nan], [9.0, 9.0], [2.0, 7.0]])
    assert pem.probabilities(built, seen).tolist() == [(3 / 4 + 2 / 4) / 2, 1 / 4, 0, 1]
    assert pem.probabilities(built, EventBatch.from_dense(np.empty((0, 2)))).tolist() == [0, 0, 0, 1]


def test_the_classification_follows_the_events_given() -> None:
    built = SubscriptionTable.from_intervals([0, 1], [0, 0], [0, 8], [7, 10], n_subscriptions=2, n_columns=1)
    assert pem.build(built).order.tolist() == [1, 0]  # the narrow one is the less probable,
    assert pem.build(built, events=EventBatch.from_dense([[9.0]])).order.tolist() == [0, 1]  # unless all hit it


@pytest.mark.parametrize(
    ("splits", "n_slices", "cuts"),
    [
        *(((sp,), 4, (cut,)) for sp, cut in ((0.0, 1), (0.1, 1), (0.5, 2), (0.9, 3), (1.0, 3))),
        ((0.25, 0.75), 8, (2, 6)),
        ((0.5, 0.5), 4, (2, 3)),
        ((0.9, 0.9), 4, (2, 3)),
        ((0.0, 0.0), 4, (1, 2)),
        ((0.3, 0.6), 2, (1, 2)),  # too few for three
        ((0.3, 0.6), 0, (0, 0)),
    ],
)
def test_no_side_is_ever_empty(splits: tuple[float, ...], n_slices: int, cuts: tuple[int, ...]) -> None:
    assert cuts_of(splits, n_slices) == cuts


def test_balance_counts_what_moves_at_what_it_took() -> None:
    even = [np.ones(4)] * 2
    assert balanced((2,), np.array([1.0, 1.0, 1.0, 1.0]), even) == (2,)
    assert balanced((2,), np.array([1.0, 9.0, 1.0, 1.0]), even) == (1,)  # the one slow slice goes
    assert balanced((2,), np.array([1.0, 1.0, 1.0, 9.0]), even) == (3,)  # the fast one before it goes, it stays


def test_the_balance_of_several_is_the_best_of_all_cuts() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        times, works = rng.random(9), rng.random((4, 9))
        cuts = tuple(sorted((1 + rng.choice(8, 3, replace=False)).tolist()))
        at = np.searchsorted(cuts, np.arange(9), side="right")
        taken = [
            np.where(at == i, times, work * times[at == i].sum() / work[at == i].sum()) for i, work in enumerate(works)
        ]

        def slowest(cuts: tuple[int, ...], taken: list[np.ndarray] = taken) -> float:
            return max(float(part[a:b].sum()) for part, (a, b) in zip(taken, pairwise((0, *cuts, 9)), strict=True))

        best = balanced(cuts, times, list(works))
        assert slowest(best) == pytest.approx(min(map(slowest, combinations(range(1, 9), 3))))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([1.1, 1.0], 0.6 - 1.1 * 0.2 / 2.1),  # within alpha: Eq. 3
        ([0.0, 0.0], 0.5),  # nothing measured
        ([1.0, 9.0], 0.75),  # beyond: 3 slices of 0.5 on the one side, 1 of 4.5 on the other
    ],
)
def test_small_differences_are_followed_by_equation_3_and_great_ones_at_once(
    times: list[float], expected: float
) -> None:
    of_slices = np.repeat(times, 2) / 2
    assert follow((0.5,), of_slices, [np.ones(4)] * 2, alpha=0.2) == pytest.approx((expected,))


def test_neighbours_of_several_are_balanced_by_equation_3() -> None:
    followed = follow((0.25, 0.75), np.repeat([2.0, 1.0, 2.2], (2, 4, 2)) / 4, [np.ones(8)] * 3, alpha=0.2)
    t_1, t_2, t_3 = 1.0, 1.0, 1.1
    assert followed == pytest.approx((0.3 - 0.1 * t_1 / (t_1 + t_2), 0.9 - 0.3 * t_2 / (t_2 + t_3)))


def test_split_points_keep_a_slice_apart() -> None:
    assert apart((0.5, 0.5, 0.9), 10) == pytest.approx((0.5, 0.6, 0.9))
    assert apart((0.0, 1.0, 1.0), 4) == pytest.approx((0.25, 0.5, 0.75))


class Costs:
    """A clock of its own for each thread, which stands still but for what the sides are told to take."""

    def __init__(self) -> None:
        self.low = self.middle = self.high = 1.0
        self.thread = threading.local()

    def __call__(self) -> float:
        return getattr(self.thread, "now", 0.0)

    def spend(self, seconds: float) -> None:
        self.thread.now = self() + seconds

    def side(self, name: str) -> Builder:
        return lambda built: CostingSide(ALGORITHMS["scan"](built), built.n_subscriptions, name, self)


@dataclass(frozen=True, eq=False)
class CostingSide(Matcher):
    inner: Matcher
    n: int
    side: str
    costs: Costs

    def match(self, events: EventBatch) -> MatchBatch:
        self.costs.spend(getattr(self.costs, self.side) * self.n * len(events))
        return self.inner.match(events)


def costing(
    costs: Costs, names: tuple[str, ...] = ("low", "high"), low: Builder | None = None, **options: Any
) -> pem.Pem:
    """An ensemble whose algorithms take what `costs` says."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            builder = low if low and name == "low" else costs.side(name)
            patch.setitem(LIBRARY, name, LibraryAlgorithm(builder, lambda hits, misses: np.ones(len(hits))))
        return pem.build(options.pop("of", table()), algorithms=names, clock=costs, **options)


def slower(splits: tuple[float, ...], *costs: float, n_slices: int = 16) -> float:
    cuts = (0, *cuts_of(splits, n_slices), n_slices)
    return max(cost * (b - a) for cost, (a, b) in zip(costs, pairwise(cuts), strict=True)) / n_slices


@pytest.mark.parametrize(("low", "high"), [(1, 4), (4, 1), (1, 1.5), (10, 1), (1, 100)])
def test_after_a_change_both_sides_take_alike_within_two_windows_and_so_they_stay(low: float, high: float) -> None:
    costs = Costs()
    matcher = costing(costs)
    for _ in range(3):
        matcher.match(events())
    for now in ((low, high), (1.0, 1.0), (high, low)):
        costs.low, costs.high = now
        for window in range(10):
            matcher.match(events())
            if window >= 1:
                best = min(slower((cut / 16,), *now) for cut in range(1, 16))
                assert slower(matcher.splits, *now) <= 1.2 * best


@pytest.mark.parametrize("now", [(1, 1, 4), (4, 1, 1), (1, 5, 1), (1, 2, 3), (9, 1, 9)])
def test_three_sides_take_alike_after_two_windows(now: tuple[float, float, float]) -> None:
    costs = Costs()
    matcher = costing(costs, ("low", "middle", "high"))
    costs.low, costs.middle, costs.high = now
    best = min(slower((i / 16, j / 16), *now) for i, j in combinations(range(1, 16), 2))
    for window in range(10):
        matcher.match(events())
        assert window < 1 or slower(matcher.splits, *now) <= 1.2 * best


def test_the_split_point_moves_at_the_end_of_a_window_only() -> None:
    costs = Costs()
    costs.high = 4.0
    matcher = costing(costs)
    for _ in range(PSI - 1):
        matcher.match(events(1))
        assert matcher.splits == (0.5,)
    matcher.match(events(1))
    assert matcher.splits[0] > 0.5


def test_without_adjusting_the_split_point_stays() -> None:
    costs = Costs()
    costs.high = 4.0
    fixed = costing(costs, split=0.3, adjust=False)
    learnt = fixed.learnt
    fixed.match(events(3 * PSI))
    assert fixed.splits == (0.3,)
    assert fixed.settled
    assert [len(run.subscription) for side in fixed.sides for run in side.runs.values()] == [192, 448]  # of 640
    assert fixed.learnt == learnt == 2


@pytest.mark.parametrize("split", [0.1, 0.25, 0.9])
def test_split_points_may_be_values_of_p(split: float) -> None:
    built = table()
    p = pem.probabilities(built)  # 0 .. 0.5
    fixed = pem.build(built, split=split, ranked=False, adjust=False)
    found = [next(iter(side.runs.values())).subscription for side in fixed.sides]
    assert [len(part) for part in found] == [np.count_nonzero(p < split), np.count_nonzero(p >= split)]
    assert (p[found[0]] < split).all()
    batch = events(5)
    assert fixed.match(batch).subscription.tolist() == ALGORITHMS["scan"](built).match(batch).subscription.tolist()


def test_it_has_settled_after_windows_without_an_index_to_build() -> None:
    costs = Costs()
    costs.high = 4.0
    matcher = costing(costs)
    learnt = matcher.learnt
    matcher.match(events(PSI))
    assert matcher.learnt > learnt  # SP has moved
    learnt = matcher.learnt
    for _ in range(20):
        assert not (matcher.settled and matcher.learnt > learnt)
        learnt = matcher.learnt
        matcher.match(events(PSI))
    assert matcher.settled


def test_slices_that_stay_become_one_index_a_side() -> None:
    costs = Costs()
    costs.high = 4.0
    matcher = costing(costs)
    matcher.match(events(PSI))
    low, high = range(13), range(13, 16)  # 13 * 1 is close to 3 * 4
    runs = [side.parts(own) for side, own in zip(matcher.sides, (low, high), strict=True)]
    assert [len(parts) for parts in runs] == [3, 2]
    for window in range(6):
        assert [side.parts(own) for side, own in zip(matcher.sides, (low, high), strict=True)] == (
            runs if window < 5 else [[low], [high]]
        )
        found = matcher.match(events(PSI))
    assert found.subscription.tolist() == ALGORITHMS["scan"](table()).match(events(PSI)).subscription.tolist()
    assert matcher.splits == pytest.approx((13 / 16,), abs=1 / 16)


def test_a_batch_is_as_many_windows_as_it_has_events_for() -> None:
    at_once, in_pieces = Costs(), Costs()
    at_once.high = in_pieces.high = 1.1
    one, other = costing(at_once), costing(in_pieces)
    one.match(events(3 * PSI))
    for _ in range(3):
        other.match(events(PSI))
    assert one.splits == other.splits > (0.5,)


def test_each_run_of_slices_is_indexed_once_a_side_whatever_the_split_point_does() -> None:
    built: list[int] = []

    def counted(of: SubscriptionTable) -> Matcher:
        built.append(of.n_subscriptions)
        return CostingSide(ALGORITHMS["scan"](of), of.n_subscriptions, "low", costs)

    costs = Costs()
    matcher = costing(costs, low=counted)
    before = matcher.memory_bytes()
    rng = np.random.default_rng(1)
    for _ in range(60):
        costs.high = float(np.exp(rng.normal() * 2))
        matcher.match(events())
    assert sum(built) <= 2 * 640  # runs of 1, 2, 4 and 8 slices, each second one of a length
    assert len(built) == len(matcher.sides[0].runs)
    assert matcher.memory_bytes() > before


@pytest.mark.parametrize("slices", [1, 2, 3, 16, 1000])
def test_aligned_runs_are_disjoint_and_complete(slices: int) -> None:
    for cut in range(slices + 1):
        for side in (range(cut), range(cut, slices)):
            runs = list(pem.aligned(side))
            assert [i for run in runs for i in run] == list(side)
            assert all(run.start % len(run) == 0 and len(run).bit_count() == 1 for run in runs)
            assert len(runs) <= max(1, 2 * slices.bit_length() - 2)


@pytest.mark.parametrize("names", [("low", "high"), ("low", "middle", "high")])
def test_matches_do_not_depend_on_where_the_split_points_are_or_who_moves_them(names: tuple[str, ...]) -> None:
    built, batch = table(), events(70)
    expected = ALGORITHMS["scan"](built).match(batch)
    costs = Costs()
    matcher = costing(costs, names, of=built, window=3)

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(3):
            costs.high = float(np.exp(rng.normal() * 2))
            found = matcher.match(batch)
            assert found.offsets.tolist() == expected.offsets.tolist()
            assert found.subscription.tolist() == expected.subscription.tolist()

    with ThreadPoolExecutor(4) as callers:
        list(callers.map(ask, range(4)))
    assert all(0 < sp < 1 for sp in matcher.splits)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"split": 1.0}, "split must be between 0 and 1, not 1.0"),
        ({"alpha": 0.0}, "alpha must be between 0 and 1, not 0.0"),
        ({"window": 0}, "window must be 1 or more, not 0"),
        ({"slices": 1}, "slices must be 2 or more, one for each algorithm, not 1"),
        ({"split": "half"}, "split must be between 0 and 1, not half"),
        ({"split": [0.2, 0.4]}, r"split must be between 0 and 1, not \[0.2, 0.4\]"),
        (
            {"split": [0.4, 0.2], "algorithms": ("tama", "hem", "rein")},
            r"split must be a list of 2 ascending numbers between 0 and 1, not \[0.4, 0.2\]",
        ),
        ({"algorithms": ("tama", "rien")}, "algorithms: 'rien' cannot be one of these; did you mean 'rein'?"),
        ({"algorithms": "tama"}, "algorithms must be a list of two or more different ones of tama, opindex, hem, rein"),
        ({"algorithms": ("rein", "rein")}, r"not \('rein', 'rein'\)"),
    ],
)
def test_what_options_must_be(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(MatchingError, match=reason):
        pem.build(table(), **options)


def test_a_list_of_values_in_a_domain_without_width_is_no_more_than_certain() -> None:
    """Both ends of the domain are one value, so each interval takes all of it."""
    table = SubscriptionTable.from_intervals(
        [0, 0, 1], [0, 0, 0], [5.0, -np.inf, 5.0], [5.0, -np.inf, 5.0], n_subscriptions=2, n_columns=1
    )
    assert (pem.probabilities(table) <= 1).all()
    found = pem.build(table).match(EventBatch.from_dense([[5.0], [4.0]]))
    assert [found.of(e).tolist() for e in range(2)] == [[0, 1], []]

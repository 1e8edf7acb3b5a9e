"""`auto` measures on samples, extrapolates to the whole table, and explains its choice."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from threading import Barrier

import numpy as np
import pytest

from matchers import ALGORITHMS, EventBatch, Interfaces, MatchBatch, Matcher, MatchingError, SubscriptionTable
from matchers.algorithms import auto
from matchers.algorithms.auto import candidates, choosing, drawing
from matchers.algorithms.auto.choosing import Choice
from matchers.algorithms.auto.kernel import expanded
from matchers.algorithms.auto.repeated import Once, different
from matchers.algorithms.auto.trial import TURNS, TURNS_ALONE, Trial
from tests.support.generators.algorithms import UNCOMPILED
from tests.support.patience import PATIENCE_S
from tests.unit.matchers.agreement import agrees, random_batch, random_table, uniform_table

pytestmark = pytest.mark.kernels


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Timed(Matcher):
    """Takes so many us with 1,000 subscriptions, and so much more for each attribute of the events; lists nothing."""

    def __init__(self, table: SubscriptionTable, us: float, growth: float, attribute: float, clock: Clock) -> None:
        self.us, self.attribute, self.clock = us * (table.n_subscriptions / 1_000) ** growth, attribute, clock

    def match(self, events: EventBatch) -> MatchBatch:
        self.clock.now += 1e-6 * (self.us * len(events) + self.attribute * len(events.column))
        return MatchBatch(np.zeros(len(events) + 1, np.int64), np.empty(0, np.int32))


def timed(clock: Clock, us: float, growth: float = 0.0, attribute: float = 0.0) -> choosing.Build:
    return lambda table: Timed(table, us, growth, attribute, clock)


def chosen(
    table: SubscriptionTable,
    attributes: float | None = None,
    batch: float | None = 64,
    **algorithms: tuple[float, float, float],
) -> list[Choice]:
    clock = Clock()
    builds = {name: timed(clock, *times) for name, times in algorithms.items()}
    return choosing.choose(table, builds, clock, attributes, batch)[0]


def test_what_grows_less_is_chosen_for_a_large_table_though_it_is_behind_on_both_samples() -> None:
    linear, root = (1.0, 1.0, 0.0), (9.0, 0.5, 0.0)
    (small,) = chosen(uniform_table(8_000, 3, 2, 0.3), linear=linear, root=root)
    (large,) = chosen(uniform_table(200_000, 3, 2, 0.3), linear=linear, root=root)
    assert (small.algorithm, large.algorithm) == ("linear", "root")
    assert small.us == pytest.approx(8.0)
    assert 9 * 200**0.5 < large.us < 200


def test_events_of_few_attributes_may_have_another_algorithm_than_events_of_many() -> None:
    found = chosen(uniform_table(3_000, 40, 4, 0.3), sparse=(0.0, 0.0, 1.0), dense=(25.0, 0.0, 0.0))
    assert [choice.algorithm for choice in found] == ["sparse", "sparse", "sparse", "dense"]
    assert [round(choice.attributes) for choice in found] == [4, 9, 19, 40]


def test_events_that_come_alone_may_have_another_algorithm_than_those_in_batches() -> None:
    """An algorithm whose calls take long shares that time among the events of a batch."""
    table, clock = uniform_table(3_000, 4, 4, 0.3), Clock()

    def calls(seconds: float, us: float) -> choosing.Build:
        class Called(Timed):
            def match(self, events: EventBatch) -> MatchBatch:
                clock.now += seconds
                return super().match(events)

        return lambda t: Called(t, us, 0.0, 0.0, clock)

    found, _ = choosing.choose(table, {"quick": calls(0.0, 9.0), "long": calls(1e-4, 1.0)}, clock)
    assert [(choice.batch, choice.algorithm) for choice in found] == [(1, "quick"), (64, "long"), (1_024, "long")]
    (known,), _ = choosing.choose(table, {"quick": calls(0.0, 9.0), "long": calls(1e-4, 1.0)}, clock, batch=700.0)
    assert (known.batch, known.algorithm) == (1_024, "long")


def test_of_two_that_are_built_the_whole_table_decides_and_who_gains_nothing_on_it_is_dropped() -> None:
    """On the samples each is ahead for events of some sizes. `dense` is slow where they end."""
    clock, table, before = Clock(), uniform_table(30_000, 40, 4, 0.3), choosing.SAMPLES[-1]
    found, matchers = choosing.choose(
        table,
        {
            "sparse": lambda t: Timed(t, 0.0, 0.0, 1.0, clock),
            "dense": lambda t: Timed(t, 20.0 if t.n_subscriptions <= before else 100.0, 0.0, 0.0, clock),
        },
        clock,
    )
    assert {choice.algorithm for choice in found} == {"sparse"}
    assert list(matchers) == ["sparse"]
    assert [round(choice.us) for choice in found] == [4, 9, 19, 40] * len(choosing.BATCHES)


def test_where_the_size_of_events_is_known_one_algorithm_is_chosen_for_it() -> None:
    table, sparse, dense = uniform_table(3_000, 40, 4, 0.3), (0.0, 0.0, 1.0), (15.0, 0.0, 0.0)
    assert [c.algorithm for c in chosen(table, 14, sparse=sparse, dense=dense)] == ["sparse"]
    assert [c.algorithm for c in chosen(table, 16, sparse=sparse, dense=dense)] == ["dense"]


@pytest.mark.parametrize(("n", "most"), [(3_000, 3), (choosing.SAMPLES[-1] + 1, 2)])
def test_a_large_table_has_two_indexes_and_others_three_at_most(n: int, most: int) -> None:
    seconds = np.where(np.eye(4, dtype=bool), 1.0, 5.0)
    assert len(set(choosing._several(seconds, most))) == most
    built = chosen(uniform_table(n, 40, 4, 0.3), a=(0.0, 0.0, 1.0), b=(9.0, 0.0, 0.2), c=(15.6, 0.0, 0.0))
    assert 1 <= len({choice.algorithm for choice in built}) <= most


def test_one_index_serves_all_events_where_another_would_gain_next_to_nothing() -> None:
    found = chosen(uniform_table(3_000, 40, 4, 0.3), one=(100.0, 0.0, 0.0), other=(98.0, 0.0, 0.1))
    assert len({choice.algorithm for choice in found}) == 1


def test_who_is_far_behind_on_the_small_sample_is_not_asked_about_the_large_one() -> None:
    clock, built = Clock(), []

    def build(name: str, us: float) -> choosing.Build:
        def made(table: SubscriptionTable) -> Matcher:
            built.append((name, table.n_subscriptions))
            return Timed(table, us, 0.0, 0.0, clock)

        return made

    table = uniform_table(30_000, 4, 2, 0.3)
    choosing.choose(table, {"fast": build("fast", 1.0), "slow": build("slow", 5.0)}, clock)
    tiny, (small, large) = choosing.TINY, choosing.SAMPLES
    samples = [("fast", tiny), ("slow", tiny), ("fast", small), ("slow", small), ("fast", large)]
    assert built == [*samples, ("fast", 30_000)]


@pytest.mark.parametrize("fastest", ["first", "last"])
def test_all_candidates_are_measured_however_slow_the_first_of_them_are(fastest: str) -> None:
    """The slow ones would spend all time if they were measured one after the other."""
    clock, us = Clock(), dict.fromkeys("abcdef", 1e6 * choosing.MOST_S)
    us = {fastest: 5.0, **us} if fastest == "first" else {**us, fastest: 5.0}
    builds = {name: timed(clock, us=own) for name, own in us.items()}
    found, _ = choosing.choose(uniform_table(3_000, 4, 2, 0.3), builds, clock)
    assert {choice.algorithm for choice in found} == {fastest}


def test_slow_candidates_take_a_fair_share_of_the_time() -> None:
    clock, called = Clock(), dict.fromkeys(("slow", "slower", "fast"), 0)

    def build(name: str, us: float) -> choosing.Build:
        class Counted(Timed):
            def match(self, events: EventBatch) -> MatchBatch:
                called[name] += len(events)
                return super().match(events)

        return lambda table: Counted(table, us, 0.0, 0.0, clock)

    builds = {"slow": build("slow", 3_000.0), "slower": build("slower", 9_000.0), "fast": build("fast", 5.0)}
    choosing.choose(uniform_table(3_000, 4, 2, 0.3), builds, clock)
    loading = choosing.TINY + 1
    cases = len(choosing.BATCHES) * drawing.SIZES
    assert called["slow"] == called["slower"] == loading + 2 * cases < called["fast"]


def test_when_the_time_is_up_no_further_round_begins() -> None:
    clock, called = Clock(), []

    class Slow(Timed):
        def match(self, events: EventBatch) -> MatchBatch:
            called.append(len(events))
            return super().match(events)

    us = 1e6 * choosing.MOST_S
    choosing.choose(uniform_table(3_000, 4, 2, 0.3), {"slow": lambda t: Slow(t, us, 0, 0, clock)}, clock, 2, 64)
    assert called[2:] == [1, 1]  # without those that load it


@pytest.mark.large
def test_samples_of_long_lists_have_fewer_subscriptions() -> None:
    built = []

    def build(table: SubscriptionTable) -> Matcher:
        built.append((table.n_subscriptions, len(table.column)))
        return Timed(table, 1.0, 0.0, 0.0, Clock())

    n, length = 1_000, 3_000
    values = np.arange(n * length, dtype=float)
    table = SubscriptionTable.from_intervals(
        np.repeat(np.arange(n), length), np.zeros(n * length, int), values, values, n_subscriptions=n, n_columns=1
    )
    choosing.choose(table, {"any": build}, Clock(), 1, 64)
    assert [listed for _, listed in built[1:-1]] == [choosing.LISTED // 4, choosing.LISTED]
    assert built[-1] == (n, n * length)


def test_who_is_not_asked_about_the_large_sample_in_time_is_taken_to_grow_like_the_others() -> None:
    clock = Clock()

    def build(us: float, attribute: float) -> choosing.Build:
        def made(table: SubscriptionTable) -> Matcher:
            if table.n_subscriptions > choosing.SAMPLES[0]:
                clock.now += choosing.MOST_S
            return Timed(table, us, 1.0, attribute * table.n_subscriptions, clock)

        return made

    table = uniform_table(13_000, 40, 4, 0.3)
    found, _ = choosing.choose(table, {"flat": build(3.0, 0.0), "sparse": build(0.0, 2.5e-4)}, clock, batch=64)
    assert [choice.algorithm for choice in found] == ["sparse", "sparse", "flat", "flat"]
    assert [choice.us for choice in found] == pytest.approx([4 * 3.25, 9 * 3.25, 39, 39])


def test_a_table_not_much_longer_than_the_small_sample_is_measured_itself() -> None:
    built = []

    def build(table: SubscriptionTable) -> Matcher:
        built.append(table.n_subscriptions)
        return Timed(table, 1.0, 0.0, 0.0, Clock())

    choosing.choose(uniform_table(2 * choosing.SAMPLES[0], 4, 2, 0.3), {"any": build}, Clock())
    assert built == [choosing.TINY, *[2 * choosing.SAMPLES[0]] * 2]


def test_drawn_events_hold_values_of_intervals_in_as_many_attributes_as_asked() -> None:
    table = SubscriptionTable.from_intervals(
        [0, 0, 1, 2], [0, 1, 1, 2], [3, -np.inf, 5, -np.inf], [3, 7, np.inf, np.inf], n_subscriptions=3, n_columns=3
    )
    events = drawing.drawn(table, 2)
    assert len(events) == drawing.EVENTS
    near = np.repeat(np.arange(len(events)), np.diff(events.offsets)) % drawing.ELSEWHERE < drawing.ELSEWHERE - 1
    drawn = zip(events.column[near].tolist(), events.value[near].tolist(), strict=True)
    assert set(drawn) == {(0, 3.0), (1, 7.0), (1, 5.0)}
    assert (np.diff(events.offsets) == 2).all()  # nothing is known of the third column, so nobody has it
    assert set(np.diff(drawing.drawn(table, 1).offsets)) == {1}


def test_a_part_of_the_drawn_events_matches_nothing() -> None:
    values = np.arange(0.0, 3_000.0, 3.0)
    table = SubscriptionTable.from_intervals(
        np.arange(1_000) % 10, np.zeros(1_000, int), values, values, n_subscriptions=10, n_columns=1
    )
    events = drawing.drawn(table, 1)
    matched = np.diff(ALGORITHMS["scan"](table).match(events).offsets) > 0
    assert matched.tolist() == (np.arange(len(events)) % drawing.ELSEWHERE < drawing.ELSEWHERE - 1).tolist()
    missed = events.value[~matched]
    assert missed.min() < 0 < np.median(missed) < 2_997 < missed.max()


@pytest.mark.parametrize("attributes", [900, 3_000])
def test_of_large_events_few_are_drawn_and_measured(attributes: int) -> None:
    table = uniform_table(500, attributes, 10, 0.3)
    assert drawing.LEAST <= len(drawing.drawn(table, attributes)) < drawing.EVENTS
    found = chosen(table, batch=None, one=(1.0, 0.0, 0.0))
    assert len(found) == len(choosing.BATCHES) * drawing.SIZES
    assert {round(choice.us, 3) for choice in found} == {1.0}


def test_the_largest_events_have_attributes_that_no_subscription_has() -> None:
    table = SubscriptionTable.from_intervals([0, 1], [3, 5], [1.0, 2.0], [1.0, 2.0], n_subscriptions=2, n_columns=9)
    assert drawing.event_sizes(table)[-1] == 9
    wanted = {1: 1, 2: 2, 4: 4, 9: 9, 20: 9}
    assert {size: int(np.diff(drawing.drawn(table, size).offsets).mean()) for size in wanted} == wanted
    event = drawing.drawn(table, 4).part(0, 1)
    assert {3, 5} < set(event.column.tolist())


def test_a_sample_has_subscriptions_of_all_parts_of_the_table() -> None:
    table = uniform_table(1_000, 5, 2, 0.3)
    sample = drawing.sampled(table, 10)
    assert sample.n_subscriptions == 10
    assert sample.needed.tolist() == [2] * 10
    assert sample.low[-2:].tolist() == table.low[-2:].tolist()


@pytest.mark.parametrize("n", [0, 1, candidates.TINY])
def test_a_tiny_table_is_scanned(n: int) -> None:
    built = auto.build(uniform_table(n, 3, 2, 0.3))
    assert built.algorithms == ["scan"]
    assert built.about == f"scan for {n} subscriptions of {2 * (n > 0)} of 3 attributes each, too few to measure"


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_tiny_table_of_subscriptions_that_need_one_attribute_has_tama_for_batches(
    is_ready: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "compiled", lambda _: is_ready)
    table = uniform_table(60, 3, 1, 0.3)
    built = auto.build(table)
    assert built.algorithms == (["scan", "tama"] if is_ready else ["scan"])
    first = "scan, tama in batches" if is_ready else "scan"
    assert built.about == f"{first} for 60 subscriptions of 1 of 3 attributes each, too few to measure"
    events = random_batch(np.random.default_rng(4), 100, 3)
    agrees(built, table, events)
    agrees(built, table, events.part(0, 1))
    assert auto.build(uniform_table(60, 3, 2, 0.3)).algorithms == ["scan"]


def test_the_reason_is_one_log_line_of_which_updates_make_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = uniform_table(auto.OFTEN + 1, 3, 2, 0.3)
    monkeypatch.setattr(
        auto, "choose", lambda *_: ([Choice(1, 1.0, "scan", 1.0)], {"scan": ALGORITHMS["scan"].build(table)})
    )
    with caplog.at_level(logging.INFO, "sluice.matching"):
        auto.build(uniform_table(auto.OFTEN, 3, 2, 0.3))
        assert caplog.messages == []
        built = auto.build(table)
    assert caplog.messages == [built.reason]


def test_a_table_of_few_asks_for_compiled_kernels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = {candidates.CANDIDATES[name].kernel for name in ("counting", "hem")}
    monkeypatch.setattr(candidates, "compiled", ready.__contains__)
    assert candidates.asked(uniform_table(candidates.FEW_SUBSCRIPTIONS, 3, 2, 0.3)) == ["hem", "counting", "scan"]


def lists(n: int, length: int) -> SubscriptionTable:
    """n lists of so many values, all different."""
    values = np.random.default_rng(3).permutation(n * length).astype(float)
    owner = np.repeat(np.arange(n), length)
    return SubscriptionTable.from_intervals(
        owner, np.zeros(n * length, int), values, values, n_subscriptions=n, n_columns=1
    )


def test_few_long_lists_are_no_small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert candidates.is_tiny(lists(64, 4))
    assert candidates.is_tiny(lists(6, 10))
    assert candidates.is_tiny(uniform_table(64, 20, 10, 0.3))
    assert not candidates.is_tiny(lists(10, 10))
    assert candidates.is_few(lists(100, 100))
    assert not candidates.is_few(lists(100, 2_100))
    monkeypatch.setattr(candidates, "compiled", lambda _: False)
    assert candidates.asked(lists(100, 2_100)) == ["tiles", "hem", "tama", "scan"]


@pytest.mark.parametrize(
    ("attributes", "predicates", "width", "names"),
    [(9, 3, 0.01, ["tiles"]), (9, 1, 0.5, ["tiles", "hem"]), (99, 4, 0.01, ["tiles", "be_tree", "ocm"])],
    ids=["selective", "dense", "sparse"],
)
def test_a_longer_table_has_those_compiled_that_may_be_far_ahead(
    monkeypatch: pytest.MonkeyPatch, attributes: int, predicates: int, width: float, names: list[str]
) -> None:
    monkeypatch.setattr(candidates, "compiled", lambda _: False)
    assert candidates.asked(uniform_table(candidates.FEW_SUBSCRIPTIONS + 1, attributes, predicates, width)) == names


@pytest.mark.filterwarnings("error")
def test_subscriptions_that_contradict_themselves_do_not_count_for_the_kind_of_a_table() -> None:
    n = 100
    low = np.concatenate([np.arange(n), np.full(n, np.inf)])
    high = np.concatenate([np.full(n, np.inf), np.full(n, -np.inf)])
    table = SubscriptionTable.from_intervals(range(2 * n), [0] * (2 * n), low, high, n_subscriptions=2 * n, n_columns=1)
    assert auto._kind(table) == auto._kind(table)


@pytest.mark.filterwarnings("error")
def test_ranges_as_wide_as_all_doubles_are_measured_without_a_warning() -> None:
    ends = np.tile([[-1.7e308, 1.7e308], [1.0, 2.0]], (50, 1))
    built = auto.build(
        SubscriptionTable.from_intervals(range(100), [0] * 100, *ends.T, n_subscriptions=100, n_columns=1)
    )
    assert built.match(EventBatch.from_dense([[1.5]])).of(0).tolist() == list(range(100))


def test_what_was_measured_for_few_holds_for_others_of_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def choose(table: SubscriptionTable, *_: object) -> tuple[list[Choice], dict[str, Matcher]]:
        measured.append(table.n_subscriptions)
        return [Choice(1, 1.0, "scan", 1.0)], {"scan": Timed(table, 1.0, 0.0, 0.0, Clock())}

    monkeypatch.setattr(auto, "choose", choose)
    monkeypatch.setattr(auto, "asked", lambda _: ["tiles", "scan"])
    monkeypatch.setattr(auto, "_chosen", {})
    for n in (600, 700, 1_100, 600, candidates.FEW_SUBSCRIPTIONS + 1, candidates.FEW_SUBSCRIPTIONS + 1):
        auto.build(uniform_table(n, 3, 2, 0.3))
    assert measured == [600, 1_100, candidates.FEW_SUBSCRIPTIONS + 1, candidates.FEW_SUBSCRIPTIONS + 1]
    auto.build(uniform_table(600, 3, 1, 0.3))
    auto.build(uniform_table(600, 3, 2, 0.9))
    assert len(measured) == 6
    auto.build(lists(600, 1))
    auto.build(lists(600, 9))
    assert len(measured) == 8
    for attributes in (20.0, 20.5, 40.0):
        auto.build(uniform_table(600, 3, 2, 0.3), attributes=attributes)
    assert len(measured) == 10


def test_the_reason_tells_the_algorithm_of_each_case() -> None:
    choices = [
        Choice(1, 4.0, "tiles", 3.5),
        *(Choice(64, a, name, us) for a, name, us in ((4.0, "ocm", 0.31), (12.0, "ocm", 0.42), (40.0, "hem", 2.0))),
    ]
    assert auto._reason(uniform_table(3_000, 3, 2, 0.3), choices, 3_000) == (
        "tiles (3.5 us) for events alone, ocm (0.42 us) up to 12 attributes, then hem (2 us) for events in batches of "
        "64; 3,000 subscriptions of 2 of 3 attributes each"
    )


def test_the_reason_tells_what_is_known_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    table = uniform_table(candidates.FEW_SUBSCRIPTIONS + 1, 3, 2, 0.3)
    monkeypatch.setattr(
        auto, "choose", lambda *_: ([Choice(64, 2.4, "scan", 3.5)], {"scan": ALGORITHMS["scan"].build(table)})
    )
    assert auto.build(table, attributes=2.41, batch=57.3).about == (
        "scan (3.5 us) for events in batches of 64; 2,001 subscriptions of 2 of 3 attributes each; events: 2.41 "
        "attributes each, 57 at once"
    )
    assert auto.build(table, batch=8_000).about.endswith("of 3 attributes each; events: 8,000 at once")


def test_each_batch_is_matched_where_its_events_belong() -> None:
    table = uniform_table(5, 1, 1, 0.5)
    single, few, many = (Timed(table, 1.0, 0.0, 0.0, Clock()) for _ in range(3))
    choices = (Choice(1, 4, "single", 1), Choice(64, 4, "few", 1), Choice(64, 40, "many", 1))
    built = auto.Auto(choices, (single, few, many), "")
    for n, attributes, wanted in ((1, 99, single), (7, 1, single), (9, 1, few), (9, 12, few), (9, 14, many)):
        before = wanted.clock.now
        built.match(EventBatch.from_dense(np.ones((n, attributes))))
        assert wanted.clock.now > before
    built.forward(EventBatch.from_dense(np.empty((0, 0))), Interfaces.from_ids([0] * 5, 1))


def two_built(clocks: tuple[Clock, Clock], batches: tuple[int, ...] = (64,)) -> auto.Auto:
    """Return an index of two algorithms, of which the first choice is the slower."""
    table = uniform_table(1_000, 1, 1, 0.5)
    choices = tuple(Choice(batch, 1, "slow", 1, others=("fast",)) for batch in batches)
    slow, fast = Timed(table, 2.0, 0.0, 0.0, clocks[0]), Timed(table, 1.0, 0.0, 0.0, clocks[1])
    return auto.Auto((*choices, Choice(9_999, 1, "fast", 1)), (slow, fast), "")


def test_real_events_decide_between_those_that_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("matchers.algorithms.auto.Trial", partial(Trial, clock=clock))
    built = two_built((clock, clock))
    events = EventBatch.from_dense(np.ones((100, 1)))
    assert not built.settled
    built.match(events.part(0, 0))  # no event tells nothing
    learnt = built.learnt
    for n in range(1, 2 * TURNS + 1):
        assert not built.settled
        built.match(events)
        assert built.learnt == learnt + n
    assert built.settled
    before = clock.now
    built.match(events)
    assert clock.now - before == pytest.approx(100 * 1e-6)
    assert built.learnt == learnt + 2 * TURNS


def test_a_cold_first_call_does_not_decide() -> None:
    clock = Clock()

    def cold(events: EventBatch) -> str:
        clock.now += 1.0 if not clock.now else 1e-6
        return "cold"

    def other(events: EventBatch) -> str:
        clock.now += 2e-6
        return "other"

    trial = Trial([cold, other], TURNS, clock=clock)
    event = EventBatch.from_dense([[1.0]])
    assert [trial(event) for _ in range(2 * TURNS + 3)] == ["cold", "other"] * TURNS + ["cold"] * 3


def test_those_that_are_far_behind_after_a_few_turns_get_no_more() -> None:
    clock = Clock()

    def taking(name: str, seconds: float) -> Callable[[EventBatch], str]:
        def match(events: EventBatch) -> str:
            clock.now += seconds
            return name

        return match

    event = EventBatch.from_dense([[1.0]])
    trial = Trial([taking("far", 9.0), taking("near", 2.0), taking("best", 1.0)], TURNS, clock=clock)
    called = [trial(event) for _ in range(20)]
    assert called == ["far", "near", "best"] * 3 + ["near", "best"] * (TURNS - 3) + ["best"] * 7
    alone = Trial([taking("far", 9.0), taking("best", 1.0)], TURNS_ALONE, clock=clock)
    assert [alone(event) for _ in range(20)] == ["far", "best"] * 8 + ["best"] * 4
    assert alone.left == 0


def test_every_way_has_its_turns_when_threads_match_at_the_same_time() -> None:
    clock, together, called = Clock(), Barrier(4), []

    def taking(name: str, seconds: float) -> Callable[[EventBatch], None]:
        def match(events: EventBatch) -> None:
            together.wait(PATIENCE_S)
            called.append(name)
            clock.now += seconds

        return match

    trial = Trial([taking("slow", 50.0), taking("fast", 1.0)], TURNS, clock=clock)
    event = EventBatch.from_dense([[1.0]])
    with ThreadPoolExecutor(4) as threads:
        for _ in range(2):
            list(threads.map(trial, [event] * 4))
    assert called.count("slow") == called.count("fast") == 4


def test_an_index_that_is_far_behind_for_a_case_is_not_tried_on_its_events() -> None:
    found = chosen(uniform_table(3_000, 40, 4, 0.3), sparse=(0.0, 0.0, 1.0), dense=(25.0, 0.0, 0.0))
    assert found[0].others == ("dense",)
    found = chosen(uniform_table(3_000, 400, 4, 0.3), sparse=(0.0, 0.0, 1.0), dense=(100.0, 0.0, 0.0))
    assert [(choice.algorithm, choice.others) for choice in found][:2] == [("sparse", ()), ("sparse", ("dense",))]


def test_events_alone_decide_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("matchers.algorithms.auto.Trial", partial(Trial, clock=clock))
    built = two_built((clock, clock), (1, 64))
    alone, event = built.alone(), EventBatch.from_dense([[1.0]])
    for _ in range(2 * TURNS_ALONE):
        alone(event)
    before = clock.now
    monkeypatch.setattr(Trial, "__call__", None)  # it is out of the way
    alone(event)
    assert clock.now - before == pytest.approx(1e-6)
    assert not built.settled  # of batches nothing is known


def test_forward_begins_trials_like_match(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast, clock = Clock(), Clock(), Clock()
    monkeypatch.setattr("matchers.algorithms.auto.Trial", partial(Trial, clock=lambda: slow.now + fast.now))
    built = two_built((slow, fast))
    events, interfaces = EventBatch.from_dense(np.ones((100, 1))), Interfaces.from_ids([0] * 1_000, 1)
    learnt = built.learnt
    for n in range(1, 2 * TURNS + 1):
        assert not built.settled
        built.forward(events, interfaces)
        assert built.learnt == learnt + n
    assert built.settled
    before = slow.now
    built.forward(events, interfaces)
    assert (slow.now, clock.now) == (before, 0.0)


def test_it_is_settled_though_another_case_has_a_trial_that_never_begins() -> None:
    """Events of 9,999 at once have one candidate; those of 64, of which none come, have two."""
    clock = Clock()
    built = two_built((clock, clock))
    assert not built.settled
    built.match(EventBatch.from_dense(np.ones((0, 1))))
    assert not built.settled  # no event tells nothing
    built.match(EventBatch.from_dense(np.ones((9_999, 1))))
    assert built.settled
    built.match(EventBatch.from_dense(np.ones((64, 1))))
    assert not built.settled  # now it has begun


def test_each_process_learns_for_itself() -> None:
    table = uniform_table(candidates.FEW_SUBSCRIPTIONS + 1, 3, 2, 0.3)
    scan, hem = (candidates.CANDIDATES[name](table) for name in ("scan", "hem"))
    choices = (Choice(1, 3, "scan", 1.0, others=("hem",)), Choice(64, 3, "hem", 1.0, others=("scan",)))
    built = auto.Auto(choices, (scan, hem), "")
    events = random_batch(np.random.default_rng(1), 3, 3)
    for _ in range(2 * TURNS):
        built.match(events)
    assert built.settled
    other = pickle.loads(pickle.dumps(built))
    assert not other.settled
    assert other.match(events).subscription.tolist() == built.match(events).subscription.tolist()


def test_those_that_are_built_are_named_with_each_choice_also_of_a_table_of_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = chosen(uniform_table(3_000, 40, 4, 0.3), sparse=(0.0, 0.0, 1.0), dense=(25.0, 0.0, 0.0))
    assert [choice.others for choice in found] == [("dense",), ("dense",), ("dense",), ("sparse",)]
    few = uniform_table(candidates.FEW_SUBSCRIPTIONS, 3, 2, 0.3)
    scan, hem = (candidates.CANDIDATES[name](few) for name in ("scan", "hem"))
    choices = [Choice(1, 3.0, "scan", 1.0, others=("hem",)), Choice(64, 3.0, "hem", 1.0, others=("scan",))]
    monkeypatch.setattr(auto, "choose", lambda *_: (choices, {"scan": scan, "hem": hem}))
    monkeypatch.setattr(auto, "asked", lambda _: ["hem", "scan"])
    monkeypatch.setattr(auto, "_chosen", {})
    for _ in range(2):  # the second takes the choices of the first
        built = auto.build(few)
        assert [choice.others for choice in built.choices] == [("hem",), ("scan",)]
        assert not built.settled


def test_an_event_alone_goes_the_short_way_of_what_was_chosen() -> None:
    table = uniform_table(5, 1, 1, 0.5)
    few, many, batches = (Timed(table, 1.0, 0.0, 0.0, Clock()) for _ in range(3))
    choices = (Choice(1, 4, "few", 1), Choice(1, 40, "many", 1), Choice(64, 4, "batches", 1))
    alone = auto.Auto(choices, (few, many, batches), "").alone()
    for attributes, wanted in ((1, few), (12, few), (13, many), (300, many)):
        before = wanted.clock.now
        assert len(alone(EventBatch.from_dense(np.ones((1, attributes))))) == 0
        assert wanted.clock.now > before
    one = auto.build(table)
    assert one.alone().__qualname__ == one.matchers[0].alone().__qualname__  # not wrapped, which would take time


@pytest.mark.parametrize("times", [1, 20])
def test_events_with_fewer_attributes_than_every_subscription_needs_are_left_out(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "compiled", lambda _: True)
    monkeypatch.setattr(auto, "asked", lambda _: ["scan"])
    table = repeated(uniform_table(100, 5, 3, 0.9), times)
    built = auto.build(table)
    assert built.least == 3
    values = np.full((60, 5), np.nan)
    for event in range(60):
        values[event, : event % 6] = 0.5
    events = EventBatch.from_dense(values)
    few, mixed = events.part(6, 9), EventBatch.from_dense(values[[0, 1, 4, 2, 5, 3, 0]])
    twice = EventBatch.from_values([0, 0, 0], [1, 1, 2], [0.1, 0.5, 0.5], n_events=1, n_columns=5)
    interfaces = Interfaces.from_ids([s % 7 for s in range(table.n_subscriptions)], 7)
    for some in (events, few, mixed, twice, events.part(0, 0)):
        agrees(built, table, some)
        wanted, found = interfaces.behind(ALGORITHMS["scan"](table).match(some)), built.forward(some, interfaces)
        assert found.offsets.tolist() == wanted.offsets.tolist()
        assert found.subscription.tolist() == wanted.subscription.tolist()
    assert len(built.match(mixed).subscription) > 0
    alone = built.alone()
    for e in range(len(mixed)):
        assert alone(mixed.part(e, e + 1)).tolist() == built.match(mixed).of(e).tolist()

    def fail(events: EventBatch) -> None:
        raise AssertionError

    monkeypatch.setattr(auto.Auto, "_match", lambda _, events: fail(events))
    assert len(built.match(few).subscription) == 0


def test_a_wrong_size_of_events_is_rejected() -> None:
    with pytest.raises(MatchingError, match="attributes of an event must be above 0 and finite, not 0"):
        auto.build(uniform_table(5, 1, 1, 0.5), attributes=0)
    with pytest.raises(MatchingError, match="events of a batch must be above 0 and finite, not -1"):
        auto.build(uniform_table(5, 1, 1, 0.5), batch=-1)
    with pytest.raises(MatchingError, match="attributes of an event must be above 0 and finite, not inf"):
        auto.build(uniform_table(5, 1, 1, 0.5), attributes=np.inf)


@pytest.mark.parametrize("n", [300] if UNCOMPILED else [300, 2_500])  # uncompiled loops take their time
def test_it_lists_what_scan_lists(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if UNCOMPILED:
        monkeypatch.setattr(auto, "asked", lambda _: ["hem", "scan"])
    r = np.random.default_rng(n)
    table = random_table(r, n, 9)
    built, scan = auto.build(table), ALGORITHMS["scan"].build(table)
    agrees(built, table, random_batch(r, 20, 9))
    alone, events = built.alone(), random_batch(r, 9, 9)
    for i in range(len(events)):
        event = events.part(i, i + 1)
        assert alone(event).tolist() == scan.match(event).subscription.tolist()


@pytest.mark.parametrize("names", [("hem", "tiles", "scan"), ("tama", "be_tree", "ocm"), ("counting",)])
def test_each_of_its_algorithms_lists_what_scan_lists(names: tuple[str, ...]) -> None:
    r = np.random.default_rng(7)
    table = random_table(r, 100, 9)
    choices = tuple(Choice(batch, 3.0, name, 1.0) for batch, name in zip((1, 8, 32), names, strict=False))
    built = auto.Auto(choices, tuple(candidates.CANDIDATES[name].build(table) for name in names), "")
    for n in (1, 8, 40):
        agrees(built, table, random_batch(r, n, 9))


def repeated(table: SubscriptionTable, times: int) -> SubscriptionTable:
    n = table.n_subscriptions
    return SubscriptionTable.from_intervals(
        np.concatenate([table.subscription + n * k for k in range(times)]),
        *(np.tile(array, times) for array in (table.column, table.low, table.high)),
        n_subscriptions=n * times,
        n_columns=table.n_columns,
    )


@pytest.mark.parametrize(("n", "times"), [(1, 300), (40, 20), (150, 4)])
def test_subscriptions_that_are_the_same_are_indexed_once(n: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "compiled", lambda kernel: kernel is expanded)  # as in a job
    monkeypatch.setattr(auto, "asked", lambda _: ["hem", "scan"])
    r = np.random.default_rng(n)
    table = repeated(uniform_table(n, 4, 2, 0.4), times)
    built = auto.build(table)
    assert {isinstance(matcher, Once) and len(matcher.id_start) for matcher in built.matchers} == {n + 1}
    assert f"{n * times:,} subscriptions ({n} different) of 2 of 4 attributes each" in built.about
    agrees(built, table, random_batch(r, 20, 4))
    nasty = repeated(random_table(r, n, 9), times)  # with some that contradict themselves
    agrees(auto.build(nasty), nasty, random_batch(r, 40, 9))
    back = pickle.loads(pickle.dumps(built))
    agrees(back, table, random_batch(r, 5, 4))


def test_where_most_subscriptions_differ_they_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "compiled", lambda _: True)
    table = uniform_table(300, 4, 2, 0.4)
    assert different(table)[0] is table
    assert "different" not in auto.build(table).about


@pytest.mark.parametrize("n_ids", [9_000, 120_000])
def test_however_many_match_those_that_are_the_same_are_listed_in_order(n_ids: int) -> None:
    """Copied, sorted, marked, or looked for among all; one in ten of them contradicts itself."""
    r = np.random.default_rng(1)
    n = n_ids // 3
    unique_of = np.sort(r.integers(0, n, n_ids)).astype(np.int32)[r.permutation(n_ids)]
    unique_of[::10] = n
    id = np.argsort(unique_of, kind="stable").astype(np.int32)
    id_start = np.searchsorted(unique_of[id], np.arange(n + 1))
    sizes = (0, 1, 2, n // 4, n, 15, 16, 20, 40, n // 2, 30, 2 * n // 3)
    events = [np.sort(r.choice(n, size, replace=False)) for size in sizes]
    offsets = np.concatenate(([0], np.cumsum([len(event) for event in events])))
    found = np.concatenate(events).astype(np.int32)
    to, out = expanded(offsets, found, id_start, id[: id_start[-1]], unique_of, n_ids)
    for event, (begin, end) in zip(events, pairwise(to.tolist()), strict=True):
        assert out[begin:end].tolist() == np.flatnonzero(np.isin(unique_of, event)).tolist()
    assert to[-1] == len(out)

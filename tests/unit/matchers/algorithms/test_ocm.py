"""`ocm`, `ccm` and `translator`: filters in tables by their names, as in PCM, and the choice between CPU and GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy import inf

from matchers import ALGORITHMS, EventBatch, Index, Interfaces, Matcher, MatchingError, SubscriptionTable
from matchers.algorithms import ocm, pool
from matchers.algorithms.name_vectors import IN, OUT, SEVERAL, NameVectors
from matchers.papers import ccm, sff, translator
from matchers.papers.ccm import device as ccm_device
from tests.unit.matchers.agreement import agrees, random_batch, random_table

pytestmark = pytest.mark.kernels


def table(*rows: tuple[int, int, float, float], columns: int | None = None) -> SubscriptionTable:
    subscription, column, low, high = zip(*rows, strict=True)
    n_columns = max(column) + 1 if columns is None else columns
    return SubscriptionTable.from_intervals(
        subscription, column, low, high, n_subscriptions=max(subscription) + 1, n_columns=n_columns
    )


def test_filters_of_one_name_vector_are_one_table() -> None:
    tables = NameVectors.of(table((0, 0, 1, 1), (0, 2, 1, 1), (1, 1, 1, 1), (2, 2, 1, 1), (2, 0, 1, 1)), bits=64)
    assert tables.vector.tolist() == [0b010, 0b101]
    assert [
        tables.filter_id[a:b].tolist() for a, b in zip(tables.filter_begin, tables.filter_begin[1:], strict=False)
    ] == [
        [1],
        [0, 2],
    ]
    assert tables.row_name.tolist() == [1, 0, 2]
    assert tables.rank.tolist() == [0, 0, 1, 0, 1]


def test_names_share_the_bits_of_a_small_name_vector() -> None:
    tables = NameVectors.of(table((0, 1, 1, 1), (1, 5, 1, 1), columns=6), bits=4)
    assert tables.vector.tolist() == [0b0010]
    assert tables.row_name.tolist() == [1, 5]


def test_without_filter_selection_all_constraints_are_in_one_table() -> None:
    tables = NameVectors.of(table((0, 0, 1, 1), (1, 1, 1, 1), (2, 2, 1, 1), (4, 0, 1, 1)), bits=1)
    assert [tables.filter_id[a:b].tolist() for a, b in pairwise(tables.filter_begin)] == [[3], [0, 1, 2, 4]]
    assert tables.row_begin.tolist() == [0, 0, 3]


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([(3, 3)], (IN, 3, 3)),
        ([(-inf, 8)], (IN, -inf, 8)),
        ([(-inf, 4), (6, inf)], (OUT, np.nextafter(4, 5), np.nextafter(6, 5))),
        ([(1, 2), (6, inf)], (SEVERAL, 0, 2)),
        ([(1, 2), (4, 5), (7, 8)], (SEVERAL, 0, 3)),
    ],
)
def test_every_operator_is_in_or_out_of_an_interval_or_several(
    intervals: list[tuple[float, float]], expected: tuple[int, float, float]
) -> None:
    tables = NameVectors.of(table(*((0, 0, low, high) for low, high in intervals)), bits=8)
    assert (tables.operator[0], tables.low[0], tables.high[0]) == expected


def test_a_filter_is_covered_by_the_bloom_filter_of_exactly_its_names() -> None:
    tables = NameVectors.of(table((0, 0, 1, 1), (0, 7, 1, 1)), bits=1)
    assert (tables.bloom == tables.bloom[0]).all()
    assert 2 <= int(tables.bloom[0]).bit_count() <= 4


@pytest.mark.parametrize(
    "options", [{}, {"bits": 1}, {"bits": 3}, {"bits": 64}, {"threads": 2}, {"threads": 5, "bits": 2}]
)
@pytest.mark.parametrize("seed", range(3))
def test_ocm_lists_what_scan_lists(seed: int, options: dict[str, int]) -> None:
    r = np.random.default_rng(seed)
    d = int(r.integers(1, 30))
    subscriptions, events = random_table(r, 400, d), random_batch(r, 40, d)
    agrees(ocm.build(subscriptions, **options), subscriptions, events)


@pytest.mark.parametrize(("events_of_thread", "of_tables"), [(7, False), (1_000, True)])
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_divide_the_events_or_the_tables(
    threads: int, events_of_thread: int, of_tables: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = np.random.default_rng(threads)
    subscriptions, events = random_table(r, 400, 12), EventBatch.from_dense(r.integers(0, 9, (40, 12)).astype(float))
    built = ocm.build(subscriptions, threads=threads)
    monkeypatch.setattr(ocm, "EVENTS_OF_THREAD", events_of_thread)
    monkeypatch.setattr(ocm, "CONSTRAINTS_OF_THREAD", 1 if of_tables else 1 << 40)
    runs, divisions = [], []

    def run(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        runs.append(len(tasks))
        return pool.run(tasks)

    def over(n: int, parts: int, do: Callable[[int, int], Any]) -> list[Any]:
        divisions.append(parts)
        return pool.over(n, parts, do)

    monkeypatch.setattr(ocm, "run", run)
    monkeypatch.setattr(ocm, "over", over)
    agrees(built, subscriptions, events)
    forwards(built, subscriptions, events, Interfaces.from_ids(r.integers(0, 9, 400), 9))
    assert max(runs) == (threads if of_tables else 1)
    assert max(divisions, default=1) == (1 if of_tables else threads)


@pytest.mark.parametrize(
    "options", [{"events": 1}, {"events": 3, "bits": 2}, {"events": 9, "bits": 64, "blocks": 2}, {"threads": 3}]
)
def test_ccm_lists_what_scan_lists(options: dict[str, int]) -> None:
    r = np.random.default_rng(len(options))
    subscriptions, events = random_table(r, 60, 5), random_batch(r, 10, 5)
    agrees(ccm.build(subscriptions, **{"threads": 2, "blocks": 1, **options}), subscriptions, events)


def forwards(matcher: Matcher, table: SubscriptionTable, events: EventBatch, interfaces: Interfaces) -> None:
    expected, found = ALGORITHMS["scan"](table).forward(events, interfaces), matcher.forward(events, interfaces)
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.subscription.tolist() == expected.subscription.tolist()


@pytest.mark.parametrize("options", [{"events": 1}, {"events": 3, "bits": 2}, {"events": 9, "bits": 64, "blocks": 2}])
def test_ccm_forwards_where_scan_does(options: dict[str, int]) -> None:
    r = np.random.default_rng(len(options))
    subscriptions, events = random_table(r, 60, 5), random_batch(r, 10, 5)
    built = ccm.build(subscriptions, **{"threads": 2, "blocks": 1, **options})
    for n in (4, 30):  # from other interfaces on, marks of the former must not be left
        forwards(built, subscriptions, events, Interfaces.from_ids(r.integers(0, n, 60), n))
    agrees(built, subscriptions, events)


def test_the_interfaces_of_a_chunk_of_ccm_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm_device, "INTERFACES_BYTES", 12)
    subscriptions = table(*((s, 0, s, s + 2) for s in range(5)))
    built = ccm.build(subscriptions, threads=2, blocks=1)
    events = EventBatch.from_dense(np.arange(7.0)[:, None])
    forwards(built, subscriptions, events, Interfaces.from_ids([0, 4, 3, 3, 1], 5))
    assert [marks.back.shape for marks in built._device.marks] == [(2, 5)] * 2


def test_filters_without_constraints_forward_every_event_of_ccm() -> None:
    subscriptions = SubscriptionTable.from_intervals([1], [0], [1.0], [1.0], n_subscriptions=3, n_columns=1)
    events, interfaces = EventBatch.from_dense([[1.0], [2.0]]), Interfaces.from_ids([2, 0, 2], 3)
    forwards(ccm.build(subscriptions, threads=2, blocks=1), subscriptions, events, interfaces)
    nothing = SubscriptionTable.from_intervals([], [], [], [], n_subscriptions=3, n_columns=1)
    forwards(ccm.build(nothing, threads=2, blocks=1), nothing, events, interfaces)


def test_ccm_makes_room_for_more_matches_than_it_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm_device, "ROOM", 2)
    subscriptions = table(*((s, 0, 0, 10) for s in range(9)))
    agrees(ccm.build(subscriptions, threads=2, blocks=1), subscriptions, EventBatch.from_dense([[1], [11], [2]]))


@pytest.mark.parametrize(("names", "lane"), [(3, 4), (15, 4), (16, 8)])
def test_a_counter_of_ccm_has_room_for_all_names_of_a_filter(names: int, lane: int) -> None:
    subscriptions = table(*((s, c, 0, s) for s in range(3) for c in range(names)))
    built = ccm.build(subscriptions, threads=2, blocks=1, events=9)
    assert built.lane == lane
    agrees(built, subscriptions, EventBatch.from_dense(np.arange(9)[:, None] % 4 * np.ones(names)))


@pytest.mark.parametrize(
    ("filters", "has_gpu", "chosen"), [(4, True, "Sff"), (4, False, "Sff"), (5, True, "Ccm"), (5, False, "Ocm")]
)
def test_the_translator_uses_the_gpu_for_more_than_few_filters(
    monkeypatch: pytest.MonkeyPatch, filters: int, has_gpu: bool, chosen: str
) -> None:
    monkeypatch.setattr(ccm, "has_gpu", lambda: has_gpu)
    subscriptions = table(*((s, 0, s, s + 2) for s in range(filters)))
    built = translator.build(subscriptions, few=5)
    assert type(built).__name__ == chosen
    agrees(built, subscriptions, EventBatch.from_dense([[1.0], [9.0]]))


def test_ccm_says_that_it_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm, "gpu", lambda: None)
    with pytest.raises(MatchingError, match="needs a GPU, and CUDA finds none here; ocm is the same algorithm"):
        ccm.build(table((0, 0, 1, 1)))


@pytest.mark.parametrize(
    ("build", "options", "reason"),
    [
        (ocm.build, {"bits": 0}, "bits must lie within 1 .. 64, not 0"),
        (ocm.build, {"threads": 0}, "threads must be 1 or more, not 0"),
        (ccm.build, {"bits": 65}, "bits must lie within 1 .. 64, not 65"),
        (ccm.build, {"threads": 2000}, "threads of a block must lie within 1 .. 1024, not 2000"),
        (ccm.build, {"events": 0}, "events of a chunk must lie within 1 .. 2,147,483,647 for this table, not 0"),
        (translator.build, {"few": -1}, "must be 0 or more, not -1"),
    ],
)
def test_a_wrong_option_is_rejected_with_the_reason(
    build: Callable[..., Matcher], options: dict[str, int], reason: str
) -> None:
    with pytest.raises(MatchingError, match=reason):
        build(table((0, 0, 1, 1)), **options)


def test_the_translator_switches_while_the_set_of_filters_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ccm, "has_gpu", lambda: False)
    monkeypatch.setattr(ccm, "has_driver", lambda: False)

    def rules(begin: int, end: int) -> dict[str, Any]:
        return {str(n): {"x": [{"numeric": ["<", n]}]} for n in range(begin, end)}

    index = Index.build(rules(0, 900), algorithm="translator")
    chosen = []
    for begin in range(900, 1_400, 100):
        index = index.update(rules(begin, begin + 100))
        chosen.append(max(index.snapshot.parts, key=lambda part: len(part.segment.ids)).matcher)
    assert isinstance(chosen[0], sff.Sff)
    assert isinstance(chosen[-1], ocm.Ocm)
    assert len(index.match([{"x": 1}])[0]) == 1_398

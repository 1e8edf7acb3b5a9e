"""PCM's filters behind interfaces: the generated workload, equal answers, and `--scenario pcm-default`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import eq, gt, lt, ne
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from bench.errors import BenchError
from bench.matching.candidates import MeasuredAlgorithm
from bench.matching.measure import Effort, measure
from bench.papers import PAPERS, sweeps, tables
from bench.papers.draw import draw
from bench.papers.figures import Figure
from bench.papers.sweeps import Row
from bench.workloads.distributions import Distribution
from bench.workloads.filters import OPERATORS, Constraints, Filters
from matchers import ALGORITHMS, Algorithm, EventBatch, Interfaces, MatchBatch, Matcher, SubscriptionTable
from matchers.registry import runnable
from tests.bench.running import QUICK, bench
from tests.support.generators.algorithms import EXACTLY

DEFAULT = Filters()
TOY = Filters(events=120, filters=(90, 110), names=6)
MIXED = replace(TOY, numerical=0.6)
TINY = ("--scenario", "pcm-default", "-n", "300", "--events", "12", *QUICK)


def filters_of(of: Figure | Row) -> Filters:
    assert isinstance(of.workload, Filters)
    return of.workload


@pytest.fixture(scope="module")
def constraints() -> Constraints:
    return DEFAULT.drawn()


def test_the_defaults_are_those_of_the_papers_table(constraints: Constraints) -> None:
    behind = DEFAULT.behind()
    sizes = np.bincount(behind.of, minlength=10)
    assert len(sizes) == behind.n == DEFAULT.listable == 10
    assert 22_500 <= sizes.min() < sizes.max() <= 27_500
    assert sizes.sum() == DEFAULT.subscriptions == len(constraints.offsets) - 1
    assert DEFAULT.average == 250_000
    assert len(constraints.name) == pytest.approx(1_000_000, rel=0.1)
    per_filter, per_event = np.diff(constraints.offsets), np.diff(DEFAULT.batch().offsets)
    assert (len(per_filter), len(per_event)) == (DEFAULT.subscriptions, 1_000)
    for drawn in (per_filter, per_event):
        assert np.allclose(np.bincount(drawn) / len(drawn), (0, 0, 0, 1 / 3, 1 / 3, 1 / 3), atol=0.05)


def test_operators_names_and_values_are_drawn_in_equal_parts(constraints: Constraints) -> None:
    n = len(constraints.name)
    assert np.allclose(np.bincount(constraints.operator) / n, 0.25, atol=0.005)
    assert np.allclose(np.bincount(constraints.name) / n, 0.01, atol=0.001)
    assert np.allclose(np.bincount(constraints.value.astype(int)) / n, 0.01, atol=0.001)
    assert not constraints.text.any()
    events = replace(DEFAULT, events=20_000).batch()
    for drawn in (events.column, events.value.astype(int)):
        assert np.allclose(np.bincount(drawn, minlength=100) / len(drawn), 0.01, atol=0.002)


def test_other_shares_of_operators_and_names_are_drawn_as_asked_for() -> None:
    only = replace(TOY, operators=(0.5, 0.0, 0.0, 0.5)).drawn()
    assert set(only.operator.tolist()) == {OPERATORS.index("="), OPERATORS.index("<")}
    skewed = replace(TOY, constraints=(1, 1), attributes=(1, 1), events=5_000, filters=(500, 500))
    skewed = replace(skewed, name_distribution=Distribution("zipf", 1.0))
    weights = 1 / np.arange(1, 7)
    for names in (skewed.drawn().name, skewed.batch().column):
        assert np.allclose(np.bincount(names) / 5_000, weights / weights.sum(), atol=0.03)


def test_names_are_distinct_within_a_filter_and_within_an_event() -> None:
    drawn, events = MIXED.drawn(), MIXED.batch()
    for offsets, names in ((drawn.offsets, drawn.name), (events.offsets, events.column // 2)):
        parts = np.split(names, offsets[1:-1])
        assert all((np.diff(part) > 0).all() for part in parts)


def test_a_name_has_a_column_of_numbers_and_one_of_texts() -> None:
    table, events = MIXED.table(), MIXED.batch()
    assert table.n_columns == events.n_columns == 12
    assert (TOY.table().n_columns, TOY.batch().n_columns) == (6, 6)
    assert MIXED.drawn().text.mean() == pytest.approx(0.4, abs=0.05)
    assert (events.column % 2).mean() == pytest.approx(0.4, abs=0.1)
    assert (replace(TOY, numerical=0.0).table().column % 2 == 1).all()


@pytest.mark.parametrize("filters", [TOY, MIXED, replace(TOY, constraints=(0, 6), values=2)])
def test_a_table_is_what_from_intervals_would_make_of_it(filters: Filters) -> None:
    table = filters.table()
    arrays = ("subscription", "column", "low", "high")
    made = SubscriptionTable.from_intervals(
        *(getattr(table, name) for name in arrays),
        n_subscriptions=filters.subscriptions,
        n_columns=table.n_columns,
    )
    for name in arrays:
        theirs, ours = getattr(made, name), getattr(table, name)
        assert np.array_equal(ours, theirs)
        assert (ours.dtype, ours.flags.writeable) == (theirs.dtype, theirs.flags.writeable)


def matching(filters: Filters) -> list[list[int]]:
    """Return the filters that match each event, computed from the drawn values as the paper defines them."""
    drawn, events = filters.drawn(), filters.batch()
    columns = events.n_columns // filters.names
    holds = {"=": eq, "!=": ne, ">": gt, "<": lt}
    wanted = [
        [
            (columns * int(drawn.name[c]) + int(drawn.text[c]), holds[OPERATORS[drawn.operator[c]]], drawn.value[c])
            for c in range(begin, end)
        ]
        for begin, end in zip(drawn.offsets[:-1], drawn.offsets[1:], strict=True)
    ]
    found = []
    for begin, end in zip(events.offsets[:-1], events.offsets[1:], strict=True):
        has = dict(zip(events.column[begin:end].tolist(), events.value[begin:end].tolist(), strict=True))
        found.append([f for f, all_of in enumerate(wanted) if all(n in has and of(has[n], v) for n, of, v in all_of)])
    return found


@pytest.mark.parametrize("filters", [TOY, MIXED], ids=["numbers", "numbers and texts"])
def test_every_algorithm_lists_the_filters_and_the_interfaces_that_the_paper_would(filters: Filters) -> None:
    expected, prepared = matching(filters), filters.prepared()
    interfaces = [sorted({int(prepared.interfaces.of[f]) for f in some}) for some in expected]
    assert 0 < sum(map(len, interfaces)) < sum(map(len, expected))
    assert [] in expected
    events = prepared.part(0, len(prepared))
    for name, build in [(name, ALGORITHMS[name]) for name in runnable()]:
        matcher = build(prepared.table, **EXACTLY[name])
        found = matcher.match(events)
        assert [found.of(e).tolist() for e in range(len(found))] == expected, name
        (forward,) = prepared.steps(matcher).values()
        found = forward(events)
        assert [found.of(e).tolist() for e in range(len(found))] == interfaces, name


def test_the_same_seed_gives_the_same_and_another_seed_another() -> None:
    other, again = replace(MIXED, seed=2), replace(MIXED)
    drawn: list[Callable[[Filters], ArrayLike]] = [
        lambda f: f.table().low,
        lambda f: f.batch().value,
        lambda f: f.behind().of,
    ]
    for make in drawn:
        assert np.array_equal(make(MIXED), make(again))
        assert not np.array_equal(make(MIXED), make(other))
    assert np.array_equal(MIXED.batch().value, replace(MIXED, filters=(3, 5)).batch().value)


def test_it_shrinks_by_the_filters_behind_an_interface() -> None:
    assert DEFAULT.scaled(0.01).filters == (225, 275)
    assert DEFAULT.scaled(0.01).interfaces == 10
    assert DEFAULT.scaled(1e-9).subscriptions == 10
    assert DEFAULT.about(25_000).filters == (2_250, 2_750)
    assert DEFAULT.about(25_000).subscriptions == pytest.approx(25_000, rel=0.1)
    assert DEFAULT.small().subscriptions == 4_090


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": 0}, "events cannot be 0"),
        ({"interfaces": 0}, "interfaces cannot be 0; it must be 1 or more"),
        ({"filters": (0, 5)}, "filters cannot be 0-5; it must be within 1 .."),
        ({"filters": (5, 4)}, "filters cannot be 5-4"),
        ({"constraints": (3, 7)}, "constraints cannot be 3-7; it must be within 0 .. 6, the names"),
        ({"attributes": (5, 3)}, "attributes cannot be 5-3"),
        ({"numerical": 1.5}, "numerical cannot be 1.5"),
        ({"operators": (0.5, 0.5, 0.5, 0.0)}, "operators cannot be 0.5, 0.5, 0.5, 0; it must be shares of = != > <"),
        ({"operators": (1.5, -0.5, 0.0, 0.0)}, "operators cannot be 1.5, -0.5"),
        ({"values": 0}, "values cannot be 0"),
    ],
)
def test_what_cannot_be_is_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=message):
        replace(TOY, **change)


@pytest.mark.parametrize("name", runnable())
def test_every_algorithm_is_measured_and_its_answer_checked(name: str) -> None:
    result = bench("-a", name, "--json", *TINY)
    assert result.exit_code == 0, result.output
    one = json.loads(result.stdout)
    assert one["checked"] is True
    assert 5 <= one["events_measured"] <= 12
    assert not one.keys() & {"compile_s", "us_of_step"}


def test_matches_are_interfaces_not_filters() -> None:
    (one,) = measure(TOY, [MeasuredAlgorithm("counting")], Effort(seconds=60.0, rounds=1, batch=50))
    prepared = TOY.prepared()
    found = ALGORITHMS["scan"](prepared.table).match(prepared.events)
    assert one.events_measured == 120
    assert one.matches == len(prepared.interfaces.behind(found).subscription) < len(found.subscription)


@dataclass(frozen=True, eq=False)
class Shortcut(Matcher):
    """Lists the filters that `scan` lists, and of their interfaces all but one, or all that there are."""

    inner: Matcher
    every: bool

    def match(self, events: EventBatch) -> MatchBatch:
        return self.inner.match(events)

    def forward(self, events: EventBatch, interfaces: Interfaces) -> MatchBatch:
        found = interfaces.behind(self.match(events))
        if self.every:
            n = len(found)
            return MatchBatch(np.arange(n + 1) * interfaces.n, np.tile(np.arange(interfaces.n, dtype=np.int32), n))
        offsets = np.minimum(found.offsets, len(found.subscription) - 1)
        return MatchBatch(offsets, found.subscription[:-1])


@pytest.mark.parametrize(
    ("every", "approximate", "right"),
    [(False, False, False), (True, False, False), (False, True, False), (True, True, True)],
)
def test_it_is_the_interfaces_that_are_checked(
    monkeypatch: pytest.MonkeyPatch, every: bool, approximate: bool, right: bool
) -> None:
    shortcut = Algorithm(lambda table: Shortcut(ALGORITHMS["scan"](table), every), approximate=approximate)
    monkeypatch.setitem(ALGORITHMS, "shortcut", shortcut)
    (one,) = measure(TOY, [MeasuredAlgorithm("shortcut")], Effort(seconds=60.0, rounds=1, batch=200))
    assert one.checked is right
    assert (one.answer.missed, one.answer.extra > 0) == (0 if every else 1, every)
    if right:
        assert one.answer.false_positive_rate == one.answer.extra / 1_200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--width", "0.3"], "--width is a flag of the scenario intervals"),
        (["-d", "20"], "the workload pcm-default takes --subscriptions, --events, --seed"),
        (["--dataset", "data.txt"], "--dataset is a flag of the scenario intervals"),
        (["-n", "0"], "subscriptions cannot be 0; it must be 10 or more, one behind each interface"),
        (["--events", "0"], "events cannot be 0"),
        (["--scenario", "pcm"], "unknown scenario 'pcm'; known: event-bus, intervals, pcm-default"),
    ],
)
def test_wrong_flags_are_rejected_with_what_would_work(arguments: list[str], message: str) -> None:
    result = bench(*TINY, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("figure", PAPERS["pcm"], ids=lambda figure: figure.name)
def test_each_figure_of_the_paper_runs_and_is_drawn(figure: Figure, tmp_path: Path) -> None:
    outcome = sweeps.run(figure, 0.0002, Effort(seconds=0.0, rounds=1))
    there = [series for series in figure.series if series.algorithm in runnable()]
    assert len(outcome.rows) == len(figure.points) * len(there)
    assert all(row.checked for row in outcome.rows)
    assert all(0 <= row.value("selectivity") <= 1 for row in outcome.rows)
    assert {figure.note} <= {*outcome.notes, ""}
    first, *_ = tables.write(outcome, tmp_path)
    assert first.read_text().count("\n") == len(outcome.rows) + 1
    assert draw(outcome, tmp_path).exists()


def test_the_number_of_filters_is_that_of_the_paper_or_a_share_of_it() -> None:
    def average(number: str) -> list[int]:
        (figure,) = sweeps.figures("pcm", [number])
        workload = filters_of(figure)
        return [replace(workload, **point.workload).average for point in figure.points]

    assert average("table2") == [250_000, 250_000]
    assert average("7") == pytest.approx([1_000_000 / k for k in range(1, 10)], rel=1e-3)
    assert average("11a") == [25_000] * 9
    assert average("9") == [25_000 * n for n in (10, 25, 50, 75, 100)]
    (figure,) = sweeps.figures("pcm", ["8"])
    assert figure.grows
    assert not any(figure.grows for figure in PAPERS["pcm"] if figure.number != "8")
    outcome = sweeps.run(replace(figure, points=figure.points[-1:]), 0.0002, Effort(seconds=0.0, rounds=1))
    assert {filters_of(row).filters for row in outcome.rows} == {(45, 55)}

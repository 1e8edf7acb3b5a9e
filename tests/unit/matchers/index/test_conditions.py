"""The tests of rows that are kept from event to event have a bound."""

from __future__ import annotations

import pytest

from matchers import SubscriptionTable
from matchers.index import conditions
from matchers.index.conditions import Conditions
from matchers.index.vocabulary import Vocabulary
from matchers.language.model import Contains, Operator
from matchers.language.operators import AnythingBut, Equals

ROWS, VALUES = 10, 100


def conditions_of(rows: dict[int, tuple[Operator, ...]]) -> Conditions:
    table = SubscriptionTable.from_intervals([], [], [], [], n_subscriptions=len(rows), n_columns=0)
    residuals = {row: ((("x",), Contains(("x",), asked, is_wanted=False)),) for row, asked in rows.items()}
    return Conditions(Vocabulary((), ()), table, residuals)


def equal_to(n: int) -> tuple[Operator, ...]:
    return tuple(map(Equals, range(n)))


def kept(made: Conditions, rows: int) -> list[bool]:
    """Whether each row that was looked at in turn is the one of the turn before."""
    before = [made.of(row) for row in range(rows)]
    return [made.of(row) is conditions for row, conditions in enumerate(before)]


@pytest.mark.parametrize("levels", [0, 1, 3])
def test_the_bound_counts_operators_at_every_level(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    operators = equal_to(VALUES)
    for _ in range(levels):
        operators = (AnythingBut(operators),)
    for most, are_kept in ((ROWS * VALUES, ROWS - 1), (ROWS * (VALUES + levels + 1), ROWS)):
        monkeypatch.setattr(conditions, "MOST_KEPT_CONDITIONS", most)
        assert sum(kept(conditions_of(dict.fromkeys(range(ROWS), operators)), ROWS)) == are_kept


def test_rows_without_room_push_out_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "MOST_KEPT_CONDITIONS", 5 * (VALUES + 1))
    assert kept(conditions_of(dict.fromkeys(range(ROWS), equal_to(VALUES))), ROWS) == [True] * 5 + [False] * 5


def test_of_rows_larger_than_the_bound_one_is_kept_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "MOST_KEPT_CONDITIONS", 5 * (VALUES + 1))
    rows = {row: equal_to(10 * VALUES if row in (2, 3) else VALUES) for row in range(7)}
    assert kept(conditions_of(rows), 7) == [True, True, True, False, True, True, True]


def test_other_rows_are_kept_after_many_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "MOST_KEPT_CONDITIONS", VALUES + 1)
    monkeypatch.setattr(conditions, "MOST_MISSED", 5 * (VALUES + 1))
    made = conditions_of(dict.fromkeys(range(2), equal_to(VALUES)))
    made.of(0)
    others = [made.of(1) for _ in range(8)]
    assert [later is others[-1] for later in others] == [False] * 5 + [True] * 3

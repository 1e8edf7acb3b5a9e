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


@pytest.mark.parametrize("levels", [0, 1, 3])
def test_the_bound_counts_operators_at_every_level(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    operators: tuple[Operator, ...] = tuple(map(Equals, range(VALUES)))
    for _ in range(levels):
        operators = (AnythingBut(operators),)
    table = SubscriptionTable.from_intervals([], [], [], [], n_subscriptions=ROWS, n_columns=0)
    residual = ((("x",), Contains(("x",), operators, is_wanted=False)),)
    made = Conditions(Vocabulary((), ()), table, dict.fromkeys(range(ROWS), residual))
    for most, is_kept in ((ROWS * VALUES, False), (ROWS * (VALUES + levels + 1), True)):
        monkeypatch.setattr(conditions, "MOST_KEPT_CONDITIONS", most)
        first, *_ = [made.of(row) for row in range(ROWS)]
        assert (made.of(0) is first) is is_kept

"""Test an event itself by the conditions of a table's rows, for rows that the columns do not decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from matchers.contract.tables import SubscriptionTable
from matchers.index.vocabulary import Vocabulary
from matchers.language.lookup import Test, closed_test, residual_test
from matchers.language.model import Compared, Contains, Interval, Operator, Path, Scalar
from matchers.language.verification import Condition, condition

Residual = tuple[tuple[Path, Operator | Contains | Compared], ...]  # conditions of a row besides its intervals

# Intervals and operators whose tests are kept from event to event, besides one row with more.
MOST_KEPT_CONDITIONS = 50_000
MOST_MISSED = 10 * MOST_KEPT_CONDITIONS  # made for rows that found no room, before all are kept anew


class Conditions:
    """Tests by row, made when a row first needs one. Several threads may use them at the same time."""

    def __init__(self, vocabulary: Vocabulary, table: SubscriptionTable, residuals: Mapping[int, Residual]) -> None:
        self._vocabulary, self._table, self._residuals = vocabulary, table, residuals
        self._kept: dict[int, list[Condition]] = {}
        self._size = self._missed = 0
        self._has_large = False

    def of(self, row: int) -> list[Condition]:
        """Return the conditions of a row, as tests of the values at its paths."""
        kept = self._kept.get(row)
        return self._made(row) if kept is None else kept

    def _made(self, row: int) -> list[Condition]:
        table = self._table
        begin, end = table.start[row : row + 2].tolist()
        intervals: dict[int, list[Interval]] = {}
        columns, lows, highs = (array[begin:end].tolist() for array in (table.column, table.low, table.high))
        for column, low, high in zip(columns, lows, highs, strict=True):
            intervals.setdefault(column, []).append((low, high))
        residual = self._residuals.get(row, ())
        conditions = [
            *(Condition(self._vocabulary.columns[c][0], self._on(c, wanted)) for c, wanted in intervals.items()),
            *(_condition(path, asked) for path, asked in residual),
        ]
        self._keep(row, conditions, end - begin + sum(_size(asked) for _, asked in residual))
        return conditions

    def _keep(self, row: int, conditions: list[Condition], size: int) -> None:
        """Keep a row if there is room. Otherwise leave it out, so that the rows of an event do not push out each other.
        After MOST_MISSED, forget all: other rows may be in use by then."""
        large = size > MOST_KEPT_CONDITIONS
        if self._has_large if large else self._size + size > MOST_KEPT_CONDITIONS:
            self._missed += size
            if self._missed <= MOST_MISSED:
                return
            self._kept, self._size, self._missed, self._has_large = {}, 0, 0, False
        self._kept[row] = conditions
        if large:
            self._has_large = True
        else:
            self._size += size

    def _on(self, column: int, wanted: list[Interval]) -> Test:
        within = closed_test(wanted)

        def test(value: Scalar) -> bool:
            place = self._vocabulary.place(column, value)
            return place is not None and within(place)

        return test


def _condition(path: Path, asked: Operator | Contains | Compared) -> Condition:
    if isinstance(asked, Contains | Compared):
        return condition(asked)
    return Condition(path, residual_test(asked))


def _size(asked: Operator | Contains | Compared) -> int:
    """The number of operators in a condition, itself and nested ones included."""
    return 1 + sum(map(_size, cast("tuple[Operator, ...]", getattr(asked, "operators", ()))))

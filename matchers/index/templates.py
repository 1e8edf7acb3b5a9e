"""Compile many patterns of one shape at once, column by column.

A program that makes subscriptions gives them all one shape: the same fields and operators, other texts and numbers.
Such a pattern is read once, with a name in the place of each value; what it lowers to then says, for all of the shape,
which values are the bounds of which column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from matchers.contract.tables import Float64, Int64, SubscriptionTable
from matchers.index.segment import Note, Segment
from matchers.index.skeletons import Skeletons, is_slot, slot_of
from matchers.index.texts import Texts
from matchers.index.vocabulary import Vocabulary
from matchers.language.facets import NUMBER, TOKEN, exactly, starting_with, token
from matchers.language.lowering import MAX_RANGES
from matchers.language.model import Path, Pattern, Predicate
from matchers.language.operators import Equals, Exists, Numeric, Prefix, is_number


@dataclass(frozen=True)
class Template:
    """Predicates on different fields, each on one facet."""

    predicates: tuple[tuple[Path, str, tuple[Equals | Numeric | Prefix | Exists, ...]], ...]

    @classmethod
    def of(cls, pattern: Pattern) -> Template | None:
        """The template of a pattern whose values name their slots; None if it holds more than the simple operators."""
        slots = []
        if sum(len(part.operators) for part in pattern.parts if isinstance(part, Predicate)) > MAX_RANGES:
            return None  # `lower` refuses it
        for part in pattern.parts:
            if not isinstance(part, Predicate):
                return None
            kinds = {_facet(operator) for operator in part.operators}
            if len(kinds) != 1 or None in kinds:
                return None
            slots.append((part.path, kinds.pop(), part.operators))
        return cls(tuple(sorted(slots, key=lambda p: (p[0], p[1]))))  # type: ignore[arg-type]

    def segment(self, ids: Texts, values: Skeletons, first: Int64, notes: Mapping[str, Note]) -> Segment:
        """The segment of the subscriptions whose patterns have their values from first[i] on."""
        n = len(ids)
        cuts, columns, lows, highs = [], [], [], []
        for c, (_, facet, operators) in enumerate(self.predicates):
            known: tuple[bytes, ...] = ()
            if facet == NUMBER:
                bounds = [_numbers(operator, values, first) for operator in operators]
            else:
                bounds, known = _codes(operators, values, first)
            cuts.append(known)
            for low, high in bounds:
                columns.append(np.full(n, c, np.int32))
                lows.append(low)
                highs.append(high)
        table = SubscriptionTable.from_intervals(
            np.tile(np.arange(n, dtype=np.int32), len(columns)),
            np.concatenate(columns) if columns else [],
            np.concatenate(lows) if lows else [],
            np.concatenate(highs) if highs else [],
            n_subscriptions=n,
            n_columns=len(self.predicates),
        )
        vocabulary = Vocabulary(tuple((path, facet) for path, facet, _ in self.predicates), tuple(cuts))
        return Segment(ids, np.arange(n, dtype=np.int32), vocabulary, table, {}, notes)


def _facet(operator: object) -> str | None:
    if isinstance(operator, Numeric) or (isinstance(operator, Equals) and is_number(operator.value)):
        return NUMBER
    plain = isinstance(operator, Equals | Exists) or (isinstance(operator, Prefix) and not operator.ignore_case)
    return TOKEN if plain else None


def _numbers(operator: object, values: Skeletons, first: Int64) -> tuple[Float64, Float64]:
    """The closed intervals of all the subscriptions."""
    if isinstance(operator, Equals):
        value = values.number[first + slot_of(operator.value)]
        return value, value
    assert isinstance(operator, Numeric)
    low = _bound(operator.low, values, first)
    high = _bound(operator.high, values, first)
    return (
        low if operator.low_closed else np.nextafter(low, np.inf),
        high if operator.high_closed else np.nextafter(high, -np.inf),
    )


def _bound(bound: float, values: Skeletons, first: Int64) -> Float64:
    return np.full(len(first), bound) if np.isinf(bound) else values.number[first + slot_of(bound)]


def _codes(
    operators: Sequence[Equals | Numeric | Prefix | Exists], values: Skeletons, first: Int64
) -> tuple[list[tuple[Float64, Float64]], tuple[bytes, ...]]:
    """The intervals of codes of all the subscriptions, and the cuts that these count."""
    # Of each operator: one for each text that occurs, and which text each subscription has.
    ranges: list[tuple[list[tuple[bytes, bytes]], Int64]] = []
    for operator in operators:
        text = operator.text if isinstance(operator, Prefix) else getattr(operator, "value", None)
        if not isinstance(text, str) or not is_slot(text):  # the same in all
            (region,) = cast("tuple[tuple[bytes, bytes]]", operator.constraint().regions[TOKEN])
            ranges.append(([region], np.zeros(len(first), np.int64)))
            continue
        place: dict[bytes, int] = {}
        seen = [place.setdefault(t, len(place)) for t in values.texts(first + slot_of(text))]
        region_of = starting_with if isinstance(operator, Prefix) else exactly
        ranges.append(([region_of(token("") + t) for t in place], np.array(seen, np.int64)))
    cuts = sorted({cut for pairs, _ in ranges for pair in pairs for cut in pair})
    at = {cut: i for i, cut in enumerate(cuts)}
    bounds = []
    for pairs, which in ranges:
        codes = np.array([(at[low] + 1, at[high]) for low, high in pairs], np.float64)
        bounds.append((codes[which, 0], codes[which, 1]))
    return bounds, tuple(cuts)

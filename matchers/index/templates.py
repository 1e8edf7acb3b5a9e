"""Compile many patterns of one shape at once, column by column.

A program that makes subscriptions gives them all one shape: the same fields and operators, other texts and numbers.
Such a pattern is read once, with a name in the place of each value. Its lowered form shows, for all patterns of the
shape, which values are the bounds of which column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from matchers.contract.tables import Float64, Int64, SubscriptionTable
from matchers.errors import PatternError
from matchers.index.segment import Note, Segment
from matchers.index.skeletons import Skeletons, filled, is_slot, slot_of
from matchers.index.texts import Texts
from matchers.index.vocabulary import Vocabulary
from matchers.language.facets import NUMBER, TOKEN, exactly, starting_with, token
from matchers.language.lowering import MAX_RANGES
from matchers.language.model import Path, Pattern, Predicate
from matchers.language.operators import Equals, Exists, Numeric, Prefix, is_number
from matchers.language.parsing import FIELDS_TOO, parse

FEWEST_DOCUMENTS = 8  # of one shape, for which it pays to compile them together

Form = TypeVar("Form")  # what a caller reads out of a shape


@dataclass(frozen=True)
class Template:
    """Predicates on different fields, each on one facet."""

    predicates: tuple[tuple[Path, str, tuple[Equals | Numeric | Prefix | Exists, ...]], ...]

    @classmethod
    def of(cls, pattern: Pattern) -> Template | None:
        """The template of a pattern whose values name their slots; None if it holds more than the simple operators."""
        slots = []
        if sum(len(part.operators) for part in pattern.parts if isinstance(part, Predicate)) > MAX_RANGES:
            return None  # `lower` rejects it
        for part in pattern.parts:
            if not isinstance(part, Predicate):
                return None
            kinds = {_facet(operator) for operator in part.operators}
            if len(kinds) != 1 or None in kinds:
                return None
            if any(name in FIELDS_TOO for name in part.path[1:]):
                return None  # `parse` decides by the value whether the name is one of a field or an operator
            slots.append((part.path, kinds.pop(), part.operators))
        if len({path for path, _, _ in slots}) < len(slots):
            return None  # several intervals of a column are alternatives; here all have to hold, as after two $not
        return cls(tuple(sorted(slots, key=lambda p: (p[0], p[1]))))  # type: ignore[arg-type]

    @property
    def n_ranges(self) -> int:
        """The number of values and ranges that a pattern of it names."""
        return sum(len(operators) for _, _, operators in self.predicates)

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
                columns.append(c)
                lows.append(low)
                highs.append(high)
        table = SubscriptionTable.from_intervals(
            np.repeat(np.arange(n, dtype=np.int32), len(columns)),
            np.tile(np.array(columns, np.int32), n),
            np.array(lows).T.ravel(),
            np.array(highs).T.ravel(),
            n_subscriptions=n,
            n_columns=len(self.predicates),
        )
        vocabulary = Vocabulary(tuple((path, facet) for path, facet, _ in self.predicates), tuple(cuts))
        return Segment(ids, np.arange(n, dtype=np.int32), vocabulary, table, {}, notes)


def by_shape(
    skeletons: Skeletons, form_of: Callable[[bytes], Form | None], fewest: int = FEWEST_DOCUMENTS
) -> Iterator[tuple[Form, Int64]]:
    """The form of each shape that has enough documents, with the positions of these; without shapes of no form."""
    n = np.bincount(skeletons.shape[skeletons.shape >= 0], minlength=len(skeletons.shapes))
    for shape in np.flatnonzero(n >= fewest).tolist():
        form = form_of(skeletons.shapes[shape])
        if form is not None:
            yield form, np.flatnonzero(skeletons.shape == shape)


def template_of(shape: bytes) -> Template | None:
    """The template of a shape; None if its documents may be invalid or hold more than templates support."""
    try:
        return Template.of(parse(json.loads(filled(shape))))
    except (json.JSONDecodeError, PatternError):
        return None


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
        different, which = values.texts(first + slot_of(text)).distinct()
        region_of = starting_with if isinstance(operator, Prefix) else exactly
        ranges.append(([region_of(token("") + t) for t in different.encoded()], which))
    cuts = sorted({cut for pairs, _ in ranges for pair in pairs for cut in pair})
    at = {cut: i for i, cut in enumerate(cuts)}
    bounds = []
    for pairs, which in ranges:
        codes = np.array([(at[low] + 1, at[high]) for low, high in pairs], np.float64)
        bounds.append((codes[which, 0], codes[which, 1]))
    return bounds, tuple(cuts)

"""Which columns there are, and how an event's values become numbers on them.

A token column knows the ends of all ranges that subscriptions use on it, its cuts, ascending. A value's code is how
many cuts lie at or below it, so a range from cut i to cut j is exactly the codes i + 1 .. j:

    cuts:    05 IBM   05 IBM 00   05 MS   05 MT            "IBM" -> 1    [IBM, IBM 00) = 1..1
    codes: 0 |    1   |      2    |   3   |    4           "MSFT" -> 3   [MS, MT)      = 3..3
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import cast

import numpy as np

from matchers import facets
from matchers.facets import NUMBER, TOKEN, Interval, Range
from matchers.lowering import Conjunction
from matchers.model import ABSENT, Event, Path, values_at
from matchers.tables import EventBatch


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Columns ascending by path, a field's number column before its token column."""

    columns: tuple[tuple[Path, str], ...]  # (path, facet)
    cuts: tuple[tuple[bytes, ...], ...]  # of each column; empty for number columns

    @classmethod
    def of(cls, conjunctions: Iterable[Conjunction]) -> Vocabulary:
        """The columns and cuts that these need."""
        ends: dict[tuple[Path, str], set[bytes]] = {}
        for conjunction in conjunctions:
            for column, region in conjunction.items():
                cuts = ends.setdefault(column, set())
                if column[1] == TOKEN:
                    for low_high in region:
                        cuts.update(cast(Range, low_high))
        return cls(tuple(sorted(ends)), tuple(tuple(sorted(ends[c])) for c in sorted(ends)))

    @cached_property
    def position(self) -> dict[tuple[Path, str], int]:
        return {column: i for i, column in enumerate(self.columns)}

    def intervals(self, column: int, region: Sequence[Interval] | Sequence[Range]) -> list[Interval]:
        """A region of a column as closed intervals of doubles, which for a token column are codes."""
        if self.columns[column][1] == NUMBER:
            return list(cast(Sequence[Interval], region))
        cuts = self.cuts[column]
        return [
            (bisect_left(cuts, low) + 1.0, float(bisect_left(cuts, high)))
            for low, high in cast(Sequence[Range], region)
        ]

    def encode(self, events: Sequence[Event]) -> EventBatch:
        """Only fields that some subscription names are looked at."""
        offsets, columns, values = [0], [], []
        for event in events:
            for path, number, token, cuts in self._fields:
                found = values_at(event, path)
                if number >= 0:
                    doubles = [float(facets.number(v)) for v in found if type(v) in (int, float)]  # type: ignore[arg-type]
                    doubles = [v for v in doubles if not isnan(v)] if len(doubles) == 1 else _distinct(doubles)
                    columns += [number] * len(doubles)
                    values += doubles
                if token >= 0 and (found[0] is not ABSENT or cuts[:1] == (facets.ABSENT_TOKEN,)):
                    codes = sorted({float(bisect_right(cuts, facets.token(v))) for v in found})
                    columns += [token] * len(codes)
                    values += codes
            offsets.append(len(columns))
        return EventBatch(
            np.array(offsets, np.int64), np.array(columns, np.int32), np.array(values, np.float64), len(self.columns)
        )

    @cached_property
    def _fields(self) -> tuple[tuple[Path, int, int, tuple[bytes, ...]], ...]:
        """(path, number column or -1, token column or -1, its cuts) of each field, ascending by column."""
        fields = []
        for path in dict.fromkeys(path for path, _ in self.columns):
            number, token = self.position.get((path, NUMBER), -1), self.position.get((path, TOKEN), -1)
            fields.append((path, number, token, self.cuts[token] if token >= 0 else ()))
        return tuple(fields)

    def __getstate__(self) -> dict[str, object]:
        return {"columns": self.columns, "cuts": self.cuts}


def _distinct(doubles: list[float]) -> list[float]:
    return sorted({v for v in doubles if not isnan(v)})

"""Number the values of events on the columns of a table: the vocabulary.

A column of a facet that is a line of bytes holds the ends of all ranges that subscriptions use on it, its cuts,
ascending. A value's code is how many cuts lie at or below it, so a range from cut i to cut j is exactly the codes
i + 1 .. j:

    cuts:    05 IBM   05 IBM 00   05 MS   05 MT            "IBM" -> 1    [IBM, IBM 00) = 1..1
    codes: 0 |    1   |      2    |   3   |    4           "MSFT" -> 3   [MS, MT)      = 3..3
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from matchers.index.kernels.encode import Cuts
from matchers.language import facets
from matchers.language.facets import NUMBER, PLACE
from matchers.language.lowering import Column, Conjunction
from matchers.language.model import Interval, Range, Region, Scalar
from matchers.language.operators import is_number

_END = 7  # tags go from 00 to 06


@dataclass(frozen=True, eq=False)
class Vocabulary:
    columns: tuple[Column, ...]  # ascending
    cuts: tuple[tuple[bytes, ...], ...]  # of each column; empty for the doubles

    @classmethod
    def of(cls, conjunctions: Iterable[Conjunction]) -> Vocabulary:
        """The columns and cuts that these conjunctions need."""
        ends: dict[Column, set[bytes]] = {}
        for conjunction in conjunctions:
            for column, region in conjunction.regions.items():
                cuts = ends.get(column)
                if cuts is None:
                    cuts = ends[column] = set()
                if column[1] != NUMBER:
                    for low_high in cast("list[Range]", region):
                        cuts.update(low_high)
        return cls(tuple(sorted(ends)), tuple(tuple(sorted(ends[c])) for c in sorted(ends)))

    @cached_property
    def position(self) -> dict[Column, int]:
        return {column: i for i, column in enumerate(self.columns)}

    @cached_property
    def cut_position(self) -> list[dict[bytes, int]]:
        """[A]: the place of each cut of a column."""
        return [{cut: i for i, cut in enumerate(cuts)} for cuts in self.cuts]

    def intervals(self, column: int, region: Region) -> list[Interval]:
        """A region of a column as closed intervals of doubles. Regions that are not of doubles become codes."""
        if self.columns[column][1] == NUMBER:
            return cast("list[Interval]", region)
        at = self.cut_position[column]
        return [(at[low] + 1, at[high]) for low, high in cast("list[Range]", region)]

    def place(self, column: int, value: Scalar) -> float | None:
        """The place of a value on a column; None if it has none."""
        if self.columns[column][1] != NUMBER:
            return bisect_right(self.cuts[column], PLACE[self.columns[column][1]](value))
        return facets.number(value) if is_number(value) else None

    @cached_property
    def coded(self) -> Cuts:
        zone = np.zeros((len(self.cuts), _END), np.int64)
        simple = np.zeros((len(self.cuts), 4), np.int64)
        base = 0
        for c, cuts in enumerate(self.cuts):
            zone[c] = [base + bisect_left(cuts, bytes([tag])) for tag in range(_END)]
            simple[c] = [bisect_right(cuts, bytes([tag])) for tag in range(4)]
            base += len(cuts)
        texts = [cut[1:] for cuts in self.cuts for cut in cuts]
        length = np.array([len(cut) for cut in texts], np.int32)
        head = np.frombuffer(b"".join(cut[:8].ljust(8, b"\0") for cut in texts), ">u8").astype(np.uint64)
        text = np.frombuffer(b"".join(texts), np.uint8)
        coded = Cuts(zone, simple, head, np.cumsum(length, dtype=np.int64) - length, length, text)
        for array in coded:
            array.flags.writeable = False
        return coded

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k in ("columns", "cuts", "coded")}

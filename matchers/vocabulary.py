"""Which columns there are, and how an event's values become numbers on them.

A column of a facet that is a line of bytes knows the ends of all ranges that subscriptions use on it, its cuts,
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
from numpy.typing import NDArray

from matchers import facets
from matchers.facets import ABSENT_TOKEN, NUMBER, PLACE, TOKEN, Interval, Range, Region
from matchers.fields import Fields
from matchers.kernels.encode import encode
from matchers.kernels.json import TEXT
from matchers.lowering import Column, Conjunction
from matchers.model import Scalar
from matchers.tables import EventBatch, Int32, Int64
from matchers.values import Values

_END = 7  # tags go from 00 to 06


@dataclass(frozen=True, eq=False)
class Vocabulary:
    columns: tuple[Column, ...]  # ascending
    cuts: tuple[tuple[bytes, ...], ...]  # of each column; empty for the doubles

    @classmethod
    def of(cls, conjunctions: Iterable[Conjunction]) -> Vocabulary:
        """The columns and cuts that these need."""
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
        """Of each column: its cuts with their places."""
        return [{cut: i for i, cut in enumerate(cuts)} for cuts in self.cuts]

    def intervals(self, column: int, region: Region) -> list[Interval]:
        """A region of a column as closed intervals of doubles, which unless it is of doubles already are codes."""
        if self.columns[column][1] == NUMBER:
            return cast("list[Interval]", region)
        at = self.cut_position[column]
        return [(at[low] + 1, at[high]) for low, high in cast("list[Range]", region)]

    def place(self, column: int, value: Scalar) -> float | None:
        """Where one value lies on a column; None where it has no place there."""
        if self.columns[column][1] != NUMBER:
            return bisect_right(self.cuts[column], PLACE[self.columns[column][1]](value))
        return facets.number(value) if type(value) in (int, float) else None  # type: ignore[arg-type]

    def encode(self, values: Values, fields: Fields) -> EventBatch:
        """`fields` must hold all fields of the columns."""
        first, columns = self._columns_of(fields)
        facet, names = self._facets
        starts, lengths, text = _changed(values, names, self._wanting(fields, names))
        room = int(np.diff(first)[values.path].sum()) + len(values) * len(self._absent)
        offsets = np.zeros(len(values) + 1, np.int64)
        column, place = np.empty(room, np.int32), np.empty(room)
        n = encode(
            values.offsets,
            values.path,
            values.kind,
            values.number,
            values.number.view(np.uint64),
            starts,
            lengths,
            text,
            first,
            columns,
            facet,
            *self._cuts,
            self._absent,
            offsets,
            column,
            place,
        )
        return EventBatch(offsets, column[:n], place[:n], len(self.columns))

    def _columns_of(self, fields: Fields) -> tuple[Int32, Int32]:
        """[P + 1], [A]: the columns of each of the fields."""
        path = np.array([fields.position[path] for path, _ in self.columns], np.int32)
        counts = np.bincount(path, minlength=len(fields.paths)) if len(path) else np.zeros(len(fields.paths), np.int64)
        return np.concatenate(([0], np.cumsum(counts))).astype(np.int32), np.argsort(path, kind="stable").astype(
            np.int32
        )

    def _wanting(self, fields: Fields, names: list[str]) -> list[NDArray[np.bool_]]:
        """Of each of the facets that change texts: which fields have a column of it."""
        wanting = [np.zeros(len(fields.paths), np.bool_) for _ in names]
        for path, name in self.columns:
            if name in names:
                wanting[names.index(name)][fields.position[path]] = True
        return wanting

    @cached_property
    def _facets(self) -> tuple[Int32, list[str]]:
        """[A]: -1 for the doubles, 0 for tokens, and 1, 2 ... for the facets that change texts, which are named."""
        names = sorted({name for _, name in self.columns} - {NUMBER, TOKEN})
        row = {NUMBER: -1, TOKEN: 0} | {name: i for i, name in enumerate(names, 1)}
        return np.array([row[name] for _, name in self.columns], np.int32), names

    @cached_property
    def _absent(self) -> Int32:
        """Columns that tell an event without the field from others."""
        return np.array([c for c, cuts in enumerate(self.cuts) if cuts[:1] == (ABSENT_TOKEN,)], np.int32)

    @cached_property
    def _cuts(self) -> tuple[Int64, Int64, NDArray[np.uint64], Int64, Int32, NDArray[np.uint8]]:
        """zone, simple, head, cut_start, cut_length and cut_text of `kernels.encode`."""
        zone = np.zeros((len(self.cuts), _END), np.int64)
        simple = np.zeros((len(self.cuts), 4), np.int64)
        base = 0
        for c, cuts in enumerate(self.cuts):
            zone[c] = [base + bisect_left(cuts, bytes([tag])) for tag in range(_END)]
            simple[c] = [bisect_right(cuts, bytes([tag])) for tag in range(4)]
            base += len(cuts)
        joined = [cut[1:] for cuts in self.cuts for cut in cuts]
        length = np.array([len(cut) for cut in joined], np.int32)
        head = np.frombuffer(b"".join(cut[:8].ljust(8, b"\0") for cut in joined), ">u8").astype(np.uint64)
        text = np.frombuffer(b"".join(joined), np.uint8)
        return zone, simple, head, np.cumsum(length, dtype=np.int64) - length, length, text

    def __getstate__(self) -> dict[str, object]:
        return {"columns": self.columns, "cuts": self.cuts}


def _changed(
    values: Values, names: list[str], wanting: list[NDArray[np.bool_]]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
    """[1 + F, V], [1 + F, V]: where the texts are, as they are and as each of the facets named has them."""
    starts = np.zeros((1 + len(names), len(values.start)), np.int64)
    lengths = np.zeros((1 + len(names), len(values.start)), np.int32)
    starts[0], lengths[0] = values.start, values.length
    if not names:
        return starts, lengths, values.text
    texts = [values.text.tobytes()]
    end = len(texts[0])
    for row, (name, wants) in enumerate(zip(names, wanting, strict=True), 1):
        place = PLACE[name]
        for v in np.flatnonzero((values.kind == TEXT) & wants[values.path]).tolist():
            begin = values.start[v]
            text = texts[0][begin : begin + values.length[v]].decode("utf-8", "surrogatepass")
            texts.append(place(text)[1:])
            starts[row, v], lengths[row, v] = end, len(texts[-1])
            end += len(texts[-1])
    return starts, lengths, np.frombuffer(b"".join(texts), np.uint8)

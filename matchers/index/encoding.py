"""Encode the values of events as places on the columns of a vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from matchers.contract.tables import EventBatch, Int32, Int64, offsets_of
from matchers.index.fields import Fields
from matchers.index.kernels.encode import Columns, Events, encode
from matchers.index.kernels.json import TEXT
from matchers.index.values import Values
from matchers.index.vocabulary import Vocabulary
from matchers.language.facets import ABSENT_TOKEN, NUMBER, PLACE, TOKEN


@dataclass(frozen=True, eq=False)
class Encoder:
    """Encode values for a vocabulary. `fields` must hold all fields of its columns; shared tables are computed once."""

    vocabulary: Vocabulary
    fields: Fields

    def encode(self, values: Values) -> EventBatch:
        """Encode values that were read for the same fields."""
        columns = self.columns
        room = int(self.n_columns[values.path].sum()) + len(values) * len(columns.absent)
        offsets = np.zeros(len(values) + 1, np.int64)
        column, place = np.empty(room, np.int32), np.empty(room)
        events = Events(values.offsets, values.path, values.kind, values.number, *self._texts(values))
        n = encode(events, columns, self.vocabulary.coded, offsets, column, place)
        return EventBatch(offsets, column[:n], place[:n], len(self.vocabulary.columns))

    def _texts(self, values: Values) -> tuple[Int64, Int32, NDArray[np.uint8]]:
        """[1 + F, V] twice: start and length of each text, as it is and as each of the named facets changes it."""
        _, names = self._facets
        starts = np.zeros((1 + len(names), len(values.start)), np.int64)
        lengths = np.zeros((1 + len(names), len(values.start)), np.int32)
        starts[0], lengths[0] = values.start, values.length
        if not names:
            return starts, lengths, values.text
        texts = [values.text.tobytes()]
        end = len(texts[0])
        for row, (name, wants) in enumerate(zip(names, self._wanting, strict=True), 1):
            place = PLACE[name]
            for v in np.flatnonzero((values.kind == TEXT) & wants[values.path]).tolist():
                begin = values.start[v]
                text = texts[0][begin : begin + values.length[v]].decode("utf-8", "surrogatepass")
                texts.append(place(text)[1:])
                starts[row, v], lengths[row, v] = end, len(texts[-1])
                end += len(texts[-1])
        return starts, lengths, np.frombuffer(b"".join(texts), np.uint8)

    @cached_property
    def _path(self) -> Int32:
        """[A]: the field of each column."""
        return np.array([self.fields.position[path] for path, _ in self.vocabulary.columns], np.int32)

    @cached_property
    def n_columns(self) -> Int64:
        """[P]: how many columns each field has."""
        return np.bincount(self._path, minlength=len(self.fields.paths))

    @cached_property
    def columns(self) -> Columns:
        facet, _ = self._facets
        absent = [c for c, cuts in enumerate(self.vocabulary.cuts) if cuts[:1] == (ABSENT_TOKEN,)]
        return Columns(
            offsets_of(self.n_columns).astype(np.int32),
            np.argsort(self._path, kind="stable").astype(np.int32),
            facet,
            np.array(absent, np.int32),
        )

    @property
    def changes_texts(self) -> bool:
        """Whether some column is of a facet that changes texts first, which Python does."""
        return bool(self._facets[1])

    @cached_property
    def _facets(self) -> tuple[Int32, list[str]]:
        """[A]: -1 for doubles, 0 for tokens, and 1, 2 ... for the facets that change texts; and the names of these."""
        columns = self.vocabulary.columns
        names = sorted({name for _, name in columns} - {NUMBER, TOKEN})
        row = {NUMBER: -1, TOKEN: 0} | {name: i for i, name in enumerate(names, 1)}
        return np.array([row[name] for _, name in columns], np.int32), names

    @cached_property
    def _wanting(self) -> list[NDArray[np.bool_]]:
        """[F], [P]: the fields that have a column of each facet that changes texts."""
        facet, names = self._facets
        wanting = [np.zeros(len(self.fields.paths), np.bool_) for _ in names]
        for row, wants in enumerate(wanting, 1):
            wants[self._path[facet == row]] = True
        return wanting

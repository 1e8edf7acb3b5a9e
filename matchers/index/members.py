"""Compile patterns of many different shapes at once, by their members.

A pattern is the conjunction of its members, one for each field. Where thousands of patterns choose other fields each,
few have the same shape, but their members have few shapes in all: so each member is compiled as a pattern of its own,
with the others of its shape, and the intervals of all members of a pattern are then put side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from matchers.contract.tables import Int32, Int64, SubscriptionTable
from matchers.index.kernels.members import members
from matchers.index.segment import Note, Segment
from matchers.index.skeletons import Skeletons, joined
from matchers.index.templates import FEWEST_DOCUMENTS, Template, by_shape, template_of
from matchers.index.texts import Texts
from matchers.index.vocabulary import Vocabulary
from matchers.language.lowering import MAX_RANGES

_COLON = 0x3A
_NONE: Int32 = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class MemberTable:
    """The patterns that were compiled: their positions among all, and a table with a row for each."""

    documents: Int64
    table: SubscriptionTable
    vocabulary: Vocabulary

    def segment(self, ids: Texts, notes: Mapping[str, Note]) -> Segment:
        owner = np.arange(len(self.documents), dtype=np.int32)
        return Segment(ids, owner, self.vocabulary, self.table, {}, notes)


def compiled_by_member(documents: Sequence[bytes]) -> MemberTable:
    """Compile the patterns whose members all have a shape that is frequent and simple. They are JSON objects without
    space."""
    if len(documents) < FEWEST_DOCUMENTS:
        nothing = Segment.build(())
        return MemberTable(np.empty(0, np.int64), nothing.table, nothing.vocabulary)
    values, owner = _members(documents)
    templates = list(by_shape(values, _template_of))
    known = np.zeros(len(owner), np.bool_)
    ranges = np.zeros(len(owner), np.int64)
    for template, which in templates:
        known[which] = True
        ranges[which] = template.n_ranges
    good = np.bincount(owner, minlength=len(documents)) > 0
    good[owner[~known]] = False
    good &= np.bincount(owner, ranges, len(documents)) <= MAX_RANGES  # `lower` rejects more

    segments, owners = [], [_NONE]
    for template, which in templates:
        kept = which[good[owner[which]]]
        if len(kept):
            nameless = Texts(np.empty(0, np.uint8), np.zeros(len(kept) + 1, np.int64))
            segments.append((template.segment(nameless, values, values.offsets[kept], {}), _NONE))
            owners.append(owner[kept])
    merged = Segment.merge(segments) if segments else Segment.build(())
    position = (np.cumsum(good) - 1).astype(np.int32)
    row = position[np.concatenate(owners)][merged.table.subscription]
    order = np.lexsort((merged.table.column, row))  # it is stable: the intervals of a member stay in order
    table = SubscriptionTable.of_sorted(
        row[order],
        merged.table.column[order],
        merged.table.low[order],
        merged.table.high[order],
        n_subscriptions=int(good.sum()),
        n_columns=merged.table.n_columns,
    )
    return MemberTable(np.flatnonzero(good), table, merged.vocabulary)


def _template_of(shape: bytes) -> Template | None:
    """The template of a member. What $not says may be of the field of another member, so it is compiled with that."""
    return None if shape.startswith(b'{"$not"') else template_of(shape)


def _members(documents: Sequence[bytes]) -> tuple[Skeletons, Int32]:
    """The members of these documents, each as a document, and the position of the one that it is of."""
    whole = joined(documents)
    most = np.count_nonzero(whole.text == _COLON)
    written = np.empty(len(whole.text) + 2 * most, np.uint8)
    begins, ends, owner = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int32)
    n = members(whole, written, begins, ends, owner)
    written.flags.writeable = False  # as other documents, for which kernels are compiled
    return Skeletons.of(written, begins[:n], ends[:n]), owner[:n]

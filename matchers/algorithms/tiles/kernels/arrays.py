"""An index of tiles, and the events that are matched with it, as kernels take them."""

from __future__ import annotations

from typing import Any, NamedTuple

from matchers.kernels.vectors import LANES, WORDS

AT_ONCE = WORDS * LANES  # events of a row of bits, and subscriptions of a set
CANDIDATES_AT_ONCE = 1024  # so many wait for memory before they are verified


class Arrays(NamedTuple):
    """A columns, T tiles in the order of their pivots, P parents of up to 16 of them, R rows, U slots."""

    edge_start: Any  # `Quantiles`
    edge: Any
    begin: Any
    per_unit: Any
    first: Any
    offset: Any  # [E] uint16: of cell k of column c at edge_start[c] + k - 1, where the row of a coarse cell is
    pivot_start: Any  # [A + 2] pivot c - 1 has the parents pivot_start[c] .. pivot_start[c + 1]; first those without
    parent: Any  # [P + 1] int32: parent p has the tiles parent[p] .. parent[p + 1]
    parent_test: Any  # [P + 1] int32: and these tests, which all its tiles would pass
    test: Any  # [T + 1] int32: tile t has the tests test[t] .. test[t + 1], all of which an event must pass
    test_column: Any  # int32
    test_low: Any  # uint16
    test_width: Any  # uint16
    slot: Any  # [T + 1] int32: and the slots slot[t] .. slot[t + 1]
    row: Any  # [T + 1] int32: and the rows row[t] .. row[t + 1]
    local: Any  # [T] int32: of which those before local[t] are local
    row_column: Any  # [R] int32
    row_low: Any  # [R] uint16, of a local one
    row_shift: Any  # [R] uint8, of a local one
    row_length: Any  # [R] int32: how many cells it has
    row_at: Any  # [R] int64: where its bits begin in `words`
    inner: Any  # [T] int64: how far behind these the bits of its inner row begin; 0: the tile is not precise
    words: Any  # uint64
    start: Any  # [U + 1] the intervals of slots, as in a table
    range: Any  # [3 * I] of each its column and the cells of its low and its high end, side by side in one cache line
    low: Any  # [I] float64
    high: Any  # [I] float64
    id_start: Any  # [U + 1] subscriptions that are the same share a slot
    id: Any  # [S] int32, ascending within a slot


class Batch(NamedTuple):
    """Events laid out for the kernels: up to N, a multiple of 64, in d columns."""

    cells: Any  # [d * N] uint16
    own_cells: Any  # [N * d] uint16: the same, event by event
    offsets: Any  # [N * d] uint16
    values: Any  # [N * d] float64
    valid: Any  # [N / 64] uint64: events to match here; those with several values in a column are not
    passing: Any  # [N / 64] uint64: of a tile
    parents: Any  # [N / 64] uint64
    passed: Any  # [N + 4] int32
    passed_before: Any  # [N + 4] int32
    found: Any  # [(N + 4) * 8] uint64: what rows leave
    found_event: Any  # [N + 4] int32
    candidate: Any  # [CANDIDATES_AT_ONCE + 512] uint64: event and slot
    in_doubt: Any  # [CANDIDATES_AT_ONCE + 512] uint64: set and slot
    below: Any  # [(E + 2 * d) * 8] uint64: rows of events (`dense.py`); nothing where tiles are matched
    left: Any  # [512 * 8] uint64: of a subscription the events that match it
    turned: Any  # [64] uint64
